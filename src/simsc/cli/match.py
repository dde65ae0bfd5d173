"""``simsc match`` and ``warp``: points and pixels of one image found in another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simsc.cli.application import command
from simsc.cli.options import AsJson, Device, Flip, KeepAspect, Mirror, Model, Runtime, Size, open_matcher

if TYPE_CHECKING:
    import numpy as np

    from simsc.matcher import MatchResult

UNMATCHED = 1
"""Exit code when a limit was asked for and some point does not pass it."""


@command('simsc match one.png two.png --points "120,88;60,140" --picture matches.png')
def match(
    source: Annotated[Path, typer.Argument(help="Image with the points.")],
    target: Annotated[Path, typer.Argument(help="Image to find them in.")],
    points: Annotated[str | None, typer.Option(help='Points x,y in pixels of the source: "120,88;60,140".')] = None,
    points_file: Annotated[Path | None, typer.Option(help="File of points: JSON [[x, y], ...] or lines x,y.")] = None,
    grid: Annotated[int | None, typer.Option(help="A grid of so many points per side.")] = None,
    min_confidence: Annotated[float | None, typer.Option(help="Below this a point counts as unmatched.")] = None,
    max_cycle: Annotated[
        float | None, typer.Option(help="So does a match that leads back further than so many source pixels.")
    ] = None,
    mirror: Mirror = "no",
    picture: Annotated[Path | None, typer.Option(help="Draw the matches into this image file.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the matches as JSON.")] = None,
    model: Model = None,
    size: Size = None,
    keep_aspect: KeepAspect = False,
    flip: Flip = False,
    device: Device = "auto",
    runtime: Runtime = "torch",
    as_json: AsJson = False,
) -> None:
    """Find points of one image in another one.

    Exit code 0: all points matched; 1: some are below --min-confidence or beyond --max-cycle; 2: an error.
    """
    from simsc.files import outputs
    from simsc.images import read_image
    from simsc.matching.mirror import check_mirror
    from simsc.pictures import save_picture

    choice = check_mirror(mirror)
    first, second = read_image(source), read_image(target)
    query = _query(points, points_file, grid, (first.shape[0], first.shape[1]))
    with outputs(out, picture):
        matcher = open_matcher(model, size, keep_aspect, flip, device, runtime)
        found = matcher.match(first, second, query, min_confidence=min_confidence, max_cycle=max_cycle, mirror=choice)
        _write(found, source, target, out, as_json)
        if picture:
            save_picture(found.draw(), picture)
    limited = min_confidence is not None or max_cycle is not None
    if limited and not found.matched.all():
        raise typer.Exit(UNMATCHED)


def _query(points: str | None, points_file: Path | None, grid: int | None, size: tuple[int, int]) -> np.ndarray:
    from simsc.errors import ConfigError
    from simsc.matcher.queries import grid_points, parse_points, read_points

    if sum(option is not None for option in (points, points_file, grid)) != 1:
        raise ConfigError("give the points by exactly one of --points, --points-file and --grid")
    if points is not None:
        return parse_points(points)
    return read_points(points_file) if points_file is not None else grid_points(size, grid or 0)


def _write(found: MatchResult, source: Path, target: Path, out: Path | None, as_json: bool) -> None:
    from simsc.files import write_json

    facts = found.to_dict()
    facts["source"]["image"], facts["target"]["image"] = str(source), str(target)
    if out:
        write_json(out, facts)
    if as_json:
        typer.echo(json.dumps(facts))
    else:
        _print_table(found)


def _print_table(found: MatchResult) -> None:
    from rich.console import Console
    from rich.table import Table

    from simsc.cli.views import status_text

    table = Table()
    for name in ("point", "source x, y", "target x, y", "confidence", "cycle error", "status"):
        table.add_column(name, justify="right")
    rows = zip(found.source_points, found.points, found.confidence, found.cycle_error, found.status, strict=True)
    for number, (start, end, confidence, error, status) in enumerate(rows, start=1):
        table.add_row(
            str(number), _place(start), _place(end), f"{confidence:.2f}", f"{error:.1f} px", status_text(status)
        )
    console = Console()
    console.print(table)
    console.print(f"effective temperature {found.temperature:.4f}", highlight=False)
    if found.mirrored:
        console.print("the mirror image of the source was matched: left parts are found at right ones", highlight=False)


def _place(point: np.ndarray) -> str:
    return f"{point[0]:.1f}, {point[1]:.1f}"


@command("simsc warp one.png two.png --out warped.png --sheet sheet.png")
def warp(
    source: Annotated[Path, typer.Argument(help="Image to warp.")],
    target: Annotated[Path, typer.Argument(help="Image to lay it on.")],
    out: Annotated[Path, typer.Option(help="The warped image, as large as the target.")],
    sheet: Annotated[Path | None, typer.Option(help="Also draw a sheet: warp, checkerboard, flow, confidence.")] = None,
    smooth: Annotated[float, typer.Option(help="Smoothing of the flow in cells; 0 shows every single match.")] = 1.5,
    consistent: Annotated[
        bool, typer.Option("--consistent", help="Grey where the match does not lead back (cycle check).")
    ] = False,
    model: Model = None,
    size: Size = None,
    keep_aspect: KeepAspect = False,
    flip: Flip = False,
    device: Device = "auto",
    runtime: Runtime = "torch",
) -> None:
    """Warp one image onto another one."""
    from PIL import Image

    from simsc.files import outputs
    from simsc.images import read_image
    from simsc.pictures import draw_flow, save_picture

    first, second = read_image(source), read_image(target)
    with outputs(out, sheet):
        matcher = open_matcher(model, size, keep_aspect, flip, device, runtime)
        flow = matcher.dense(first, second, smooth=smooth)
        save_picture(Image.fromarray(flow.warp(first, consistent=consistent)), out)
        if sheet:
            save_picture(draw_flow(first, second, flow.points, confidence=flow.confidence), sheet)
    typer.echo(f"{out}: {flow.cycle_mask.mean():.0%} of the target is cycle-consistent")
