"""Vision transformers under their authors' names: DINO, iBOT, DINOv2 with and without registers, DINOv3."""

from __future__ import annotations

import math
import re

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simsc.coordinates import Size
from simsc.models.backbone import Backbone, Tensors
from simsc.models.specs import BackboneSpec
from simsc.models.weights import authors_names

Rotation = tuple[Tensor, Tensor]
"""Cosines and sines ``(h * w, channels of a head)`` of DINOv3's rotary positions."""

_UNUSED = re.compile(
    r"(head|pooler|classifier|dino_head|ibot_head|rope_embed|rope_embeddings|fc_norm)\..*"
    r"|(.*\.)?(mask_token|masked_embed|bias_mask)"
)


class Projection(nn.Linear):
    """Queries, keys and values in one layer ``(..., C)`` -> ``(..., 3 * C)``; ``key_bias`` False masks the keys' bias.

    Softmax would cancel a keys' bias, but not one that is rotated by its position: DINOv3 has none.
    """

    def __init__(self, width: int, key_bias: bool) -> None:
        super().__init__(width, 3 * width)
        self.key_bias = key_bias

    def forward(self, state: Tensor) -> Tensor:
        """Apply the layer."""
        if self.key_bias:
            return F.linear(state, self.weight, self.bias)
        queries, keys, values = self.bias.chunk(3)
        return F.linear(state, self.weight, torch.cat([queries, torch.zeros_like(keys), values]))


class Attention(nn.Module):
    """Multi-head self-attention."""

    def __init__(self, width: int, heads: int, key_bias: bool) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = Projection(width, key_bias)
        self.proj = nn.Linear(width, width)

    def forward(self, state: Tensor, rotation: Rotation | None) -> Tensor:
        """Tokens ``(B, N, C)`` to ``(B, N, C)``."""
        projected: Tensor = self.qkv(state)
        batch, count, width = state.shape
        parts = projected.reshape(batch, count, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        queries, keys = parts[:2] if rotation is None else rotate(parts[:2], rotation)
        mixed = attend(queries, keys, parts[2])
        result: Tensor = self.proj(mixed.transpose(1, 2).flatten(2))
        return result


def attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Scaled dot-product attention of tokens ``(B, heads, N, D)``, the same shape.

    PyTorch's fused kernel gains nothing from a processor's bfloat16 instructions; its plain products do, and image by
    image what lies between them stays in the cache: less than half the time, a third with gradients.
    """
    if queries.device.type != "cpu" or queries.dtype != torch.bfloat16:
        return F.scaled_dot_product_attention(queries, keys, values)
    images = zip(queries * queries.shape[-1] ** -0.5, keys, values, strict=True)
    return torch.stack([(query @ key.transpose(-1, -2)).softmax(dim=-1) @ value for query, key, value in images])


class Perceptron(nn.Module):
    """The block's second half: two layers with a GELU between them."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, state: Tensor) -> Tensor:
        """Tokens ``(B, N, C)`` to ``(B, N, C)``."""
        result: Tensor = self.fc2(F.gelu(self.fc1(state)))
        return result


class LayerScale(nn.Module):
    """A learned factor per channel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width))

    def forward(self, state: Tensor) -> Tensor:
        """Tokens ``(B, N, C)`` to ``(B, N, C)``."""
        return state * self.gamma


class Block(nn.Module):
    """Attention, then the perceptron, each on normalised tokens and added to its input."""

    def __init__(self, width: int, heads: int, hidden: int, epsilon: float, layer_scale: bool, key_bias: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, epsilon), nn.LayerNorm(width, epsilon)
        self.attn, self.mlp = Attention(width, heads, key_bias), Perceptron(width, hidden)
        self.ls1, self.ls2 = (LayerScale(width) if layer_scale else nn.Identity() for _ in range(2))

    def forward(self, state: Tensor, rotation: Rotation | None = None) -> Tensor:
        """Tokens ``(B, N, C)`` to ``(B, N, C)``."""
        attended: Tensor = self.attn(self.norm1(state), rotation)
        state = state + self.ls1(attended)
        mapped: Tensor = self.ls2(self.mlp(self.norm2(state)))
        return state + mapped


class PatchEmbedding(nn.Module):
    """Non-overlapping patches ``(B, 3, H, W)`` to tokens ``(B, h * w, C)``."""

    def __init__(self, width: int, patch: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(3, width, patch, patch)

    def forward(self, images: Tensor) -> Tensor:
        """One token per patch, row by row."""
        patches: Tensor = self.proj(images)
        return patches.flatten(2).transpose(1, 2)


class VisionTransformer(Backbone):
    """The state is the token sequence ``(B, prefix + h * w, C)``; prefix is the CLS token and the registers.

    Args:
        spec: the entry of the registry; its channels, stride and blocks are width, patch size and depth.
        heads: of the attention.
        positions: side of the grid of learned position embeddings; 0 for none.
        rotary: rotate queries and keys by their position (DINOv3).
        registers: further tokens besides the CLS token.
        layer_scale: a learned factor per channel after each half of a block.
        antialias: when position embeddings are made smaller, as DINOv2 with registers does.
        key_bias: see :class:`Projection`.
        epsilon: of the LayerNorms.
        hidden: width inside the perceptrons; None for four times the width.
        rotary_base: ratio of the longest to the shortest period of the rotation.
    """

    def __init__(
        self,
        spec: BackboneSpec,
        heads: int,
        positions: int = 0,
        *,
        rotary: bool = False,
        registers: int = 0,
        layer_scale: bool = False,
        antialias: bool = False,
        key_bias: bool = True,
        epsilon: float = 1e-6,
        hidden: int | None = None,
        rotary_base: float = 100.0,
    ) -> None:
        super().__init__(spec)
        width = spec.channels
        self.heads, self.prefix, self.antialias = heads, 1 + registers, antialias
        self.rotary, self.rotary_base = rotary, rotary_base
        self.patch_embed = PatchEmbedding(width, spec.stride)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.register_tokens = nn.Parameter(torch.zeros(1, registers, width)) if registers else None
        self.pos_embed = nn.Parameter(torch.zeros(1, 1 + positions**2, width)) if positions else None
        layout = (width, heads, hidden or 4 * width, epsilon, layer_scale, key_bias)
        self.blocks = nn.ModuleList(Block(*layout) for _ in range(spec.blocks))
        self.norm = nn.LayerNorm(width, epsilon)
        if not self.cls_token.is_meta:  # drawing nothing would import PyTorch's compiler
            self._initialize()

    def embed(self, images: Tensor) -> Tensor:
        """Patches, CLS token and registers, with position embeddings interpolated to the image's grid."""
        patches = self.patch_embed(images)
        count = images.shape[0]  # `len` would fix the batch size of an exported graph
        first = self.cls_token.expand(count, -1, -1)
        if self.pos_embed is not None:
            grid = self.grid_size((images.shape[2], images.shape[3]))
            first, patches = first + self.pos_embed[:, :1], patches + self._positions(self.pos_embed[:, 1:], grid)
        registers = [] if self.register_tokens is None else [self.register_tokens.expand(count, -1, -1)]
        return torch.cat([first, *registers, patches], dim=1)

    def run_blocks(self, state: Tensor, start: int, stop: int, image_size: Size) -> Tensor:
        """Run transformer blocks."""
        rotation = self._rotation(image_size, state) if self.rotary and start < stop else None
        for block in self.blocks[start:stop]:
            state = block(state, rotation)
        return state

    def to_map(self, state: Tensor, image_size: Size, final: bool) -> Tensor:
        """The patch tokens as a grid; the final norm only after the last block."""
        if final and self.final_norm:
            state = self.norm(state)
        patches = state[:, self.prefix :].transpose(1, 2)
        return patches.reshape(state.shape[0], self.channels, *self.grid_size(image_size))

    def tail_modules(self) -> list[nn.Module]:
        """The last ``tail_blocks`` blocks and the final norm, and the embedding if all is tail."""
        if self.tail_blocks == 0:
            return []
        start = self.num_blocks - self.tail_blocks
        last = [self.norm] if self.final_norm else []
        return [*(self._embedding() if start < 0 else []), *self.blocks[max(start, 0) :], *last]

    def stage_blocks(self) -> int:
        """A transformer has no stages."""
        return 1

    def own_names(self, tensors: Tensors) -> Tensors:
        """The authors' names are ours, but for DINOv3's registers and the numbers of sharded training's chunks."""
        tensors = authors_names(tensors)
        names = {key: re.sub(r"^blocks\.\d+\.(\d+)\.", r"blocks.\1.", key) for key in tensors}
        names = {key: "register_tokens" if name == "storage_tokens" else name for key, name in names.items()}
        kept = {name: tensors[key] for key, name in names.items() if not _UNUSED.fullmatch(name)}
        return {name: value for name, value in kept.items() if value.numel()}  # the hub stores even no registers

    def _embedding(self) -> list[nn.Module]:
        """What comes before the blocks; tokens are parameters of the backbone itself, and a list is a module."""
        tokens = [token for token in (self.cls_token, self.register_tokens, self.pos_embed) if token is not None]
        return [self.patch_embed, nn.ParameterList(tokens)]

    def _positions(self, learned: Tensor, grid: Size) -> Tensor:
        """Position embeddings ``(1, s * s, C)`` for a grid ``(h, w)``: ``(1, h * w, C)``."""
        side = math.isqrt(learned.shape[1])
        if grid == (side, side):
            return learned
        image = learned.reshape(1, side, side, self.channels).permute(0, 3, 1, 2).float()
        resized = F.interpolate(image, grid, mode="bicubic", align_corners=False, antialias=self.antialias)
        return resized.flatten(2).transpose(1, 2).to(learned.dtype)

    def _rotation(self, image_size: Size, like: Tensor) -> Rotation:
        """Rotations by the patches' centres, whose coordinates run from -1 to 1 on each side."""
        axes = [(torch.arange(count, device=like.device) + 0.5) / count * 2 - 1 for count in self.grid_size(image_size)]
        centres = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).flatten(0, 1)  # (h * w, 2) yx
        quarter = self.channels // self.heads // 4
        periods = self.rotary_base ** (torch.arange(quarter, device=like.device) / quarter)
        angles = (2 * math.pi * centres[:, :, None] / periods).flatten(1).tile(2)
        return angles.cos().to(like.dtype), angles.sin().to(like.dtype)

    def _initialize(self) -> None:
        """Random weights as these networks are trained from: truncated normal of width 0.02."""
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Conv2d):
                nn.init.trunc_normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        for token in (self.cls_token, self.register_tokens, self.pos_embed):
            if token is not None:
                nn.init.trunc_normal_(token, std=0.02)


def rotate(vectors: Tensor, rotation: Rotation) -> Tensor:
    """Rotate the vectors ``(..., N, c)`` of the patch tokens, the last ones; the prefix stays as it is."""
    cosines, sines = rotation
    count = vectors.shape[-2] - len(cosines)
    prefix, patches = vectors[..., :count, :], vectors[..., count:, :]
    first, second = patches.chunk(2, dim=-1)
    turned = patches * cosines + torch.cat([-second, first], dim=-1) * sines
    return torch.cat([prefix, turned], dim=-2)
