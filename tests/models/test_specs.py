from __future__ import annotations

import subprocess
import sys
import types
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from simsc import registry
from simsc.errors import ConfigError
from simsc.models import specs
from simsc.models.specs import BACKBONES, find_backbone, list_backbones

ENTRIES = [spec for _, spec in BACKBONES.items()]


def test_holds_the_backbones_of_the_paper_and_of_today() -> None:
    paper = {"resnet50.tv_in1k", "resnet101.tv_in1k", "vit_base_patch8.dino", "vit_base_patch16.ibot"}
    today = {f"vit_{size}_patch14.dinov2{reg}" for size in ("small", "base", "large") for reg in ("", "_reg4")}
    today |= {"vit_small_patch16.dino", "vit_small_patch8.dino", "vit_base_patch16.dino"}
    today |= {"vit_small_patch16.dinov3", "vit_base_patch16.dinov3"}
    assert set(list_backbones()) == paper | today | {"resnet50.v1_in1k"}


def test_names_and_aliases_are_unique() -> None:
    names = [name for spec in ENTRIES for name in (spec.name, *spec.aliases)]
    assert len(names) == len(set(names))


def test_files_are_unique_so_that_downloads_do_not_collide() -> None:
    files = [file for spec in ENTRIES for file in spec.source.files]
    assert len(set(files)) == len(files)


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("resnet50", "resnet50.tv_in1k"),
        ("dino-vitb8", "vit_base_patch8.dino"),
        ("ibot-vitb16", "vit_base_patch16.ibot"),
        ("dinov2-small", "vit_small_patch14.dinov2"),
        ("dinov2-base-reg", "vit_base_patch14.dinov2_reg4"),
        ("dinov3-base", "vit_base_patch16.dinov3"),
    ],
)
def test_aliases(alias: str, name: str) -> None:
    assert find_backbone(alias) is find_backbone(name)


def test_patterns_match_names_and_aliases() -> None:
    assert list_backbones("resnet*") == ["resnet50.tv_in1k", "resnet50.v1_in1k", "resnet101.tv_in1k"]
    assert list_backbones("ibot-*") == ["vit_base_patch16.ibot"]
    assert list_backbones("nothing*") == []


@pytest.mark.parametrize("spec", ENTRIES, ids=lambda spec: spec.name)
def test_default_input_is_a_whole_number_of_cells(spec) -> None:
    assert spec.input_size % spec.stride == 0
    assert abs(spec.input_size - 256) < spec.stride


@pytest.mark.parametrize("spec", ENTRIES, ids=lambda spec: spec.name)
def test_checksums_are_hexadecimal(spec) -> None:
    for digits in spec.source.files.values():
        assert digits is None or len(digits) in (8, 64)
        int(digits or "0", 16)


def test_misspelt_name_suggests_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'resnet50'"):
        find_backbone("resnet5O")


def test_looking_up_names_imports_no_torch() -> None:
    code = "import simsc.models.specs as r, sys; r.find_backbone('resnet50'); print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


@pytest.mark.parametrize("spec", ENTRIES, ids=lambda spec: spec.name)
def test_the_documentation_states_the_same_facts(spec) -> None:
    text = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
    facts = (f"`{spec.name}`", f"`{spec.aliases[0]}`", spec.channels, spec.stride, spec.input_size, spec.licence)
    assert f"| {' | '.join(map(str, facts))} |" in text


def test_another_package_adds_a_backbone(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("their_package")
    module.spec = replace(find_backbone("resnet50"), name="theirs.edges", aliases=("edges",))
    monkeypatch.setitem(sys.modules, "their_package", module)
    point = EntryPoint("theirs.edges", "their_package:spec", "simsc.backbones")
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == point.group else [])
    plugged = registry.Registry("backbone", "simsc.backbones")
    for spec in ENTRIES:
        plugged.add(spec.name, spec)
    monkeypatch.setattr(specs, "BACKBONES", plugged)
    assert find_backbone("edges") is find_backbone("theirs.edges") is module.spec
    assert list_backbones("edges") == ["theirs.edges"]


def test_a_broken_package_does_not_hide_our_names(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("broken", "no.such.module:spec", "simsc.backbones")
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])
    plugged = registry.Registry("backbone", "simsc.backbones")
    for spec in ENTRIES:
        plugged.add(spec.name, spec)
    monkeypatch.setattr(specs, "BACKBONES", plugged)
    assert find_backbone("dinov3-base").name == "vit_base_patch16.dinov3"
    with pytest.raises(ConfigError, match=r"'broken' of no.such.module:spec cannot be loaded"):
        find_backbone("broken")
