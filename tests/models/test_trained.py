"""Trained models: opened by name, file or folder, written, continued and averaged."""

from __future__ import annotations

import json
import random
import shutil
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from simsc.cli import app
from simsc.errors import ConfigError, WeightsError
from simsc.models import DEFAULT, QUICK, card, trained
from simsc.models.card import Best, Card, find_model, packaged_models
from simsc.models.trained import Trained, average, build_model, fingerprint

CONFIG = {
    "backbone": "resnet50",
    "weights": None,
    "temperature": "single",
    "localizer": "argmax",
    "beta_eval": 0.5,
    "image_size": 128,
    "data": "pfpascal",
}


@pytest.fixture(scope="module")
def model() -> Trained:
    return Trained.begin({**CONFIG, "seed": 1})


@pytest.fixture(scope="module")
def model_file(model: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trained") / "own.safetensors"
    model.described(best=Best(pck=50.0, epoch=2, val={"0.1": 50.0})).save(path)
    return path


def weights_of(one: Trained) -> dict[str, torch.Tensor]:
    return one.network.state_dict()


def equal(one: Trained, other: Trained) -> bool:
    return all(torch.equal(value, weights_of(other)[name]) for name, value in weights_of(one).items())


# Files


def test_a_model_comes_back_as_it_was(model: Trained, model_file: Path) -> None:
    again = Trained.open(model_file)
    assert equal(model, again)
    assert not again.network.training
    assert (again.localizer, again.beta_eval, again.image_size, again.protocol) == ("argmax", 0.5, 128, "paper-256")
    assert again.card.best == Best(50.0, 2, {"0.1": 50.0})
    assert again.card.training["data"] == "pfpascal"
    assert again.card.origin == fingerprint(model.network.backbone)


def test_an_older_file_without_the_newer_entries_opens(model_file: Path, tmp_path: Path) -> None:
    description = '{"backbone": "resnet50", "temperature": "single", "note": 3}'
    save_file(load_file(model_file), tmp_path / "old.safetensors", metadata={"simsc": description})
    old = Trained.open(tmp_path / "old.safetensors")
    assert (old.localizer, old.beta_eval, old.image_size, old.card.origin) == ("kernel-soft-argmax", 1.0, 256, "")
    assert old.card.training == {"note": 3}
    assert old.card.to_dict().keys() >= {"note", "backbone", "temperature"}
    assert not {"origin", "calibration", "image_size", "best"} & old.card.to_dict().keys()


def test_half_precision_keeps_statistics_that_float16_cannot_hold(model: Trained, tmp_path: Path) -> None:
    name, variance = next(item for item in model.network.named_buffers() if item[0].endswith("running_var"))
    variance.fill_(90_000.0)
    model.save(tmp_path / "half.safetensors", half=True)
    variance.fill_(1.0)
    stored = load_file(tmp_path / "half.safetensors")
    assert stored[name].max() == 90_000.0
    assert all(value.isfinite().all() for value in stored.values())
    assert any(value.dtype == torch.float16 for value in stored.values())
    assert all(
        value.dtype == torch.float32 for value in Trained.open(tmp_path / "half.safetensors").network.parameters()
    )


def test_a_model_whose_head_reads_inner_layers_comes_back_as_it_was(tmp_path: Path) -> None:
    design = {"backbone": "resnet50", "temperature": "fixed:0.05", "head": "hpf", "trainable": "none"}
    written = build_model(design, weights=None, seed=3).eval()
    Trained.of(written).save(tmp_path / "head.safetensors")
    opened = Trained.open(tmp_path / "head.safetensors").network
    images = torch.rand(1, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(opened.encode(images).maps, written.encode(images).maps)
    assert opened.head_name == "hpf"


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_bytes(b"no")
    with pytest.raises(WeightsError, match="not a readable safetensors file"):
        Trained.open(tmp_path / "x.safetensors")
    with pytest.raises(WeightsError, match="no such model file"):
        Trained.open(tmp_path / "missing.safetensors")
    save_file({"a": torch.zeros(1)}, tmp_path / "x.safetensors", metadata={"simsc": '{"temperature": "mlp"}'})
    with pytest.raises(WeightsError, match=r"description cannot be understood.*backbone"):
        Trained.open(tmp_path / "x.safetensors")


def test_a_model_that_is_ready_for_inference_is_not_written(model_file: Path, tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="cannot be saved"):
        Trained.open(model_file).ready().save(tmp_path / "x.safetensors")


# Names


def test_a_file_and_a_run_folder_open(model_file: Path, tmp_path: Path) -> None:
    shutil.copy(model_file, tmp_path / "best.safetensors")
    for name in (model_file, str(model_file), tmp_path):
        assert Trained.open(name).network.temperature_name == "single"


def test_packaged_models_are_found_by_name(model_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(card, "packaged_folder", lambda: tmp_path)
    with pytest.raises(WeightsError, match="no packaged model"):
        find_model()
    for name in ("another", DEFAULT):
        shutil.copy(model_file, tmp_path / f"{name}.safetensors")
    assert find_model() == find_model(DEFAULT) == tmp_path / f"{DEFAULT}.safetensors"
    assert list(packaged_models()) == [DEFAULT, "another"]


def test_a_backbone_name_is_no_file(tmp_path: Path) -> None:
    assert find_model("resnet50") is None
    assert find_model(f"hf:{tmp_path}") is None


def test_a_misspelt_name_is_refused_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'resnet50'"):
        find_model("resnet5O")
    with pytest.raises(WeightsError, match="holds no best"):
        find_model(tmp_path)


@pytest.mark.parametrize(
    ("name", "head", "temperature"),
    [
        ("resnet50", "none", "fixed:0.03"),
        ("resnet50.v1_in1k+hpf", "hpf", "fixed:0.05"),
        ("resnet50+scot:layers=7-9-11", "scot:layers=7-9-11", "fixed:0.05"),
        ("resnet50+ncnet", "ncnet", "fixed:0.03"),
    ],
)
def test_a_backbone_carries_a_head(name: str, head: str, temperature: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trained, "build_model", partial(build_model, weights=None))
    opened = Trained.open(name)
    assert (opened.network.head_name, opened.network.temperature_name, opened.name) == (head, temperature, name)
    assert not opened.network.training
    assert find_model(name) is None


def test_a_head_is_refused_where_it_does_not_belong(model_file: Path, tmp_path: Path) -> None:
    shutil.copy(model_file, tmp_path / "best.safetensors")
    for name in (f"{model_file}+hpf", f"{tmp_path}+hpf"):
        with pytest.raises(ConfigError, match="trained model, which keeps the head"):
            find_model(name)
    for name, message in {
        "resnet50+hfp": "unknown head 'hfp'; did you mean 'hpf'.*Allowed: none, sfnet, ncnet, cats, hpf, scot",
        "resnet50+": "unknown head ''",
        "resnet50+hpf:layer=3": "did you mean 'layers'",
        "resnet5O+hpf": "did you mean 'resnet50'",
    }.items():
        with pytest.raises(ConfigError, match=message):
            find_model(name)


def test_a_path_may_hold_the_mark_of_a_head(model_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "a+b" / "own.safetensors"
    path.parent.mkdir()
    shutil.copy(model_file, path)
    assert find_model(path) == path


@pytest.mark.skipif(DEFAULT not in packaged_models(), reason="the packaged model is not in this installation")
def test_the_packaged_models_open() -> None:
    assert Trained.open().network.backbone.spec.name == "vit_small_patch14.dinov2"
    assert Trained.open(QUICK).network.backbone.stride == 16


# Beginnings


def test_a_training_starts_with_all_weights_of_a_model_and_remembers_its_origin(
    model: Trained, pair: list[Path]
) -> None:
    started = Trained.begin({**CONFIG, "start": str(pair[0]), "seed": 7})
    assert equal(started, Trained.open(pair[0]))
    assert not equal(started, model)
    assert started.card.origin == model.card.origin  # of the first start, not of the weights in between
    assert Trained.begin({**CONFIG, "seed": 1}).card.origin == model.card.origin
    assert Trained.begin({**CONFIG, "seed": 2}).card.origin != model.card.origin


def test_a_start_of_unknown_origin_is_the_origin(model: Trained, tmp_path: Path) -> None:
    model.described(origin="").save(tmp_path / "old.safetensors")
    started = Trained.begin({**CONFIG, "start": str(tmp_path / "old.safetensors")})
    assert started.card.origin == fingerprint(model.network.backbone)


def test_a_start_of_another_kind_is_refused(model_file: Path) -> None:
    with pytest.raises(ConfigError, match="not of this configuration's kind"):
        Trained.begin({**CONFIG, "temperature": "mlp", "start": str(model_file)})


def test_a_start_with_another_backbone_is_refused_though_its_weights_would_fit(model_file: Path) -> None:
    with pytest.raises(ConfigError, match=r"its backbone is resnet50\.tv.*set backbone=resnet50"):
        Trained.begin({**CONFIG, "backbone": "resnet50.v1_in1k", "start": str(model_file)})


# Means


@pytest.fixture(scope="module")
def pair(model: Trained, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two models of one origin whose weights differ, as after two trainings."""
    folder = tmp_path_factory.mktemp("pair")
    for seed in (0, 1):
        other = model.copy()
        torch.manual_seed(seed)
        for parameter in other.network.parameters():
            parameter.data += 0.01 * torch.randn_like(parameter)
        other.described(best=Best(50.0, 1)).save(folder / f"{seed}.safetensors")
    return [folder / "0.safetensors", folder / "1.safetensors"]


def test_the_mean_weighs_the_networks_and_keeps_the_first_temperature(pair: list[Path]) -> None:
    first, second = models = [Trained.open(file) for file in pair]
    mean = average(models, [3, 1])
    for name, value in weights_of(mean).items():
        mixed = value.is_floating_point() and name.startswith("backbone.")
        expected = (
            0.75 * weights_of(first)[name] + 0.25 * weights_of(second)[name] if mixed else weights_of(first)[name]
        )
        torch.testing.assert_close(value, expected, msg=name)
    assert mean.card.averaged == 2
    assert mean.card.best is None
    assert mean.card.origin == first.card.origin
    assert equal(first, Trained.open(pair[0]))  # not changed by being averaged
    assert equal(average(models[:1]), first)


def test_a_model_tells_all_data_that_went_into_it(pair: list[Path], tmp_path: Path) -> None:
    first, second = (Trained.open(file) for file in pair)
    trainings = ({"data": "pfpascal@2,spair"}, {"data": "spair@3,coco:birds/train.json@0.5"})
    one, other = (each.described(training=own) for each, own in zip((first, second), trainings, strict=True))
    assert one.card.learned_from == "pfpascal,spair"
    assert average([one, other]).card.learned_from == "pfpascal,spair,coco:birds/train.json"
    one.save(tmp_path / "one.safetensors")
    begun = Trained.begin({**CONFIG, "data": "scenes", "start": str(tmp_path / "one.safetensors")})
    begun.save(tmp_path / "two.safetensors")
    assert Card.read(tmp_path / "two.safetensors").learned_from == "pfpascal,spair,scenes"
    assert Trained.begin({**CONFIG, "data": "scenes"}).card.learned_from == "scenes"


def test_only_models_of_one_network_and_one_origin_have_a_mean(pair: list[Path]) -> None:
    first, second = (Trained.open(file) for file in pair)
    other = Trained.begin({**CONFIG, "temperature": "fixed:1"})
    with pytest.raises(ConfigError, match=r"memory has temperature = fixed:1, but .*0.safetensors has single"):
        average([first, other])
    with pytest.raises(ConfigError, match=r"0.safetensors and .*1.safetensors were not trained from the same weights"):
        average([first, second.described(origin="another")])
    assert average([first, second.described(origin="")]).card.origin == ""
    for shares in ([1.0], [1.0, 0.0], [1.0, float("nan")]):
        with pytest.raises(ConfigError, match="one share above 0 per model"):
            average([first, second], shares)


def test_the_command_writes_a_mean_and_says_whose_origin_is_not_known(pair: list[Path], tmp_path: Path) -> None:
    out, old = tmp_path / "mean.safetensors", tmp_path / "old.safetensors"
    done = CliRunner().invoke(app, ["models", "average", *map(str, pair), "--out", str(out), "--half"])
    assert done.exit_code == 0, done.output
    assert "not known" not in done.output
    assert Card.read(out).averaged == 2
    Trained.open(pair[1]).described(origin="").save(old)
    done = CliRunner().invoke(app, ["models", "average", str(pair[0]), str(old), "--out", str(out)])
    assert f"it is not known which weights {old} started from" in done.output
    wrong = CliRunner().invoke(app, ["models", "average", str(pair[0]), "--out", str(out), "--shares", "one"])
    assert isinstance(wrong.exception, ConfigError)
    backbone = CliRunner().invoke(app, ["models", "average", "resnet50", "--out", str(out)])
    assert "resnet50 is a backbone, not a trained model" in str(backbone.exception)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"backbone": 5}, "the field 'backbone' must be a text, got '5'"),
        ({"backbone": ""}, "the field 'backbone' must be a name"),
        ({"normalize": "yes"}, "the field 'normalize' must be true or false"),
        ({"image_size": 1e300}, "the field 'image_size' must be a whole number"),
        ({"image_size": 10**9}, "the field 'image_size' must be 1 to"),
        ({"image_size": True}, "the field 'image_size' must be a whole number"),
        ({"beta_eval": -1}, "the field 'beta_eval' must be above 0"),
        ({"beta_eval": float("nan")}, "'beta_eval' is not a finite number"),
        ({"calibration": {"a": "x"}}, "alibration"),
        ({"calibration": 5}, "'calibration' must be an object"),
        ({"best": {"pck": "x"}}, "'best.pck' must be a number"),
        ({"best": {"nose": 1}}, "nose"),
        ({"backbone": "nothing"}, "cannot be built .*unknown"),
        ({"temperature": "fixed:abc"}, "cannot be built"),
        ({"head": "cats:layers=x"}, "cannot be built"),
    ],
)
def test_descriptions_are_checked_field_by_field(
    model_file: Path, tmp_path: Path, change: dict[str, object], words: str
) -> None:
    description = json.dumps({**Card.read(model_file).to_dict(), **change})
    save_file({"a": torch.zeros(1)}, tmp_path / "x.safetensors", metadata={"simsc": description})
    with pytest.raises(WeightsError, match=words) as caught:
        Trained.open(tmp_path / "x.safetensors")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("description", ["[]", "{", "[" * 5000, '{"backbone": "\\ud800"}', "5"])
def test_descriptions_that_are_none(tmp_path: Path, description: str) -> None:
    save_file({"a": torch.zeros(1)}, tmp_path / "x.safetensors", metadata={"simsc": description})
    with pytest.raises(WeightsError, match="cannot be understood"):
        Trained.open(tmp_path / "x.safetensors")


def test_weights_that_do_not_fit_are_named_but_not_all(model_file: Path, tmp_path: Path) -> None:
    tensors, description = load_file(model_file), json.dumps(Card.read(model_file).to_dict())
    wrong = {f"other.{name}": tensor for name, tensor in tensors.items()}
    save_file(wrong, tmp_path / "x.safetensors", metadata={"simsc": description})
    with pytest.raises(WeightsError, match=r"keys missing: .*, and [0-9]+ more; .*keys unexpected") as caught:
        Trained.open(tmp_path / "x.safetensors")
    assert len(str(caught.value)) < 1000
    assert str(caught.value).count("other.") == 5  # of the unexpected ones, as of each kind


def test_weights_that_are_not_finite_are_refused(model_file: Path, tmp_path: Path) -> None:
    tensors, description = load_file(model_file), json.dumps(Card.read(model_file).to_dict())
    name = next(name for name, tensor in tensors.items() if tensor.ndim > 1)
    tensors[name][0] = float("nan")
    save_file(tensors, tmp_path / "x.safetensors", metadata={"simsc": description})
    with pytest.raises(WeightsError, match=f"'{name}' are not all finite"):
        Trained.open(tmp_path / "x.safetensors")


def test_damaged_model_files_are_refused(model_file: Path, tmp_path: Path) -> None:
    content, damage, path = bytearray(model_file.read_bytes()[:20_000]), random.Random(3), tmp_path / "x.safetensors"
    for _ in range(60):
        broken = bytearray(content)
        for _ in range(damage.choice((1, 3, 20))):
            broken[damage.randrange(min(len(broken), 3000))] = damage.randrange(256)
        path.write_bytes(broken)
        with pytest.raises(WeightsError):
            Trained.open(path)
