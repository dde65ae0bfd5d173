"""``simsc serve`` and ``simsc export``: a model for others, on a web page or for another runtime."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from simsc.cli.application import command
from simsc.cli.options import AsJson, Model
from simsc.errors import SimscError

_NEEDS = ("fastapi", "uvicorn", "python_multipart")


def need_web(what: str) -> None:
    """Refuse a command whose packages are not installed."""
    if missing := [name for name in _NEEDS if find_spec(name) is None]:
        raise SimscError(f"{what} needs {', '.join(missing)}: install the extra, pip install 'simsc[web]'")


@command("simsc serve --port 8080")
def serve(
    model: list[str] = typer.Option(
        [],
        help="Model to offer: packaged, file, run folder, backbone, also with a head (resnet50+hpf); repeat for "
        "several. Default: packaged models and backbones on this machine.",
    ),
    host: str = typer.Option("127.0.0.1", help="Address to listen on; 0.0.0.0 for all interfaces."),
    port: int = typer.Option(8000, min=0, max=65535, help="Port to listen on; 0 for a free one."),
    allow_host: list[str] = typer.Option([], help="Further host name the server may be addressed by."),
    max_upload: int = typer.Option(20, min=1, help="Largest image file, in MB."),
    max_pixels: int = typer.Option(40, min=1, max=80, help="Largest image, in millions of pixels."),
    index: Path | None = typer.Option(
        None, help="Folder that `simsc index` wrote: the page can then search a point in all of its images."
    ),
    memory: int = typer.Option(512, min=1, help="Memory for images and features, in MB."),
) -> None:
    """Open the web page: match two images by clicking."""
    need_web("simsc serve")

    from simsc.web.app import create_app
    from simsc.web.catalogue import offered_models
    from simsc.web.connections import serve as serve_app
    from simsc.web.settings import ANY_ADDRESS, LOOPBACK, MEGABYTE, Settings

    settings = Settings(
        models=offered_models(model),
        hosts=LOOPBACK | {name.lower() for name in (host, *allow_host)},
        any_address=host in ANY_ADDRESS,
        max_upload=max_upload * MEGABYTE,
        max_pixels=max_pixels * 1_000_000,
        memory=memory * MEGABYTE,
    )
    collection = None
    if index is not None:
        from simsc.bulk.index import Index

        collection = Index(index)
    if host not in LOOPBACK:
        typer.secho("simsc: everyone who can reach this address can use the server", fg=typer.colors.YELLOW, err=True)
    serve_app(create_app(settings, index=collection), host, port)


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
    from simsc.files import outputs
    from simsc.models.trained import Trained

    with outputs(out):
        trained = Trained.open(model).ready()
        side = size or trained.image_size
        written = export_onnx(trained, out, part=part, size=(side, side), tolerance=tolerance)
    if as_json:
        typer.echo(json.dumps({"out": str(out), "size": side, "part": part, "differences": written.differences}))
        return
    typer.echo(f"{out}: {part}, input {side}x{side}, {out.stat().st_size / 1e6:.1f} MB")
    for name, difference in written.differences.items():
        typer.echo(f"  {name:12} largest difference to PyTorch {difference:.1e} (accepted: {tolerance:.0e})")
