from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor

from simsc.models.backbone import Backbone
from simsc.models.model import SimSC
from simsc.models.vit import attend
from simsc.models.weights import fill

TRANSFORMERS = ["vit", "dinov2", "dinov2-registers", "dinov3"]
GRIDS = [(4, 4), (2, 2), (3, 5), (6, 2)]
"""Native, smaller, not square."""

SMALL = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2}


def output(backbone: Backbone, images: Tensor) -> Tensor:
    return backbone.layers(images, [backbone.num_blocks])[0]


def library_model(family: str) -> torch.nn.Module:
    if family == "vit":
        config = transformers.ViTConfig(**SMALL, intermediate_size=64, image_size=64, layer_norm_eps=1e-6)
        return transformers.ViTModel(config, add_pooling_layer=False)
    if family == "dinov2":
        return transformers.Dinov2Model(transformers.Dinov2Config(**SMALL, image_size=56, mlp_ratio=2))
    if family == "dinov2-registers":
        config = transformers.Dinov2WithRegistersConfig(**SMALL, patch_size=14, image_size=56, mlp_ratio=2)
        return transformers.Dinov2WithRegistersModel(config)
    config = transformers.DINOv3ViTConfig(**SMALL, intermediate_size=64, num_register_tokens=4)
    return transformers.DINOv3ViTModel(config)


@pytest.mark.parametrize("family", TRANSFORMERS)
@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_equals_transformers(tiny: Callable[[str], Backbone], family: str, grid: tuple[int, int]) -> None:
    theirs, ours = library_model(family).eval(), tiny(family)
    for value in theirs.state_dict().values():
        value.copy_(torch.randn_like(value) / 5)
    fill(ours, theirs.state_dict(), "theirs")
    batch = torch.rand(2, 3, grid[0] * ours.stride, grid[1] * ours.stride)
    options = {"interpolate_pos_encoding": True} if family == "vit" else {}
    with torch.no_grad():
        tokens = theirs(ours.normalize(batch), **options).last_hidden_state[:, -grid[0] * grid[1] :]
        expected = tokens.transpose(1, 2).reshape(2, 32, *grid)
        torch.testing.assert_close(output(ours, batch), expected, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("family", TRANSFORMERS)
def test_names_are_the_authors(tiny: Callable[[str], Backbone], family: str) -> None:
    expected = ["cls_token", "patch_embed.proj.weight", "patch_embed.proj.bias", "norm.weight", "norm.bias"]
    expected += ["pos_embed"] if family != "dinov3" else []
    expected += ["register_tokens"] if family in ("dinov2-registers", "dinov3") else []
    layers = [f"{name}.{kind}" for name in ("norm1", "norm2", "attn.qkv", "attn.proj") for kind in ("weight", "bias")]
    layers += [f"mlp.{name}.{kind}" for name in ("fc1", "fc2") for kind in ("weight", "bias")]
    layers += ["ls1.gamma", "ls2.gamma"] if family != "vit" else []
    expected += [f"blocks.{block}.{name}" for block in range(3) for name in layers]
    assert sorted(tiny(family).state_dict()) == sorted(expected)


@pytest.mark.parametrize("family", TRANSFORMERS)
def test_training_mode_changes_nothing(tiny: Callable[[str], Backbone], family: str) -> None:
    backbone = tiny(family)
    batch = torch.rand(1, 3, 2 * backbone.stride, 3 * backbone.stride)
    torch.testing.assert_close(output(backbone.train(), batch), output(backbone.eval(), batch))


@pytest.mark.parametrize("family", TRANSFORMERS)
def test_final_norm_can_be_switched_off(tiny: Callable[[str], Backbone], family: str) -> None:
    backbone, plain = tiny(family), tiny(family)
    plain.final_norm = False
    batch = torch.rand(1, 3, 2 * backbone.stride, 3 * backbone.stride)
    tokens = output(plain, batch).flatten(2).transpose(1, 2)
    torch.testing.assert_close(backbone.norm(tokens).transpose(1, 2).unflatten(2, (2, 3)), output(backbone, batch))
    plain.tail_blocks = 1
    assert plain.norm not in plain.tail_modules()


def test_keys_of_dinov3_have_no_bias_even_after_training(tiny: Callable[[str], Backbone]) -> None:
    backbone = tiny("dinov3")
    model = SimSC(backbone, "fixed:0.05", "all").train()
    batch = torch.rand(1, 3, 32, 48)
    model.encode(batch).maps.square().sum().backward()
    gradient = backbone.blocks[0].attn.qkv.bias.grad
    queries, keys, values = gradient.chunk(3)
    assert queries.abs().sum() > 0
    assert values.abs().sum() > 0
    assert keys.abs().sum() == 0
    expected = output(backbone, batch)
    with torch.no_grad():
        backbone.blocks[0].attn.qkv.bias[32:64] = 9.0
    assert torch.equal(output(backbone, batch), expected)


def test_a_transformer_has_no_stages(tiny: Callable[[str], Backbone]) -> None:
    assert tiny("vit").stage_blocks() == 1


def test_attention_in_bfloat16_is_that_of_float32_with_its_gradients() -> None:
    generator = torch.Generator().manual_seed(0)
    parts = [torch.randn(3, 2, 37, 8, generator=generator) for _ in range(3)]
    exact = [part.clone().requires_grad_() for part in parts]
    reduced = [part.to(torch.bfloat16).requires_grad_() for part in parts]
    wanted, found = F.scaled_dot_product_attention(*exact), attend(*reduced)
    assert found.dtype == torch.bfloat16
    assert torch.allclose(found.float(), wanted, atol=0.02)
    seed = torch.randn(wanted.shape, generator=generator)
    wanted.backward(seed)
    found.backward(seed.to(torch.bfloat16))
    for there, here in zip(exact, reduced, strict=True):
        assert torch.allclose(here.grad.float(), there.grad, atol=0.03)
