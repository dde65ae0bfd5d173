from __future__ import annotations

import torch

from simsc.models.keymaps import to_our_keys, torchvision_resnet, unwrap

ONE = torch.ones(1)


def test_unwrap_prefers_the_teacher_and_its_backbone() -> None:
    checkpoint = {
        "student": {"module.backbone.norm.bias": ONE},
        "teacher": {"backbone.norm.bias": 2 * ONE, "head.last_layer.weight": ONE},
        "epoch": 3,
    }
    assert unwrap(checkpoint) == {"norm.bias": 2 * ONE}


def test_unwrap_removes_wrappers_in_any_order() -> None:
    checkpoint = {"state_dict": {"_orig_mod.module.backbone.norm.bias": ONE}}
    assert list(unwrap(checkpoint)) == ["norm.bias"]


def test_unwrap_ignores_what_is_not_a_tensor() -> None:
    assert list(unwrap({"norm.bias": ONE, "note": "text"})) == ["norm.bias"]


def test_resnet_parts_that_are_cut_off_are_dropped() -> None:
    assert torchvision_resnet("layer4.2.conv1.weight") is None
    assert torchvision_resnet("fc.bias") is None
    expected = "network.encoder.stages.1.layers.0.shortcut.normalization.running_var"
    assert torchvision_resnet("layer2.0.downsample.1.running_var") == expected
    assert torchvision_resnet("bn1.bias") == "network.embedder.embedder.normalization.bias"


def test_fused_projection_is_split_in_the_order_query_key_value() -> None:
    fused = torch.arange(6.0).view(6, 1)
    ours = to_our_keys({"blocks.7.attn.qkv.weight": fused}, "vit")
    place = "network.layers.7.attention"
    assert [key.removeprefix(place) for key in ours] == [".q_proj.weight", ".k_proj.weight", ".v_proj.weight"]
    assert [value.flatten().tolist() for value in ours.values()] == [[0, 1], [2, 3], [4, 5]]


def test_sharded_block_numbers() -> None:
    ours = to_our_keys({"blocks.2.7.ls1.gamma": ONE}, "dinov2")
    assert list(ours) == ["network.encoder.layer.7.layer_scale1.lambda1"]


def test_hub_models_that_are_used_whole_keep_their_names() -> None:
    assert list(to_our_keys({"stages.0.weight": ONE}, "convnext")) == ["network.stages.0.weight"]


def test_unknown_names_are_kept_so_that_loading_reports_them() -> None:
    ours = to_our_keys({"blocks.0.norm1.bias": ONE, "surprise": ONE}, "vit")
    assert "network.surprise" in ours
