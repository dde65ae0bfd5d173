"""The model: trunk and tail, what learns, frozen statistics, parameter groups, scores."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from simsc.coordinates import resize_points
from simsc.errors import ConfigError
from simsc.losses import gaussian_cross_entropy
from simsc.matching.dense import dense_match
from simsc.matching.features import Features
from simsc.matching.scores import query_scores
from simsc.models.inference import prepare_for_inference
from simsc.models.model import SimSC
from simsc.models.trainable import tail_blocks

TRAINABLE = ["none", "last-block", "last-2", "last-stage", "all"]


def images(count: int = 2, size: tuple[int, int] = (64, 96)) -> Tensor:
    return torch.rand(count, 3, *size, generator=torch.Generator().manual_seed(0))


def statistics(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items() if "running_" in name}


def training_step(model: SimSC) -> None:
    model.train()
    rate = model.parameter_groups(1e-2, 1e-2)
    optimizer = torch.optim.Adam(rate)
    features = model.encode(images())
    points = torch.tensor([[[10.0, 12.0], [50.0, 40.0]]])
    scores = model.score_maps(features.select(slice(0, 1)), features.select(slice(1, 2)), points)
    gaussian_cross_entropy(scores, points / 16, torch.ones(1, 2, dtype=torch.bool)).sum().backward()
    optimizer.step()


@pytest.mark.parametrize("family", ["resnet", "vit"])
def test_features_do_not_depend_on_what_learns(tiny, family):
    backbone = tiny(family)
    expected = backbone.layers(images(), [backbone.num_blocks])[0]
    for trainable in TRAINABLE:
        for mode in (True, False):
            model = SimSC(backbone, trainable=trainable).train(mode)
            torch.testing.assert_close(model.encode(images()).maps, expected)


@pytest.mark.parametrize("trainable", TRAINABLE)
def test_cached_trunk_state_gives_the_same_features(tiny, trainable):
    model = SimSC(tiny("resnet"), trainable=trainable).eval()
    state = tuple(part.clone() for part in model.trunk(images()))
    assert not any(part.requires_grad for part in state)
    features, direct = model.encode_state(state, (64, 96)), model.encode(images())
    assert torch.equal(features.maps, direct.maps)
    assert torch.equal(features.beta, direct.beta)
    assert features.image_size == (64, 96)
    assert features.map_size == (4, 6)


@pytest.mark.parametrize(
    ("trainable", "blocks"), [("none", 0), ("last-block", 1), ("last-2", 2), ("last-stage", 3), ("all", 7)]
)
def test_exactly_the_tail_requires_gradients(tiny, trainable, blocks):
    model = SimSC(tiny("resnet"), trainable=trainable)
    assert tail_blocks(trainable, model.backbone) == blocks
    tail = {id(p) for module in model.backbone.tail_modules() for p in module.parameters()}
    learning = {id(p) for p in model.backbone.parameters() if p.requires_grad}
    assert learning == tail == {id(p) for p in model.tail_parameters()}
    everything = {id(p) for p in model.backbone.parameters()}
    assert (learning == everything) == (trainable == "all")
    assert all(p.requires_grad for p in model.temperature.parameters())


def test_a_step_moves_the_tail_and_the_temperature_and_nothing_else(tiny):
    model = SimSC(tiny("resnet"), trainable="last-2")
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    training_step(model)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name]) != parameter.requires_grad, name


def test_choosing_again_freezes_what_was_trainable(tiny):
    model = SimSC(tiny("resnet"), trainable="all")
    model.set_trainable("last-block")
    fresh = SimSC(tiny("resnet"), trainable="last-block")
    assert [p.requires_grad for p in model.parameters()] == [p.requires_grad for p in fresh.parameters()]


@pytest.mark.parametrize("trainable", ["last-block", "all"])
def test_frozen_statistics_survive_training(tiny, trainable):
    model = SimSC(tiny("resnet"), trainable=trainable)
    before = statistics(model)
    training_step(model)
    after = statistics(model)
    assert before
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_free_statistics_change_in_the_tail_only(tiny):
    model = SimSC(tiny("resnet"), trainable="last-block", freeze_batchnorm=False)
    before = statistics(model)
    training_step(model)
    after = statistics(model)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed
    assert all("layer3.2." in name for name in changed)
    training_step(model.eval())
    state = model.trunk(images())[0]
    assert torch.equal(model.train().trunk(images())[0], state)  # what was cached stays true


def test_all_statistics_change_when_everything_learns_freely(tiny):
    model = SimSC(tiny("resnet"), trainable="all", freeze_batchnorm=False)
    before = statistics(model)
    training_step(model)
    assert not any(torch.equal(before[name], value) for name, value in statistics(model).items())


@pytest.mark.parametrize(
    ("trainable", "temperature", "rates"),
    [
        ("last-block", "mlp", {"backbone": 1e-4, "temperature": 1e-4}),
        ("last-stage", "per-pixel", {"backbone": 1e-4, "temperature": 1e-4}),
        ("all", "single", {"backbone": 2e-5, "temperature": 5e-3}),
        ("all", "fixed:0.03", {"backbone": 2e-5}),
        ("none", "mlp", {"temperature": 1e-4}),
        ("none", "fixed", {}),
    ],
)
def test_parameter_groups_have_the_rates_of_the_paper(tiny, trainable, temperature, rates):
    model = SimSC(tiny("resnet"), temperature, trainable)
    groups = model.parameter_groups()
    assert {group["name"]: group["lr"] for group in groups} == rates
    grouped = [id(p) for group in groups for p in group["params"]]
    assert sorted(grouped) == sorted(id(p) for p in model.parameters() if p.requires_grad)


def test_given_rates_win_even_when_zero(tiny):
    groups = SimSC(tiny("resnet")).parameter_groups(0.0, 0.5)
    assert [group["lr"] for group in groups] == [0.0, 0.5]


class ShiftHead(nn.Module):
    """Scores of one row up, and a wish for further layers."""

    layers = (0, 3, 6)
    calls = 0

    def prepare(self, features: Features) -> Features:
        return features

    def scorer(self, source: Features, target: Features) -> ShiftHead:
        self.calls += 1
        return self

    def forward(self, points: Tensor) -> Tensor:
        grid = torch.arange(24.0).reshape(1, 1, 4, 6)
        cell = (points[..., 1] - 1).clamp(min=0) * 6 + points[..., 0]
        return 50 - 50 * (grid - cell[..., None, None]).abs()


@pytest.mark.parametrize("family", ["resnet", "vit"])
def test_layers_a_head_asks_for_come_from_trunk_and_tail_alike(tiny, family):
    backbone = tiny(family)
    wanted = (0, backbone.num_blocks // 2, backbone.num_blocks)
    expected = backbone.layers(images(), wanted)
    for trainable in TRAINABLE:
        model = SimSC(backbone, trainable=trainable).eval()
        model.head = ShiftHead()
        model.head.layers = wanted
        for layer, right in zip(model.encode(images()).layers, expected, strict=True):
            torch.testing.assert_close(layer, right)


def test_dense_matching_runs_the_head_once_for_all_chunks(tiny):
    model = SimSC(tiny("resnet")).eval()
    model.head = ShiftHead()
    features = model.encode(images(1))
    scorer = model.scorer(features, features)
    match = dense_match(features, features, score_maps=scorer, localizer="argmax", max_bytes=1)
    assert model.head.calls == 1
    assert match.points[0, :, 2].tolist() == [[2.0, 0.0], [2.0, 0.0], [2.0, 1.0], [2.0, 2.0]]


@pytest.mark.parametrize("convention", ["center", "corner"])
def test_points_in_pixels_become_cells_by_the_convention(tiny, convention):
    model = SimSC(tiny("resnet"), convention=convention).eval()
    features = model.encode(images())
    source, target = features.select(slice(0, 1)), features.select(slice(1, 2))
    points = torch.tensor([[[0.0, 0.0], [95.0, 63.0], [40.2, 17.9]]])
    cells = resize_points(points, (64, 96), (4, 6), convention)
    expected = query_scores(source.maps, target.maps, cells, source.beta, target.beta)
    torch.testing.assert_close(model.score_maps(source, target, points), expected)
    torch.testing.assert_close(model.head.score(model.read(source, [points[0]]), target), expected)
    pairs = model.pair_scores(features, torch.tensor([0]), torch.tensor([1]), points)
    torch.testing.assert_close(pairs, expected)
    torch.testing.assert_close(model.scorer(source, target)(cells), expected)


def test_scores_honour_normalisation_and_query_mode(tiny):
    backbone = tiny("resnet")
    points = torch.tensor([[[13.0, 21.0]]])
    options = [{}, {"normalize": False}, {"query": "sample-then-normalize"}]
    maps = []
    for option in options:
        model = SimSC(backbone, "fixed:1", **option).eval()
        features = model.encode(images())
        maps.append(model.score_maps(features.select(slice(0, 1)), features.select(slice(1, 2)), points))
    assert maps[0].abs().max() <= 1 + 1e-5
    assert not torch.allclose(maps[0], maps[1])
    assert not torch.allclose(maps[0], maps[2])


def test_the_temperature_sends_no_gradient_into_the_backbone(tiny):
    model = SimSC(tiny("resnet"), trainable="all")
    features = model.encode(images())
    features.beta.sum().backward()
    assert all(parameter.grad is None for parameter in model.backbone.parameters())
    assert all(parameter.grad is not None for parameter in model.temperature.parameters())


def test_dense_matching_of_an_image_with_itself_is_the_identity(tiny):
    model = SimSC(tiny("resnet"), "fixed:0.0001").eval()
    features = model.encode(images(1))
    match = dense_match(features, features, score_maps=model.scorer(features, features))
    rows, columns = torch.meshgrid(torch.arange(4.0), torch.arange(6.0), indexing="ij")
    torch.testing.assert_close(match.points[0], torch.stack([columns, rows], dim=-1), atol=0.05, rtol=0)


@pytest.mark.parametrize("name", ["last", "last-0", "last-7", "last-x", "first-block"])
def test_unknown_parts_are_refused(tiny, name):
    with pytest.raises(ConfigError, match="last-block, last-<k>"):
        SimSC(tiny("resnet"), trainable=name)


def test_unknown_convention_is_refused(tiny):
    with pytest.raises(ConfigError, match="center"):
        SimSC(tiny("resnet"), convention="centre")


def test_a_head_without_normalised_features_is_refused(tiny):
    with pytest.raises(ConfigError, match="normalised"):
        SimSC(tiny("resnet"), head="sfnet", normalize=False)


@pytest.mark.parametrize("family", ["resnet", "vit"])
@pytest.mark.parametrize("head", ["none", "upsampled"])
def test_half_precision_gives_nearly_the_same_features_in_float32(tiny, family, head):
    exact, half = (SimSC(tiny(family), head=head) for _ in range(2))
    half.load_state_dict(exact.state_dict())
    prepare_for_inference(exact), prepare_for_inference(half, torch.bfloat16)
    expected, found = exact.encode(images()), half.encode(images())
    assert found.maps.dtype == found.beta.dtype == torch.float32
    assert not torch.equal(found.maps, expected.maps)  # it did compute in half precision
    similarity = torch.nn.functional.cosine_similarity(found.maps, expected.maps, dim=1)
    assert similarity.min() > 0.99
    torch.testing.assert_close(found.beta, expected.beta, rtol=0.02, atol=0)


def test_training_keeps_its_own_precision(tiny):
    model = SimSC(tiny("vit"), trainable="last-block").train()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert model.trunk(images())[0].dtype in (torch.bfloat16, torch.float32)
        inner = model.encode(images()).maps
    assert not torch.equal(inner.float(), model.encode(images()).maps)
