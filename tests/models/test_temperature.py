"""Temperature modules: start, range, gradient, and the stop-gradient."""

from __future__ import annotations

import pytest
import torch

from simsc.errors import ConfigError
from simsc.models.temperature import FLOOR, SingleTemperature, build_temperature, learns

LEARNED = ["mlp", "single", "per-pixel"]


@pytest.mark.parametrize(("name", "shape"), [("mlp", (2, 1, 1)), ("single", (2, 1, 1)), ("per-pixel", (2, 3, 4))])
def test_shape_and_start_at_an_effective_temperature_of_a_quarter(name, shape):
    beta = build_temperature(name, channels=8)(torch.randn(2, 8, 3, 4))
    assert beta.shape == shape
    torch.testing.assert_close(beta**2, torch.full(shape, 0.25), atol=0.03, rtol=0)


@pytest.mark.parametrize("name", LEARNED)
def test_gradient_reaches_every_parameter_but_never_the_features(name):
    module = build_temperature(name, channels=64)
    features = torch.randn(2, 64, 3, 3, requires_grad=True)
    (module(features).log().sum() + 0 * features.sum()).backward()
    assert (features.grad == 0).all()
    assert all(parameter.grad.abs().sum() > 0 for parameter in module.parameters())


@pytest.mark.parametrize("name", LEARNED)
def test_gradcheck_with_respect_to_the_parameters(name):
    torch.manual_seed(0)
    module = build_temperature(name, channels=4).double()
    features = torch.randn(2, 4, 2, 3, dtype=torch.float64)
    names, values = zip(*module.named_parameters(), strict=True)

    def forward(*parameters: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(module, dict(zip(names, parameters, strict=True)), (features,))

    assert torch.autograd.gradcheck(forward, values, fast_mode=True)


def test_mlp_sees_only_the_mean_feature():
    module = build_temperature("mlp", channels=4)
    features = torch.randn(1, 4, 3, 5)
    shuffled = features.flatten(2)[:, :, torch.randperm(15)].reshape(1, 4, 5, 3)
    torch.testing.assert_close(module(features), module(shuffled))


def test_mlp_equals_its_formula_on_features_of_any_length():
    module = build_temperature("mlp", channels=32)
    torch.nn.init.normal_(module.mlp[-1].weight)
    features = torch.randn(3, 32, 2, 5) * torch.tensor([0.2, 1.0, 30.0])[:, None, None, None]
    first, _, last = module.mlp
    hidden = (features.mean(dim=(2, 3)) @ first.weight.T + first.bias).clamp(min=0)
    expected = 1 / (1 + torch.exp(-(hidden @ last.weight.T + last.bias)))
    torch.testing.assert_close(module(features).flatten(), expected.flatten(), atol=2 * FLOOR, rtol=0)
    assert (expected - 0.5).abs().min() > 0.01  # or any features would do


@pytest.mark.parametrize("name", ["mlp", "per-pixel"])
@pytest.mark.parametrize("logit", [-1000.0, -20.0, 20.0, 1000.0])
def test_stays_between_the_floor_and_one(name, logit):
    module = build_temperature(name, channels=4)
    torch.nn.init.constant_(module.mlp[-1].bias, logit)
    beta = module(torch.randn(2, 4, 2, 2))
    assert (beta >= FLOOR).all()
    assert (beta <= 1).all()


def test_a_low_temperature_can_still_climb():
    module = build_temperature("mlp", channels=4)
    torch.nn.init.constant_(module.mlp[-1].bias, -12.0)  # sigmoid far below the floor
    module(torch.randn(1, 4, 2, 2)).log().sum().backward()
    assert module.mlp[-1].bias.grad.item() > 0


@pytest.mark.parametrize("start", [-0.3, -1e-5, 1e-5, 0.3])
def test_the_single_parameter_is_positive_and_keeps_its_gradient_through_zero(start):
    module = SingleTemperature(start)
    beta = module(torch.zeros(1, 4, 2, 2))
    beta.sum().backward()
    assert beta.item() == pytest.approx(max(abs(start), FLOOR), rel=0.01)
    assert module.beta.grad.item() * start > 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", [*LEARNED, "fixed:0.04"])
def test_half_precision_features_and_modules(name, dtype):
    module = build_temperature(name, channels=8)
    features = (torch.randn(2, 8, 3, 3) * 30).to(dtype)
    expected = module(features.float())
    torch.testing.assert_close(module(features), expected, atol=2e-3, rtol=0)
    halved = module.to(dtype)(features)
    torch.testing.assert_close(halved.float(), expected, atol=0.02, rtol=0.02)


@pytest.mark.parametrize(("name", "effective"), [("fixed", 1.0), ("fixed:1", 1.0), ("fixed:0.03", 0.03)])
def test_fixed_is_an_effective_temperature_and_learns_nothing(name, effective):
    module = build_temperature(name, channels=4)
    beta = module(torch.randn(2, 4, 2, 2))
    assert beta.shape == (2, 1, 1)
    assert (beta[0] * beta[1]).item() == pytest.approx(effective)
    assert list(module.parameters()) == []
    assert not learns(name)


@pytest.mark.parametrize("name", ["fixed:0", "fixed:-1", "fixed:warm", "fixed:nan", "fixed:inf"])
def test_wrong_constants_are_refused(name):
    with pytest.raises(ConfigError, match="number greater than 0"):
        build_temperature(name, channels=4)


@pytest.mark.parametrize("name", ["mpl", "mlp:3", "", "per_pixel"])
def test_unknown_names_are_refused(name):
    with pytest.raises(ConfigError, match="Allowed: mlp, single, fixed"):
        build_temperature(name, channels=4)
