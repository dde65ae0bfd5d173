"""One optimisation step: forward, backward, clipping, and Adam, unless the gradient is broken."""

from __future__ import annotations

import math
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
from simsc.training.synchronized import share_images, synchronize_batchnorm

_AMP = {"bf16": torch.bfloat16, "fp16": torch.float16}


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
        groups = model.parameter_groups(config.rate, config.temperature_rate, config.head_rate)
        if not groups:
            raise ConfigError(
                f"nothing learns with trainable = {config.trainable}, temperature = {config.temperature} and "
                f"head = {config.head}; choose another value for one of them"
            )
        self.optimizer = torch.optim.Adam(groups, fused=True)  # a quarter of the time on a CPU, where a step is short
        self.base_rates = [float(group["lr"]) for group in self.optimizer.param_groups]
        self.scaler = torch.amp.GradScaler(device.type, enabled=config.amp == "fp16")
        self.objective = _distribute(PairObjective(model, config), config)
        self._statistics = [] if config.freeze_batchnorm else list(model.buffers())

    @property
    def rate(self) -> float:
        """Current learning rate of the first group, the backbone where it learns."""
        return float(self.optimizer.param_groups[0]["lr"])

    def step(self, step: int, size: Size, work: Work) -> StepOutcome:
        """Take step number ``step`` on this process's part of a batch of images of ``size``."""
        torch.manual_seed(hash((self.config.seed, step)) % 2**63)  # dropout, the same after a resume
        self._set_rates(step)
        before = [buffer.clone() for buffer in self._statistics]
        share_images(self.objective, work.image_shares)
        with torch.autocast(self.device.type, dtype=_AMP.get(self.config.amp), enabled=self.config.amp != "none"):
            parts: LossParts = self.objective(work.state, size, work.batch)
        # DDP averages over processes; this makes it the mean over all pairs of the global batch.
        loss = parts.total * work.weight * distributed.world_size() / work.global_pairs
        norm = self._backward(loss)
        if not torch.isfinite(norm):
            self.scaler.update()
            for buffer, value in zip(self._statistics, before, strict=True):
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

    def _set_rates(self, step: int) -> None:
        factor = min(1.0, (step + 1) / self.config.warmup) if self.config.warmup else 1.0
        for group, rate in zip(self.optimizer.param_groups, self.base_rates, strict=True):
            group["lr"] = rate * factor


def _distribute(objective: nn.Module, config: Config) -> nn.Module:
    if distributed.world_size() > 1:
        synchronize_batchnorm(objective)
        objective = nn.parallel.DistributedDataParallel(objective, broadcast_buffers=not config.freeze_batchnorm)
    return torch.compile(objective) if config.compile else objective  # type: ignore[return-value]
