"""The folder of a run: configuration, provenance, metrics, checkpoints. Everything is written atomically."""

from __future__ import annotations

import json
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from simsc._version import __version__
from simsc.errors import ConfigError, DataError, SimscError
from simsc.files import atomic_path, write_json, write_text
from simsc.models.weights import modern_names
from simsc.reading import parse_json, read_json, read_text
from simsc.training.config import Config
from simsc.training.step import WeightAverage

Tensors = dict[str, Tensor]
EXECUTION_KEYS = {"cache", "compile", "checkpoint_minutes", "log_every", "track_gradients", "epochs", "patience"}
"""Keys that may change when a run is resumed: they do not change what a step computes."""


@dataclass(frozen=True)
class RunFolder:
    """Paths and files of one run."""

    path: Path

    @property
    def best(self) -> Path:
        """The best model so far, complete."""
        return self.path / "best.safetensors"

    @property
    def last(self) -> Path:
        """The state a run resumes from."""
        return self.path / "last.safetensors"

    @property
    def metrics(self) -> Path:
        """One JSON object per line: training steps and validations."""
        return self.path / "metrics.jsonl"

    @property
    def result(self) -> Path:
        """Summary, written when the run has ended."""
        return self.path / "result.json"

    def start(self, config: Config, facts: dict[str, Any], resume: bool) -> None:
        """Begin or continue a run here; refuses to overwrite one, or to continue one of another configuration."""
        stored = self.path / "config.json"
        if stored.exists() and not resume:
            raise ConfigError(f"{self.path} already holds a run; give --resume to continue it, or another --out")
        if stored.exists():
            _refuse_changes(read_json(stored), config, self.path)
        write_json(stored, config.to_dict())
        if not (self.path / "run.json").exists():
            write_json(self.path / "run.json", {**provenance(), **facts})

    def append(self, record: dict[str, Any]) -> None:
        """Add a line to the metrics."""
        with self.metrics.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(record) + "\n")

    def read_metrics(self) -> list[dict[str, Any]]:
        """All lines of the metrics; a last line cut off by a crash is left out."""
        if not self.metrics.exists():
            return []
        records = []
        for line in read_text(self.metrics).split("\n"):
            try:
                record = parse_json(line, self.metrics, finite=False)
            except DataError:
                break
            if not isinstance(record, dict) or not isinstance(record.get("step"), int):
                break
            records.append(record)
        return records

    def rewind(self, step: int, epoch: int) -> None:
        """Forget metrics after ``step``, and validations after ``epoch`` epochs: a resumed run writes them again."""
        kept = [r for r in self.read_metrics() if r["step"] <= step and not ("val" in r and r["epoch"] > epoch)]
        write_text(self.metrics, "".join(json.dumps(record) + "\n" for record in kept))

    def save_state(self, tensors: Tensors, state: dict[str, Any]) -> None:
        """Write the state a run resumes from."""
        from safetensors.torch import save_file

        with atomic_path(self.last) as temporary:
            save_file(tensors, temporary, metadata={"state": json.dumps(state)})

    def load_state(self) -> tuple[Tensors, dict[str, Any]]:
        """Read what :meth:`save_state` wrote."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(self.last, framework="pt") as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
                return tensors, dict(parse_json(file.metadata()["state"], "its state", finite=False))
        except (SafetensorError, OSError, KeyError, TypeError, ValueError, RuntimeError, DataError) as error:
            raise self.cannot_resume(error) from None

    def cannot_resume(self, error: Exception) -> DataError:
        """The sentence for a state that cannot be used."""
        reason = f"{type(error).__name__}: {error}" if isinstance(error, KeyError) else str(error)
        return DataError(f"{self.last}: cannot be resumed from ({reason[:300]}); remove it to start the run again")


def collect_tensors(model: nn.Module, optimizer: torch.optim.Optimizer, average: WeightAverage) -> Tensors:
    """Everything that training changes: learning parameters, buffers, the optimiser's state, averaged weights.

    Frozen weights are left out: they are rebuilt from their source, and a checkpoint stays small.
    """
    tensors = {f"model/{name}": value.detach().clone() for name, value in _changing(model).items()}
    for index, values in optimizer.state_dict()["state"].items():
        tensors.update({f"optimizer/{index}/{key}": value.clone() for key, value in values.items()})
    tensors.update({f"average/{name}": value.clone() for name, value in average.tensors.items()})
    return tensors


def restore_tensors(
    tensors: Tensors, model: nn.Module, optimizer: torch.optim.Optimizer, average: WeightAverage
) -> None:
    """Put back what :func:`collect_tensors` collected, also where it named a ResNet's parts otherwise.

    Refuses what was collected from a model with other parts.
    """
    own = model.state_dict()
    stored, averaged = (modern_names(_below(tensors, part), own) for part in ("model/", "average/"))
    # A transformer's joined projections were three parameters, and an optimiser knows them by number only.
    older = len(stored) != len(_below(tensors, "model/"))
    if other := (_below(tensors, "model/") if older else stored).keys() ^ _changing(model).keys():
        raise DataError(
            f"the saved state is not of this model ('{min(other)}' is in one of them only): it was written by another "
            "version of simsc; resume with that version, or start the run again in another folder"
        )
    model.load_state_dict(stored, strict=False)
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in _below(tensors, "optimizer/").items():
        index, key = name.split("/")
        state.setdefault(int(index), {})[key] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    average.load(averaged)


def write_curves(folder: Path) -> Path | None:
    """Learning curves of a run as PNG and SVG; None where plotting is not installed."""
    from simsc.pictures import plot_learning_curves

    try:
        plot_learning_curves(RunFolder(folder).read_metrics(), folder / "curves.png")
    except SimscError:
        return None
    return folder / "curves.png"


def provenance() -> dict[str, Any]:
    """Versions and commit that produced a run."""
    return {
        "simsc": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "commit": _git_commit(),
    }


def _git_commit() -> str | None:
    """Commit of this source tree, or None where it is not a git checkout."""
    try:
        return subprocess.run(
            ["git", "-c", "safe.directory=*", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _refuse_changes(stored: Any, config: Config, path: Path) -> None:
    """A key that the stored run does not know yet had what is now its default."""
    if not isinstance(stored, dict):
        raise DataError(f"{path / 'config.json'}: expected an object with the configuration of a run")
    before, now = {**Config().to_dict(), **stored}, config.to_dict()
    free = EXECUTION_KEYS - {"epochs"} if config.schedule != "constant" else EXECUTION_KEYS  # the rates depend on them
    for key in now:
        if key not in free and before[key] != now[key]:
            raise ConfigError(
                f"{path} holds a run with {key} = {before[key]}, not {now[key]}; resume with the same configuration "
                "or give another --out"
            )


def _changing(model: nn.Module) -> Tensors:
    """What training changes in a model: its learning parameters, and its buffers."""
    names = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    names |= {name for name, _ in model.named_buffers()}
    return {name: value for name, value in model.state_dict().items() if name in names}


def _below(tensors: Tensors, prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
