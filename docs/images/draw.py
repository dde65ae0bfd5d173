"""Draw one query at three temperatures, in two photographs, with the packaged ResNet-50.

Run from the project's folder: ``python docs/images/draw.py``; a model's name or path may be given.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

import simsc
from simsc.coordinates import resize_points
from simsc.data.records import pair_of
from simsc.data.sources import load_objects
from simsc.images import resize_image
from simsc.matching.scores import query_scores
from simsc.models import QUICK
from simsc.models.trained import Trained
from simsc.pictures import draw_temperature_comparison, save_picture

FOLDER = Path(__file__).parent
PHOTOS = FOLDER.parents[1] / "examples" / "photos"
SOURCE, TARGET, POINT = "donkey", "horse", "nose"
INPUT = (256, 256)


def main(model: str) -> None:
    """Match the point of two photographs and write the picture."""
    animals = {one.image.path.stem: one for one in load_objects("coco", PHOTOS / "keypoints.json")}
    pair = pair_of(animals[SOURCE], animals[TARGET])
    place = pair.point_names.index(POINT)
    query, truth = pair.source_points[[place]], pair.target_points[place]
    source, target = pair.source.load(), pair.target.load()
    found = simsc.load(model).match(source, target, query)

    network = Trained.open(model).network
    features = [_features(network, image) for image in (source, target)]
    cell = resize_points(torch.from_numpy(query).float(), source.shape[:2], features[0].shape[-2:])
    cosine = query_scores(features[0], features[1], cell[None])[0, 0].numpy()
    betas = [1.0, 0.1, round(found.temperature, 3)]
    comparison = draw_temperature_comparison(source, target, query[0], cosine, betas, truth=truth)
    save_picture(comparison, FOLDER / "temperature.png")


@torch.no_grad()
def _features(network: torch.nn.Module, image: object) -> torch.Tensor:
    return network.encode(resize_image(image, INPUT)[None]).maps


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else QUICK)
