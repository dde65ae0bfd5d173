"""A backbone: features that depend on nothing but the mean colour of a cell."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simsc.models.backbone import Backbone
from simsc.models.specs import BackboneSpec


class Colors(Backbone):
    """Random waves of the mean colour of 8x8 pixels."""

    def __init__(self, spec: BackboneSpec) -> None:
        super().__init__(spec)
        generator = torch.Generator().manual_seed(0)
        self.waves = nn.Parameter(2 * torch.randn(spec.channels, 3, 1, 1, generator=generator))
        self.phases = nn.Parameter(6 * torch.rand(spec.channels, generator=generator))

    def embed(self, images: Tensor) -> Tensor:
        """Normalised images ``(B, 3, H, W)`` to ``(B, C, h, w)``."""
        return torch.sin(F.conv2d(F.avg_pool2d(images, self.stride), self.waves, self.phases))

    def run_blocks(self, state: Tensor, start: int, stop: int, image_size: tuple[int, int]) -> Tensor:
        """There are no blocks, so there is nothing to train."""
        return state

    def to_map(self, state: Tensor, image_size: tuple[int, int], final: bool) -> Tensor:
        """The state is a map already."""
        return state

    def tail_modules(self) -> list[nn.Module]:
        """Modules that learn when the tail is trained: none."""
        return []

    def stage_blocks(self) -> int:
        """Blocks of the last stage."""
        return 1


COLORS = BackboneSpec(
    name="colors.example", channels=64, stride=8, blocks=0, licence="Apache-2.0", build=Colors, input_size=128
)
