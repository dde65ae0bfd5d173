"""A model made faster for inference, with the same results."""

from __future__ import annotations

import re

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from simsc.models.backbone import Backbone
from simsc.models.model import SimSC


def prepare_for_inference(model: SimSC, precision: torch.dtype | None = None) -> SimSC:
    """Fold batch normalisation into the convolutions and lay weights out channels last; changes ``model``.

    The weights then have other names: do not train or save the model afterwards. With a ``precision`` below float32,
    backbone and head compute products and convolutions in it; features and temperatures stay float32.
    """
    if model.prepared:
        return model
    model.prepared = True
    fold_batchnorm(model.backbone)
    model.backbone.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    model.precision = precision
    if precision is not None:
        for part in (model.backbone, model.head):
            for module in part.modules():
                if isinstance(module, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
                    module.to(precision)  # once, instead of in every forward pass
    return model.eval().requires_grad_(False)


def fold_batchnorm(backbone: Backbone) -> Backbone:
    """Put every batch normalisation into the convolution before it, in place; a network without any stays as it is.

    Only valid with frozen statistics, so the backbone is in evaluation mode afterwards. Its state dict has other keys:
    fold after loading weights.
    """
    backbone.eval()
    for module in list(backbone.modules()):
        for name, child in list(module.named_children()):
            # conv1, bn1 of a block, and 0, 1 of a shortcut.
            convolution = getattr(module, re.sub("bn", "conv", name) if name.startswith("bn") else "0", None)
            if isinstance(child, nn.BatchNorm2d) and isinstance(convolution, nn.Conv2d):
                _fold(convolution, child)
                setattr(module, name, nn.Identity())
    return backbone


def _fold(convolution: nn.Conv2d, norm: nn.BatchNorm2d) -> None:
    assert norm.running_mean is not None
    assert norm.running_var is not None
    convolution.weight, convolution.bias = fuse_conv_bn_weights(
        convolution.weight, convolution.bias, norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias
    )
