"""ResNets of ``transformers``, cut before the fourth stage."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from simsc.coordinates import Size
from simsc.models.backbone import Backbone
from simsc.models.registry import BackboneSpec


class ResNet(Backbone):
    """Blocks are the bottlenecks of all stages in order; the state is the feature map itself."""

    def __init__(self, spec: BackboneSpec, network: nn.Module) -> None:
        super().__init__(spec)
        self.network: Any = network

    @property
    def blocks(self) -> list[nn.Module]:
        """All bottlenecks, first to last."""
        return [block for stage in self.network.encoder.stages for block in stage.layers]

    def embed(self, images: Tensor) -> Tensor:
        """The stem: 7x7 convolution and max-pooling, stride 4."""
        return self.network.embedder(images)

    def run_blocks(self, state: Tensor, start: int, stop: int, image_size: Size) -> Tensor:  # noqa: ARG002
        """Run bottlenecks; they add in place, but only to tensors they made themselves."""
        for block in self.blocks[start:stop]:
            state = block(state)
        return state

    def to_map(self, state: Tensor, image_size: Size, final: bool) -> Tensor:  # noqa: ARG002
        """The state is the map."""
        return state

    def tail_modules(self) -> list[nn.Module]:
        """The last ``tail_blocks`` bottlenecks, and the stem if all is tail."""
        start = self.num_blocks - self.tail_blocks
        stem: list[nn.Module] = [self.network.embedder] if start < 0 else []
        return stem + self.blocks[max(start, 0) :]

    def stage_blocks(self) -> int:
        """Bottlenecks of the last stage: 6 for ResNet-50, 23 for ResNet-101."""
        return len(self.network.encoder.stages[-1].layers)

    def grid_size(self, image_size: Size) -> Size:
        """Every strided layer rounds up, so partial cells at the border count."""
        return -(-image_size[0] // self.stride), -(-image_size[1] // self.stride)


def build_resnet(spec: BackboneSpec) -> ResNet:
    """A randomly initialised ResNet of the registry."""
    from transformers import ResNetBackbone, ResNetConfig

    # The configuration holds only the stages we use, so no layer is built, loaded or trained in vain.
    return ResNet(spec, ResNetBackbone(ResNetConfig(**spec.settings)))
