"""Preparing the next batch while the current one is computed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


def prefetch(jobs: Iterable[Callable[[], Result]], depth: int = 2) -> Iterator[Result]:
    """Results of ``jobs`` in order, with up to ``depth`` of them prepared ahead in a thread.

    >>> list(prefetch([lambda: 1, lambda: 2]))
    [1, 2]
    """
    source = iter(jobs)
    with ThreadPoolExecutor(max_workers=1) as pool:
        waiting: deque[Future[Result]] = deque()
        try:
            for job in source:
                waiting.append(pool.submit(job))
                if len(waiting) > depth:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
