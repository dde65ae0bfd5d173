"""A model made ready to answer questions quickly."""

from __future__ import annotations

import copy

from simsc.models.inference import prepare_for_inference
from simsc.models.model import SimSC


def inference_copy(model: SimSC) -> SimSC:
    """A copy for inference: BatchNorm folded, evaluation mode, no gradients."""
    return prepare_for_inference(copy.deepcopy(model))
