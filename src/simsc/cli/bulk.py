"""``simsc bulk``: pairs of any number matched into Parquet files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simsc.cli.application import command
from simsc.cli.options import AsJson, Device, Flip, KeepAspect, Model, Size

if TYPE_CHECKING:
    from simsc.bulk import Outcome

GIGABYTE = 1 << 30


@command("simsc bulk pairs.csv --out matches", "simsc bulk photos --rule chain --grid 8 --out grids")
def bulk(
    manifest: Annotated[str, typer.Argument(help="Parquet, JSONL or CSV: source, target, points; or a folder.")],
    targets: Annotated[str | None, typer.Argument(help="Second folder of images; default: the first.")] = None,
    *,
    out: Annotated[str, typer.Option(help="Folder of Parquet files to write, or to go on with.")],
    rule: Annotated[str, typer.Option(help="Pairs of folders: all, nearest or chain.")] = "all",
    count: Annotated[int, typer.Option(min=1, help="Targets of each source for --rule nearest.")] = 5,
    grid: Annotated[int | None, typer.Option(min=1, help="N x N points, for rows without points.")] = None,
    cycle: Annotated[
        bool | None,
        typer.Option("--cycle/--no-cycle", help="Match back; default: where the model's confidence needs it."),
    ] = None,
    root: Annotated[str | None, typer.Option(help="Folder of relative paths; default: the manifest's.")] = None,
    engine: Annotated[str, typer.Option(help="local, or ray (extra `ray`).")] = "local",
    workers: Annotated[int | None, typer.Option(min=1, help="Processes or actors; default: one a core.")] = None,
    memory: Annotated[
        float | None,
        typer.Option(
            min=0, help="GB of encodings kept in memory; default: a quarter of what is free, at least 1; Ray: 1."
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(help="Folder of encodings for this and later jobs; none for none; default: one for the job."),
    ] = None,
    store_size: Annotated[float, typer.Option(min=0, help="GB that the job's own store may take.")] = 8.0,
    shard_rows: Annotated[int | None, typer.Option(min=1, help="Rows per file; default: by their number.")] = None,
    address: Annotated[str | None, typer.Option(help="Ray cluster; default: RAY_ADDRESS, or a new one here.")] = None,
    cpus: Annotated[float, typer.Option(min=0, help="CPUs of one Ray actor.")] = 1.0,
    gpus: Annotated[float, typer.Option(min=0, help="GPUs of one Ray actor.")] = 0.0,
    model: Model = None,
    size: Size = None,
    keep_aspect: KeepAspect = False,
    flip: Flip = False,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Match the pairs of a manifest, or of folders of images, into Parquet files.

    Each image is encoded once. Interrupted at any moment, the same command goes on where it was. A row or an image
    that cannot be used becomes a row with its error. Exit code 0: all rows matched; 1: some have an error; 2: an error.
    """
    from simsc.bulk import Resources, Settings
    from simsc.bulk import bulk as run
    from simsc.bulk.places import Place
    from simsc.cli.views import progress_bar

    options: dict[str, Any] = {"size": size, "keep_aspect": keep_aspect, "flip": flip, "device": device}
    place = Place.at(manifest)
    folder = str(place if place.is_folder() else place.parent)
    settings = Settings(model, options, grid, cycle, root or folder)
    resources = Resources(
        engine, workers, store, _bytes_kept(memory, engine), int(store_size * GIGABYTE), address, cpus, gpus
    )
    with progress_bar() as progress:
        task = progress.add_task("pairs", total=None, note="")

        def show(outcome: Outcome) -> None:
            rates = f"{outcome.pairs_per_second:,.0f} pairs/s  {outcome.images_per_second:,.1f} images/s"
            errors = f"  {outcome.errors:,} errors" if outcome.errors else ""
            progress.update(task, total=outcome.total_now, completed=outcome.done, note=rates + errors)

        outcome = run(
            manifest,
            out,
            targets=targets,
            rule=rule,
            count=count,
            shard_rows=shard_rows,
            settings=settings,
            resources=resources,
            progress=show,
        )
    _report(outcome, Path(out), as_json)
    if outcome.errors:
        raise typer.Exit(1)


def _report(outcome: Outcome, out: Path, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(outcome.to_dict()))
        return
    earlier = f", {outcome.resumed:,} of them by an earlier run" if outcome.resumed else ""
    errors = f"; {outcome.errors:,} rows of this run have an error" if outcome.errors else ""
    typer.echo(f"{out}: {outcome.rows:,} pairs in {outcome.shards:,} files{earlier}{errors}")
    if outcome.done:
        typer.echo(
            f"{outcome.done:,} pairs, {outcome.encoded:,} images encoded, {outcome.seconds:.1f} s: "
            f"{outcome.pairs_per_second:,.0f} pairs/s, {outcome.images_per_second:,.1f} images/s"
        )


def _bytes_kept(memory: float | None, engine: str) -> int:
    """Bytes of encodings that are kept in memory: as told, or what suits this machine."""
    from simsc.allocator import free_memory

    if memory is not None:
        return int(memory * GIGABYTE)
    return max(free_memory() // 4, GIGABYTE) if engine == "local" else GIGABYTE


@command("simsc index photos --out photos-index")
def index(
    folder: Annotated[Path, typer.Argument(help="Folder of images, searched to any depth.")],
    out: Annotated[Path, typer.Option(help="Folder of the index.")],
    store: Annotated[str | None, typer.Option(help="Folder of encodings, as of simsc bulk; default: in --out.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default: one a core.")] = None,
    model: Model = None,
    size: Size = None,
    keep_aspect: KeepAspect = False,
    device: Device = "auto",
) -> None:
    """Encode a collection of images once, so that `simsc find` answers where a part is in all of them.

    Images that were encoded before are not encoded again. Exit code 1 if some images cannot be used.
    """
    from simsc.bulk.index import build_index
    from simsc.cli.views import progress_bar

    options: dict[str, Any] = {"size": size, "keep_aspect": keep_aspect, "device": device}
    with progress_bar() as progress:
        task = progress.add_task("images", total=None, note="")
        failed = build_index(
            folder,
            out,
            model=model,
            options=options,
            store=store,
            workers=workers,
            progress=lambda done, total: progress.update(task, completed=done, total=total),
        )
    typer.echo(f"{out}: built" + (f", without {len(failed):,} images" if failed else ""))
    for reason in list(failed.values())[:5]:
        typer.echo(f"failed: {reason}", err=True)
    if failed:
        raise typer.Exit(1)


@command("simsc find one.png photos-index --point 120,88")
def find(
    image: Annotated[Path, typer.Argument(help="The image that the point lies in.")],
    collection: Annotated[Path, typer.Argument(help="Folder that `simsc index` wrote.")],
    point: Annotated[str, typer.Option(help="x,y in pixels of the image.")],
    top: Annotated[int, typer.Option(min=1, help="How many places to list.")] = 10,
    candidates: Annotated[int, typer.Option(min=1, help="Images that are looked at exactly.")] = 100,
    exhaustive: Annotated[bool, typer.Option("--exhaustive", help="Look at all images.")] = False,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Where is this part in all images of a collection? The most similar places, the best one of each image."""
    from simsc.bulk.index import Index
    from simsc.errors import ConfigError
    from simsc.matcher.queries import parse_points

    points = parse_points(point, "--point")
    if len(points) != 1:
        raise ConfigError(f"--point {point}: expected one x,y")
    hits = Index(collection, device=device).find(
        image, points[0], top=top, candidates=candidates, exhaustive=exhaustive
    )
    if as_json:
        typer.echo(json.dumps([hit.to_dict() for hit in hits]))
        return
    typer.echo("similarity  confidence  status        x        y  image")
    for hit in hits:
        x, y = hit.point
        trust = f"{hit.confidence:10.3f}  {hit.status:6}"
        typer.echo(f"{hit.similarity:10.3f}  {trust} {x:8.1f} {y:8.1f}  {hit.image}")
