"""Options that all commands with a matcher share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from simsc.matcher import Matcher

Model = Annotated[
    str | None,
    typer.Option(
        help="Packaged model, model file, run folder, or backbone for its pre-trained features, also with a head: "
        "resnet50+hpf; default: packaged."
    ),
]
Size = Annotated[int | None, typer.Option(help="Side of the square input, or the longer side with --keep-aspect.")]
KeepAspect = Annotated[bool, typer.Option("--keep-aspect", help="Keep aspect ratios instead of using a square.")]
Flip = Annotated[bool, typer.Option("--flip", help="Flipped ensemble: match the mirrored pair too; twice the time.")]
MIRROR_HELP = (
    "Opposite viewpoints: match the mirror image of the source: no, yes, or auto where it suits the target better; "
    "left parts are then found at right ones."
)
Mirror = Annotated[str, typer.Option(help=MIRROR_HELP)]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, mps.")]
Runtime = Annotated[str, typer.Option(help="torch, or onnx (extra `export`).")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def open_matcher(
    model: str | None, size: int | None, keep_aspect: bool, flip: bool, device: str, runtime: str
) -> Matcher:
    """The matcher that the options describe."""
    from simsc.matcher import load

    return load(model, size=size, keep_aspect=keep_aspect, flip=flip, device=device, runtime=runtime)
