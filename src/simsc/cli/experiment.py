"""``simsc experiment`` and ``simsc bench``: the figures of the paper, and speed as ratios."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from simsc.cli.application import command

if TYPE_CHECKING:
    from simsc.training.config import Config


@command("simsc experiment list", "simsc experiment eval-temperature --quick")
def experiment(
    name: str = typer.Argument(..., help="Name of an experiment, `all`, or `list` to see what there is."),
    quick: bool = typer.Option(False, help="On the embedded scenes, in minutes on a CPU."),
    backbone: list[str] = typer.Option([], help="Backbone for all runs; for `backbones`: presets, repeatable."),
    preset: str = typer.Option("resnet50", help="Configuration that the experiments vary."),
    data: str = typer.Option("pfpascal", help="Data set to train on: pfpascal or spair."),
    trainable: str | None = typer.Option(None, help="What learns: last-block, last-stage, last-<k>, all."),
    epochs: int | None = typer.Option(None, help="Budget of each training, instead of the preset's."),
    seeds: str = typer.Option("0", help="Seeds of the headline rows, e.g. `0,1`; all other runs take the first."),
    set_: list[str] = typer.Option([], "--set", help="Change a configuration key of all runs; repeatable."),
    data_root: Path | None = typer.Option(None, help="Folder that holds the data sets."),
    runs: Path | None = typer.Option(None, help="Where runs are looked for and put; default runs, quick: OUT/runs."),
    out: Path | None = typer.Option(None, help="Where results go; default runs/experiments, quick: runs/quick."),
) -> None:
    """Repeat a table or figure of the paper, with the paper's figures beside ours.

    Runs are never trained twice, also not those of `simsc train`; an interrupted experiment goes on where it was.
    """
    if name == "list":
        _print_list()
        return
    from simsc.experiments import EXPERIMENTS, make_context, run_experiment
    from simsc.experiments.report import write_report
    from simsc.experiments.variants import base_config
    from simsc.training.config import parse_changes

    # A misspelt name is refused before anything slow.
    chosen = dict(EXPERIMENTS.items()) if name == "all" else {name: EXPERIMENTS[name]}
    changes: dict[str, object] = {"trainable": trainable} if trainable else {}
    changes |= {"epochs": epochs} if epochs is not None else {}
    changes |= parse_changes(set_)
    single = _single_backbone(name, backbone)
    out = out or Path("runs") / ("quick" if quick else "experiments")
    context = make_context(
        base_config(preset, data, quick, changes, single),
        out,
        runs or (out / "runs" if quick else Path("runs")),
        _train,
        preset=preset,
        seeds=_parse_seeds(seeds),
        root=data_root,
        quick=quick,
        backbones=backbone if name == "backbones" else (),
        changes=changes,
        say=lambda text: typer.secho(text, err=True, dim=True),
    )
    for each, about in chosen.items():
        typer.secho(f"{each}: {about.title}", err=True, bold=True)
        run_experiment(each, context)
        typer.echo((out / each / "table.md").read_text(encoding="utf-8"))
    typer.echo(f"All results: {write_report(out)}", err=True)


def _train(config: Config, folder: Path, root: Path | None, resume: bool) -> None:
    from simsc.cli.views import training_listener
    from simsc.training.trainer import Trainer

    with training_listener(folder, main=True, tensorboard=False) as listener:
        Trainer(config, folder, root=root, resume=resume, listener=listener).run()


def _single_backbone(name: str, backbones: list[str]) -> str | None:
    """The backbone of all runs; None for the preset's, and where backbones are what is compared."""
    from simsc.errors import ConfigError

    if name == "backbones" or not backbones:
        return None
    if len(backbones) > 1:
        raise ConfigError(
            f"experiment {name} takes one --backbone, not {', '.join(backbones)}; only `backbones` compares several"
        )
    return backbones[0]


def _parse_seeds(text: str) -> list[int]:
    from simsc.errors import ConfigError

    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"--seeds {text}: expected whole numbers with commas, for example 0,1") from None


def _print_list() -> None:
    from rich.console import Console
    from rich.table import Table

    from simsc.experiments import EXPERIMENTS

    table = Table("experiment", "of the paper", "trainings", "data sets", title="Experiments")
    for name, each in EXPERIMENTS.items():
        table.add_row(name, each.title, each.trainings, each.data)
    console = Console()
    console.print(table)
    console.print(
        "Each training has the preset's epochs (100 on PF-Pascal) unless --epochs says otherwise, and needs the "
        "backbone's weights. --quick needs neither data nor weights."
    )


@command("simsc bench queries dense --quick")
def bench(
    names: list[str] | None = typer.Argument(
        None, help="queries, dense, match, start, training, evaluation: these by default; and bulk, collection."
    ),
    quick: bool = typer.Option(False, help="Small sizes, a few seconds: shows that it runs; targets do not apply."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table."),
) -> None:
    """Measure speed and memory as ratios: alternating runs, medians."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "5")  # else the profiler reports every start and stop
    from simsc.bench import describe, environment, run_cases

    ratios, where = list(run_cases(names or (), quick)), environment()
    if as_json:
        typer.echo(json.dumps({"environment": where, "ratios": [ratio.to_dict() for ratio in ratios]}, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("benchmark", title="Quick: sizes too small for the targets" if quick else None, title_justify="left")
    for column in ("measured", "target"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("")
    table.add_column("from")
    for ratio in ratios:
        sign = "≥" if ratio.at_least else "≤"
        verdict = "[green]pass[/green]" if ratio.passed else "[red]fail[/red]"
        row = (f"{ratio.value:.3g} {ratio.unit}", f"{sign} {ratio.target:g} {ratio.unit}")
        table.add_row(ratio.name, *row, "" if quick else verdict, ratio.detail)
    console = Console()
    console.print(table)
    console.print(describe(where), style="dim")
