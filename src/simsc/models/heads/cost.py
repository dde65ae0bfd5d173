"""What a head costs: parameters, arithmetic and memory for one pair of images."""

from __future__ import annotations

from typing import TypedDict

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from simsc.coordinates import Size
from simsc.matching.features import Features
from simsc.models.heads.base import Head


class HeadCost(TypedDict):
    """Cost of one pair.

    Attributes:
        parameters: learnable numbers.
        flops: floating-point operations of matrix products and convolutions of a forward pass.
        memory_bytes: activations that a training step keeps for its backward pass, features and weights not counted.
    """

    parameters: int
    flops: int
    memory_bytes: int


def head_cost(head: Head, map_size: Size) -> HeadCost:
    """Measure a head on one pair of feature maps of ``map_size`` and one query."""
    parameters = sum(parameter.numel() for parameter in head.parameters())
    was_training = head.training
    head.eval()  # a measurement must not move running statistics
    pair = _features(head, map_size), _features(head, map_size)
    flops = _count_flops(head, *pair)
    memory = _count_memory(head, *pair)
    head.train(was_training)
    return HeadCost(parameters=parameters, flops=flops, memory_bytes=memory)


def _features(head: Head, map_size: Size) -> Features:
    """Random features as the head's backbone would give them."""
    like = next(head.parameters(), torch.empty(0))
    maps = [
        torch.rand(1, level.channels, *(round(side * level.scale) for side in map_size), device=like.device)
        for level in head.levels
    ]
    beta = torch.full((1, 1, 1), 0.2, device=like.device)
    return Features(maps[-1].requires_grad_(), beta, map_size, tuple(level.requires_grad_() for level in maps[:-1]))


def _count_flops(head: Head, source: Features, target: Features) -> int:
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        head.score_maps(source.detach(), target.detach(), torch.zeros(1, 1, 2, device=source.maps.device))
    return int(counter.get_total_flops())


def _count_memory(head: Head, source: Features, target: Features) -> int:
    """Bytes of the distinct storages that autograd saves."""
    known = [*head.parameters(), *head.buffers(), *(m for f in (source, target) for m in (f.maps, f.beta, *f.layers))]
    ignored = {tensor.untyped_storage().data_ptr() for tensor in known}
    saved: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in ignored:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        # The result must outlive the count: addresses of freed storages would be counted once for several.
        scores = head.score_maps(source, target, torch.zeros(1, 1, 2, device=source.maps.device))
    del scores
    return sum(saved.values())
