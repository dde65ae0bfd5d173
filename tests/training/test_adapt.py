"""A trained model adapted to one's own few photographs."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from simsc.data.records import Annotated, ImageRef
from simsc.errors import DataError
from simsc.models.trained import Trained
from simsc.training.adapt import FEW, adapt, adapt_objects, hold_out
from simsc.training.trainer import Trainer


def objects(count, points=8, category="cat"):
    """The same picture again and again: a start that sees anything matches it well."""
    generator = np.random.default_rng(0)
    picture = generator.integers(0, 256, (8, 8, 3), np.uint8).repeat(32, 0).repeat(32, 1)
    places = generator.uniform(32, 224, (points, 2))
    return [
        Annotated(
            f"{category}{index}",
            category,
            ImageRef(f"{category}/{index}", (256, 256), render=lambda: picture),
            places,
            np.ones(points, bool),
            np.array([16.0, 16.0, 240.0, 240.0]),
        )
        for index in range(count)
    ]


def test_photographs_are_held_out_and_measured_as_targets_of_the_others():
    split = hold_out(objects(8), seed=0)
    trained_on = {one.image.key for one in split.train}
    assert len(trained_on) == 6
    assert {pair.source.key for pair in split.validation} == trained_on
    assert not {pair.target.key for pair in split.validation} & trained_on
    assert split.held_out == "2 photographs"


@pytest.mark.parametrize("count", [2, FEW - 1])
def test_of_few_photographs_key_points_are_held_out(count):
    split = hold_out(objects(count), seed=0)
    assert len(split.train) == count
    learned = {name for one in split.train for name in np.flatnonzero(one.present).tolist()}
    measured = {int(name) for pair in split.validation for name in pair.point_names}
    assert len(learned) == 6
    assert measured == set(range(8)) - learned


def test_one_photograph_is_not_enough():
    with pytest.raises(DataError, match="two photographs"):
        hold_out([*objects(1), *objects(1, category="dog")], seed=0)


def test_the_start_is_kept_where_nothing_is_gained(tmp_path, monkeypatch):

    def worse(self, *_):
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.mul_(0)
        self.batch, self.step = self.batch + 1, self.step + 1

    monkeypatch.setattr(Trainer, "_train_step", worse)
    monkeypatch.setattr(Trainer, "_log", lambda self: None)
    result = adapt_objects(objects(3), tmp_path / "out", epochs=1, device="cpu")
    assert not result.gained
    assert result.before == result.after
    kept, begun = (Trained.open(path).network.state_dict() for path in (tmp_path / "out", None))
    for name, tensor in begun.items():
        torch.testing.assert_close(kept[name], tensor, rtol=0, atol=0)


def test_doubtful_points_of_a_transfer_are_not_learned(coco_root, tmp_path):
    from simsc.data.catalog import DATASETS
    from simsc.training.adapt import without_doubt

    path = coco_root / "train.json" if (coco_root / "train.json").exists() else next(coco_root.glob("*.json"))
    document = json.loads(path.read_text())
    annotation = next(each for each in document["annotations"] if sum(v > 0 for v in each["keypoints"][2::3]) > 1)
    first = next(i for i, v in enumerate(annotation["keypoints"][2::3]) if v > 0)
    annotation["keypoints"][3 * first + 2] = 1
    other = path.with_name("doubt.json")
    other.write_text(json.dumps(document))
    read = lambda: {one.name: one for one in without_doubt(DATASETS["coco"].objects(other, "test"), other)}  # noqa: E731
    assert read()[str(annotation["id"])].present[first]  # a hidden point that a person has placed
    annotation["keypoint_scores"] = [0.5] * (len(annotation["keypoints"]) // 3)
    other.write_text(json.dumps(document))
    assert not read()[str(annotation["id"])].present[first]


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DataError, match=r"no\.json"):
        adapt(tmp_path / "no.json", tmp_path / "out")
