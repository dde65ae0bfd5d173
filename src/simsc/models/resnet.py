"""ResNets (He et al., 2016) under torchvision's names, cut before the fourth stage."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn

from simsc.coordinates import Size
from simsc.models.backbone import Backbone, Tensors
from simsc.models.specs import BackboneSpec
from simsc.models.weights import authors_names

_UNUSED = re.compile(r"(layer4|fc|classifier|pooler)\..*")


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolution, added to the input.

    Args:
        inputs, outputs: channels; the inner ones are a quarter of the outputs.
        stride: of the block.
        v1: the stride is in the first 1x1 convolution, as first published, instead of the 3x3 one (v1.5).
    """

    def __init__(self, inputs: int, outputs: int, stride: int, v1: bool) -> None:
        super().__init__()
        width = outputs // 4
        # First, so that the optimiser's state of runs begun before stays in order.
        self.downsample = shortcut(inputs, outputs, stride)
        self.conv1, self.bn1 = convolution(inputs, width, 1, stride if v1 else 1), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = convolution(width, width, 3, 1 if v1 else stride), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = convolution(width, outputs, 1), nn.BatchNorm2d(outputs)

    def forward(self, state: Tensor) -> Tensor:
        """``(B, inputs, h, w)`` to ``(B, outputs, h / stride, w / stride)``; works in place on its own tensors only."""
        new = F.relu(self.bn1(self.conv1(state)), inplace=True)
        new = F.relu(self.bn2(self.conv2(new)), inplace=True)
        new = self.bn3(self.conv3(new))
        new += state if self.downsample is None else self.downsample(state)
        return F.relu(new, inplace=True)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions, added to the input: ResNet-18 and 34."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.downsample = shortcut(inputs, outputs, stride)
        self.conv1, self.bn1 = convolution(inputs, outputs, 3, stride), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = convolution(outputs, outputs, 3), nn.BatchNorm2d(outputs)

    def forward(self, state: Tensor) -> Tensor:
        """``(B, inputs, h, w)`` to ``(B, outputs, h / stride, w / stride)``; works in place on its own tensors only."""
        new = F.relu(self.bn1(self.conv1(state)), inplace=True)
        new = self.bn2(self.conv2(new))
        new += state if self.downsample is None else self.downsample(state)
        return F.relu(new, inplace=True)


class ResNet(Backbone):
    """Blocks are the residual blocks of all stages in order; the state is the feature map itself.

    Args:
        spec: the entry of the registry.
        depths: blocks of each stage; the first has the stem's stride 4, each further one doubles it.
        widths: channels of each stage.
        stem: channels of the first convolution.
        v1: see :class:`Bottleneck`.
        basic: build :class:`BasicBlock` instead of bottlenecks.
    """

    any_size = True

    def __init__(
        self,
        spec: BackboneSpec,
        depths: Sequence[int],
        widths: Sequence[int] = (256, 512, 1024),
        stem: int = 64,
        v1: bool = False,
        basic: bool = False,
    ) -> None:
        super().__init__(spec)
        self.conv1, self.bn1 = convolution(3, stem, 7, 2), nn.BatchNorm2d(stem)
        for number, (depth, (inputs, outputs)) in enumerate(zip(depths, pairwise((stem, *widths)), strict=True), 1):
            shapes = [(inputs, outputs, 1 if number == 1 else 2), *[(outputs, outputs, 1)] * (depth - 1)]
            blocks = [BasicBlock(*shape) if basic else Bottleneck(*shape, v1) for shape in shapes]
            self.add_module(f"layer{number}", nn.Sequential(*blocks))
        self._stages = [f"layer{number}" for number in range(1, len(depths) + 1)]

    @property
    def blocks(self) -> list[nn.Module]:
        """All residual blocks, first to last."""
        return [block for stage in self._stages for block in self.get_submodule(stage).children()]

    def embed(self, images: Tensor) -> Tensor:
        """The stem: 7x7 convolution and max-pooling, stride 4."""
        return F.max_pool2d(F.relu(self.bn1(self.conv1(images)), inplace=True), 3, 2, 1)

    def run_blocks(self, state: Tensor, start: int, stop: int, image_size: Size) -> Tensor:  # noqa: ARG002
        """Run residual blocks."""
        for block in self.blocks[start:stop]:
            state = block(state)
        return state

    def to_map(self, state: Tensor, image_size: Size, final: bool) -> Tensor:  # noqa: ARG002
        """The state is the map."""
        return state

    def tail_modules(self) -> list[nn.Module]:
        """The last ``tail_blocks`` residual blocks, and the stem if all is tail."""
        start = self.num_blocks - self.tail_blocks
        stem: list[nn.Module] = [self.conv1, self.bn1] if start < 0 else []
        return stem + self.blocks[max(start, 0) :]

    def stage_blocks(self) -> int:
        """Residual blocks of the last stage: 6 for ResNet-50, 23 for ResNet-101."""
        return len(list(self.get_submodule(self._stages[-1]).children()))

    def own_names(self, tensors: Tensors) -> Tensors:
        """Torchvision's names are ours; the fourth stage and the classifier are not used."""
        return {key: value for key, value in authors_names(tensors).items() if not _UNUSED.fullmatch(key)}


def convolution(inputs: int, outputs: int, side: int, stride: int = 1) -> nn.Conv2d:
    """A convolution that keeps the size up to its stride; BatchNorm follows it, so it has no bias."""
    layer = nn.Conv2d(inputs, outputs, side, stride, side // 2, bias=False)
    if not layer.weight.is_meta:  # drawing nothing would import PyTorch's compiler
        nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return layer


def shortcut(inputs: int, outputs: int, stride: int) -> nn.Sequential | None:
    """A projection where a block changes the shape, else None."""
    if stride == 1 and inputs == outputs:
        return None
    return nn.Sequential(convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))
