"""Draw the pictures of this folder: two procedural scenes matched by an untuned ResNet-50.

Run from the project's folder: ``python docs/images/draw.py``; give a file of weights as the first argument, or the
default ones are used.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from simsc.coordinates import resize_points
from simsc.data.scenes import Scene, render_scene
from simsc.images import resize_image
from simsc.matching import localize, query_scores
from simsc.models import build_backbone
from simsc.pictures import draw_matches, draw_temperature_comparison, save_picture

FOLDER = Path(__file__).parent
INPUT = (256, 256)
TEMPERATURE = 0.03


def main(weights: str) -> None:
    """Match the two scenes and write the two pictures."""
    source, target = (render_scene("quadruped", index, split="test", size=512) for index in (1, 4))
    backbone = build_backbone("resnet50.v1_in1k", weights)
    maps = [encode(backbone, scene) for scene in (source, target)]
    shared = source.visible & target.visible
    queries, truth = source.points[shared], target.points[shared]
    cells = resize_points(torch.from_numpy(queries).float(), source.image.shape[:2], maps[0].shape[-2:])
    cosine = query_scores(maps[0], maps[1], cells[None])
    found = localize(cosine, "kernel-soft-argmax", TEMPERATURE)[0]
    found = resize_points(found.numpy(), maps[1].shape[-2:], target.image.shape[:2])
    matches = draw_matches(source.image, target.image, queries, found, truth=truth)
    save_picture(matches, FOLDER / "matches.png")
    maps_of_one = cosine[0, 0].numpy()
    comparison = draw_temperature_comparison(
        source.image, target.image, queries[0], maps_of_one, [1.0, 0.1, TEMPERATURE], truth=truth[0]
    )
    save_picture(comparison, FOLDER / "temperature.png")


@torch.no_grad()
def encode(backbone: torch.nn.Module, scene: Scene) -> torch.Tensor:
    """Feature map ``(1, C, h, w)`` of a scene."""
    return backbone(resize_image(scene.image, INPUT)[None])


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "default")
