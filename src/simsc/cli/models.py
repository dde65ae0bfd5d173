"""``simsc models``: which models and backbones exist, what they need, and where their weights are."""

from __future__ import annotations

import fnmatch
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simsc.cli.application import app as application
from simsc.cli.application import command
from simsc.errors import ConfigError
from simsc.matching import LOCALIZERS
from simsc.models.specs import HUB_PREFIX, BackboneSpec, find_backbone, list_backbones

if TYPE_CHECKING:
    from simsc.models.trained import Trained

app = typer.Typer(help="Models, backbones and their weights.", no_args_is_help=True)
application.add_typer(app, name="models")

Name = Annotated[str, typer.Argument(help="A name or alias of `simsc models list`.")]
AnyName = Annotated[
    str, typer.Argument(help="A name of `simsc models list`, a model file, a run folder, hf:owner/name.")
]
Pattern = Annotated[str, typer.Argument(help="Shell pattern for names and aliases, such as '*dino*'.")]
Heads = Annotated[bool, typer.Option("--heads", help="Measure what each matching head costs on this backbone.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


@command("simsc models list '*dino*'", name="list", group=app)
def list_command(pattern: Pattern = "*", as_json: AsJson = False) -> None:
    """List the packaged models and the backbones of the registry."""
    from simsc.models.card import packaged_models

    packaged = {name: path for name, path in packaged_models().items() if fnmatch.fnmatch(name, pattern)}
    specs = [find_backbone(name) for name in list_backbones(pattern)]
    if as_json:
        trained = [_trained_facts(name, path) for name, path in packaged.items()]
        typer.echo(json.dumps([*trained, *(_facts(spec) for spec in specs)], indent=2))
        return
    if not (packaged or specs):
        typer.echo(f"no model or backbone matches '{pattern}'; `simsc models list` shows all", err=True)
        return
    from rich.console import Console

    console = Console()
    for table in (_trained_table(packaged) if packaged else None, _table(specs) if specs else None):
        if table is not None:
            console.print(table)


@command("simsc models info simsc-resnet50", "simsc models info resnet50 --heads", group=app)
def info(name: AnyName, heads: Heads = False, as_json: AsJson = False) -> None:
    """Show everything known about a trained model, or about a backbone and where its weights are or would go."""
    from simsc.models.card import find_model, split_head

    path, (backbone, _) = find_model(name), split_head(name)
    if path is not None:
        facts, spec = _trained_facts(name, path), None
    else:
        spec = find_backbone(backbone)
        facts = {**_facts(spec), "parameters": _parameters(spec)}
    if heads and spec is None:
        raise ConfigError(f"{name} is a trained model, which keeps its head; --heads needs a backbone")
    costs = _head_costs(spec) if heads and spec is not None else {}
    if as_json:
        typer.echo(json.dumps({**facts, "heads": costs} if heads else facts, indent=2))
        return
    for key, value in facts.items():
        typer.echo(f"{key.replace('_', ' '):16}{_as_text(value)}")
    if heads and spec is not None:
        typer.echo(f"\nheads, for one pair of {spec.input_size} x {spec.input_size} images:")
        _print_heads(costs)


@command("simsc models fetch dino-vitb8", group=app)
def fetch(name: Name) -> None:
    """Download the weights of a backbone, or continue a download that was interrupted."""
    if name.startswith(HUB_PREFIX):
        from simsc.models.card import find_model

        if find_model(name) is None:
            from simsc.models.backbone import build_backbone

            build_backbone(name)
        typer.echo(f"{name} is in the cache of the hub")
        return
    from simsc.models.weights import fetch_weights

    typer.echo(str(fetch_weights(find_backbone(name))))


@command("simsc models average runs/first --half --out half.safetensors", group=app)
def average(
    models: Annotated[list[str], typer.Argument(help="Trained models: packaged names, files or run folders.")],
    out: Annotated[Path, typer.Option(help="The model file to write.")],
    shares: Annotated[str, typer.Option(help="Weight of each model, e.g. `2,1`; equal by default.")] = "",
    size: Annotated[int | None, typer.Option(min=16, help="Side of the input it is to be used at.")] = None,
    localizer: Annotated[str | None, typer.Option(help="How its score maps are to become points.")] = None,
    coherent: Annotated[bool | None, typer.Option(help="Whether points are to heed the matches around them.")] = None,
    half: Annotated[bool, typer.Option("--half", help="Store matrices in half precision.")] = False,
) -> None:
    """Write the mean of the networks of models that were trained from the same start; one model is copied.

    The temperature module is the first model's, and so is how the model is used, where no option changes it; it loses
    its calibration if one does.
    """
    from simsc.files import outputs
    from simsc.models.card import find_trained
    from simsc.models.trained import Trained
    from simsc.models.trained import average as mean

    with outputs(out):
        opened = [Trained.open(path) for path in [find_trained(name) for name in models]]
        averaged = _used(mean(opened, _parse_shares(shares)), image_size=size, localizer=localizer, coherent=coherent)
        averaged.save(out, half=half)
    if unknown := [name for name, model in zip(models, opened, strict=True) if not model.card.origin]:
        note = f"simsc: it is not known which weights {', '.join(unknown)} started from; a mean needs the same start"
        typer.secho(note, fg=typer.colors.YELLOW, err=True)
    typer.echo(str(out))


@command("simsc models push runs/first owner/name", group=app)
def push(
    name: AnyName,
    repository: Annotated[str, typer.Argument(help="Where to put it on the Hugging Face hub: owner/name.")],
    private: Annotated[bool, typer.Option("--private", help="A new repository is seen by its owner alone.")] = False,
) -> None:
    """Publish a trained model on the Hugging Face hub, with a page that describes it (extra `hub`).

    Log in first, with `hf auth login`. A page that is there already is kept.
    """
    from simsc.models.card import find_trained
    from simsc.models.published import push as publish

    typer.echo(publish(find_trained(name), repository, private=private))


def _used(model: Trained, **changes: Any) -> Trained:
    """A model that is to be used in another way; what turned its signals into probabilities then no longer holds."""
    given = {name: value for name, value in changes.items() if value is not None}
    if name := given.get("localizer"):
        _ = LOCALIZERS[name]
    return model.described(**given, calibration=None) if given else model


def _parse_shares(text: str) -> list[float] | None:
    try:
        return [float(part) for part in text.split(",")] if text else None
    except ValueError:
        raise ConfigError(f"--shares {text}: expected numbers with commas, for example 2,1") from None


def _trained_facts(name: str, path: Path) -> dict[str, Any]:
    """What a model's card says, the configuration it was trained with last."""
    from simsc.models.card import Card

    card = Card.read(path)
    return {
        "name": name,
        "file": str(path),
        "bytes": path.stat().st_size,
        **asdict(card.design),
        "localizer": card.localizer,
        "coherent": card.coherent,
        "beta_eval": card.beta_eval,
        "image_size": card.image_size,
        "protocol": card.protocol,
        "origin": card.origin or None,
        "averaged": card.averaged,
        "sources": card.learned_from,
        "best": asdict(card.best) if card.best else None,
        "training": dict(card.training),
    }


def _trained_table(packaged: dict[str, Path]) -> Any:
    from rich.table import Table

    from simsc.models.card import Card

    table = Table(box=None, pad_edge=False)
    for title in ("packaged model", "backbone", "input", "trained on"):  # fits 80 columns; `models info` tells the rest
        table.add_column(title, justify="right" if title == "input" else "left", no_wrap=True)
    for name, path in packaged.items():
        card = Card.read(path)
        table.add_row(name, card.design.backbone, str(card.image_size or "-"), card.learned_from or "-")
    table.add_row()
    return table


def _facts(spec: BackboneSpec) -> dict[str, Any]:
    from simsc.models.weights import find_weights, weights_path

    found = find_weights(spec)
    return {
        "name": spec.name,
        "aliases": list(spec.aliases),
        "channels": spec.channels,
        "stride": spec.stride,
        "blocks": spec.blocks,
        "input_size": spec.input_size,
        "mean": list(spec.mean),
        "std": list(spec.std),
        "licence": spec.licence,
        "source": spec.source.address if spec.source else None,
        "hub": spec.source.hub if spec.source else None,
        "sha256": (spec.source.sha256 or "unverified: none is published") if spec.source else None,
        "weights": str(found) if found else None,
        "weights_go_to": str(weights_path(spec)) if spec.source else None,
    }


def _table(specs: list[BackboneSpec]) -> Any:
    from rich.table import Table

    from simsc.models.weights import find_weights

    table = Table(box=None, pad_edge=False)
    for title in ("name", "alias", "stride", "licence", "here"):  # as above
        table.add_column(title, justify="right" if title == "stride" else "left", no_wrap=True)
    for spec in specs:
        here = "yes" if find_weights(spec) else "no"
        table.add_row(spec.name, ", ".join(spec.aliases), str(spec.stride), spec.licence, here)
    return table


def _parameters(spec: BackboneSpec) -> int:
    import torch

    from simsc.models.backbone import from_spec

    with torch.device("meta"):  # sizes only: no memory, no initialisation
        return sum(parameter.numel() for parameter in from_spec(spec).parameters())


def _head_costs(spec: BackboneSpec) -> dict[str, dict[str, int]]:
    """Parameters, operations and memory of every head for one pair at the backbone's input size."""
    from simsc.models.backbone import from_spec
    from simsc.models.heads import HEADS, build_head
    from simsc.models.heads.cost import head_cost

    backbone = from_spec(spec)
    grid = backbone.grid_size((spec.input_size, spec.input_size))
    return {name: dict(head_cost(build_head(name, backbone), grid)) for name in HEADS if name != "none"}  # type: ignore[arg-type]


def _print_heads(costs: dict[str, dict[str, int]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("head", box=None, pad_edge=False)
    for title in ("parameters", "GFLOPs", "MB kept for training"):
        table.add_column(title, justify="right")
    for name, cost in costs.items():
        numbers = (f"{cost['parameters']:,}", f"{cost['flops'] / 1e9:.1f}", f"{cost['memory_bytes'] / 1e6:.1f}")
        table.add_row(name, *numbers)
    Console().print(table)


def _as_text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return ", ".join(str(item) for item in value) or "-"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_as_text(item)}" for key, item in value.items()) or "-"
    return f"{value:,}" if isinstance(value, int) and value > 9999 else str(value)
