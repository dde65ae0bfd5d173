"""``simsc export``: a model for other runtimes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from simsc.cli.application import command
from simsc.cli.options import AsJson, Model


@command("simsc export --part matcher --out matcher.onnx")
def export(
    out: Annotated[Path, typer.Option(help="File to write.")],
    form: Annotated[str, typer.Option("--format", help="onnx (extra `export`).")] = "onnx",
    part: Annotated[
        str, typer.Option(help="encoder (backbone + temperature), or matcher (two images and points to matches).")
    ] = "matcher",
    model: Model = None,
    size: Annotated[int | None, typer.Option(help="Side of the square input; default: the model's own.")] = None,
    tolerance: Annotated[float, typer.Option(help="Largest difference to PyTorch that is accepted.")] = 1e-4,
    as_json: AsJson = False,
) -> None:
    """Export a model and check the file against PyTorch; a file that differs is not written."""
    from simsc.errors import ConfigError, unknown_name

    if form != "onnx":
        raise ConfigError(unknown_name("format", form, ["onnx"]))
    from simsc.export import export_onnx
    from simsc.models.trained import Trained

    trained = Trained.open(model).ready()
    side = size or trained.image_size
    written = export_onnx(trained, out, part=part, size=(side, side), tolerance=tolerance)
    if as_json:
        typer.echo(json.dumps({"out": str(out), "size": side, "part": part, "differences": written.differences}))
        return
    typer.echo(f"{out}: {part}, input {side}x{side}, {out.stat().st_size / 1e6:.1f} MB")
    for name, difference in written.differences.items():
        typer.echo(f"  {name:12} largest difference to PyTorch {difference:.1e} (accepted: {tolerance:.0e})")
