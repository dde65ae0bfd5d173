"""The loss of a batch and a step of the optimiser, against formulas worked out by hand."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from simsc.models.model import SimSC
from simsc.training.batches import PairBatch, points_between
from simsc.training.config import Config
from simsc.training.feed import Work
from simsc.training.objective import NOWHERE, PairObjective
from simsc.training.step import Optimization
from simsc.training.teacher import SHARE

SIZE, CELLS = (32, 48), 6  # of the input, and of its map of 2x3 cells of 16 pixels
BETAS = (0.05, 0.5, 0.02)
ENDS = [(0, 1), (0, 2), (1, 2)]  # images of each pair
FOUND = [True, True, False]  # whether the pair's truth is where the query's feature is
CONFIG = Config(region=1, kernel=2, gamma=0.7, beta_threshold=0.1, interpolate="log-prob")


class Given(nn.Module):
    """Temperatures that are given, one per image."""

    def __init__(self, betas: tuple[float, ...]) -> None:
        super().__init__()
        self.betas = nn.Parameter(torch.tensor(betas))

    def forward(self, features: Tensor) -> Tensor:
        return self.betas[:, None, None].expand(len(features), 1, 1)


@pytest.fixture
def model(color_model: SimSC) -> SimSC:
    """What it is given as a state are its features; its temperatures are ``BETAS``."""
    ours = copy.deepcopy(color_model)
    ours.temperature = Given(BETAS)
    return ours.train()


def orthogonal_cells(images: int = len(BETAS)) -> Tensor:
    """Features of which each is equal to that of the same cell of the others and orthogonal to all else."""
    return 3 * torch.eye(CELLS).reshape(1, CELLS, 2, 3).repeat(images, 1, 1, 1)


def batch() -> PairBatch:
    """One query per pair, at the centre of cell (1, 0); the truth is that cell, or its right neighbour."""
    source = torch.tensor([[[23.5, 7.5]]] * len(ENDS))
    target = torch.tensor([[[23.5 if found else 39.5, 7.5]] for found in FOUND])
    ends = torch.tensor(ENDS)
    return PairBatch((), ends[:, 0], ends[:, 1], source, target, torch.ones(len(ENDS), 1, dtype=torch.bool))


def entropy(beta_source: float, beta_target: float, found: bool) -> float:
    """Of a softmax over one score of 1 / temperature and zeros: minus the logarithm of the truth's probability."""
    score = 1 / (beta_source * beta_target)
    return score + math.log1p((CELLS - 1) * math.exp(-score)) - (score if found else 0)


def test_the_objective_equals_its_closed_form(model: SimSC) -> None:
    parts = PairObjective(model, CONFIG)((orthogonal_cells(),), SIZE, batch())
    ends = [(BETAS[a], BETAS[b]) for a, b in ENDS]
    crossed = sum(entropy(*pair, found) for pair, found in zip(ends, FOUND, strict=True))
    too_low = [max(0.0, math.log(0.1 / beta)) for pair in ends for beta in pair]
    regularizer = sum(too_low) / len(too_low) * len(ENDS)  # the mean over all temperatures counts once per pair
    assert parts.cross_entropy.item() == pytest.approx(crossed, rel=1e-5)
    assert parts.regularizer.item() == pytest.approx(regularizer, rel=1e-5)
    assert parts.total.item() == pytest.approx(crossed + 0.7 * regularizer, rel=1e-5)
    assert parts.beta_source.item() == pytest.approx(sum(pair[0] for pair in ends), rel=1e-5)
    assert parts.beta_target.item() == pytest.approx(sum(pair[1] for pair in ends), rel=1e-5)
    assert parts.temperature.item() == pytest.approx(sum(a * b for a, b in ends), rel=1e-5)
    assert parts.pairs.item() == 3


def test_the_regulariser_pushes_the_temperatures_of_both_sides(model: SimSC) -> None:
    flat = orthogonal_cells() * 0 + 1  # every score is the same, so that the cross-entropy pushes nothing
    PairObjective(model, CONFIG)((flat,), SIZE, batch()).total.backward()
    # Each image stands in two of six places; -1 / beta where beta is below the threshold, times three pairs.
    expected = [-0.7 * 3 * 2 / 6 / beta if beta < 0.1 else 0.0 for beta in BETAS]
    torch.testing.assert_close(model.temperature.betas.grad, torch.tensor(expected), rtol=1e-3, atol=1e-3)


def test_both_directions_are_averaged(model: SimSC) -> None:
    both = PairObjective(model, replace(CONFIG, both_directions=True))((orthogonal_cells(),), SIZE, batch())
    one, other = (
        PairObjective(model, CONFIG)((orthogonal_cells(),), SIZE, each) for each in (batch(), batch().swapped())
    )
    assert both.cross_entropy.item() == pytest.approx((one.cross_entropy + other.cross_entropy).item() / 2)


def test_adam_steps_equal_the_formula_by_hand(model: SimSC) -> None:
    config = replace(CONFIG, temperature_rate=1e-3)
    optimization = Optimization(model, config, torch.device("cpu"))
    work = Work(batch(), (orthogonal_cells(),), 1.0, len(ENDS), torch.ones(len(BETAS)))
    values = torch.tensor(BETAS, dtype=torch.float64)
    mean, square = torch.zeros(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    for step in range(1, 4):
        clone = copy.deepcopy(model).double()
        total = PairObjective(clone, config)((orthogonal_cells().double(),), SIZE, batch()).total / len(ENDS)
        (gradient,) = torch.autograd.grad(total, clone.temperature.betas)
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        values = values - 1e-3 * (mean / (1 - 0.9**step)) / ((square / (1 - 0.999**step)).sqrt() + 1e-8)
        assert not optimization.step(step - 1, SIZE, work).broken
        torch.testing.assert_close(model.temperature.betas.detach().double(), values, rtol=1e-5, atol=1e-7)


def test_nothing_decays_that_the_loss_does_not_ask_for(model: SimSC) -> None:
    """A process that only takes part has a gradient of zero, so its weights stay exactly as they are."""
    optimization = Optimization(model, CONFIG, torch.device("cpu"))
    work = Work(batch(), (orthogonal_cells(),), 0.0, len(ENDS), torch.zeros(len(BETAS)))
    optimization.step(0, SIZE, work)
    assert torch.equal(model.temperature.betas.detach(), torch.tensor(BETAS))


def test_the_temperature_is_read_from_features_that_are_not_normalised(model: SimSC) -> None:
    seen = []
    model.temperature.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    maps = orthogonal_cells() * torch.tensor([1.0, 5.0, 0.1])[:, None, None, None]
    features = model.encode_state((maps,), SIZE)
    assert torch.equal(seen[0], maps)
    assert torch.equal(features.maps, maps)


def three_points() -> PairBatch:
    """Two pairs: three points on a line, whose counterparts lie on another one, and a single point."""
    source = torch.tensor([[[2.0, 3.0], [6.0, 3.0], [16.0, 3.0]], [[5.0, 5.0], [0.0, 0.0], [0.0, 0.0]]])
    target = torch.tensor([[[1.0, 1.0], [1.0, 9.0], [1.0, 29.0]], [[7.0, 7.0], [0.0, 0.0], [0.0, 0.0]]])
    mask = torch.tensor([[True, True, True], [True, False, False]])
    ends = torch.tensor([[0, 1], [1, 0]])
    return PairBatch((), ends[:, 0], ends[:, 1], source, target, mask)


def test_points_between_divide_the_lines_of_both_images_alike() -> None:
    batch = three_points()
    between = points_between(batch, slack=0.5)
    assert between.mask.tolist() == [[True] * 3, [False] * 3]
    shares = (between.source_points[0, :, 0] - 2) / 14  # both lines are divided 4 : 10
    torch.testing.assert_close((between.target_points[0, :, 1] - 1) / 28, shares)
    assert (between.source_points[0, :, 1] == 3).all()
    assert (between.target_points[0, :, 0] == 1).all()
    moved = (between.source_points - batch.source_points)[0, :, 0]
    assert (moved.abs() >= 0.2 * 4 - 1e-4).all()  # at least a fifth of the way to a neighbour
    lengths = {0.5 * 8.0, 0.5 * 20.0, 0.5 * 28.0}
    assert all(min(abs(float(radius) - length) for length in lengths) < 1e-4 for radius in between.radius[0])


def test_points_between_are_those_of_the_pair_alone() -> None:
    batch = three_points()
    alone = PairBatch(
        (), batch.source[:1], batch.target[:1], batch.source_points[:1], batch.target_points[:1], batch.mask[:1]
    )
    torch.testing.assert_close(points_between(alone).source_points, points_between(batch).source_points[:1])


def test_points_between_add_to_the_loss_by_their_weight(model: SimSC) -> None:
    left = torch.tensor([[[7.5, 7.5], [9.5, 7.5]]] * len(ENDS))
    right = left + torch.tensor([32.0, 0.0])  # two cells from where the features of the left are
    ends = torch.tensor(ENDS)
    pairs = PairBatch((), ends[:, 0], ends[:, 1], left, right, torch.ones(len(ENDS), 2, dtype=torch.bool))
    losses = [
        PairObjective(model, replace(CONFIG, between=weight))((orthogonal_cells(),), SIZE, pairs).total.item()
        for weight in (0.0, 1.0, 2.0)
    ]
    assert losses[1] > losses[0]
    assert losses[2] - losses[1] == pytest.approx(losses[1] - losses[0], rel=1e-5)


def test_lessons_add_their_cross_entropy_by_weight_and_share(model: SimSC) -> None:
    state, pairs = (orthogonal_cells(),), batch()
    lesson = PairBatch(
        (), pairs.source[:1], pairs.target[:1], pairs.source_points[:1], pairs.target_points[1:2], pairs.mask[:1]
    )
    plain = PairObjective(model, CONFIG)(state, SIZE, pairs)
    taught = PairObjective(model, replace(CONFIG, taught=0.5))(state, SIZE, pairs, lesson)
    cost = entropy(BETAS[0], BETAS[1], found=True)
    assert (taught.total - plain.total).item() == pytest.approx(0.5 / SHARE * cost, rel=1e-4)
    assert taught.cross_entropy.item() == plain.cross_entropy.item()


def test_points_without_a_counterpart_cost_what_is_seen_in_the_target(model: SimSC) -> None:
    """Each query's best cell has similarity 1, five have 0; a point that stands alone must find nothing."""
    pairs = batch()
    alone = replace(pairs, alone=pairs.source_points, alone_mask=torch.tensor([[True], [False], [True]]))
    before, known, both = (
        PairObjective(model, replace(CONFIG, absent=weight))((orthogonal_cells(),), SIZE, each).total.item()
        for weight, each in ((0.0, pairs), (1.0, pairs), (1.0, alone))
    )
    heats = [BETAS[a] * BETAS[b] for a, b in ENDS]
    excess = [1 / heat + math.log1p((CELLS - 1) * math.exp(-1 / heat)) - NOWHERE / heat for heat in heats]
    found = sum(math.log1p(math.exp(-each)) for each in excess)
    assert known - before == pytest.approx(found, rel=1e-4, abs=1e-5)
    cost = sum(each + math.log1p(math.exp(-each)) for each in (excess[0], excess[2]))
    assert both - known == pytest.approx(cost, rel=1e-4)
