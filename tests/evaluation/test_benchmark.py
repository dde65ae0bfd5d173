"""A model is evaluated as it was trained, whatever the protocol measures in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from simsc.errors import ConfigError
from simsc.evaluation.benchmark import evaluate_model
from simsc.evaluation.protocol import find_protocol
from simsc.evaluation.scoring import score
from simsc.matcher import Matcher
from simsc.models.model import SimSC
from simsc.models.trained import Trained


@pytest.fixture
def sizes(color_model: SimSC, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Sizes of the inputs that the network sees."""
    seen: list[tuple[int, int]] = []
    trunk = SimSC.trunk

    def watched(self: SimSC, images: torch.Tensor) -> tuple[torch.Tensor, ...]:
        seen.append((images.shape[2], images.shape[3]))
        return trunk(self, images)

    monkeypatch.setattr(SimSC, "trunk", watched)
    return seen


def test_the_input_is_the_models_own_and_distances_stay_in_the_protocols_frame(
    color_model: SimSC, tiny_root: Path, sizes: list[tuple[int, int]]
) -> None:
    trained = Trained.of(color_model).described(image_size=96)
    found = evaluate_model(trained, "pairs", tiny_root, "test", "paper-256")
    assert set(sizes) == {(96, 96)}
    assert (found.score.protocol, found.input_size) == ("paper-256", 96)
    assert {item.protocol for item in found.predictions} == {"paper-256"}
    again = score(found.predictions, find_protocol("paper-256"), found.score.threshold)
    assert found.score == again
    assert found.to_dict() == {
        "data": "pairs", "split": "test", "localizer": trained.localizer, "input_size": 96, **again.to_dict()
    }  # fmt: skip


@pytest.mark.parametrize(
    ("protocol", "size", "side"), [("paper-256@64", None, 64), ("geoaware@160", None, 160), ("paper-256", 128, 128)]
)
def test_a_side_that_was_asked_for_wins(
    color_model: SimSC, tiny_root: Path, sizes: list[tuple[int, int]], protocol: str, size: int | None, side: int
) -> None:
    trained = Trained.of(color_model).described(image_size=96)
    found = evaluate_model(trained, "pairs", tiny_root, "test", protocol, size=size)
    assert set(sizes) == {(side, side)}
    assert found.score.protocol == protocol


def test_localizer_and_temperature_are_the_models_unless_given(color_model: SimSC, tiny_root: Path) -> None:
    trained = Trained.of(color_model).described(localizer="argmax", beta_eval=40.0, image_size=64)
    own = evaluate_model(trained, "pairs", tiny_root, "test")
    assert own.localizer == "argmax"
    hot = evaluate_model(trained, "pairs", tiny_root, "test", temperature=0.2, localizer="soft-argmax")
    assert hot.score.temperature.mean == pytest.approx(0.2)
    sharp = evaluate_model(trained, "pairs", tiny_root, "test", beta_eval=1.0).predictions
    assert sharp[0].confidence.mean() > own.predictions[0].confidence.mean()
    fixed = evaluate_model(trained, "pairs", tiny_root, "test", temperature=0.005).predictions
    np.testing.assert_allclose(fixed[0].confidence, sharp[0].confidence, atol=1e-4)
    assert color_model.temperature_name == "fixed:0.005"  # nobody changed the model


def test_the_flipped_ensemble_is_that_of_the_matcher(color_model: SimSC, tiny_root: Path) -> None:
    from simsc.data.sources import load_pairs

    trained = Trained.of(color_model).described(image_size=64)
    ensemble = evaluate_model(trained, "pairs", tiny_root, "test", flip=True)
    assert ensemble.to_dict()["flip"]
    matcher = Matcher(trained, flip=True, device="cpu")
    for pair, found in zip(load_pairs("pairs", tiny_root, "test"), ensemble.predictions, strict=True):
        expected = matcher.match(pair.source.load(), pair.target.load(), pair.source_points)
        np.testing.assert_allclose(found.predicted, expected.points, atol=1e-3)
        np.testing.assert_allclose(found.confidence, expected.confidence, atol=1e-4)
    with pytest.raises(ConfigError, match="no flipped ensemble"):
        evaluate_model(trained, "pairs", tiny_root, "test", "dift@64", flip=True)


def test_several_processes_predict_the_same(color_model: SimSC, sizes: list[tuple[int, int]]) -> None:
    trained = Trained.of(color_model).described(image_size=64)
    alone = evaluate_model(trained, "scenes", split="test")
    assert len({item.category for item in alone.predictions}) > 2
    seen, steps = len(sizes), list[tuple[int, int]]()
    shared = evaluate_model(
        trained, "scenes", split="test", workers=2, progress=lambda done, total: steps.append((done, total))
    )
    assert len(sizes) == seen  # nothing was encoded here
    assert steps[-1] == (len(alone.predictions), len(alone.predictions))
    assert [item.pair for item in shared.predictions] == [item.pair for item in alone.predictions]
    for one, other in zip(shared.predictions, alone.predictions, strict=True):
        np.testing.assert_allclose(one.predicted, other.predicted, atol=1e-2)
    assert shared.score.per_image == alone.score.per_image
