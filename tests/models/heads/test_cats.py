"""Cost aggregation over several levels."""

from __future__ import annotations

import pytest
import torch

from simsc.errors import ConfigError
from simsc.models.heads.base import score_tensor
from simsc.models.heads.cats import CATs, LevelBlock, SelfAttention, level_scores, resize_tensor


def small(backbone, **options) -> CATs:
    return CATs(backbone, **{"layers": (2, 4), "grid": 4, "appearance": 8, "heads": 2, **options}).double()


def test_an_untrained_head_gives_the_mean_of_the_levels(tiny, features):
    head = small(tiny("resnet"))
    a, b = features(head, (3, 5), seed=1), features(head, (4, 2), seed=2)
    expected = level_scores(a, b).mean(dim=1) / 0.25
    torch.testing.assert_close(head.scorer(a, b).tensor, expected)


def test_a_level_of_the_maps_size_is_compared_as_it_is(tiny, features):
    head = small(tiny("resnet"))
    a, b = features(head, (4, 4), seed=1), features(head, (4, 4), seed=2)
    assert [level.scale for level in head.levels] == [4.0, 1.0, 1.0]
    torch.testing.assert_close(level_scores(a, b)[:, 1], score_tensor(a.layers[1], b.layers[1]))


def test_everything_learns(tiny, features):
    head = small(tiny("vit"), layers=(1, 2))
    torch.nn.init.normal_(head.aggregate.readout.weight, std=0.1)
    points = torch.rand(2, 3, 2).double()
    head.score_maps(features(head, (4, 4), 1), features(head, (4, 4), 2), points).square().sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in head.parameters())


def test_attention_does_not_depend_on_the_order_of_cells_without_positions():
    block = LevelBlock(8, heads=2).double()
    tokens, order = torch.rand(1, 3, 5, 8).double(), torch.tensor([3, 0, 4, 1, 2])
    torch.testing.assert_close(block(tokens[:, :, order]), block(tokens)[:, :, order])


def test_attention_mixes_cells_within_a_level_and_levels_within_a_cell():
    block = LevelBlock(8, heads=2).double()
    tokens = torch.rand(1, 3, 5, 8).double().requires_grad_()
    (gradient,) = torch.autograd.grad(block(tokens)[0, 0, 0].square().sum(), tokens)
    assert (gradient.abs().sum(dim=-1) > 0).all()


def test_attention_gradients():
    attention = SelfAttention(4, heads=2).double()
    assert torch.autograd.gradcheck(attention, torch.rand(1, 3, 4).double().requires_grad_())


def test_resizing_to_the_same_size_changes_nothing_and_keeps_constants():
    scores = torch.rand(2, 3, 2, 4, 3, 5).double()
    assert torch.equal(resize_tensor(scores, (2, 4), (3, 5)), scores)
    constant = resize_tensor(torch.full((1, 1, 2, 3, 4, 5), 0.7), (4, 2), (3, 7))
    torch.testing.assert_close(constant, torch.full((1, 1, 4, 2, 3, 7), 0.7))


def test_default_layers_follow_the_depth_of_the_backbone(tiny):
    assert CATs(tiny("resnet")).layers == (3, 4, 5)
    assert CATs(tiny("vit")).layers == (2,)


def test_refuses_a_token_that_heads_cannot_share(tiny):
    with pytest.raises(ConfigError, match="multiple of heads = 5"):
        small(tiny("resnet"), heads=5)
