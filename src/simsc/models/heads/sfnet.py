"""SFNet: 2D convolutions that adapt the feature maps (Lee et al., CVPR 2019)."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor, nn

from simsc.errors import ConfigError
from simsc.matching.features import Features
from simsc.models.backbone import Backbone
from simsc.models.heads.plain import Plain


class SFNet(Plain):
    """Adds what two convolutions see around each cell to its feature; scores are the adapted maps' cosine similarities.

    Args:
        backbone: its last map is used.
        kernel: side of the convolutions, odd.
        hidden: channels between the two; 0 takes a quarter of the backbone's.
    """

    def __init__(self, backbone: Backbone, *, kernel: int = 5, hidden: int = 0) -> None:
        super().__init__(backbone)
        if kernel % 2 == 0 or kernel < 1:
            raise ConfigError(f"head 'sfnet': option kernel = {kernel} is not allowed; expected an odd number")
        channels = backbone.channels
        hidden = hidden or max(channels // 4, 1)
        last = nn.Conv2d(hidden, channels, kernel, padding=kernel // 2)
        nn.init.zeros_(last.weight)  # training starts from the backbone's own features
        nn.init.zeros_(last.bias)  # type: ignore[arg-type]
        self.adaptation = nn.Sequential(
            nn.Conv2d(channels, hidden, kernel, padding=kernel // 2, bias=False),  # the norm shifts anyway
            nn.BatchNorm2d(hidden),
            nn.ReLU(),
            last,
        )

    def prepare(self, features: Features) -> Features:
        """The map adapted by the convolutions; the temperature stays that of the backbone's map."""
        return replace(features, maps=self.adapt(features.maps))

    def adapt(self, maps: Tensor) -> Tensor:
        """Maps ``(B, C, h, w)`` to maps of the same shape."""
        adapted: Tensor = self.adaptation(maps)
        return maps + adapted
