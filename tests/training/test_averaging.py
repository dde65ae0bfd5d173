from __future__ import annotations

import torch
from torch import nn

from simsc.training.step import WeightAverage


def test_follows_the_slow_obvious_formula() -> None:
    model, decay = nn.Linear(2, 1), 0.6
    average = WeightAverage(model, decay)
    expected = model.weight.detach().clone()
    for step in range(1, 30):
        with torch.no_grad():
            model.weight.normal_()
        average.update(step)
        kept = min(decay, step / (step + 9))
        expected = kept * expected + (1 - kept) * model.weight.detach()
    torch.testing.assert_close(average.tensors["weight"], expected)


def test_a_constant_is_its_own_average() -> None:
    model = nn.Linear(3, 2)
    average = WeightAverage(model, 0.999)
    for step in range(1, 5):
        average.update(step)
    torch.testing.assert_close(average.tensors["bias"], model.bias.detach())


def test_is_applied_only_within_the_context() -> None:
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 1.0)
    average = WeightAverage(model, 0.5)
    nn.init.constant_(model.weight, 3.0)
    with average.applied():
        assert model.weight.item() == 1.0
    assert model.weight.item() == 3.0
    assert average.tensors["weight"].item() == 1.0


def test_frozen_parameters_are_left_alone_and_zero_turns_it_off() -> None:
    model = nn.Linear(1, 1)
    model.bias.requires_grad_(False)
    assert list(WeightAverage(model, 0.9).tensors) == ["weight"]
    off = WeightAverage(model, 0.0)
    assert not off.tensors
    before = model.weight.detach().clone()
    off.update(1)
    with off.applied():
        torch.testing.assert_close(model.weight.detach(), before)


def test_goes_on_from_a_stored_average() -> None:
    first, second = WeightAverage(nn.Linear(2, 2), 0.9), WeightAverage(nn.Linear(2, 2), 0.9)
    second.load(first.tensors)
    assert all(torch.equal(second.tensors[name], value) for name, value in first.tensors.items())


def test_statistics_of_batchnorm_are_averaged_with_the_weights() -> None:
    model = nn.BatchNorm1d(1)
    average = WeightAverage(model, 0.5)
    for step in range(1, 40):
        model(torch.tensor([[3.0], [5.0]]))
        average.update(step)
    raw, smooth = model.running_mean.item(), average.tensors["running_mean"].item()
    assert 3.5 < smooth < raw < 4.0  # both approach the mean 4, the average behind
    with average.applied():
        assert model.running_mean.item() == smooth
    assert model.running_mean.item() == raw
