from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsc.errors import WeightsError
from simsc.models.calibration import Calibration, fit_logistic, sigmoid, terms


def small(**changes: object) -> Calibration:
    values = {
        "center": (0.0, 1.0),
        "scale": (1.0, 2.0),
        "right": (0.0, 1.0, 0.0, 0.0, 0.0, 0.0),
        "present": (0.0, 0.0, 1.0, 0.0, 0.0, 0.0),
        "sure": 0.7,
        "none": 0.4,
    }
    return Calibration(**{**values, **changes})  # type: ignore[arg-type]


def test_probabilities_are_logistic_in_the_standardised_signals() -> None:
    right, present = small().probabilities(np.array([[2.0, 5.0], [-1.0, 1.0]]))
    np.testing.assert_allclose(right, 1 / (1 + np.exp([-2.0, 1.0])))
    np.testing.assert_allclose(present, 1 / (1 + np.exp([-2.0, 0.0])))


def test_a_sure_match_is_never_called_none_and_a_hopeless_one_always() -> None:
    status = small().status(np.array([0.8, 0.5, 0.5, 0.8, 0.09]), np.array([0.9, 0.9, 0.1, 0.1, 0.9]))
    assert status.tolist() == ["sure", "unsure", "none", "sure", "none"]


def test_far_signals_stay_finite_and_bounded() -> None:
    right, _ = small().probabilities(np.array([[1e9, -1e9]]))
    np.testing.assert_allclose(right, sigmoid(np.array([4.0])))


def test_it_survives_json() -> None:
    one = small(fitted_on="spair val")
    assert Calibration.from_dict(json.loads(json.dumps(one.to_dict()))) == one


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("right", [1.0, 2.0], "expected 6 weights for 2 signals"),
        ("center", "ab", "'center' must be a list of finite numbers"),
        ("sure", None, "'sure' must be a finite number"),
        ("scale", [1.0, float("nan")], "'scale' must be a list of finite numbers"),
        ("scale", [1.0, 0.0], "as many widths above 0"),
        ("center", [0.0] * 100_000, "at most 64"),
    ],
)
def test_a_damaged_one_is_refused(key: str, value: object, message: str) -> None:
    with pytest.raises(WeightsError, match=message):
        Calibration.from_dict({**small().to_dict(), key: value}, "model.safetensors")


def test_the_fit_finds_the_weights_that_made_the_labels() -> None:
    chance = np.random.default_rng(0)
    design = terms(chance.normal(size=(40_000, 2)))
    truth = np.array([-0.5, 1.5, -1.0, 0.3, 0.0, -0.4])
    labels = (chance.random(len(design)) < sigmoid(design @ truth)).astype(float)
    found = fit_logistic(design, labels, np.ones(len(design)))
    np.testing.assert_allclose(found, truth, atol=0.08)


def test_examples_count_by_their_weight() -> None:
    design = np.ones((4, 1))
    labels = np.array([1.0, 0.0, 0.0, 0.0])
    found = fit_logistic(design, labels, np.array([3.0, 1.0, 1.0, 1.0]))
    assert sigmoid(found)[0] == pytest.approx(0.5, abs=1e-4)


@given(st.floats(-700, 700))
def test_the_sigmoid_never_overflows(value: float) -> None:
    with np.errstate(all="raise", under="ignore"):
        assert 0 <= sigmoid(np.array([value]))[0] <= 1


def test_signals_of_another_kind_of_model_are_refused() -> None:
    one = Calibration((0.0, 0.0), (1.0, 1.0), (0.0,) * 6, (0.0,) * 6, 0.9, 0.1)
    assert one.probabilities(np.zeros((3, 2)))[0].tolist() == [0.5, 0.5, 0.5]
    with pytest.raises(WeightsError, match=r"2 signals .* have 5; fit it again"):
        one.probabilities(np.zeros((3, 5)))
