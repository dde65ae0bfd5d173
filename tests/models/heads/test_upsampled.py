"""Features at twice the resolution."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from simsc.coordinates import resize_points
from simsc.errors import ConfigError
from simsc.losses import gaussian_cross_entropy
from simsc.matching.localize import localize
from simsc.models import SimSC
from simsc.models.heads import build_head

SMALL = "upsampled:hidden=8"


@pytest.mark.parametrize("family", ["resnet", "vit"])
def test_an_untrained_decoder_gives_the_interpolated_map(tiny, features, family):
    head = build_head(SMALL, tiny(family)).double().eval()
    image = features(head, (3, 5))
    fine = head.prepare(image)
    torch.testing.assert_close(fine.maps, F.interpolate(image.maps, size=(6, 10), mode="bilinear"))
    assert fine.layers == ()


@pytest.mark.parametrize("family", ["resnet", "vit"])
def test_every_part_of_the_decoder_and_every_layer_counts(tiny, features, family):
    torch.manual_seed(0)
    head = build_head(SMALL, tiny(family)).double().eval()
    torch.nn.init.normal_(head.out.weight)
    image = features(head, (3, 4))
    before = head.prepare(image).maps
    for parameter in head.parameters():
        kept = parameter.detach().clone()
        torch.nn.init.normal_(parameter)
        assert not torch.allclose(head.prepare(image).maps, before)
        parameter.data.copy_(kept)
    for place in range(len(image.layers)):
        layers = [layer.flip(1) if index == place else layer for index, layer in enumerate(image.layers)]
        assert not torch.allclose(head.prepare(replace(image, layers=tuple(layers))).maps, before)


def test_a_narrow_head_compares_a_projection_that_keeps_angles(tiny, features):
    """An orthogonal projection: before training, the similarities of features are roughly those of the whole map."""
    whole, narrow = (build_head(f"upsampled:hidden=16{more}", tiny("resnet")) for more in ("", ",width=32"))
    image = features(narrow.double(), (4, 5))
    maps = [F.normalize(head.prepare(image).maps[0].flatten(1), dim=0) for head in (whole.double(), narrow)]
    assert maps[1].shape == (32, 80)
    like, narrower = (units.T @ units for units in maps)
    assert torch.corrcoef(torch.stack([like.flatten(), narrower.flatten()]))[0, 1] > 0.7
    assert narrow.narrow.weight.requires_grad


def test_a_fine_cell_lies_where_its_pixels_are(tiny):
    """A bright patch moved by half a coarse cell moves the best fine cell by one."""
    model = SimSC(tiny("resnet"), head=SMALL, temperature="fixed:0.01").eval()
    image = model.encode(torch.rand(1, 3, 64, 96))
    assert image.map_size == (8, 12)
    cells = torch.tensor([[[3.0, 2.0], [8.0, 5.0]]])
    pixels = resize_points(cells, image.map_size, image.image_size)
    found = localize(model.score_maps(image, image, pixels), "argmax")
    torch.testing.assert_close(found, cells)


def test_a_temperature_per_cell_goes_to_the_cells_parts(tiny, features):
    head = build_head(SMALL, tiny("resnet")).double().eval()
    image = features(head, (3, 4))
    beta = torch.rand(2, 3, 4).double()
    fine = head.prepare(replace(image, beta=beta)).beta
    assert fine.shape == (2, 6, 8)
    torch.testing.assert_close(fine[:, 1::2, 1::2], beta)
    torch.testing.assert_close(fine[:, ::2, ::2], beta)


@pytest.mark.parametrize("trainable", ["none", "last-2", "all"])
def test_it_trains_wherever_the_trunk_ends(tiny, trainable):
    torch.manual_seed(0)
    model = SimSC(tiny("vit"), head=SMALL, trainable=trainable).train()
    state = model.trunk(torch.rand(2, 3, 64, 96))
    query = torch.tensor([[[10.0, 12.0], [50.0, 40.0]]])
    optimizer = torch.optim.Adam(model.parameter_groups(1e-3, 1e-3, 1e-3))
    losses = []
    for _ in range(8):
        images = model.encode_state(state, (64, 96))
        scores = model.score_maps(images.select(slice(0, 1)), images.select(slice(1, 2)), query)
        cells = resize_points(query, images.image_size, images.map_size)
        loss = gaussian_cross_entropy(scores, cells, torch.ones(1, 2, dtype=torch.bool)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_layers_of_other_sizes_are_refused(tiny):
    with pytest.raises(ConfigError, match="4 times the last map's size; allowed: 1 or 2 times"):
        build_head("upsampled:layers=1", tiny("resnet"))
