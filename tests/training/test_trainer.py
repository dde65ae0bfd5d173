from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from simsc.errors import ConfigError, DataError
from simsc.evaluation.cache import trunk_fingerprint
from simsc.evaluation.scoring import Score, Spread
from simsc.models.trained import build_model
from simsc.training import monitor
from simsc.training import trainer as train
from simsc.training.config import Config
from simsc.training.data import open_data
from simsc.training.listener import Listener
from simsc.training.monitor import TrainingDiverged
from simsc.training.run_folder import RunFolder
from simsc.training.sampler import DrawnPairs
from simsc.training.trainer import Trainer

RUN = Config(weights="random", data="pairs", image_size=64, epochs=2, log_every=3, cache="memory", seed=3, average=0.5)


def without_speed(path: Path) -> list[dict]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "pairs_per_second"} for line in lines]


def scored(pck: float) -> Score:
    return Score("paper-256", "img", {0.1: pck}, {0.1: pck}, {}, 1, 1, Spread(0.1, 0.0))


class StopAfter(Listener):
    """Asks for a stop, as Ctrl-C does, after some steps."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.trainer: Trainer | None = None

    def on_batch(self, done: int) -> None:
        if self.trainer and self.trainer.step == self.steps:
            self.trainer._stop.wanted = True


@pytest.fixture(scope="module")
def finished(tiny_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was never interrupted."""
    out = tmp_path_factory.mktemp("run")
    config = RUN
    Trainer(config, out, root=tiny_root).run()
    return out


def test_a_run_leaves_everything_behind(finished: Path) -> None:
    lines = without_speed(finished / "metrics.jsonl")
    assert [line["step"] for line in lines if "val" in line] == [0, 2, 4]
    assert [line["step"] for line in lines if "loss" in line] == [2, 3, 4]
    run = json.loads((finished / "run.json").read_text())
    assert run["seed"] == 3
    assert run["data"]["train"]["pairs"] == 8
    assert len(run["data"]["train"]["fingerprint"]) == 16
    assert {"torch", "simsc", "commit", "python"} <= run.keys()
    assert json.loads((finished / "config.json").read_text())["seed"] == 3
    assert json.loads((finished / "result.json").read_text())["steps"] == 4
    assert (finished / "best.safetensors").exists()


def test_a_stopped_and_resumed_run_equals_an_uninterrupted_one(finished: Path, tiny_root: Path, tmp_path: Path) -> None:
    config = RUN
    listener = StopAfter(1)
    first = listener.trainer = Trainer(config, tmp_path, root=tiny_root, listener=listener)
    with pytest.raises(KeyboardInterrupt):
        first.run()
    Trainer(config, tmp_path, root=tiny_root, resume=True).run()
    ours, theirs = load_file(tmp_path / "last.safetensors"), load_file(finished / "last.safetensors")
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert without_speed(tmp_path / "metrics.jsonl") == without_speed(finished / "metrics.jsonl")


def test_a_state_of_a_model_with_other_names_is_refused(finished: Path, tiny_root: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    tensors, state = folder.load_state()
    renamed = {name.replace("model/temperature.mlp", "model/temperature.layers"): t for name, t in tensors.items()}
    folder.save_state(renamed, state)
    with pytest.raises(DataError, match=r"temperature.* was written by another version"):
        Trainer(RUN, folder.path, root=tiny_root, resume=True)


def test_the_averaged_weights_are_validated_and_kept(tiny_root: Path, tmp_path: Path, monkeypatch) -> None:
    scores = iter((10.0, 20.0, 30.0))  # every epoch is the best so far, so that the last one is kept
    validated = []

    def rising(*_: object) -> Score:
        validated.append({name: value.clone() for name, value in trainer.model.state_dict().items()})
        return scored(next(scores))

    monkeypatch.setattr(train, "score", rising)
    trainer = Trainer(RUN, tmp_path, root=tiny_root)
    assert trainer.run()["best_epoch"] == 2
    state, best = load_file(tmp_path / "last.safetensors"), load_file(tmp_path / "best.safetensors")
    averages = {name.removeprefix("average/"): value for name, value in state.items() if name.startswith("average/")}
    assert averages
    assert any(not torch.equal(value, state[f"model/{name}"]) for name, value in averages.items())
    for name, value in averages.items():
        assert torch.equal(best[name], value), name
        assert torch.equal(validated[-1][name], value), name


def test_a_folder_is_neither_overwritten_nor_resumed_with_other_settings(finished: Path, tiny_root: Path) -> None:
    config = Config(**json.loads((finished / "config.json").read_text()))
    with pytest.raises(ConfigError, match="already holds a run"):
        Trainer(config, finished, root=tiny_root)
    with pytest.raises(ConfigError, match=r"rate = 0.0001, not 0.001"):
        Trainer(replace(config, rate=1e-3), finished, root=tiny_root, resume=True)


def test_a_key_that_is_newer_than_the_run_counts_as_its_default(
    finished: Path, tiny_root: Path, tmp_path: Path
) -> None:
    stored = json.loads((finished / "config.json").read_text())
    del stored["clip"]
    (tmp_path / "config.json").write_text(json.dumps(stored))
    Trainer(Config(**stored), tmp_path, root=tiny_root, resume=True)
    stored.pop("warmup")
    (tmp_path / "config.json").write_text(json.dumps(stored))
    with pytest.raises(ConfigError, match="warmup = 0, not 5"):
        Trainer(Config(**stored, warmup=5), tmp_path, root=tiny_root, resume=True)


def test_the_cache_changes_nothing(tiny_config: Config, tiny_root: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("SIMSC_HOME", str(tmp_path / "home"))
    results = {}
    for cache in ("memory", "disk", "none"):
        trainer = Trainer(replace(tiny_config, cache=cache, epochs=1), tmp_path / cache, root=tiny_root)
        trainer.run()
        results[cache] = load_file(tmp_path / cache / "last.safetensors")
    assert list((tmp_path / "home" / "trunk").rglob("*.safetensors"))
    for name, tensor in results["none"].items():
        torch.testing.assert_close(results["memory"][name], results["disk"][name], rtol=0, atol=0)
        torch.testing.assert_close(results["memory"][name], tensor, rtol=0, atol=2e-4)


def test_broken_steps_are_skipped_counted_and_end_the_run(
    tiny_config: Config, tiny_root: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(monitor, "MAX_BROKEN_STEPS", 3)
    trainer = Trainer(replace(tiny_config, epochs=9), tmp_path, root=tiny_root)
    plain = trainer.optimization.objective.forward
    broken_steps = {1, 3, 4, 5}

    def sometimes_broken(*arguments):
        parts = plain(*arguments)
        return replace(parts, total=parts.total * (math.nan if trainer.step in broken_steps else 1.0))

    monkeypatch.setattr(trainer.optimization.objective, "forward", sometimes_broken)
    with pytest.raises(TrainingDiverged, match=r"loss was not finite in 3 steps in a row.*last good checkpoint"):
        trainer.run()
    assert trainer.monitor.broken_total == 4
    assert json.loads((tmp_path / "result.json").read_text())["stopped"].startswith("step 5: the loss")
    assert all(torch.isfinite(tensor).all() for tensor in load_file(tmp_path / "last.safetensors").values())
    steps = [line for line in without_speed(tmp_path / "metrics.jsonl") if "val" not in line]
    assert [line["skipped"] for line in steps] == [0, 1, 1, 2, 3]
    assert ["loss" in line for line in steps] == [True, False, True, False, False]


@pytest.mark.parametrize(
    "changes",
    [{"freeze_batchnorm": False}, {"freeze_batchnorm": True, "head": "sfnet:hidden=16"}],
    ids=["of the backbone", "of a head"],
)
def test_a_broken_step_leaves_no_mark_on_learning_statistics(
    tiny_config: Config, tiny_root: Path, tmp_path: Path, monkeypatch, changes: dict
) -> None:
    config = replace(tiny_config, epochs=1, average=0.5, **changes)
    trainer = Trainer(config, tmp_path, root=tiny_root)
    prepare = trainer.feed._prepare

    def first_batch_is_broken(epoch: int, indices):
        work = prepare(epoch, indices)
        first = trainer.feed.batches(0)[0] == list(indices)
        return replace(work, state=(work.state[0] * math.nan,)) if first else work

    monkeypatch.setattr(trainer.feed, "_prepare", first_batch_is_broken)
    trainer.run()
    assert trainer.monitor.broken_total == 1
    state = load_file(tmp_path / "last.safetensors")
    assert any("running_var" in name for name in state)
    assert all(torch.isfinite(tensor).all() for tensor in state.values())


def test_groups_around_anchors_train(coco_root: Path, tiny_config: Config, tmp_path: Path) -> None:
    config = replace(tiny_config, data="coco", group=4, anchor_split="train", epochs=1, freeze_batchnorm=False)
    assert Trainer(config, tmp_path, root=coco_root).run()["steps"] > 0


@pytest.mark.parametrize("anchors", ["train", "spair/train"])
def test_of_several_sources_one_must_be_named_for_anchors(coco_root: Path, anchors: str) -> None:
    config = Config(data="coco,scenes", group=4, anchor_split=anchors)
    with pytest.raises(ConfigError, match=f"{anchors} must name one of the sources of data = coco,scenes, as in coco/"):
        open_data(config, coco_root)


def test_a_limit_on_pairs_limits_the_anchors_not_what_completes_their_groups(coco_root: Path) -> None:
    config = Config(data="coco", group=4, anchor_split="train", max_pairs=8)
    pairing = open_data(config, coco_root).pairing
    assert isinstance(pairing, DrawnPairs)
    ((_, anchors),) = pairing.anchors
    assert 4 <= len(anchors) <= 8
    drawn = {(item.source, item.target) for batch in pairing.batches(0) for item in batch}
    assert set(anchors) < drawn
    assert len(drawn) > 8


@pytest.mark.parametrize("change", [{"teacher": "simsc-vits"}, {"flip_alone": 0.5, "cache": "none"}])
def test_what_needs_drawn_pairs_is_refused_for_listed_ones(tiny_config: Config, tiny_root: Path, change) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(change))} = .* needs drawn pairs"):
        open_data(replace(tiny_config, **change), tiny_root)


def test_a_list_of_pairs_cannot_be_grouped(tiny_root: Path) -> None:
    with pytest.raises(DataError, match="use group=2"):
        open_data(Config(data="pairs", group=4), tiny_root)


def test_the_trunk_cache_is_shared_by_models_whose_tails_differ(tiny_config: Config) -> None:
    model = build_model(replace(tiny_config, freeze_batchnorm=False).to_dict(), "random")
    before = trunk_fingerprint(model, 64)
    norms = [m for m in model.backbone.tail_modules()[-1].modules() if isinstance(m, torch.nn.BatchNorm2d)]
    norms[0].running_mean += 1
    norms[0].weight.data += 1
    assert trunk_fingerprint(model, 64) == before
    frozen = next(m for m in model.backbone.modules() if isinstance(m, torch.nn.BatchNorm2d))
    frozen.running_mean += 1
    assert trunk_fingerprint(model, 64) != before


def test_the_trunk_cache_is_shared_by_nothing_else_that_changes_its_states(tiny_config: Config) -> None:
    model = build_model(tiny_config.to_dict(), "random")
    assert trunk_fingerprint(model, 64) != trunk_fingerprint(model, 96)
    other = build_model(replace(tiny_config, trainable="last-2").to_dict(), "random")
    assert trunk_fingerprint(model, 64) != trunk_fingerprint(other, 64)


def test_augmentation_both_directions_warm_up_and_clipping_train(
    tiny_config: Config, tiny_root: Path, tmp_path: Path
) -> None:
    options = {"flip": 0.5, "colour": 0.2, "crop": 0.3, "both_directions": True, "warmup": 4, "clip": 1.0}
    config = replace(tiny_config, cache="auto", epochs=1, **options)
    Trainer(config, tmp_path, root=tiny_root).run()
    rates = [line["rate"] for line in without_speed(tmp_path / "metrics.jsonl") if "loss" in line]
    assert rates == pytest.approx([0.25e-4, 0.5e-4])


def test_a_run_in_which_nothing_learns_is_refused(tiny_config: Config, tiny_root: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing learns"):
        Trainer(replace(tiny_config, trainable="none", temperature="fixed:1"), tmp_path, root=tiny_root)


def test_patience_ends_a_run_that_does_not_improve(
    tiny_config: Config, tiny_root: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(train, "score", lambda *_: scored(50.0))
    trainer = Trainer(replace(tiny_config, epochs=9, patience=1), tmp_path, root=tiny_root)
    assert trainer.run()["epochs"] == 1


@pytest.fixture(scope="module")
def mixture(coco_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Config:
    """Two sources, of which the second is shown half; one brings its validation file, the other has none."""
    other = tmp_path_factory.mktemp("mixture") / "other"
    shutil.copytree(coco_root, other)
    shutil.copy(other / "train.json", other / "val.json")
    return Config(
        weights="random", data=f"coco:{coco_root},coco:{other}@0.5", image_size=64, epochs=2, batch_size=12, group=4,
        flip=0.5, zoom=0.3, schedule="cosine", warmup=2, log_every=1, seed=3,
    )  # fmt: skip


def test_a_mixture_is_validated_on_every_source_and_resumed_exactly(mixture: Config, tmp_path: Path) -> None:
    Trainer(mixture, tmp_path / "whole").run()
    listener = StopAfter(3)
    first = listener.trainer = Trainer(mixture, tmp_path / "parts", listener=listener)
    with pytest.raises(KeyboardInterrupt):
        first.run()
    second = Trainer(mixture, tmp_path / "parts", resume=True)
    second.run()
    ours, theirs = (load_file(tmp_path / name / "last.safetensors") for name in ("parts", "whole"))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    lines = without_speed(tmp_path / "parts" / "metrics.jsonl")
    assert lines == without_speed(tmp_path / "whole" / "metrics.jsonl")
    last = next(line for line in reversed(lines) if "val" in line)
    assert list(last["val_sources"]) == [one.title for one in second.data.validations]
    assert last["val"]["0.1"] == pytest.approx(sum(pck["0.1"] for pck in last["val_sources"].values()) / 2, abs=1e-3)
    run = json.loads((tmp_path / "whole" / "run.json").read_text())
    assert run["data"]["train"]["objects"] == 32
    assert ["4 of 18 objects" in note for note in run["notes"]] == [True]


def test_the_best_model_is_chosen_by_the_mean_over_sources(mixture: Config, tmp_path: Path, monkeypatch) -> None:
    figures = iter([40.0, 60.0, 20.0, 70.0, 90.0, 20.0])  # means 50, 45, 55
    monkeypatch.setattr(train, "score", lambda *_: scored(next(figures)))
    Trainer(mixture, tmp_path).run()
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["best_epoch"], result["val"]) == (2, {"0.1": 55.0})


def test_the_last_model_is_kept_where_that_is_asked_for(mixture: Config, tmp_path: Path, monkeypatch) -> None:
    figures = iter([40.0, 60.0, 70.0, 90.0, 20.0, 20.0])  # means 50, 80, 20
    monkeypatch.setattr(train, "score", lambda *_: scored(next(figures)))
    Trainer(replace(mixture, keep="last"), tmp_path).run()
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["best_epoch"], result["val"]) == (2, {"0.1": 20.0})


def test_a_cosine_falls_to_a_fiftieth_over_all_epochs(mixture: Config, tmp_path: Path) -> None:
    config = replace(mixture, warmup=0, epochs=6, rate=1e-3)
    trainer = Trainer(config, tmp_path)
    trainer.run()
    rates = [line["rate"] for line in trainer.folder.read_metrics() if "loss" in line]
    assert rates[0] == pytest.approx(1e-3)
    assert rates == sorted(rates, reverse=True)
    done = 5 + 1 - 1 / len(trainer.feed.batches(5))
    assert rates[-1] == pytest.approx(1e-3 * (0.02 + 0.98 * (1 + math.cos(math.pi * done / 6)) / 2))
    with pytest.raises(ConfigError, match="epochs = 6, not 7"):
        Trainer(replace(config, epochs=7), tmp_path, resume=True)


@pytest.mark.parametrize("cache", [{"cache": "memory", "cache_dtype": "float16"}, {"cache": "none"}])
def test_a_run_in_half_precision_computes_trunk_steps_and_validation_in_it(
    cache: dict[str, str], tiny_root: Path, tmp_path: Path
) -> None:
    config = replace(RUN, amp="bf16", epochs=1, **cache)
    run = Trainer(config, tmp_path, root=tiny_root)
    work = next(iter(run.feed.epoch(0)))
    assert work.state[0].dtype == (torch.bfloat16 if config.cache == "none" else torch.float32)
    run.run()
    assert [line["epoch"] for line in without_speed(tmp_path / "metrics.jsonl") if "val" in line] == [0, 1]


def test_a_frozen_trunk_is_laid_out_otherwise_and_computes_the_same() -> None:
    config = {
        "backbone": "resnet50.v1_in1k",
        "weights": "random",
        "temperature": "fixed:0.05",
        "trainable": "last-stage",
    }
    model = build_model(config, "random", 0).eval()
    images = torch.rand(1, 3, 64, 64)
    before, learning = model.trunk(images)[0], dict(model.named_parameters())["backbone.layer3.0.conv2.weight"].stride()
    train.lay_out_frozen(model)
    torch.testing.assert_close(model.trunk(images)[0], before, atol=1e-4, rtol=1e-4)
    frozen = model.backbone.get_parameter("layer1.0.conv2.weight")
    assert frozen.is_contiguous(memory_format=torch.channels_last)
    assert not frozen.is_contiguous()
    assert model.backbone.get_parameter("layer3.0.conv2.weight").stride() == learning  # saved as it lies
