from __future__ import annotations

import argparse
import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from simsc.errors import DownloadError, WeightsError
from simsc.files import shared_folder
from simsc.models.backbone import Backbone, build_backbone, from_spec
from simsc.models.registry import Source, find_backbone
from simsc.models.weights import fetch_weights, find_weights, load_weights, weights_path

TRANSFORMERS = ["vit", "dinov2", "dinov2-registers", "dinov3"]


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIMSC_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SIMSC_SHARED", str(tmp_path / "shared"))


def original_names(backbone: Backbone) -> dict[str, Tensor]:
    """The weights of a transformer as its authors' file has them, written down independently of the loader."""
    network, kind = backbone.network, backbone.spec.family
    named = {"cls_token": network.embeddings.cls_token, "mask_token": torch.zeros(1, backbone.channels)}
    patches = network.embeddings.patch_embeddings
    keep(named, "patch_embed.proj", patches if kind == "dinov3_vit" else patches.projection)
    if kind == "dinov3_vit":
        named["storage_tokens"] = network.embeddings.register_tokens
        named["rope_embed.periods"] = torch.zeros(4)
    else:
        named["pos_embed"] = network.embeddings.position_embeddings
    if kind == "dinov2_with_registers":
        named["register_tokens"] = network.embeddings.register_tokens
    for i, block in enumerate(backbone.blocks):
        name_block(named, f"blocks.{i}", block, kind)
    keep(named, "norm", backbone.norm)
    return {key: value.detach().clone() for key, value in named.items()}


def name_block(named: dict[str, Tensor], place: str, block, kind: str) -> None:
    plain = kind == "vit"
    keep(named, f"{place}.norm1", block.layernorm_before if plain else block.norm1)
    keep(named, f"{place}.norm2", block.layernorm_after if plain else block.norm2)
    q, k, v = block.attention.q_proj, block.attention.k_proj, block.attention.v_proj
    named[f"{place}.attn.qkv.weight"] = torch.cat([q.weight, k.weight, v.weight])
    key_bias = torch.full_like(q.bias, 7.0) if k.bias is None else k.bias
    named[f"{place}.attn.qkv.bias"] = torch.cat([q.bias, key_bias, v.bias])
    if k.bias is None:
        named[f"{place}.attn.qkv.bias_mask"] = torch.ones(len(named[f"{place}.attn.qkv.bias"]))
    keep(named, f"{place}.attn.proj", block.attention.o_proj)
    gated = kind == "dinov3_vit"
    keep(named, f"{place}.mlp.fc1", block.mlp.up_proj if gated else block.mlp.fc1)
    keep(named, f"{place}.mlp.fc2", block.mlp.down_proj if gated else block.mlp.fc2)
    if not plain:
        named[f"{place}.ls1.gamma"] = block.layer_scale1.lambda1
        named[f"{place}.ls2.gamma"] = block.layer_scale2.lambda1


def keep(named: dict[str, Tensor], name: str, module: torch.nn.Module) -> None:
    named.update({f"{name}.{key}": value for key, value in module.named_parameters()})


def assert_same(first: Backbone, second: Backbone) -> None:
    own, other = first.state_dict(), second.state_dict()
    assert own.keys() == other.keys()
    for key in own:
        if not key.endswith("num_batches_tracked"):
            assert torch.equal(own[key], other[key]), key


@pytest.mark.parametrize("family", ["resnet", "resnet-v1"])
def test_torchvision_file(tiny, torchvision_names, tmp_path: Path, family: str) -> None:
    source, target = tiny(family), tiny(family, seed=1)
    extra = {"fc.weight": torch.zeros(10, 64), "layer4.0.conv1.weight": torch.zeros(4, 4, 1, 1)}
    torch.save({**torchvision_names(source), **extra}, tmp_path / "resnet.pth")
    load_weights(target, tmp_path / "resnet.pth")
    assert_same(source, target)


@pytest.mark.parametrize("family", TRANSFORMERS)
def test_original_file(tiny, tmp_path: Path, family: str) -> None:
    source, target = tiny(family), tiny(family, seed=1)
    torch.save(original_names(source), tmp_path / "original.pth")
    load_weights(target, tmp_path / "original.pth")
    assert_same(source, target)


def test_checkpoint_of_a_whole_training_run(tiny, tmp_path: Path) -> None:
    """As iBOT and DINO save it: student and teacher with heads, wrapped, beside the options of the run."""
    source, target = tiny("vit"), tiny("vit", seed=1)
    teacher = {f"backbone.{key}": value for key, value in original_names(source).items()}
    teacher |= {"backbone.masked_embed": torch.zeros(1, 32), "head.mlp.0.weight": torch.zeros(2, 2)}
    student = {f"module.{key}": torch.zeros_like(value) for key, value in teacher.items()}
    checkpoint = {"student": student, "teacher": teacher, "epoch": 1, "args": argparse.Namespace(lr=0.1)}
    torch.save(checkpoint, tmp_path / "checkpoint.pth")
    load_weights(target, tmp_path / "checkpoint.pth")
    assert_same(source, target)


def test_own_state_dict_as_safetensors(tiny, tmp_path: Path, family: str) -> None:
    source, target = tiny(family), tiny(family, seed=1)
    save_file(source.state_dict(), tmp_path / "own.safetensors")
    load_weights(target, tmp_path / "own.safetensors")
    assert_same(source, target)


def test_old_names_of_the_hub(tiny, tmp_path: Path) -> None:
    source, target = tiny("vit"), tiny("vit", seed=1)
    old = {"attention.q_proj": "attention.attention.query", "attention.k_proj": "attention.attention.key"}
    old |= {"attention.v_proj": "attention.attention.value", "attention.o_proj": "attention.output.dense"}
    old |= {"mlp.fc1": "intermediate.dense", "mlp.fc2": "output.dense", "layers.": "encoder.layer."}
    tensors = {"pooler.dense.bias": torch.zeros(32)}
    for key, value in source.state_dict().items():
        name = key.removeprefix("network.")
        for new, former in old.items():
            name = name.replace(new, former)
        tensors[f"vit.{name}"] = value
    save_file(tensors, tmp_path / "model.safetensors")
    load_weights(target, tmp_path / "model.safetensors")
    assert_same(source, target)


def test_misfit_names_every_kind_of_fault(tiny, torchvision_names, tmp_path: Path) -> None:
    backbone = tiny("resnet")
    tensors = torchvision_names(backbone)
    del tensors["bn1.bias"]
    tensors["surprise"] = torch.zeros(1)
    tensors["conv1.weight"] = torch.zeros(4, 3, 7, 7)
    torch.save(tensors, tmp_path / "bad.pth")
    with pytest.raises(WeightsError) as caught:
        load_weights(backbone, tmp_path / "bad.pth")
    message = str(caught.value)
    assert "bad.pth does not fit resnet50.tv_in1k" in message
    assert "1 keys missing: network.embedder.embedder.normalization.bias" in message
    assert "1 keys unexpected: surprise" in message
    assert "(4, 3, 7, 7) instead of (8, 3, 7, 7)" in message


def test_a_misfit_changes_nothing(tiny, tmp_path: Path) -> None:
    backbone = tiny("vit")
    before = {key: value.clone() for key, value in backbone.state_dict().items()}
    tensors = original_names(tiny("vit", seed=1))
    del tensors["norm.bias"]
    torch.save(tensors, tmp_path / "bad.pth")
    with pytest.raises(WeightsError, match="1 keys missing"):
        load_weights(backbone, tmp_path / "bad.pth")
    assert all(torch.equal(before[key], value) for key, value in backbone.state_dict().items())


class Trap:
    def __reduce__(self):
        return os.mkdir, ("executed",)


def test_code_in_a_file_is_never_executed(tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"conv1.weight": Trap()}, tmp_path / "evil.pth")
    with pytest.raises(WeightsError, match="Python objects besides tensors"):
        load_weights(tiny("resnet"), tmp_path / "evil.pth")
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("name", ["a.safetensors", "a.pth"])
def test_damaged_and_missing_files(tiny, tmp_path: Path, name: str) -> None:
    with pytest.raises(WeightsError, match=rf"{name}: no such file"):
        load_weights(tiny("resnet"), tmp_path / name)
    (tmp_path / name).write_bytes(b"not weights at all")
    with pytest.raises(WeightsError, match=name):
        load_weights(tiny("resnet"), tmp_path / name)


def test_unknown_layout_shows_its_keys(tiny, tmp_path: Path) -> None:
    torch.save({"alpha": torch.zeros(1)}, tmp_path / "a.pth")
    with pytest.raises(WeightsError, match=r"no known layout.*alpha"):
        load_weights(tiny("resnet"), tmp_path / "a.pth")


def test_download_goes_to_the_cache_and_is_verified(tiny, torchvision_names, tmp_path: Path) -> None:
    backbone = tiny("resnet")
    torch.save(torchvision_names(backbone), tmp_path / "there.pth")
    digest = hashlib.sha256((tmp_path / "there.pth").read_bytes()).hexdigest()
    source = Source("here.pth", url=(tmp_path / "there.pth").as_uri(), sha256=digest[:8])
    target = from_spec(replace(backbone.spec, source=source))
    load_weights(target)
    assert_same(backbone, target)
    assert find_weights(target.spec) == tmp_path / "home" / "weights" / "here.pth"


def test_damaged_cached_file_is_refused(tmp_path: Path) -> None:
    spec = find_backbone("resnet50")
    weights_path(spec).parent.mkdir(parents=True)
    weights_path(spec).write_bytes(b"damaged")
    with pytest.raises(WeightsError, match=r"is damaged: its SHA-256 is .* expected 0676ba61"):
        fetch_weights(spec)


def test_shared_folder_is_searched_too(tmp_path: Path) -> None:
    spec = find_backbone("ibot-vitb16")
    assert find_weights(spec) is None
    place = tmp_path / "shared" / "weights" / spec.source.file
    place.parent.mkdir(parents=True)
    place.write_bytes(b"")
    assert find_weights(spec) == place


def test_without_an_address_the_error_says_where_the_file_belongs() -> None:
    spec = find_backbone("dinov3-small")
    with pytest.raises(WeightsError) as caught:
        fetch_weights(spec)
    assert str(weights_path(spec)) in str(caught.value)
    assert "https://huggingface.co/facebook/dinov3-vits16" in str(caught.value)


def test_offline_the_error_has_address_and_path() -> None:
    spec = replace(find_backbone("resnet50"), source=Source("a.pth", url="http://nowhere.invalid/a.pth"))
    with pytest.raises(DownloadError) as caught:
        fetch_weights(spec, progress=False)
    assert "http://nowhere.invalid/a.pth" in str(caught.value)
    assert str(weights_path(spec)) in str(caught.value)


@pytest.mark.real_data
def test_real_resnet50_v1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SIMSC_SHARED")
    path = shared_folder() / "weights" / find_backbone("resnet50.v1_in1k").source.file
    if not path.is_file():
        pytest.skip(f"{path} is absent")
    backbone = build_backbone("resnet50.v1_in1k")
    # Features of real weights on a ramp: finite, sparse after the ReLU, and alive in most channels.
    ramp = torch.linspace(0, 1, 128).expand(1, 3, 128, 128)
    with torch.no_grad():
        features = backbone(ramp)
    assert features.shape == (1, 1024, 8, 8)
    assert features.isfinite().all()
    assert features.min() == 0
    assert (features.amax((0, 2, 3)) > 0).float().mean() > 0.5
