"""``simsc transfer``, ``review`` and ``adapt``: from a few labelled images to a labelled data set."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simsc.cli.application import command
from simsc.cli.options import AsJson, Device, Flip, KeepAspect, Mirror, Model, Runtime, Size, open_matcher

if TYPE_CHECKING:
    from simsc.training.adapt import Adapted
    from simsc.transfer.run import Outcome

FAILED = 1
"""Exit code when some images could not be labelled."""


@command(
    "simsc transfer one.png photos --annotations one.json --out labels.json",
    "simsc transfer one.png photos --format labelme --out photos",
)
def transfer(
    source: Annotated[Path, typer.Argument(help="Labelled image, folder of them, or COCO file beside its images.")],
    targets: Annotated[list[Path], typer.Argument(help="Images, or folders of images.")],
    out: Annotated[Path, typer.Option(help="File to write, or folder of labelme files.")],
    annotations: Annotated[
        Path | None, typer.Option(help="The labels: COCO, labelme or plain JSON; default: the image's name in .json.")
    ] = None,
    form: Annotated[
        str, typer.Option("--format", help="coco, labelme (one file per image), cvat (for images 1.1), label-studio.")
    ] = "coco",
    min_confidence: Annotated[float | None, typer.Option(help="Key-points below this are left out.")] = None,
    max_cycle: Annotated[
        float | None, typer.Option(help="So are those whose match leads back further than so many source pixels.")
    ] = None,
    mirror: Mirror = "no",
    batch_size: Annotated[int, typer.Option(min=1, help="Images per forward pass.")] = 8,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; default: as many as pay, at most one a core.")
    ] = None,
    store: Annotated[
        Path | None, typer.Option(help="Folder of encodings, used and added to: the next transfer need not encode.")
    ] = None,
    model: Model = None,
    size: Size = None,
    keep_aspect: KeepAspect = False,
    flip: Flip = False,
    device: Device = "auto",
    runtime: Runtime = "torch",
    as_json: AsJson = False,
) -> None:
    """Propagate key-points, boxes and masks from one labelled image, or several, to many.

    Of several sources the most confident wins, point by point. Interrupted, it goes on where it stopped. Exit code 0:
    all images done; 1: some failed; 2: an error.
    """
    from simsc.cli.views import progress_bar
    from simsc.matching.mirror import check_mirror
    from simsc.transfer.run import transfer as run

    choice = check_mirror(mirror)
    matcher = open_matcher(model, size, keep_aspect, flip, device, runtime)
    settings = {"model": model, "size": size, "keep_aspect": keep_aspect, "flip": flip}
    with progress_bar() as progress:
        task = progress.add_task("images", total=None, note="")
        outcome = run(
            matcher,
            source,
            annotations,
            targets,
            out,
            form=form,
            min_confidence=min_confidence,
            max_cycle=max_cycle,
            mirror=choice,
            batch_size=batch_size,
            workers=workers,
            store=store,
            settings=settings,
            progress=lambda done, total: progress.update(task, completed=done, total=total),
        )
    _report(outcome, out, as_json, reviewable=form == "coco")
    if outcome.failed:
        raise typer.Exit(FAILED)


def _report(outcome: Outcome, out: Path, as_json: bool, reviewable: bool) -> None:
    points = {status: outcome.statuses()[status] for status in ("sure", "unsure", "none")}
    if as_json:
        facts = {"out": str(out), "done": outcome.done, "resumed": outcome.resumed, "failed": outcome.failed}
        facts["skipped"] = outcome.skipped
        typer.echo(json.dumps({**facts, "points": points}))
        return
    earlier = f", {outcome.resumed} of them by an earlier run" if outcome.resumed else ""
    counts = ", ".join(f"{count} {status}" for status, count in points.items())
    typer.echo(f"{out}: labels of {outcome.done} images{earlier}; key-points: {counts}")
    if reviewable and points["unsure"]:
        typer.echo(f"To look through the unsure ones: simsc review {out}")
    for reason in outcome.skipped:
        print(f"skipped and done again: {reason}", file=sys.stderr)
    for reason in outcome.failed.values():
        print(f"failed: {reason}", file=sys.stderr)


@command("simsc review labels.json")
def review(
    labels: Annotated[Path, typer.Argument(help="COCO file that `simsc transfer` wrote, or a folder that holds one.")],
    out: Annotated[
        Path | None, typer.Option(help="Where corrections go, beside it; default: the same name, .reviewed.json.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for a free one.")] = 8000,
) -> None:
    """Look through transferred key-points on a web page, the doubtful first, and correct them.

    Every correction is saved at once. The corrected file can go into `simsc adapt`, and be a source of `transfer`.
    """
    from simsc.cli.serve import need_web

    need_web("simsc review")

    from simsc.files import outputs
    from simsc.web.connections import serve as serve_app
    from simsc.web.review import ReviewFile, create_review_app
    from simsc.web.settings import ANY_ADDRESS, LOOPBACK, Settings

    path = _coco_file(labels)
    target = out or path.with_name(f"{path.name.removesuffix('.json').removesuffix('.reviewed')}.reviewed.json")
    settings = Settings(models={}, hosts=LOOPBACK | {host.lower()}, any_address=host in ANY_ADDRESS)
    with outputs(target):
        file = ReviewFile(path, target)
        typer.echo(f"{len(file.annotations)} objects in {len(file.images)} images; corrections go to {target}")
        serve_app(create_review_app(file, settings), host, port)


def _coco_file(path: Path) -> Path:
    from simsc.errors import DataError
    from simsc.reading import is_file, read_bytes

    if not path.is_dir():
        return path
    found = [each for each in sorted(path.glob("*.json")) if is_file(each) and b'"annotations"' in read_bytes(each)]
    plain = [each for each in found if not each.name.endswith(".reviewed.json")]
    if len(plain) != 1:
        names = ", ".join(each.name for each in plain) or "none"
        raise DataError(f"{path}: expected one COCO file, found {names}; name it")
    return plain[0]


@command("simsc adapt photos.json --epochs 1 --out my-model")
def adapt(
    photos: Annotated[Path, typer.Argument(help="Your key-points in COCO's format; two photographs are enough.")],
    out: Annotated[Path, typer.Option(help="Folder of the adapted model, which --model then takes.")],
    start: Annotated[str | None, typer.Option(help="Model to start from; default: the packaged one.")] = None,
    epochs: Annotated[int, typer.Option(min=0, help="How often to measure while training.")] = 8,
    seed: Annotated[int, typer.Option(min=0, help="Decides what is held out.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an adaptation that was interrupted.")] = False,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Fine-tune the packaged model on your own key-points, in minutes.

    A quarter of the photographs, or of the key-points where there are fewer than five photographs, is held out; the
    model is measured on it before and after; the start is kept if nothing was gained. `simsc train` has all options.
    """
    from simsc.cli.views import training_listener
    from simsc.training.adapt import adapt as run

    with training_listener(out, True, False, resumable=True) as listener:
        result = run(
            photos, out, start=start, epochs=epochs, seed=seed, device=device, resume=resume, listener=listener
        )
    _report_adapted(result, as_json)


def _report_adapted(result: Adapted, as_json: bool) -> None:
    if as_json:
        facts = {"out": str(result.out), "gained": result.gained, "before": result.before, "after": result.after}
        typer.echo(json.dumps({**facts, "held_out": result.held_out, "photographs": result.photographs}))
        return
    typer.echo(f"Held out: {result.held_out}; learned from {result.photographs} photographs.")
    for alpha, before in result.before.items():
        typer.echo(f"PCK@{alpha}: {before:.1f} before, {result.after[alpha]:.1f} after")
    if result.gained:
        typer.echo(f"The adapted model is {result.out}: use it with --model {result.out}")
    else:
        typer.echo(f"Nothing was gained: {result.out} holds the start, unchanged.")
