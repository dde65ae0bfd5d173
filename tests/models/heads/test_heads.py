"""What holds for every head: shapes, temperature, interpolation, training, cost, names."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from simsc.errors import ConfigError
from simsc.losses import gaussian_cross_entropy
from simsc.matching.features import Features
from simsc.models.heads import HEADS, build_head, head_options
from simsc.models.heads.base import resize_map
from simsc.models.heads.cost import head_cost
from simsc.models.model import SimSC

NAMES = ["none", "sfnet:kernel=3", "ncnet:channels=2-1", "cats:grid=4,appearance=8,heads=2", "hpf", "scot"]


@pytest.fixture(params=NAMES)
def head(request, tiny):
    torch.manual_seed(0)
    return build_head(request.param, tiny("resnet")).double().eval()


def points(count: int = 3, size: tuple[int, int] = (3, 5)) -> torch.Tensor:
    limit = torch.tensor([size[1] - 1, size[0] - 1])
    return torch.rand(2, count, 2, generator=torch.Generator().manual_seed(5)).double() * limit


def test_score_maps_have_the_size_of_the_target(head, features):
    source, target = features(head, (3, 5), 1), features(head, (4, 2), 2)
    scores = head.score_maps(source, target, points())
    assert scores.shape == (2, 3, 4, 2)
    assert torch.isfinite(scores).all()


def test_temperatures_divide_the_scores(head, features):
    source, target = features(head, (3, 5), 1), features(head, (4, 2), 2)
    colder = replace(source, beta=source.beta / 4), replace(target, beta=target.beta / 2)
    torch.testing.assert_close(head.score_maps(*colder, points()), head.score_maps(source, target, points()) * 8)


def test_a_temperature_per_cell_divides_the_scores_of_that_cell(head, features):
    source, target = features(head, (3, 5), 1), features(head, (4, 2), 2)
    map_a, map_b = torch.rand(2, 3, 5).double() + 0.1, torch.rand(2, 4, 2).double() + 0.1
    per_cell = head.score_maps(replace(source, beta=map_a), replace(target, beta=map_b), torch.tensor([[[2.0, 1]]] * 2))
    plain = head.score_maps(source, target, torch.tensor([[[2.0, 1]]] * 2)) * 0.25
    torch.testing.assert_close(per_cell, plain / map_b[:, None] / map_a[:, 1, 2].view(2, 1, 1, 1))


def test_a_point_between_cells_takes_the_mean_of_their_scores(head, features):
    source, target = features(head, (3, 5), 1), features(head, (4, 2), 2)
    cells = torch.tensor([[[1.0, 2.0], [2.0, 2.0], [1.5, 2.0]]] * 2).double()
    left, right, between = head.score_maps(source, target, cells).unbind(dim=1)
    torch.testing.assert_close(between, (left + right) / 2)


def test_each_pair_of_a_batch_is_on_its_own(head, features):
    source, target = features(head, (3, 5), 1), features(head, (4, 2), 2)
    whole = head.score_maps(source, target, points())
    second = slice(1, 2)
    alone = head.score_maps(source.select(second), target.select(second), points()[second])
    torch.testing.assert_close(whole[second], alone)


def test_every_way_through_the_door_leads_to_the_same_scores(head, features):
    source, target = (head.prepare(features(head, size, seed)) for size, seed in (((3, 5), 1), ((4, 2), 2)))
    scorer = head.scorer(source, target)
    for count in (1, 7):
        cells = points(count)
        each = [
            head.scorer(source.select(slice(i, i + 1)), target.select(slice(i, i + 1)))(cells[i : i + 1])
            for i in (0, 1)
        ]
        torch.testing.assert_close(scorer(cells), torch.cat(each))
    one, other = (features(head, (3, 5), seed).select(slice(0, 1)) for seed in (1, 2))
    images = Features.stack([head.prepare(one), head.prepare(other)])
    first, second = images.select(slice(0, 1)), images.select(slice(1, 2))
    lists = [points(3)[0], points(2)[1]]
    expected = torch.cat([head.scorer(first, second)(cells[None]) for cells in lists], dim=1)
    asked = head.read(first, lists)
    assert [len(each.cells) for each in asked] == [3, 2]
    assert all((each.features is not None) == head.compares_features for each in asked)
    torch.testing.assert_close(head.score(asked, second), expected)
    torch.testing.assert_close(head.score(asked[1:], second), expected[:, 3:])
    index = torch.tensor([0, 1, 0]), torch.tensor([1, 0, 1])
    cells = torch.stack([points()[0], points()[1], points()[1]])
    pairs = [
        head.scorer(images.select(a[None]), images.select(b[None]))(c[None])
        for a, b, c in zip(*index, cells, strict=True)
    ]
    torch.testing.assert_close(head.score_pairs(images, *index, cells), torch.cat(pairs))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("family", ["resnet", "vit"])
def test_the_model_trains_with_any_head(tiny, name, family):
    torch.manual_seed(0)
    model = SimSC(tiny(family), head=name, trainable="last-2").train()
    state = model.trunk(torch.rand(2, 3, 64, 96))
    query = torch.tensor([[[10.0, 12.0], [50.0, 40.0]]])
    optimizer = torch.optim.Adam(model.parameter_groups(1e-3, 1e-3, 1e-3))
    losses = []
    for _ in range(8):
        image = model.encode_state(state, (64, 96))
        scores = model.score_maps(image.select(slice(0, 1)), image.select(slice(1, 2)), query)
        loss = gaussian_cross_entropy(scores, query / 16, torch.ones(1, 2, dtype=torch.bool)).sum()
        optimizer.zero_grad()
        loss.backward()
        assert all(p.grad is not None for p in model.head.parameters())
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("trainable", ["none", "last-2", "all"])
def test_layers_arrive_wherever_the_trunk_ends(tiny, trainable):
    model = SimSC(tiny("resnet"), head="hpf:layers=2-4-5", trainable=trainable).eval()
    images = torch.rand(1, 3, 64, 96)
    expected = model.backbone.layers(images, (2, 4, 5))
    for got, wanted in zip(model.encode(images).layers, expected, strict=True):
        torch.testing.assert_close(got, wanted)


def test_half_precision_gives_float_scores(tiny):
    for name in NAMES:
        model = SimSC(tiny("resnet"), head=name).eval()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            image = model.encode(torch.rand(1, 3, 64, 64))
            scores = model.score_maps(image, image, torch.full((1, 1, 2), 20.0))
        assert scores.dtype == torch.float32, name
        assert torch.isfinite(scores).all()


@pytest.mark.parametrize("name", NAMES)
def test_cost_is_measured_and_leaves_the_head_as_it_was(tiny, name):
    head = build_head(name, tiny("resnet")).train()
    before = {key: value.clone() for key, value in head.state_dict().items()}
    cost = head_cost(head, (4, 4))
    assert cost["parameters"] == sum(parameter.numel() for parameter in head.parameters())
    assert cost["flops"] > 0
    assert cost["memory_bytes"] > 0
    assert head_cost(head, (8, 8))["flops"] > cost["flops"]
    assert head.training
    assert all(torch.equal(value, before[key]) for key, value in head.state_dict().items())


def test_cost_of_a_convolution_in_closed_form(tiny):
    """Two 3 x 3 convolutions 64 -> 4 -> 64 on 16 cells of two images; one query: 4 cells around it, 16 products."""
    cost = head_cost(build_head("sfnet:kernel=3,hidden=4", tiny("resnet")), (4, 4))
    assert cost["flops"] == 2 * (2 * 2 * 9 * 64 * 4 * 16) + 2 * 64 * 4 + 2 * 64 * 16
    assert cost["parameters"] == 2 * 9 * 64 * 4 + 2 * 4 + 64


def test_the_plain_head_costs_one_product(tiny):
    cost = head_cost(build_head("none", tiny("resnet")), (4, 4))
    assert cost["flops"] == 2 * 64 * 4 + 2 * 64 * 16
    assert cost["parameters"] == 0


def test_only_the_plain_head_compares_features_that_are_not_normalised(tiny, features):
    backbone = tiny("resnet")
    head = build_head("none", backbone, normalize=False)
    image = features(head, (3, 5), 1)
    cells = torch.tensor([[[1.0, 2.0]]] * 2).double()
    products = torch.einsum("bc,bchw->bhw", image.maps[:, :, 2, 1], image.maps) / image.beta**2
    torch.testing.assert_close(head.score_maps(image, image, cells)[:, 0], products)
    with pytest.raises(ConfigError, match="normalize = false needs head = none"):
        build_head("sfnet", backbone, normalize=False)


def test_options_reach_the_head(tiny):
    head = build_head("cats:layers=4-2,grid=4,appearance=8,heads=2", tiny("resnet"))
    assert head.layers == (2, 4)
    assert head.grid == 4
    assert list(HEADS) == ["none", "sfnet", "ncnet", "cats", "hpf", "scot", "upsampled"]
    assert head_options("none") == {}
    assert head_options("sfnet") == {"kernel": 5, "hidden": 0}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ncent", "did you mean 'ncnet'"),
        ("none:kernel=3", "unknown option of head 'none'"),
        ("ncnet:kernal=3", "did you mean 'kernel'"),
        ("ncnet:kernel=big", "expected a whole number"),
        ("ncnet:channels=3-x", "whole numbers joined by hyphens"),
        ("hpf:sigma=", "expected a number"),
        ("hpf:layers=99", "no layer 99"),
    ],
)
def test_misspelt_names_and_options_say_what_is_allowed(tiny, name, message):
    with pytest.raises(ConfigError, match=message):
        build_head(name, tiny("resnet"))


def test_probing_levels_does_not_move_running_statistics(tiny):
    backbone = tiny("resnet").train()
    before = {key: value.clone() for key, value in backbone.state_dict().items()}
    build_head("hpf", backbone)
    assert backbone.training
    assert all(torch.equal(value, before[key]) for key, value in backbone.state_dict().items())


def test_resize_map_averages_when_it_shrinks():
    maps = torch.arange(16.0).reshape(1, 1, 4, 4)
    torch.testing.assert_close(resize_map(maps, (4, 4)), maps)
    assert resize_map(maps, (1, 1)).item() == pytest.approx(7.5)
