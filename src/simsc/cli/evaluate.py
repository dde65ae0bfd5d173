"""``simsc evaluate`` and ``simsc score``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

_MODEL_HELP = "Model file or run folder, or the name of a backbone to use as it is."


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(evaluate)
    app.command()(score)


def evaluate(
    model: str = typer.Option(..., help=_MODEL_HELP),
    data: str = typer.Option("pfpascal", help="Data set."),
    root: Path | None = typer.Option(None, help="Folder of the data set."),
    split: str = typer.Option("test", help="Split of the data set."),
    protocol: str = typer.Option(
        "paper-256", help="paper-256, original, cats-256, geoaware, dift; @<side> sets the size."
    ),
    localizer: str = typer.Option(
        "kernel-soft-argmax", help="kernel-soft-argmax, argmax, soft-argmax, window-soft-argmax."
    ),
    temperature: float | None = typer.Option(None, help="Fixed effective temperature instead of the model's own."),
    predictions: Path | None = typer.Option(None, help="Write one line of JSON per pair, points in original pixels."),
    out: Path | None = typer.Option(None, help="Write the result as JSON."),
    limit: int | None = typer.Option(None, help="Only the first so many pairs."),
    device: str = typer.Option("auto", help="auto, cpu, cuda, mps."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table."),
) -> None:
    """Measure PCK per image, per point and per category under a named protocol.

    Example: `simsc evaluate --model resnet50.v1_in1k --data pfwillow --temperature 0.03`
    """
    from simsc.cli.tables import print_result
    from simsc.engine import distributed
    from simsc.engine.benchmark import evaluate_model, load_for_evaluation
    from simsc.engine.predictions import write_predictions

    with distributed.process_group():
        network = load_for_evaluation(model, temperature, device)
        with _progress(distributed.is_main()) as progress:
            result, found = evaluate_model(
                network, data, root, split, protocol, localizer=localizer, limit=limit, progress=progress
            )
        if not distributed.is_main():
            return
    result["model"] = model
    if predictions:
        write_predictions(predictions, found)
    _report(result, out, as_json, print_result)


def score(
    file: Path = typer.Argument(..., help="Predictions written by `simsc evaluate --predictions`."),
    threshold: str = typer.Option(..., help="Base of the threshold: img, kps or bbox."),
    protocol: str = typer.Option("paper-256", help="Protocol that says where distances are measured."),
    out: Path | None = typer.Option(None, help="Write the result as JSON."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table."),
) -> None:
    """Score a predictions file without a model.

    Example: `simsc score predictions.jsonl --threshold img`
    """
    from simsc.cli.tables import print_result
    from simsc.engine.predictions import read_predictions
    from simsc.engine.scoring import score as score_predictions
    from simsc.metrics.protocols import find_protocol

    result = score_predictions(read_predictions(file), find_protocol(protocol), threshold)  # type: ignore[arg-type]
    _report(result, out, as_json, print_result)


def _report(result: dict[str, Any], out: Path | None, as_json: bool, show: Any) -> None:
    from simsc.files import write_json

    if out:
        write_json(out, result)
    if as_json:
        typer.echo(json.dumps(result))
    else:
        show(result)


def _progress(shown: bool) -> Any:
    from contextlib import contextmanager

    from simsc.cli.views import progress_bar

    @contextmanager
    def bar() -> Any:
        if not shown:
            yield None
            return
        with progress_bar() as progress:
            task = progress.add_task("pairs", total=None, note="")
            yield lambda done, total: progress.update(task, completed=done, total=total)

    return bar()
