"""Images to features: loads, resizes, runs trunk (or takes it from the cache) and tail, in batches."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property, partial
from typing import TypeVar

import torch
from torch import Tensor

from simsc.data.records import ImageRef
from simsc.evaluation.cache import TrunkCache
from simsc.evaluation.protocol import Protocol
from simsc.frames import Frame
from simsc.matching.features import Features
from simsc.models.inference import prepare_for_inference
from simsc.models.model import SimSC, State
from simsc.processes import cores

Result = TypeVar("Result")


class ImageEncoder:
    """Encodes images of a data set under a protocol.

    Args:
        model: the model; used in the mode it is in.
        protocol: how images enter the network.
        cache: trunk states to use and to fill; None computes everything.
        batch_size: images of equal input size per forward pass.
        side: the network's input side where it is not the protocol's.
    """

    def __init__(
        self,
        model: SimSC,
        protocol: Protocol,
        cache: TrunkCache | None = None,
        batch_size: int = 16,
        side: int | None = None,
    ) -> None:
        self.model, self.protocol, self.cache, self.batch_size = model, protocol, cache, batch_size
        self.side = side or protocol.side
        self._view = replace(protocol, side=self.side)
        self.device = model.backbone.mean.device
        square = (self.side, self.side)
        exact = protocol.view != "original" and model.backbone.fit_size(square) == square
        self._multiple = 1 if exact else model.backbone.stride

    def frame(self, ref: ImageRef) -> Frame:
        """The network's view of an image, of a size that the network takes."""
        return self._view.frame(ref.size, self._multiple, self.model.convention)

    def inputs(self, refs: Sequence[ImageRef]) -> Tensor:
        """Network inputs ``(B, 3, H, W)`` of images with equal frames, read and resized on all cores."""
        with ThreadPoolExecutor(cores()) as pool:
            images = list(pool.map(lambda ref: self.frame(ref).to_input(ref.load()), refs))
        return torch.stack(images).to(self.device)

    def states(self, refs: Sequence[ImageRef]) -> State:
        """Trunk states of images with equal frames, from the cache where there is one."""
        if self.cache is None:
            return self.model.trunk(self.inputs(refs))
        for _ in self.fill_cache(refs):
            pass
        return tuple(part.to(self.device, non_blocking=True) for part in self.cache.get(refs))

    @property
    def travels(self) -> bool:
        """Whether other processes can do the same: what lies in this one's memory they would not have."""
        return type(self) is ImageEncoder and (self.cache is None or self.cache.folder is not None)

    def fill_cache(self, refs: Sequence[ImageRef]) -> Iterator[int]:
        """Compute the trunk states that the cache lacks; yields how many images are done, for progress."""
        assert self.cache is not None
        missing = [ref for ref in refs if ref not in self.cache]
        done = len(refs) - len(missing)
        for batch in self._batches(missing):
            self.cache.put_batch(batch, self._filler.trunk(self.inputs(batch)))
            done += len(batch)
            yield done

    def encode(self, refs: Sequence[ImageRef]) -> Features:
        """Features of images with equal frames, as one batch."""
        return self.model.encode_state(self.states(refs), self.frame(refs[0]).canvas)

    def stream(self, refs: Sequence[ImageRef]) -> Iterator[tuple[ImageRef, Features]]:
        """Features of many images, one by one, computed in batches.

        An accelerator computes while the next images are being loaded. On a CPU both want the same cores, and a
        computation that waits for a core that is reading costs more than reading first.
        """
        batches = self._batches(refs)
        jobs = (partial(self._load, batch) for batch in batches)
        inputs = (job() for job in jobs) if self.device.type == "cpu" else prefetch(jobs)
        for batch, loaded in zip(batches, inputs, strict=True):
            features = self._finish(batch, loaded)
            for position, ref in enumerate(batch):
                yield ref, features.select(slice(position, position + 1))

    @cached_property
    def _filler(self) -> SimSC:
        """Whose trunk fills the cache: the model's own; where half precision rounds anyway, one twice as fast."""
        assert self.cache is not None
        if self.cache.dtype == torch.float32:
            return self.model
        return prepare_for_inference(copy.deepcopy(self.model))

    def _load(self, batch: Sequence[ImageRef]) -> Tensor | None:
        """Inputs of a batch; None if the cache already holds all of it."""
        if self.cache is not None and all(ref in self.cache for ref in batch):
            return None
        return self.inputs(batch)

    def _finish(self, batch: Sequence[ImageRef], inputs: Tensor | None) -> Features:
        if inputs is None:
            return self.encode(batch)
        if self.cache is None:
            return self.model.encode_state(self.model.trunk(inputs), self.frame(batch[0]).canvas)
        self.cache.put_batch(batch, self._filler.trunk(inputs))
        return self.encode(batch)

    def _batches(self, refs: Sequence[ImageRef]) -> list[list[ImageRef]]:
        """Unique images grouped by input size, in batches."""
        groups: dict[tuple[int, int], dict[str, ImageRef]] = {}
        for ref in refs:
            groups.setdefault(self.frame(ref).canvas, {})[ref.key] = ref
        return [
            list(group.values())[start : start + self.batch_size]
            for group in groups.values()
            for start in range(0, len(group), self.batch_size)
        ]


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
