"""How the keys of original checkpoints map to those of our networks."""

from __future__ import annotations

import re
from collections.abc import Callable

# The fourth stage and the classifier are cut off on purpose.
_RESNET_UNUSED = re.compile(r"^(layer4|fc)\.")


def torchvision_resnet(key: str) -> str | None:
    """Our key for one of torchvision's ResNet; None for the parts we cut off.

    >>> torchvision_resnet("layer3.5.bn2.weight")
    'network.encoder.stages.2.layers.5.layer.1.normalization.weight'
    """
    if _RESNET_UNUSED.match(key):
        return None
    if match := re.fullmatch(r"layer(\d)\.(\d+)\.(conv|bn)(\d)\.(\w+)", key):
        stage, block, kind, number, name = match.groups()
        place = f"{_block(stage, block)}.layer.{int(number) - 1}"
        return f"{place}.{'convolution' if kind == 'conv' else 'normalization'}.{name}"
    if match := re.fullmatch(r"layer(\d)\.(\d+)\.downsample\.([01])\.(\w+)", key):
        stage, block, kind, name = match.groups()
        return f"{_block(stage, block)}.shortcut.{'convolution' if kind == '0' else 'normalization'}.{name}"
    if match := re.fullmatch(r"(conv|bn)1\.(\w+)", key):
        kind, name = match.groups()
        return f"network.embedder.embedder.{'convolution' if kind == 'conv' else 'normalization'}.{name}"
    return key


def _block(stage: str, block: str) -> str:
    return f"network.encoder.stages.{int(stage) - 1}.layers.{block}"


KEY_MAPS: dict[str, Callable[[str], str | None]] = {
    "torchvision": torchvision_resnet,
}
