"""``simsc train``, and ``simsc demo``, which trains a little and shows what it did."""

from __future__ import annotations

from pathlib import Path

import typer

from simsc.cli.application import command


@command("simsc train --data scenes --epochs 1 --set max_pairs=8 --out runs/first", "simsc train --list")
def train(
    preset: str = typer.Option("simsc-resnet50", help="Named configuration; `--list` shows all."),
    data: str | None = typer.Option(
        None,
        help="What to train on: a data set (pfpascal, spair, voc, scenes, coco, pairs, ...) or several with commas, "
        "each as name[/split][:place][@weight], e.g. `pfpascal,spair@2,coco:birds/train.json`; "
        "default: the preset's, or pfpascal.",
        show_default=False,
    ),
    root: Path | None = typer.Option(
        None, help="Folder of the data set; found by itself if downloaded with `simsc data`."
    ),
    out: Path | None = typer.Option(None, help="Folder of the run; default runs/<preset>-<data>-<seed>."),
    epochs: int | None = typer.Option(None, help="Number of epochs, instead of the preset's."),
    set_: list[str] = typer.Option([], "--set", help="Change a configuration key, e.g. `--set rate=5e-5`; repeatable."),
    resume: bool = typer.Option(False, help="Continue the run in --out exactly where it stopped."),
    device: str = typer.Option("auto", help="auto, cpu, cuda, mps."),
    tensorboard: bool = typer.Option(False, help="Also write TensorBoard scalars (extra `logging`)."),
    list_: bool = typer.Option(False, "--list", help="List presets and configuration keys, then exit."),
) -> None:
    """Fine-tune a backbone with temperature learning.

    Many processes: `torchrun --nproc-per-node 2 -m simsc train --preset resnet50 --data pfpascal`
    """
    from simsc.training.config import parse_changes
    from simsc.training.presets import load_preset

    if list_:
        _print_presets()
        return
    config = load_preset(preset, data).updated(parse_changes(set_))
    if epochs is not None:
        config = config.updated({"epochs": epochs})
    name = f"{preset}-{config.data}-{config.seed}"
    folder = out or Path("runs") / "".join(sign if sign.isalnum() or sign in "-._" else "_" for sign in name)

    from simsc import distributed
    from simsc.cli.views import training_listener
    from simsc.training.run_folder import write_curves
    from simsc.training.starting import available_start
    from simsc.training.trainer import Trainer

    config, notes = available_start(config)
    with distributed.process_group(device):
        listener = training_listener(folder, distributed.is_main(), tensorboard, resumable=True)
        trainer = Trainer(config, folder, root=root, device=device, resume=resume, listener=listener, notes=notes)
        if distributed.is_main():
            for note in trainer.notes:
                typer.echo(note)
        with listener:
            trainer.run()
        if distributed.is_main():
            write_curves(folder)
            typer.echo(f"Run: {folder} (best.safetensors, metrics.jsonl, result.json)")


def _print_presets() -> None:
    from dataclasses import fields

    from rich.console import Console
    from rich.table import Table

    from simsc.training.config import Config
    from simsc.training.presets import list_presets

    console = Console()
    presets = Table("preset", "what it is", title="Presets")
    for name, about in list_presets().items():
        presets.add_row(name, about)
    presets.add_row("fixed:<t>", "Ablation, a constant temperature, e.g. fixed:0.03.")
    keys = Table("key", "default", title="Configuration keys for --set")
    for field in fields(Config):
        keys.add_row(field.name, str(field.default))
    console.print(presets, keys)


@command("simsc demo --source one.png --target two.png --epochs 1")
def demo(
    out: Path = typer.Option(Path("demo"), help="Folder for the report and the adapted model."),
    source: Path | None = typer.Option(None, help="An image of your own ..."),
    target: Path | None = typer.Option(None, help="... and another one of the same kind of thing."),
    epochs: int = typer.Option(4, min=1, help="How often the adaptation is measured; it takes about a minute."),
) -> None:
    """Show the main job in two minutes: match, warp, label, adapt to photographs, and write an HTML report."""
    from simsc.cli.views import training_listener
    from simsc.demo import run_demo
    from simsc.errors import ConfigError

    if (source is None) != (target is None):
        raise ConfigError("give both --source and --target, or neither")
    with training_listener(out, True, False) as listener:
        report = run_demo(out, source, target, epochs, typer.echo, listener)
    typer.echo(f"Report: {report}")
