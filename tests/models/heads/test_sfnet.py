"""Adaptation of feature maps."""

from __future__ import annotations

import torch

from simsc.matching.scores import query_scores
from simsc.models import SimSC
from simsc.models.heads.sfnet import SFNet

POINTS = torch.tensor([[[0.0, 0.0], [1.3, 2.6]]]).double().expand(2, -1, -1)


def test_an_untrained_head_leaves_the_features_as_they_are(tiny, features):
    head = SFNet(tiny("resnet")).double()
    a, b = features(head, (4, 5), seed=1), features(head, (3, 6), seed=2)
    plain = query_scores(a.maps, b.maps, POINTS, a.beta, b.beta)
    torch.testing.assert_close(head.score_maps(a, b, POINTS), plain)


def test_a_cell_sees_its_neighbourhood_and_no_further(tiny, features):
    head = SFNet(tiny("resnet"), kernel=3).double().eval()
    torch.nn.init.normal_(head.adaptation[-1].weight)
    maps = features(head, (7, 7)).maps
    changed = maps.clone()
    changed[:, :, 3, 3] += 1
    moved = (head.adapt(changed) - head.adapt(maps)).abs().amax(dim=(0, 1)) > 1e-12
    expected = torch.zeros(7, 7, dtype=torch.bool)
    expected[1:6, 1:6] = True
    assert torch.equal(moved, expected)


def test_translation_of_a_map_translates_the_adapted_map(tiny, features):
    head = SFNet(tiny("resnet"), kernel=3).double().eval()
    torch.nn.init.normal_(head.adaptation[-1].weight)
    maps = torch.nn.functional.pad(features(head, (3, 3)).maps, (3, 3, 3, 3))
    moved = head.adapt(maps.roll((1, -1), dims=(2, 3)))
    # Two 3 x 3 convolutions reach two cells: the border of the padded map is not touched by the content.
    inner = head.adapt(maps).roll((1, -1), dims=(2, 3))
    torch.testing.assert_close(moved[:, :, 3:-3, 3:-3], inner[:, :, 3:-3, 3:-3])


def test_an_image_is_adapted_once_however_many_pairs_share_it(tiny):
    model = SimSC(tiny("resnet"), head="sfnet:kernel=3").eval()
    torch.nn.init.normal_(model.head.adaptation[-1].weight)
    adapted = []
    model.head.adaptation.register_forward_hook(lambda *call: adapted.append(len(call[2])))
    images = model.encode(torch.rand(2, 3, 64, 64))
    both = images.select(torch.tensor([0, 1])), images.select(torch.tensor([1, 0]))
    scores = model.score_maps(*both, torch.full((2, 1, 2), 20.0))
    assert adapted == [2]
    maps = model.backbone.layers(torch.rand(1, 3, 64, 64), [model.backbone.num_blocks])[0]
    assert not torch.equal(model.head.adapt(maps), maps)
    assert scores.shape == (2, 1, 4, 4)
