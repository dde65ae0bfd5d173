"""Voting heads on real photographs, with real weights."""

from __future__ import annotations

import pytest
import torch

from simsc.coordinates import resize_points
from simsc.data.sources import load_pairs
from simsc.errors import SimscError
from simsc.evaluation.pck import correct_points, pck
from simsc.images import resize_image
from simsc.matching.localize import localize
from simsc.models.backbone import build_backbone
from simsc.models.model import SimSC

SIZE = (256, 256)
TEMPERATURES = {"none": "fixed:0.03", "hpf": "fixed:0.05", "scot": "fixed:0.05"}


def mean_pck(model: SimSC, pairs: list) -> float:
    rates = []
    for pair in pairs:
        image = model.encode(torch.stack([resize_image(ref.load(), SIZE) for ref in (pair.source, pair.target)]))
        query = resize_points(torch.as_tensor(pair.source_points).float(), pair.source.size, SIZE)[None]
        truth = resize_points(torch.as_tensor(pair.target_points).float(), pair.target.size, SIZE)[None]
        scores = model.score_maps(image.select(slice(0, 1)), image.select(slice(1, 2)), query)
        found = resize_points(localize(scores), image.map_size, SIZE)
        mask = torch.ones(truth.shape[:2], dtype=torch.bool)
        rates.append(pck(correct_points(found, truth, mask, torch.tensor([256.0]), [0.1]), mask))
    return torch.cat(rates).mean().item()


@pytest.mark.real_data
@torch.no_grad()
def test_voting_is_better_than_the_last_layer_alone():
    try:
        pairs = load_pairs("pfpascal", None, "val")[::40]
        backbone = build_backbone("resnet50.v1_in1k")
    except SimscError as error:
        pytest.skip(f"real data or weights are absent: {error}")
    result = {
        head: mean_pck(SimSC(backbone, temperature, "none", head=head).eval(), pairs)
        for head, temperature in TEMPERATURES.items()
    }
    assert result["hpf"] > result["none"] + 0.05, result
    assert result["scot"] > result["none"] + 0.05, result
