"""Preparing the next batches while the current one is computed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


def prefetch(jobs: Iterable[Callable[[], Result]], depth: int = 2, workers: int = 1) -> Iterator[Result]:
    """Results of ``jobs`` in order, with up to ``depth`` of them prepared ahead in ``workers`` threads.

    >>> list(prefetch([lambda: 1, lambda: 2]))
    [1, 2]
    """
    with ThreadPoolExecutor(max_workers=workers) as pool:
        waiting: deque[Future[Result]] = deque()
        try:
            for job in jobs:
                waiting.append(pool.submit(job))
                if len(waiting) > depth:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
