"""Watches a run: what its steps were like, and when to stop with a diagnosis because it has collapsed."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Sequence
from statistics import median
from typing import Any

import torch
from torch import nn

from simsc.distributed import sum_over_processes
from simsc.errors import SimscError
from simsc.models.model import SimSC
from simsc.models.temperature import learns
from simsc.training.objective import LossParts

MAX_BROKEN_STEPS = 10
WINDOW = 150
"""Steps a symptom must last: long enough for the first, flat steps of a healthy run to pass."""
GRACE = 300
TEMPERATURE_LIMITS = (0.005, 0.9)
FLAT_MARGIN = 0.01
"""How close to a uniform softmax's the median loss of the window must be, and nine tenths of them ten times as far."""
FLAT_TEMPERATURE = 0.5


class TrainingDiverged(SimscError):
    """The run cannot go on; the message says why and what to try. The last good checkpoint is kept."""


class Monitor:
    """Collects what happens at each step and raises :class:`TrainingDiverged` when it must stop.

    Args:
        cells: number of cells of a target map; a uniform softmax costs ``ln(cells)``.
        learns_temperature: whether a saturated temperature is a symptom (a fixed one is a choice).
        flat_is_bad: whether a loss at ``ln(cells)`` is a symptom; it is how temperature 1 always looks.
    """

    @staticmethod
    def for_temperature(name: str, cells: int, normalized: bool = True) -> Monitor:
        """The monitor that suits a temperature module, by name, and features that are normalised or not.

        At a constant temperature near 1 every loss of normalised features is close to that of a uniform softmax: no
        symptom there.
        """
        constant = float(name.partition(":")[2] or 1) if not learns(name) else None
        always_flat = normalized and constant is not None and constant >= FLAT_TEMPERATURE
        return Monitor(cells, learns(name), flat_is_bad=not always_flat)

    def __init__(self, cells: int, learns_temperature: bool, flat_is_bad: bool | None = None) -> None:
        self.uniform_loss = math.log(cells)
        self.learns_temperature = learns_temperature
        self.flat_is_bad = learns_temperature if flat_is_bad is None else flat_is_bad
        self.broken_total = 0
        self._broken_in_a_row = 0
        self._steps = 0
        self._losses: deque[float] = deque(maxlen=WINDOW)
        self._temperatures: deque[float] = deque(maxlen=WINDOW)

    def state_dict(self) -> dict[str, object]:
        """What must survive a resume."""
        return {
            "broken_total": self.broken_total,
            "broken_in_a_row": self._broken_in_a_row,
            "steps": self._steps,
            "losses": list(self._losses),
            "temperatures": list(self._temperatures),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from :meth:`state_dict`."""
        self.broken_total, self._broken_in_a_row = state["broken_total"], state["broken_in_a_row"]
        self._steps = state["steps"]
        self._losses.extend(state["losses"])
        self._temperatures.extend(state["temperatures"])

    def broken_step(self, step: int, what: str) -> None:
        """Count a step that was skipped because ``what`` (loss or gradient) was not finite."""
        self.broken_total += 1
        self._broken_in_a_row += 1
        if self._broken_in_a_row >= MAX_BROKEN_STEPS:
            raise TrainingDiverged(
                f"step {step}: the {what} was not finite in {MAX_BROKEN_STEPS} steps in a row; try a lower rate, "
                "clip=1, or a larger gamma; the last good checkpoint is kept"
            )

    def good_step(self, step: int, loss: float, temperature: float, feature_norm: float = 1.0) -> None:
        """Look at a step that was taken."""
        self._broken_in_a_row = 0
        self._steps += 1
        self._losses.append(loss)
        self._temperatures.append(temperature)
        if feature_norm < 1e-6:
            raise TrainingDiverged(
                f"step {step}: all features are zero (dead features); try a lower rate, warmup=200 or clip=1"
            )
        if self._steps >= GRACE and len(self._losses) == WINDOW:
            self._check_window(step)

    def _check_window(self, step: int) -> None:
        low, high = TEMPERATURE_LIMITS
        remedy = "try a lower rate, warmup=200 or clip=1"
        if self.learns_temperature and min(self._temperatures) > high:
            raise TrainingDiverged(
                f"step {step}: the effective temperature has been above {high} for {WINDOW} steps, so the softmax is "
                f"flat and nothing is learned; {remedy}"
            )
        if self.learns_temperature and max(self._temperatures) < low:
            raise TrainingDiverged(
                f"step {step}: the effective temperature has been below {low} for {WINDOW} steps; "
                "try a larger gamma or a lower temperature_rate"
            )
        if self.flat_is_bad and self._flat():
            raise TrainingDiverged(
                f"step {step}: the loss has stayed at {self.uniform_loss:.3f} = ln(cells), a uniform softmax, for "
                f"{WINDOW} steps: the features have collapsed; {remedy}"
            )

    def _flat(self) -> bool:
        """Whether the usual loss is a uniform softmax's; a spike now and then does not make it another one."""
        distances = [abs(loss - self.uniform_loss) for loss in self._losses]
        near = sum(distance < 10 * FLAT_MARGIN for distance in distances)
        return abs(median(self._losses) - self.uniform_loss) < FLAT_MARGIN and near > 0.9 * len(distances)


_FIELDS = ("total", "cross_entropy", "regularizer", "beta_source", "beta_target", "temperature", "pairs")


class StepMeter:
    """Sums the parts of the loss over steps and processes, between two lines of the metrics.

    Args:
        state: sums to go on from after a resume, see :meth:`state`.
    """

    def __init__(self, state: Sequence[float] | None = None) -> None:
        self.sums = torch.zeros(len(_FIELDS), dtype=torch.float64) if state is None else torch.tensor(state).double()
        self.started, self._before = time.monotonic(), float(self.sums[-1])

    def add(self, parts: LossParts, weight: float) -> None:
        """Count a step; ``weight`` is 0 for a process that only took part."""
        values = torch.stack([getattr(parts, name).detach() for name in _FIELDS]).cpu().double()
        self.sums += weight * values

    def state(self) -> list[float]:
        """Sums over all processes."""
        total: list[float] = sum_over_processes(self.sums).tolist()
        return total

    def means(self) -> dict[str, float]:
        """Means over pairs, and pairs per second; empty if every step was skipped."""
        sums = self.state()
        pairs = sums[-1]
        if not pairs:
            return {}
        total, entropy, regularizer, source, target, temperature = (value / pairs for value in sums[:-1])
        return {
            "loss": round(total, 6),
            "ce": round(entropy, 6),
            "reg": round(regularizer, 6),
            "beta_source": round(source, 6),
            "beta_target": round(target, 6),
            "temperature": round(temperature, 6),
            "pairs_per_second": round((pairs - self._before) / max(time.monotonic() - self.started, 1e-9), 2),
        }


def gradient_magnitudes(model: SimSC) -> dict[str, float]:
    """Mean absolute gradient of each convolution or linear layer of the last trainable block (supplement).

    The block is the last part of the tail that has such a layer: a ViT's tail ends with a LayerNorm, which has none.
    """
    for block in reversed(model.backbone.tail_modules()):
        layers = [layer for layer in block.modules() if isinstance(layer, nn.Conv2d | nn.Linear)]
        gradients = [(layer, layer.weight.grad) for layer in layers if layer.weight.grad is not None]
        if gradients:
            return {
                f"{'conv' if isinstance(layer, nn.Conv2d) else 'linear'}_{index}": float(gradient.abs().mean())
                for index, (layer, gradient) in enumerate(gradients, 1)
            }
    return {}
