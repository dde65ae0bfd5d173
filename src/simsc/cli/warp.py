"""``simsc warp``: one image laid over another by their dense correspondence."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simsc.cli.application import command
from simsc.cli.options import Device, Flip, KeepAspect, Model, Runtime, Size, open_matcher


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

    from simsc.images import read_image
    from simsc.pictures import draw_flow, save_picture

    first, second = read_image(source), read_image(target)
    matcher = open_matcher(model, size, keep_aspect, flip, device, runtime)
    flow = matcher.dense(first, second, smooth=smooth)
    save_picture(Image.fromarray(flow.warp(first, consistent=consistent)), out)
    if sheet:
        save_picture(draw_flow(first, second, flow.points, confidence=flow.confidence), sheet)
    typer.echo(f"{out}: {flow.cycle_mask.mean():.0%} of the target is cycle-consistent")
