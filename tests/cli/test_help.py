"""What ``--help`` prints: every word of the source, and examples that run as they stand."""

from __future__ import annotations

import inspect
import json
import re
import shlex
import urllib.request
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
import typer
from fastapi import FastAPI
from PIL import Image
from starlette.testclient import TestClient
from typer.testing import CliRunner
from typer.utils import get_params_from_function

from simsc.cli import app
from simsc.errors import DownloadError, WeightsError
from simsc.scenes import render_scene

Command = tuple[str, ...]
NEEDS_BULK = ("simsc bulk", "simsc index", "simsc find")  # the extra of that name
NEEDS_NETWORK = ("simsc data download", "simsc models fetch")


def commands(group: typer.Typer = app, path: Command = ()) -> Iterator[tuple[Command, typer.models.CommandInfo]]:
    """Every command with the words that call it."""
    for info in group.registered_commands:
        name = info.name or info.callback.__name__
        yield (*path, name), info
    for inner in group.registered_groups:
        yield from commands(inner.typer_instance, (*path, str(inner.name)))


def printed(*path: str, width: int = 1000) -> str:
    result = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": str(width), "TERMINAL_WIDTH": str(width)})
    assert result.exit_code == 0, result.output
    return result.output


def said(info: typer.models.CommandInfo) -> list[str]:
    """The help texts in the source of a command: its paragraphs, and those of its parameters."""
    parameters = [each.default for each in get_params_from_function(info.callback).values()]
    paragraphs = (inspect.getdoc(info.callback) or "").split("\n\n")
    return [*paragraphs, *(text for each in parameters if (text := getattr(each, "help", None)))]


def examples(path: Command, width: int = 1000) -> list[str]:
    _, _, after = printed(*path, width=width).partition("Examples:")
    return [line.strip() for line in after.splitlines() if line.strip().startswith("simsc ")]


@pytest.mark.parametrize("path", [path for path, _ in commands()], ids=" ".join)
def test_help_prints_what_the_source_says(path: Command) -> None:
    text = " ".join(printed(*path).replace("│", " ").split())
    for sentence in said(dict(commands())[path]):
        assert " ".join(sentence.split()) in text


def test_help_of_groups_names_their_commands() -> None:
    for path, info in commands():
        first = " ".join((inspect.getdoc(info.callback) or "").split("\n\n")[0].split())
        assert first in " ".join(printed(*path[:-1]).replace("│", " ").split())


@pytest.mark.parametrize("path", [path for path, _ in commands()], ids=" ".join)
def test_every_command_has_examples_that_fit_a_terminal(path: Command) -> None:
    found = examples(path)
    assert found
    assert examples(path, width=80) == found
    assert all(shlex.split(line)[1 : 1 + len(path)] == list(path) for line in found)


def test_names_that_help_lists_without_importing_torch_are_all_there_are() -> None:
    from simsc.bench import CASES
    from simsc.evaluation.protocol import PROTOCOLS

    assert f"{', '.join(PROTOCOLS)};" in printed("evaluate")
    about = str(said(dict(commands())[("bench",)]))
    assert all(re.search(rf"\b{name}\b", about) for name in CASES)


def test_markup_in_help_is_printed_not_obeyed() -> None:
    from simsc.cli.application import PlainHelp

    group = typer.Typer(cls=PlainHelp, rich_markup_mode="rich")

    @group.command(epilog="*e* [red]<f>")
    def only(option: str = typer.Option("", help="[[x, y], ...] *a* <b> `c`")) -> None:
        """[bold]Not bold[/bold] at /home/[a]."""

    result = CliRunner().invoke(get_command_app(group), ["only", "--help"], env={"COLUMNS": "200"})
    for text in ("[[x, y], ...] *a* <b> `c`", "[bold]Not bold[/bold] at /home/[a].", "*e* [red]<f>"):
        assert text in result.output


def get_command_app(group: typer.Typer) -> typer.Typer:
    group.callback()(lambda: None)  # with a callback, a single command stays a command of a group
    return group


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the examples name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIMSC_HOME", str(tmp_path / "home"))
    (tmp_path / "photos").mkdir()
    names = ("one.png", "two.png", "photos/three.png", "photos/four.png")
    scenes = [render_scene("car", index, split="test") for index in range(len(names))]
    for name, scene in zip(names, scenes, strict=True):
        Image.fromarray(scene.image).save(tmp_path / name)
    labels = dict(zip(scenes[0].point_names[:4], scenes[0].points[:4].tolist(), strict=True))
    Path("one.json").write_text(json.dumps({"category": "car", "keypoints": labels, "box": scenes[0].box.tolist()}))
    Path("pairs.csv").write_text('source,target,points\none.png,two.png,"120,88;60,140"\n')
    Path("photos.json").write_text(json.dumps(_coco(names, scenes)))
    return tmp_path


def _coco(names: Sequence[str], scenes: Sequence[Any]) -> dict[str, Any]:
    shown = [point.tolist() for scene in scenes for point in scene.points]
    count = len(shown) // len(scenes)
    flat = [[value for x, y in shown[i * count : (i + 1) * count] for value in (x, y, 2)] for i in range(len(scenes))]
    return {
        "images": [{"id": i, "file_name": name} for i, name in enumerate(names)],
        "categories": [{"id": 1, "name": "car", "keypoints": [str(i) for i in range(count)]}],
        "annotations": [
            {"id": i, "image_id": i, "category_id": 1, "keypoints": flat[i], "bbox": [0, 0, 50, 50]}
            for i in range(len(scenes))
        ],
    }


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The world in small: few scenes, a server that answers once, and no network."""
    import simsc.demo
    import simsc.scenes.dataset as pairs

    monkeypatch.setattr(pairs, "PAIRS_PER_CATEGORY", dict.fromkeys(pairs.PAIRS_PER_CATEGORY, 1))
    monkeypatch.setattr(pairs, "IMAGES_PER_CATEGORY", dict.fromkeys(pairs.IMAGES_PER_CATEGORY, 4))
    monkeypatch.setattr(simsc.demo, "MODEL", "simsc-resnet50")
    monkeypatch.setattr(simsc.demo, "STEPS", 2)
    monkeypatch.setattr("uvicorn.run", _answer_once)
    monkeypatch.setattr(urllib.request, "urlopen", _no_network)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("time.sleep", lambda _: None)


def _answer_once(server: FastAPI, host: str, port: int, **_: Any) -> None:
    client = TestClient(server, base_url=f"http://{host}:{port}")
    if server.title == "simsc review":
        assert client.get("/api/review").json()["objects"]
    else:
        assert client.get("/api/models").json()[0]["default"]


def _no_network(request: Any, *_: Any, **__: Any) -> Any:
    raise URLError(f"no way to {getattr(request, 'full_url', request)}")


@pytest.mark.slow
@pytest.mark.usefixtures("folder", "quick")
def test_every_example_runs() -> None:
    """In the order of the help, so that a later example may use the files of an earlier one."""
    for path, _ in commands():
        for line in examples(path):
            if line.startswith(NEEDS_BULK) and not (find_spec("pyarrow") and find_spec("faiss")):
                continue
            result = CliRunner().invoke(app, shlex.split(line)[1:])
            if line.startswith("simsc models push"):  # as far as the hub
                assert isinstance(result.exception, WeightsError), line
                assert "cannot publish" in str(result.exception), line
            elif line.startswith(NEEDS_NETWORK):  # as far as the official address
                assert isinstance(result.exception, DownloadError), line
                assert "https://" in str(result.exception), line
            else:
                assert result.exit_code == 0, f"{line}\n{result.output}\n{result.exception!r}"
