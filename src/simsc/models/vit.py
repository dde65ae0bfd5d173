"""Vision transformers of ``transformers``: ViT (DINO, iBOT), DINOv2 with and without registers, DINOv3."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from simsc.coordinates import Size
from simsc.errors import ConfigError
from simsc.models.backbone import Backbone
from simsc.models.registry import BackboneSpec


class VisionTransformer(Backbone):
    """The state is the token sequence ``(B, prefix + h * w, C)``; prefix is the CLS token and the registers.

    Args:
        spec: the entry of the registry.
        network: a model of ``transformers`` with ``embeddings``, blocks and a final norm.
        final_norm: apply that norm to the output of the last block.
    """

    def __init__(self, spec: BackboneSpec, network: Any, final_norm: bool = True) -> None:
        super().__init__(spec)
        self.network = network
        self.final_norm = final_norm
        self.prefix = 1 + getattr(self.network.config, "num_register_tokens", 0)
        # Only masked pre-training reads it; a parameter without gradient would stall distributed training.
        network.embeddings.mask_token = None

    @property
    def blocks(self) -> list[nn.Module]:
        """All transformer blocks, first to last."""
        return list(self.network.encoder.layer)

    @property
    def norm(self) -> nn.Module:
        """The final LayerNorm."""
        return self.network.layernorm

    def embed(self, images: Tensor) -> Tensor:
        """Patches, CLS token and registers, with position embeddings interpolated to the image's grid."""
        return self.network.embeddings(images)

    def run_blocks(self, state: Tensor, start: int, stop: int, image_size: Size) -> Tensor:
        """Run transformer blocks."""
        context = self.context(state, image_size) if start < stop else {}
        for block in self.blocks[start:stop]:
            state = block(state, **context)
        return state

    def context(self, state: Tensor, image_size: Size) -> dict[str, Any]:  # noqa: ARG002
        """Further arguments of every block."""
        return {}

    def to_map(self, state: Tensor, image_size: Size, final: bool) -> Tensor:
        """The patch tokens as a grid; the final norm only after the last block."""
        if final and self.final_norm:
            state = self.norm(state)
        return state[:, self.prefix :].transpose(1, 2).unflatten(2, self.grid_size(image_size))

    def tail_modules(self) -> list[nn.Module]:
        """The last ``tail_blocks`` blocks and the final norm, and the embedding if all is tail."""
        if self.tail_blocks == 0:
            return []
        start = self.num_blocks - self.tail_blocks
        first: list[nn.Module] = [self.network.embeddings] if start < 0 else []
        return first + self.blocks[max(start, 0) :] + ([self.norm] if self.final_norm else [])

    def stage_blocks(self) -> int:
        """A transformer has no stages."""
        return 1

    def grid_size(self, image_size: Size) -> Size:
        """One cell per patch."""
        return image_size[0] // self.stride, image_size[1] // self.stride

    def check_size(self, image_size: Size) -> None:
        """Patches must cover the image exactly: a cut-off border would shift every coordinate."""
        if any(side % self.stride or side < self.stride for side in image_size):
            fit = self.fit_size(image_size)
            raise ConfigError(
                f"{self.spec.name} takes images whose sides are multiples of {self.stride}, not "
                f"{image_size[0]}x{image_size[1]}; resize to {fit[0]}x{fit[1]} (height x width)"
            )

    def fit_size(self, image_size: Size) -> Size:
        """The nearest multiples of the patch size, at least one patch."""
        height, width = (max(round(side / self.stride), 1) * self.stride for side in image_size)
        return height, width


class PlainViT(VisionTransformer):
    """The original ViT, as in DINO and iBOT."""

    @property
    def blocks(self) -> list[nn.Module]:
        """All transformer blocks, first to last."""
        return list(self.network.layers)

    def embed(self, images: Tensor) -> Tensor:
        """Patches and CLS token; this model interpolates positions only when told to."""
        return self.network.embeddings(images, interpolate_pos_encoding=True)


class DINOv3(VisionTransformer):
    """DINOv3: rotary position embeddings, computed for the image's grid and given to every block."""

    def __init__(self, spec: BackboneSpec, network: Any, final_norm: bool = True) -> None:
        super().__init__(spec, network, final_norm)
        # In training mode the rotation would be jittered anew at every call: trunk and tail would disagree.
        config = self.network.rope_embeddings.config
        config.pos_embed_shift = config.pos_embed_jitter = config.pos_embed_rescale = None

    @property
    def blocks(self) -> list[nn.Module]:
        """All transformer blocks, first to last."""
        return list(self.network.model.layer)

    @property
    def norm(self) -> nn.Module:
        """The final LayerNorm."""
        return self.network.norm

    def context(self, state: Tensor, image_size: Size) -> dict[str, Any]:
        """Cosines and sines of the rotation, which depend on nothing but the image's size."""
        # The module asks an image only for its size, type and device: one without memory will do.
        blank = torch.empty(1, 1, 1, 1, dtype=state.dtype, device=state.device).expand(1, 1, *image_size)
        return {"position_embeddings": self.network.rope_embeddings(blank)}


WRAPPERS: dict[str, type[VisionTransformer]] = {
    "vit": PlainViT,
    "dinov2": VisionTransformer,
    "dinov2_with_registers": VisionTransformer,
    "dinov3_vit": DINOv3,
}


def build_vit(spec: BackboneSpec, final_norm: bool = True) -> VisionTransformer:
    """A randomly initialised transformer of the registry."""
    import transformers

    network: Any
    if spec.family == "vit":
        network = transformers.ViTModel(transformers.ViTConfig(**spec.settings), add_pooling_layer=False)
    elif spec.family == "dinov2":
        network = transformers.Dinov2Backbone(transformers.Dinov2Config(**spec.settings))
    elif spec.family == "dinov2_with_registers":
        config = transformers.Dinov2WithRegistersConfig(**spec.settings)
        network = transformers.Dinov2WithRegistersBackbone(config)
    else:
        network = transformers.DINOv3ViTBackbone(transformers.DINOv3ViTConfig(**spec.settings))
    return WRAPPERS[spec.family](spec, network, final_norm)
