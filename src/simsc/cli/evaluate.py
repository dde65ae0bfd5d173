"""``simsc evaluate`` and ``simsc score``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import typer

from simsc.cli.application import command
from simsc.cli.options import MIRROR_HELP
from simsc.matching import LOCALIZERS
from simsc.models import DEFAULT

_MODEL_HELP = "Packaged model, model file, run folder, or backbone to use as it is, also with a head: resnet50+hpf."
_PROTOCOL_HELP = "paper-256, square-256, original, cats-256, geoaware, dift; @SIDE sets the size; default: the model's."
_LOCALIZER_HELP = f"{', '.join(LOCALIZERS.own)}; default: the model's."
_COHERENT_HELP = "Heed the matches around a point, or do not; default: the model's."
_BETA_HELP = "Evaluation temperature on top of the model's; default: the one it was trained for, or 1."


@command(
    "simsc evaluate --data scenes --limit 5 --predictions predictions.jsonl",
    "simsc evaluate --data scenes --limit 5 --protocol original --localizer argmax",
)
def evaluate(
    model: str = typer.Option(DEFAULT, help=_MODEL_HELP),
    data: str = typer.Option("pfpascal", help="Data set."),
    root: Path | None = typer.Option(None, help="Folder of the data set."),
    split: str = typer.Option("test", help="Split of the data set."),
    protocol: str | None = typer.Option(None, help=_PROTOCOL_HELP),
    localizer: str | None = typer.Option(None, help=_LOCALIZER_HELP),
    coherent: bool | None = typer.Option(None, help=_COHERENT_HELP),
    temperature: float | None = typer.Option(None, help="Fixed effective temperature instead of the model's own."),
    beta_eval: float | None = typer.Option(None, help=_BETA_HELP),
    size: int | None = typer.Option(None, min=16, help="Side of the input; the protocol's distances stay as they are."),
    flip: bool = typer.Option(False, "--flip", help="Flipped ensemble: match the mirrored pair too; twice the time."),
    mirror: str = typer.Option("no", help=MIRROR_HELP),
    predictions: Path | None = typer.Option(None, help="Write one line of JSON per pair, points in original pixels."),
    out: Path | None = typer.Option(None, help="Write the result as JSON."),
    limit: int | None = typer.Option(None, min=1, help="Only the first so many pairs."),
    workers: int | None = typer.Option(None, min=1, help="Processes; default: as many as pay, at most one a core."),
    device: str = typer.Option("auto", help="auto, cpu, cuda, mps."),
    precision: str = typer.Option("float32", help="float32, bf16, or auto: bf16 where the device is quick with it."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table."),
) -> None:
    """Measure PCK per image, per point and per category under a named protocol."""
    from simsc import distributed
    from simsc.cli.views import print_score
    from simsc.evaluation.benchmark import evaluate_model
    from simsc.evaluation.predictions import write_predictions
    from simsc.files import outputs
    from simsc.matching.mirror import check_mirror
    from simsc.models.trained import Trained

    _check_names(protocol, data, localizer)
    choice = check_mirror(mirror)
    with distributed.process_group(device), outputs(*((predictions, out) if distributed.is_main() else ())):
        place = distributed.local_device(device)  # refused, if at all, before anything slow
        trained = Trained.open(model).ready(place, precision)
        trained = trained if coherent is None else trained.described(coherent=coherent)
        with _progress(distributed.is_main()) as progress:
            evaluation = evaluate_model(
                trained, data, root, split, protocol, localizer=localizer, beta_eval=beta_eval,
                temperature=temperature, size=size, flip=flip, mirror=choice, limit=limit, workers=workers,
                progress=progress,
            )  # fmt: skip
        if not distributed.is_main():
            return
        if predictions:
            write_predictions(predictions, evaluation.predictions)
        title = f"{model} · {data} · {split}"
        show = partial(print_score, evaluation.score, title, evaluation.subsets, evaluation.note)
        _report({"model": model, **evaluation.to_dict()}, show, out, as_json)


def _check_names(protocol: str | None, data: str, localizer: str | None) -> None:
    """Refuse misspelt names before anything slow or missing is looked for."""
    from simsc.data.sources import dataset_info
    from simsc.evaluation.protocol import find_protocol

    if protocol is not None:
        find_protocol(protocol)
    dataset_info(data)
    if localizer is not None:
        _ = LOCALIZERS[localizer]


@command("simsc score predictions.jsonl")
def score(
    file: Path = typer.Argument(..., help="Predictions written by `simsc evaluate --predictions`."),
    threshold: str | None = typer.Option(
        None, help="Base of the threshold: img, kps or bbox; default: what the file says."
    ),
    protocol: str | None = typer.Option(None, help="Where distances are measured; default: what the file says."),
    out: Path | None = typer.Option(None, help="Write the result as JSON."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table."),
) -> None:
    """Score a predictions file without a model."""
    from simsc.cli.views import print_score
    from simsc.evaluation.predictions import read_predictions
    from simsc.evaluation.protocol import find_protocol
    from simsc.evaluation.scoring import score as score_predictions
    from simsc.evaluation.scoring import stated_rules
    from simsc.files import outputs

    with outputs(out):
        found = read_predictions(file)
        protocol, threshold = stated_rules(found, protocol, threshold)
        scored = score_predictions(found, find_protocol(protocol), threshold)  # type: ignore[arg-type]
        _report(scored.to_dict(), partial(print_score, scored), out, as_json)


def _report(record: dict[str, Any], show: Callable[[], None], out: Path | None, as_json: bool) -> None:
    from simsc.files import write_json

    if out:
        write_json(out, record)
    if as_json:
        typer.echo(json.dumps(record))
    else:
        show()


@contextmanager
def _progress(shown: bool) -> Iterator[Callable[[int, int], None] | None]:
    from simsc.cli.views import progress_bar

    if not shown:
        yield None
        return
    with progress_bar() as progress:
        task = progress.add_task("pairs", total=None, note="")
        yield lambda done, total: progress.update(task, completed=done, total=total)


@command("simsc calibrate --data scenes --pairs 40 --out own.safetensors")
def calibrate(
    model: str = typer.Option(DEFAULT, help=_MODEL_HELP),
    data: str = typer.Option("spair,voc", help="Data sets with key-points, with commas between them."),
    root: Path | None = typer.Option(None, help="Folder of the data set, if there is one only."),
    split: str = typer.Option("val", help="Split to fit on: never one that the model was trained or is tested on."),
    pairs: int = typer.Option(
        1500, min=10, help="Pairs drawn from each data set, a tenth of them of other categories."
    ),
    seed: int = typer.Option(0, help="Decides which pairs are drawn."),
    measure: str | None = typer.Option(
        None, help="Measure on another split instead of on a held-out fifth: spair/test."
    ),
    only_measure: bool = typer.Option(
        False, "--only-measure", help="Measure the model's own calibration; fit nothing."
    ),
    out: Path | None = typer.Option(None, help="Write the model with its calibration; the weights stay as they are."),
    report: Path | None = typer.Option(None, help="Write the figures as JSON."),
    device: str = typer.Option("auto", help="auto, cpu, cuda, mps."),
) -> None:
    """Fit the probability that a match is right, and that a point has a counterpart, on pairs of known truth.

    Key-points that the target does not have are examples of "no counterpart".
    """
    from simsc.cli.views import print_quality
    from simsc.files import outputs, write_json
    from simsc.matcher.calibrating import calibrate_model

    with outputs(out, report), _progress(True) as progress:
        trained, quality = calibrate_model(
            model, data.split(","), root, split, pairs=pairs, seed=seed, measure=measure, fits=not only_measure,
            device=device, progress=progress,
        )  # fmt: skip
        if out:
            trained.save(out, half=True)
        if report:
            write_json(report, quality._asdict())
    print_quality(quality)
