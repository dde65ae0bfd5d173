"""Draw one query at three temperatures, in two procedural scenes, with the packaged ResNet-50.

Run from the project's folder: ``python docs/images/draw.py``; a model's name or path may be given.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

import simsc
from simsc.coordinates import resize_points
from simsc.images import resize_image
from simsc.matching.scores import query_scores
from simsc.models import QUICK
from simsc.models.trained import Trained
from simsc.pictures import draw_temperature_comparison, save_picture
from simsc.scenes import render_scene

FOLDER = Path(__file__).parent
INPUT = (256, 256)


def main(model: str) -> None:
    """Match the two scenes and write the picture."""
    source, target = (render_scene("quadruped", index, split="test", size=512) for index in (1, 4))
    shared = source.visible & target.visible
    queries, truth = source.points[shared], target.points[shared]
    matcher = simsc.load(model)
    found = matcher.match(source.image, target.image, queries)

    network = Trained.open(model).network
    features = [_features(network, scene.image) for scene in (source, target)]
    cell = resize_points(torch.from_numpy(queries[:1]).float(), source.image.shape[:2], features[0].shape[-2:])
    cosine = query_scores(features[0], features[1], cell[None])[0, 0].numpy()
    betas = [1.0, 0.1, round(found.temperature, 3)]
    comparison = draw_temperature_comparison(source.image, target.image, queries[0], cosine, betas, truth=truth[0])
    save_picture(comparison, FOLDER / "temperature.png")


@torch.no_grad()
def _features(network: torch.nn.Module, image: object) -> torch.Tensor:
    return network.encode(resize_image(image, INPUT)[None]).maps


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else QUICK)
