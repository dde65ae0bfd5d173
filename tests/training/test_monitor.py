from __future__ import annotations

import math

import pytest
import torch

from simsc.models.backbone import build_backbone
from simsc.models.model import SimSC
from simsc.training.monitor import GRACE, WINDOW, Monitor, TrainingDiverged, gradient_magnitudes


def feed(monitor: Monitor, loss: float, temperature: float, steps: int = GRACE + WINDOW) -> None:
    for step in range(steps):
        monitor.good_step(step, loss, temperature)


def test_a_healthy_run_goes_on() -> None:
    feed(Monitor(256, learns_temperature=True), loss=4.0, temperature=0.03)


@pytest.mark.parametrize(
    ("loss", "temperature", "message"),
    [
        (4.0, 0.95, r"above 0.9 .* try a lower rate, warmup=200 or clip=1"),
        (4.0, 0.004, r"below 0.005 .* try a larger gamma"),
        (math.log(256), 0.2, r"5.545 = ln\(cells\), a uniform softmax.* try a lower rate"),
    ],
)
def test_collapse_is_diagnosed_with_a_remedy(loss: float, temperature: float, message: str) -> None:
    with pytest.raises(TrainingDiverged, match=message):
        feed(Monitor(256, learns_temperature=True), loss, temperature)


def test_a_symptom_that_passes_is_no_collapse() -> None:
    monitor = Monitor(256, learns_temperature=True)
    feed(monitor, math.log(256), 0.95, steps=GRACE - WINDOW // 5)
    feed(monitor, 4.0, 0.1, steps=WINDOW // 5)
    feed(monitor, math.log(256), 0.95, steps=WINDOW // 2)


def test_dead_features_stop_at_once() -> None:
    with pytest.raises(TrainingDiverged, match="dead features"):
        Monitor(256, learns_temperature=True).good_step(0, 4.0, 0.1, feature_norm=0.0)


def test_a_constant_temperature_is_a_choice() -> None:
    feed(Monitor.for_temperature("fixed:1", 256), loss=math.log(256), temperature=1.0)
    feed(Monitor.for_temperature("fixed:0.003", 256), loss=3.0, temperature=0.003)
    with pytest.raises(TrainingDiverged, match="uniform softmax"):
        feed(Monitor.for_temperature("fixed:0.03", 256), loss=math.log(256), temperature=0.03)
    with pytest.raises(TrainingDiverged, match="uniform softmax"):  # raw products are large: flat means collapsed
        feed(Monitor.for_temperature("fixed:1", 256, normalized=False), loss=math.log(256), temperature=1.0)


def test_a_flat_loss_may_be_noisy_but_not_on_its_way() -> None:
    noisy, falling = Monitor(256, learns_temperature=True), Monitor(256, learns_temperature=True)
    for step in range(GRACE - 1):
        noisy.good_step(step, math.log(256) + (0.3 if step % 20 == 0 else 0.05 * (step % 3 - 1)), 0.2)
    with pytest.raises(TrainingDiverged, match="uniform softmax"):
        noisy.good_step(GRACE, math.log(256), 0.2)
    for step in range(GRACE + 200):
        falling.good_step(step, math.log(256) + 0.6 - step / 500, 0.2)


def test_what_was_seen_survives_a_resume() -> None:
    before, after = Monitor(256, learns_temperature=True), Monitor(256, learns_temperature=True)
    feed(before, 4.0, 0.95, steps=GRACE - 1)
    before.broken_step(GRACE - 1, "loss")
    after.load_state_dict(before.state_dict())
    assert after.broken_total == 1
    with pytest.raises(TrainingDiverged, match="above"):
        after.good_step(GRACE, 4.0, 0.95)


@pytest.mark.parametrize(
    ("backbone", "layers"),
    [("resnet50.v1_in1k", ["conv_1", "conv_2", "conv_3"]), ("dinov2-small", ["linear_1", "linear_2"])],
)
def test_gradients_of_the_last_block_are_recorded_whatever_follows_it(backbone: str, layers: list[str]) -> None:
    model = SimSC(build_backbone(backbone, None), trainable="last-block").train()
    assert gradient_magnitudes(model) == {}  # before any step
    model.encode(torch.rand(1, 3, 112, 112)).maps.square().sum().backward()
    found = gradient_magnitudes(model)
    assert list(found)[: len(layers)] == layers
    assert min(found.values()) > 0
