from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from simsc.errors import DownloadError, WeightsError
from simsc.files import shared_folder
from simsc.models.backbone import Backbone, build_backbone, from_spec, unset
from simsc.models.specs import Source, find_backbone
from simsc.models.weights import fetch_weights, find_weights, load_weights, modern_names, read_tensors, weights_path

TRANSFORMERS = ["vit", "dinov2", "dinov2-registers", "dinov3"]


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIMSC_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SIMSC_SHARED", str(tmp_path / "shared"))


def original_file(backbone: Backbone) -> dict[str, Tensor]:
    """The weights of a transformer with what else its authors' file holds."""
    named = {key: value.clone() for key, value in backbone.state_dict().items()}
    named["mask_token"] = torch.zeros(1, backbone.channels)
    if "dinov3" in backbone.spec.name:
        named["storage_tokens"] = named.pop("register_tokens")
        named["rope_embed.periods"] = torch.zeros(4)
        for block in range(backbone.num_blocks):
            named[f"blocks.{block}.attn.qkv.bias_mask"] = torch.ones(3 * backbone.channels)
    return named


def assert_same(first: Backbone, second: Backbone) -> None:
    own, other = first.state_dict(), second.state_dict()
    assert own.keys() == other.keys()
    for key in own:
        if not key.endswith("num_batches_tracked"):
            assert torch.equal(own[key], other[key]), key


@pytest.mark.parametrize("family", ["resnet", "resnet-v1"])
def test_torchvision_file(tiny, tmp_path: Path, family: str) -> None:
    source, target = tiny(family), tiny(family, seed=1)
    extra = {"fc.weight": torch.zeros(10, 64), "layer4.0.conv1.weight": torch.zeros(4, 4, 1, 1)}
    torch.save({**source.state_dict(), **extra}, tmp_path / "resnet.pth")
    load_weights(target, tmp_path / "resnet.pth")
    assert_same(source, target)


@pytest.mark.parametrize("family", TRANSFORMERS)
def test_original_file(tiny, tmp_path: Path, family: str) -> None:
    source, target = tiny(family), tiny(family, seed=1)
    torch.save(original_file(source), tmp_path / "original.pth")
    load_weights(target, tmp_path / "original.pth")
    assert_same(source, target)


def test_checkpoint_of_a_whole_training_run(tiny, tmp_path: Path) -> None:
    """As iBOT and DINO save it: student and teacher with heads, wrapped, beside the options of the run."""
    source, target = tiny("vit"), tiny("vit", seed=1)
    teacher = {f"backbone.{key}": value for key, value in original_file(source).items()}
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


OLD_NAMES = {
    "embeddings.cls_token": "cls_token",
    "embeddings.position_embeddings": "pos_embed",
    "embeddings.patch_embeddings.projection.weight": "patch_embed.proj.weight",
    "embeddings.patch_embeddings.projection.bias": "patch_embed.proj.bias",
    "layernorm.weight": "norm.weight",
    "layernorm.bias": "norm.bias",
}
OLD_BLOCK = {
    "layernorm_before": "norm1",
    "layernorm_after": "norm2",
    "attention.output.dense": "attn.proj",
    "intermediate.dense": "mlp.fc1",
    "output.dense": "mlp.fc2",
}


def hub_file(backbone: Backbone) -> dict[str, Tensor]:
    """A plain ViT as older files of the hub have it, written down independently of the loader."""
    own = backbone.state_dict()
    tensors = {f"vit.{old}": own[new] for old, new in OLD_NAMES.items()} | {"pooler.dense.bias": torch.zeros(32)}
    for block in range(backbone.num_blocks):
        place = f"vit.encoder.layer.{block}"
        for kind in ("weight", "bias"):
            for old, new in OLD_BLOCK.items():
                tensors[f"{place}.{old}.{kind}"] = own[f"blocks.{block}.{new}.{kind}"]
            parts = own[f"blocks.{block}.attn.qkv.{kind}"].chunk(3)
            for name, part in zip(("query", "key", "value"), parts, strict=True):
                tensors[f"{place}.attention.attention.{name}.{kind}"] = part.clone()
    return tensors


def test_old_names_of_the_hub(tiny, tmp_path: Path) -> None:
    source, target = tiny("vit"), tiny("vit", seed=1)
    save_file(hub_file(source), tmp_path / "model.safetensors")
    load_weights(target, tmp_path / "model.safetensors")
    assert_same(source, target)


def test_a_missing_projection_is_not_made_up(tiny, tmp_path: Path) -> None:
    tensors = hub_file(tiny("vit"))
    del tensors["vit.encoder.layer.1.attention.attention.value.weight"]
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(WeightsError, match=r"1 keys missing: blocks.1.attn.qkv.weight"):
        load_weights(tiny("vit"), tmp_path / "model.safetensors")


def test_numbers_of_chunks_are_dropped(tiny, tmp_path: Path) -> None:
    source, target = tiny("dinov2"), tiny("dinov2", seed=1)
    tensors = {key.replace("blocks.", "blocks.0."): value for key, value in original_file(source).items()}
    torch.save(tensors, tmp_path / "sharded.pth")
    load_weights(target, tmp_path / "sharded.pth")
    assert_same(source, target)


def test_half_precision_and_counters_are_optional(tiny, tmp_path: Path) -> None:
    """As trunks are kept: kernels in half precision, statistics in full, no count of batches."""
    source, spec = tiny("resnet"), tiny("resnet").spec
    for value in source.state_dict().values():
        if value.ndim > 1:
            value.copy_(value.half())
    kept = {key: value for key, value in source.state_dict().items() if not key.endswith("num_batches_tracked")}
    save_file({k: v.half() if v.ndim > 1 else v for k, v in kept.items()}, tmp_path / "trunk.safetensors")
    target = unset(spec)
    load_weights(target, tmp_path / "trunk.safetensors")
    assert_same(source, target)
    assert all(value.dtype == torch.float32 for value in target.parameters())
    assert not any(value.is_meta for value in target.state_dict().values())


def test_names_of_older_model_files_are_modern_after_reading(tiny) -> None:
    own = tiny("vit").state_dict()
    old = {f"backbone.network.{key.removeprefix('vit.')}": value for key, value in hub_file(tiny("vit")).items()}
    old = {key: value for key, value in old.items() if "pooler" not in key} | {"temperature.weight": torch.ones(1)}
    found = modern_names(old, {f"backbone.{key}" for key in own})
    assert found.keys() == {"temperature.weight", *(f"backbone.{key}" for key in own)}
    assert all(torch.equal(found[f"backbone.{key}"], value) for key, value in own.items())
    assert modern_names(found, ()) is found
    assert modern_names(old, set(old)) is old  # a network of the hub that is used whole has these names itself


def test_misfit_names_every_kind_of_fault(tiny, tmp_path: Path) -> None:
    backbone = tiny("resnet")
    tensors = dict(backbone.state_dict())
    del tensors["bn1.bias"]
    tensors["surprise"] = torch.zeros(1)
    tensors["conv1.weight"] = torch.zeros(4, 3, 7, 7)
    torch.save(tensors, tmp_path / "bad.pth")
    with pytest.raises(WeightsError) as caught:
        load_weights(backbone, tmp_path / "bad.pth")
    message = str(caught.value)
    assert "bad.pth does not fit resnet50.tv_in1k" in message
    assert "1 keys missing: bn1.bias" in message
    assert "1 keys unexpected: surprise" in message
    assert "(4, 3, 7, 7) instead of (8, 3, 7, 7)" in message


def test_a_misfit_changes_nothing(tiny, tmp_path: Path) -> None:
    backbone = tiny("vit")
    before = {key: value.clone() for key, value in backbone.state_dict().items()}
    tensors = original_file(tiny("vit", seed=1))
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


def test_unknown_names_are_shown(tiny, tmp_path: Path) -> None:
    torch.save({"alpha": torch.zeros(1)}, tmp_path / "a.pth")
    with pytest.raises(WeightsError, match=r"a.pth does not fit resnet50.tv_in1k.*1 keys unexpected: alpha"):
        load_weights(tiny("resnet"), tmp_path / "a.pth")


def test_download_goes_to_the_cache_and_is_verified(tiny, tmp_path: Path) -> None:
    backbone = tiny("resnet")
    torch.save(backbone.state_dict(), tmp_path / "there.pth")
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


def test_other_names_of_the_file_are_found_and_verified(tmp_path: Path) -> None:
    content = b"the same weights"
    digest = hashlib.sha256(content).hexdigest()
    spec = replace(find_backbone("resnet50"), source=Source("a.pth", sha256="0000", others={"b.safetensors": digest}))
    place = tmp_path / "shared" / "weights" / "b.safetensors"
    place.parent.mkdir(parents=True)
    place.write_bytes(content)
    assert fetch_weights(spec) == place
    place.write_bytes(b"others")
    with pytest.raises(WeightsError, match="is damaged"):
        fetch_weights(spec)
    weights_path(spec).parent.mkdir(parents=True)
    weights_path(spec).write_bytes(b"")
    assert find_weights(spec) == weights_path(spec)


@pytest.mark.parametrize("file", ["dinov2_vits14_pretrain.pth", "dinov2_vits14.safetensors"])
def test_a_file_put_into_the_weights_folder_is_found(file: str) -> None:
    spec = find_backbone("dinov2-small")
    place = weights_path(spec).with_name(file)
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
@pytest.mark.parametrize("name", ["resnet50.tv_in1k", "resnet50.v1_in1k"])
def test_real_resnet50(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SIMSC_SHARED")
    if find_weights(find_backbone(name)) is None:
        pytest.skip(f"the weights of {name} are absent from {shared_folder() / 'weights'}")
    backbone = build_backbone(name)
    # Features of real weights on a ramp: finite, sparse after the ReLU, and alive in most channels.
    ramp = torch.linspace(0, 1, 128).expand(1, 3, 128, 128)
    with torch.no_grad():
        features = backbone.layers(ramp, [backbone.num_blocks])[0]
    assert features.shape == (1, 1024, 8, 8)
    assert features.isfinite().all()
    assert features.min() == 0
    assert (features.amax((0, 2, 3)) > 0).float().mean() > 0.5


def test_whatever_a_weights_file_holds_is_tensors_or_a_sentence(tmp_path: Path) -> None:
    inside_itself: dict[str, object] = {}
    inside_itself["model"] = inside_itself
    cases: list[object] = [torch.zeros(2), [1, 2], {1: torch.zeros(1)}, inside_itself, {"a": torch.eye(2).to_sparse()}]
    for number, value in enumerate(cases):
        torch.save(value, tmp_path / f"{number}.pth")
        with contextlib.suppress(WeightsError):
            assert read_tensors(tmp_path / f"{number}.pth") == {}
    content, damage = bytearray((tmp_path / "0.pth").read_bytes()), random.Random(7)
    for _ in range(200):
        broken = bytearray(content)
        for _ in range(damage.choice((1, 5, 50))):
            broken[damage.randrange(len(broken))] = damage.randrange(256)
        (tmp_path / "x.pth").write_bytes(broken[: damage.randrange(1, len(broken) + 1)])
        with pytest.raises(WeightsError) as caught:
            read_tensors(tmp_path / "x.pth")
        assert "\n" not in str(caught.value)


def test_weights_have_to_be_finite(tmp_path: Path) -> None:
    torch.save({"a": torch.tensor([1.0, float("inf")])}, tmp_path / "x.pth")
    with pytest.raises(WeightsError, match="'a' are not all finite"):
        read_tensors(tmp_path / "x.pth")
