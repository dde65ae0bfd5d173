"""``simsc serve``."""

from __future__ import annotations

from importlib.util import find_spec

import typer

from simsc.cli.application import command
from simsc.errors import SimscError

_NEEDS = ("fastapi", "uvicorn", "python_multipart")


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
    memory: int = typer.Option(512, min=1, help="Memory for images and features, in MB."),
) -> None:
    """Open the web page: match two images by clicking."""
    if missing := [name for name in _NEEDS if find_spec(name) is None]:
        raise SimscError(f"simsc serve needs {', '.join(missing)}: install the extra, pip install 'simsc[web]'")
    import uvicorn

    from simsc.web.app import create_app
    from simsc.web.catalogue import offered_models
    from simsc.web.settings import ANY_ADDRESS, LOOPBACK, MEGABYTE, Settings

    settings = Settings(
        models=offered_models(model),
        hosts=LOOPBACK | {name.lower() for name in (host, *allow_host)},
        any_address=host in ANY_ADDRESS,
        max_upload=max_upload * MEGABYTE,
        max_pixels=max_pixels * 1_000_000,
        memory=memory * MEGABYTE,
    )
    if host not in LOOPBACK:
        typer.secho("simsc: everyone who can reach this address can use the server", fg=typer.colors.YELLOW, err=True)
    uvicorn.run(create_app(settings), host=host, port=port, log_level="info", server_header=False)
