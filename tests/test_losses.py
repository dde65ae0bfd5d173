"""The training objective against the formula, its gradients, and its behaviour at the edges."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from simsc.errors import ConfigError
from simsc.losses import gaussian_cross_entropy, gaussian_lattice, region_cross_entropy, temperature_regularizer
from simsc.matching.scores import query_scores

ONE = torch.tensor([[True]])


def slow_loss(scores: Tensor, x: float, y: float, interpolate: str = "log-prob", normalize: bool = True) -> float:
    """One point of one pair, in plain Python: 3x3 lattice around (x, y), 5x5 Gaussian with sigma 2."""
    height, width = scores.shape
    probability = scores.double().flatten().softmax(0).reshape(height, width)
    values = probability.log() if interpolate == "log-prob" else probability

    def at(u: float, v: float) -> float:
        u, v = min(max(u, 0), width - 1), min(max(v, 0), height - 1)
        total = 0.0
        for i in range(height):
            for j in range(width):
                total += max(0, 1 - abs(u - j)) * max(0, 1 - abs(v - i)) * values[i, j].item()
        return total if interpolate == "log-prob" else math.log(total)

    gauss = {(dx, dy): math.exp(-(dx**2 + dy**2) / 8) for dx in range(-2, 3) for dy in range(-2, 3)}
    near = {offset: weight for offset, weight in gauss.items() if max(map(abs, offset)) <= 1}
    mass = 1.0 if normalize else sum(near.values()) / sum(gauss.values())
    inside = {o: w for o, w in near.items() if -0.5 <= x + o[0] <= width - 0.5 and -0.5 <= y + o[1] <= height - 0.5}
    whole = sum(inside.values())
    return -sum(mass * w / whole * at(x + dx, y + dy) for (dx, dy), w in inside.items())


@pytest.mark.parametrize("point", [(2.0, 3.0), (2.3, 1.8), (0.0, 0.0), (-0.45, 3.4), (6.49, 4.49), (-0.9, 2.0)])
@pytest.mark.parametrize("interpolate", ["log-prob", "prob"])
@pytest.mark.parametrize("normalize", [True, False])
def test_equals_the_formula(point, interpolate, normalize):
    scores = torch.randn(1, 1, 5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 3
    loss = gaussian_cross_entropy(
        scores, torch.tensor([[point]]).double(), ONE, interpolate=interpolate, normalize_target=normalize
    )
    assert loss.item() == pytest.approx(slow_loss(scores[0, 0], *point, interpolate, normalize), rel=1e-6)


def test_lattice_is_the_centre_of_the_five_by_five_kernel():
    offsets, weights = gaussian_lattice(normalize=False)
    side = [math.exp(-(d**2) / 8) for d in range(-2, 3)]
    expected = [side[int(dx) + 2] * side[int(dy) + 2] / sum(side) ** 2 for dx, dy in offsets.tolist()]
    assert weights.tolist() == pytest.approx(expected)
    assert sorted(offsets.tolist()) == [[x, y] for x in (-1, 0, 1) for y in (-1, 0, 1)]


def test_mean_is_over_the_valid_points_of_each_pair():
    scores = torch.randn(3, 2, 4, 4, dtype=torch.float64)
    points = torch.rand(3, 2, 2, dtype=torch.float64) * 3
    mask = torch.tensor([[True, True], [True, False], [False, False]])
    single = [[slow_loss(scores[b, n], *points[b, n].tolist()) for n in range(2)] for b in range(3)]
    loss = gaussian_cross_entropy(scores, points, mask)
    assert loss.tolist() == pytest.approx([sum(single[0]) / 2, single[1][0], 0.0])


@pytest.mark.parametrize("interpolate", ["log-prob", "prob"])
def test_gradients(interpolate):
    scores = torch.randn(2, 2, 3, 4, dtype=torch.float64, requires_grad=True)
    points = torch.tensor([[[0.0, 0.0], [1.3, 2.2]], [[3.4, 1.0], [2.0, 2.0]]], dtype=torch.float64)
    mask = torch.tensor([[True, True], [True, False]])
    assert torch.autograd.gradcheck(lambda s: gaussian_cross_entropy(s, points, mask, interpolate=interpolate), scores)


def test_gradient_sums_to_zero_over_each_map():
    """A constant added to all scores changes nothing: softmax minus a target that sums to 1."""
    scores = torch.randn(1, 3, 4, 4, dtype=torch.float64, requires_grad=True)
    gaussian_cross_entropy(scores, torch.rand(1, 3, 2) * 3, torch.ones(1, 3, dtype=torch.bool)).sum().backward()
    torch.testing.assert_close(scores.grad.sum(dim=(2, 3)), torch.zeros(1, 3, dtype=torch.float64))


corner = st.sampled_from([-0.5, -0.47, 0.0, 2.5, 5.0, 5.47, 5.5])


@given(
    beta=st.floats(0.001, 1),
    dtype=st.sampled_from([torch.float16, torch.bfloat16, torch.float32]),
    x=corner | st.floats(-0.5, 5.5),
    y=corner | st.floats(-0.5, 5.5),
    interpolate=st.sampled_from(["log-prob", "prob"]),
    seed=st.integers(0, 1000),
)
@settings(max_examples=80, deadline=None)
def test_value_and_gradient_are_finite_at_any_temperature(beta, dtype, x, y, interpolate, seed):
    maps = torch.randn(2, 8, 6, 6, generator=torch.Generator().manual_seed(seed)).to(dtype).requires_grad_()
    factor = torch.full((1, 1, 1), beta).sqrt().requires_grad_()
    point = torch.tensor([[[x, y]]])
    scores = query_scores(maps[:1], maps[1:], point, factor, factor)
    loss = gaussian_cross_entropy(scores, point, ONE, interpolate=interpolate).sum()
    loss.backward()
    assert torch.isfinite(loss)
    assert loss >= 0
    assert torch.isfinite(maps.grad).all()
    assert torch.isfinite(factor.grad).all()


def test_half_precision_scores_are_summed_in_float():
    scores = torch.full((1, 1, 16, 16), -60000.0, dtype=torch.float16)
    scores[..., 3, 3] = 60000.0
    loss = gaussian_cross_entropy(scores, torch.tensor([[[12.0, 12.0]]]), ONE)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(2 * float(torch.tensor(60000.0).half()), rel=1e-3)


def test_probability_loss_still_teaches_where_probabilities_underflow():
    scores = torch.zeros(1, 1, 6, 6)
    scores[..., 0, 0] = 1000.0
    scores.requires_grad_()
    loss = gaussian_cross_entropy(scores, torch.tensor([[[4.0, 4.0]]]), ONE, interpolate="prob")
    loss.sum().backward()
    assert loss.item() == pytest.approx(1000, rel=1e-3)
    assert scores.grad[0, 0, 4, 4] < -0.1


@given(value=st.floats(-1e6, 1e6), junk=st.floats(-1e4, 1e4))
@settings(max_examples=30, deadline=None)
def test_padding_changes_neither_value_nor_gradient(value, junk):
    clean = torch.randn(1, 1, 4, 4, generator=torch.Generator().manual_seed(1)).requires_grad_()
    point = torch.tensor([[[1.2, 2.1]]])
    alone = gaussian_cross_entropy(clean, point, ONE)
    (expected,) = torch.autograd.grad(alone.sum(), clean)
    padded = torch.cat([clean.detach(), torch.full((1, 1, 4, 4), value)], dim=1).requires_grad_()
    points = torch.cat([point, torch.full((1, 1, 2), junk)], dim=1)
    loss = gaussian_cross_entropy(padded, points, torch.tensor([[True, False]]))
    (gradient,) = torch.autograd.grad(loss.sum(), padded)
    assert torch.equal(loss, alone)
    assert torch.equal(gradient[:, :1], expected)
    assert (gradient[:, 1:] == 0).all()


def test_lowest_where_the_scores_peak_at_the_truth():
    y, x = torch.meshgrid(torch.arange(9.0), torch.arange(9.0), indexing="ij")
    scores = (-((x - 3.4) ** 2 + (y - 5.2) ** 2) / 2)[None, None]
    places = torch.tensor([[3.4, 5.2], [4.4, 5.2], [3.4, 4.2], [0.0, 0.0]])
    losses = [gaussian_cross_entropy(scores, place[None, None], ONE).item() for place in places]
    assert losses[0] == min(losses)


def test_regularizer_acts_only_below_the_threshold():
    beta = torch.tensor([0.5, 0.2, 0.05], dtype=torch.float64, requires_grad=True)
    loss = temperature_regularizer(beta, threshold=0.1)
    assert loss.item() == pytest.approx(math.log(2) / 3)
    loss.backward()
    assert beta.grad.tolist() == pytest.approx([0, 0, -1 / 0.05 / 3])
    free = torch.tensor([[[0.03]], [[0.4]]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(temperature_regularizer, free)


def test_wrong_options_are_refused():
    with pytest.raises(ConfigError, match="log-prob"):
        gaussian_cross_entropy(torch.zeros(1, 1, 2, 2), torch.zeros(1, 1, 2), ONE, interpolate="logprob")
    with pytest.raises(ConfigError, match="kernel 1"):
        gaussian_lattice(region=1, kernel=1)


@given(
    x=st.floats(0, 6), y=st.floats(0, 4), radius=st.floats(0.8, 5), seed=st.integers(0, 99), scale=st.floats(0.1, 300)
)
def test_a_region_costs_minus_the_logarithm_of_its_probability(
    x: float, y: float, radius: float, seed: int, scale: float
) -> None:
    scores = scale * torch.randn(5, 7, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    logs = scores.flatten().log_softmax(0).reshape(5, 7)
    apart = {(v, u): math.hypot(u - x, v - y) for v in range(5) for u in range(7)}
    assume(all(abs(distance - radius) > 1e-4 for distance in apart.values()))  # a border is a matter of last digits
    inside = [logs[place] for place, distance in apart.items() if distance <= radius]
    expected = -torch.stack(inside).logsumexp(0)
    found = region_cross_entropy(scores[None, None], torch.tensor([[[x, y]]]).double(), torch.tensor([[radius]]), ONE)
    torch.testing.assert_close(found[0], expected, rtol=1e-6, atol=1e-9)


def test_regions_that_hold_no_cell_and_padding_cost_nothing_and_send_no_gradient() -> None:
    scores = torch.randn(1, 3, 4, 4, requires_grad=True)
    points = torch.tensor([[[1.5, 1.5], [1.0, 1.0], [2.0, 2.0]]])
    mask = torch.tensor([[True, False, True]])
    loss = region_cross_entropy(scores, points, torch.tensor([[0.1, 1.0, 1.0]]), mask)
    alone = region_cross_entropy(scores[:, 2:], points[:, 2:], torch.tensor([[1.0]]), ONE)
    torch.testing.assert_close(loss, alone)
    (gradient,) = torch.autograd.grad(loss.sum(), scores)
    assert gradient.isfinite().all()
    assert not gradient[0, :2].any()
    assert gradient[0, 2].any()


def test_the_gradient_of_a_region_is_that_of_its_formula() -> None:
    scores = torch.randn(1, 2, 3, 4, dtype=torch.float64, requires_grad=True)
    points, radius = torch.tensor([[[1.2, 0.4], [3.0, 2.0]]]).double(), torch.tensor([[1.5, 1.1]]).double()
    mask = torch.tensor([[True, True]])
    assert torch.autograd.gradcheck(lambda given: region_cross_entropy(given, points, radius, mask), scores)
