"""What a run needs to go on exactly where it stopped, as tensors and plain values."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from simsc.training.averaging import WeightAverage

Tensors = dict[str, Tensor]


def collect_tensors(model: nn.Module, optimizer: torch.optim.Optimizer, average: WeightAverage) -> Tensors:
    """Everything that training changes: learning parameters, buffers, the optimiser's state, averaged weights.

    Frozen weights are left out: they are rebuilt from their source, and a checkpoint stays small.
    """
    changing = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    changing |= {name for name, _ in model.named_buffers()}
    tensors = {f"model/{name}": t.detach().clone() for name, t in model.state_dict().items() if name in changing}
    for index, values in optimizer.state_dict()["state"].items():
        tensors.update({f"optimizer/{index}/{key}": value.clone() for key, value in values.items()})
    tensors.update({f"average/{name}": value.clone() for name, value in average.tensors.items()})
    return tensors


def restore_tensors(
    tensors: Tensors, model: nn.Module, optimizer: torch.optim.Optimizer, average: WeightAverage
) -> None:
    """Put back what :func:`collect_tensors` collected."""
    model.load_state_dict(_below(tensors, "model/"), strict=False)
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in _below(tensors, "optimizer/").items():
        index, key = name.split("/")
        state.setdefault(int(index), {})[key] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    average.load(_below(tensors, "average/"))


def _below(tensors: Tensors, prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
