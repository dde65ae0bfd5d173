"""Batch normalisation folded into the convolution before it: the same function, with fewer operations."""

from __future__ import annotations

import copy

from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from simsc.models.backbone import Backbone


def fold_batchnorm(backbone: Backbone) -> Backbone:
    """A copy of the backbone for inference, in evaluation mode, without batch normalisation.

    Only valid with frozen statistics; a backbone without batch normalisation is copied as it is. The copy's
    state dict has other keys, so fold after loading weights.
    """
    folded = copy.deepcopy(backbone).eval()
    for module in folded.modules():
        convolution = getattr(module, "convolution", None)
        normalization = getattr(module, "normalization", None)
        if isinstance(convolution, nn.Conv2d) and isinstance(normalization, nn.BatchNorm2d):
            module.convolution = fuse_conv_bn_eval(convolution, normalization)
            module.normalization = nn.Identity()
    return folded
