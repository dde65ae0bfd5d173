"""One optimisation step: forward, backward, clipping, and Adam, unless the gradient is broken; and the running
average of the weights that the steps give."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from simsc import distributed
from simsc.coordinates import Size
from simsc.errors import ConfigError
from simsc.models.model import SimSC
from simsc.training.config import Config
from simsc.training.feed import Work
from simsc.training.objective import LossParts, PairObjective

LAST_RATE = 0.02
"""Part of the rate that a cosine schedule ends with."""
AMP_TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class StepOutcome:
    """What a step did; ``broken`` names what was not finite (the step was skipped), or is empty."""

    parts: LossParts
    broken: str = ""


class Optimization:
    """Objective, optimiser, rates and precision of a run.

    Args:
        model: what learns.
        config: rates, warm-up, clipping, precision, compilation.
        device: where the model is.
    """

    def __init__(self, model: SimSC, config: Config, device: torch.device) -> None:
        self.config, self.device = config, device
        groups = model.parameter_groups(*config.rates)
        if not groups:
            raise ConfigError(
                f"nothing learns with trainable = {config.trainable}, temperature = {config.temperature} and "
                f"head = {config.head}; choose another value for one of them"
            )
        self.optimizer = torch.optim.Adam(groups, fused=True)  # a quarter of the time on a CPU, where a step is short
        self.base_rates = [float(group["lr"]) for group in self.optimizer.param_groups]
        self.scaler = torch.amp.GradScaler(device.type, enabled=config.amp == "fp16")
        self.objective = _distribute(PairObjective(model, config), config)

    @property
    def rate(self) -> float:
        """Current learning rate of the first group, the backbone where it learns."""
        return float(self.optimizer.param_groups[0]["lr"])

    def step(self, step: int, size: Size, work: Work, progress: float = 0.0) -> StepOutcome:
        """Take step number ``step`` on this process's part of a batch of images of ``size``.

        ``progress`` is the part of the run that is done, from 0 to 1; a falling rate depends on it.
        """
        torch.manual_seed(hash((self.config.seed, step)) % 2**63)  # dropout, the same after a resume
        self._set_rates(step, progress)
        statistics = _learning_statistics(self.objective)
        before = [buffer.clone() for buffer in statistics]
        distributed.share_images(self.objective, work.image_shares)
        with torch.autocast(self.device.type, dtype=AMP_TYPES.get(self.config.amp), enabled=self.config.amp != "none"):
            parts: LossParts = self.objective(work.state, size, work.batch, work.lessons)
        # DDP averages over processes; this makes it the mean over all pairs of the global batch.
        loss = parts.total * work.weight * distributed.world_size() / work.global_pairs
        norm = self._backward(loss)
        if not torch.isfinite(norm):
            self.scaler.update()
            for buffer, value in zip(statistics, before, strict=True):
                buffer.copy_(value)  # a forward pass that broke has left its mark on BatchNorm's statistics
            return StepOutcome(parts, "gradient" if torch.isfinite(loss) else "loss")
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return StepOutcome(parts)

    def _backward(self, loss: Tensor) -> Tensor:
        """Gradients, clipped; returns their norm, which is the same on all processes."""
        self.optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        return nn.utils.clip_grad_norm_(parameters, self.config.clip or math.inf)

    def _set_rates(self, step: int, progress: float) -> None:
        factor = min(1.0, (step + 1) / self.config.warmup) if self.config.warmup else 1.0
        if self.config.schedule == "cosine":
            factor *= LAST_RATE + (1 - LAST_RATE) * (1 + math.cos(math.pi * progress)) / 2
        for group, rate in zip(self.optimizer.param_groups, self.base_rates, strict=True):
            group["lr"] = rate * factor


class WeightAverage:
    """Exponential moving average of what changes in a model; with ``decay`` 0 it is the model's own values.

    It is steadier than the last step's weights, and what is validated and kept when it is on.

    Over the first steps the average follows faster, so that it forgets the weights that training started from:
    step n (from 1) keeps at most ``n / (n + 9)`` of the average before it.

    Args:
        model: whose learning parameters and BatchNorm statistics to average: averaged weights need averaged statistics.
        decay: share of the average that each step keeps, at least 0 and below 1; 0.999 looks back about 1000 steps.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        changing = _changing(model) if decay else {}
        self._values: list[Tensor] = list(changing.values())
        self.tensors: dict[str, Tensor] = {name: value.detach().clone() for name, value in changing.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take the values after step number ``step`` (from 1) into the average."""
        if self.tensors:
            kept = min(self.decay, step / (step + 9))
            torch._foreach_lerp_(list(self.tensors.values()), self._values, 1 - kept)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Within this context the model has the averaged values."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Continue from a stored average."""
        for name, average in self.tensors.items():
            average.copy_(tensors[name])

    @torch.no_grad()
    def _swap(self) -> None:
        for value, average in zip(self._values, self.tensors.values(), strict=True):
            current = value.clone()
            value.copy_(average)
            average.copy_(current)


def _distribute(objective: nn.Module, config: Config) -> nn.Module:
    if distributed.world_size() > 1:
        distributed.synchronize_batchnorm(objective)
        objective = nn.parallel.DistributedDataParallel(objective, broadcast_buffers=not config.freeze_batchnorm)
    return torch.compile(objective) if config.compile else objective  # type: ignore[return-value]


def _learning_statistics(module: nn.Module) -> list[Tensor]:
    """What a forward pass changes: the statistics of BatchNorms in training mode, a head's own among them."""
    norms = (each for each in module.modules() if isinstance(each, nn.modules.batchnorm._BatchNorm) and each.training)
    return [buffer for norm in norms for buffer in norm.buffers()]


def _changing(model: nn.Module) -> dict[str, Tensor]:
    """Learning parameters, and the statistics of all BatchNorms: those of frozen ones average to themselves."""
    parameters = {name: value for name, value in model.named_parameters() if value.requires_grad}
    return parameters | {name: value for name, value in model.named_buffers() if "running_" in name}
