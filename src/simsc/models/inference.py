"""A model made faster for inference, with the same results."""

from __future__ import annotations

import torch

from simsc.models.folding import fold_batchnorm
from simsc.models.model import SimSC


def prepare_for_inference(model: SimSC) -> SimSC:
    """Fold batch normalisation into the convolutions and lay weights out channels last; changes ``model``.

    The weights then have other names: do not train or save the model afterwards.
    """
    trainable = model.trainable
    model.backbone = fold_batchnorm(model.backbone)
    model.set_trainable(trainable)
    model.backbone.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model.eval().requires_grad_(False)
