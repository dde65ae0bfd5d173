"""Every command and snippet of the documentation is one of the program, and runs, or is listed here with the reason."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient
from typer.main import get_command
from typer.testing import CliRunner

from simsc.cli import app
from simsc.training.config import Config
from simsc.training.presets import list_presets

ROOT = Path(__file__).parents[2]
PHOTOS = ROOT / "examples" / "photos"
QUADRUPEDS = ("horse", "cow", "bison", "chamois", "zebra", "donkey", "gnu", "wapiti", "lion")

RUN = ("README.md", "docs/labelling.md", "docs/fine-tune.md")
"""Pages whose commands are run in their order, on the photographs, with the quick model."""
NOT_RUN = {
    r"simsc bulk ": "tests/bulk runs it on smaller folders: it starts processes",
    r"simsc evaluate --data pfwillow": "needs a data set; tests/evaluation and the help's examples run it on scenes",
    r"simsc train --data pfpascal,": "needs data sets and hours; tests/training runs it in small",
    r"simsc export ": "tests/export and the help's examples run it",
    r"simsc experiment labelling": "needs a data set and hours; tests/experiments runs its quick form",
    r"simsc transfer animals/labels.reviewed.json": "all photographs to all; tests/transfer has a smaller case of it",
    r"simsc (adapt willow|evaluate .*--root others)": "needs a data set; the page's other commands adapt and evaluate",
    r"simsc (data download|train --preset|evaluate --model runs/listed|experiment main)": "needs a data set and hours; "
    "tests/data, tests/training, tests/evaluation and tests/experiments run them in small",
    r"simsc models push ": "needs an account on the hub; tests/models/test_published.py runs it against a stand-in",
}
"""Commands of these pages that are only checked against the program's options."""
READ_ONLY = {
    "CONTRIBUTING.md": "the commands of a developer, on the whole repository",
    "docs/bench.md": "minutes; tests/bench runs every case in small",
    "docs/bulk.md": "starts processes or needs a cluster; tests/bulk runs the rules on small folders",
    "docs/data.md": "needs data sets; tests/data runs the page's own files",
    "docs/evaluation.md": "needs data sets; tests/evaluation runs the commands on scenes",
    "docs/experiments.md": "hours; tests/experiments runs the quick forms",
    "docs/export.md": "tests/export and the help's examples run it",
    "docs/extend.md": "tests/test_plugin.py runs them with the page's own package",
    "docs/faq.md": "single options, which other pages explain and run",
    "docs/heads.md": "needs a data set and weights",
    "docs/matching.md": "forms with placeholders, and calibrations that need data sets",
    "docs/models.md": "downloads weights; the help's examples run the commands",
    "docs/protocols.md": "needs data sets",
    "docs/reliability.md": "make targets of many minutes",
    "docs/results.md": "needs data sets and hours",
    "docs/scenes.md": "make targets and experiments that other pages name",
    "docs/training.md": "needs data sets and hours; tests/training runs them in small",
    "docs/web.md": "a server; tests/web asks it",
    "docs/method.md": "experiments, whose quick forms tests/experiments runs",
    "docs/model-card.md": "needs data sets",
    "docs/architecture.md": "make targets of many minutes",
    "examples/photos/README.md": "needs another package's files",
}
SNIPPETS = {
    "README.md": {},
    "docs/matching.md": {"files": {"cat1.jpg": "donkey", "cat2.jpg": "zebra"}},
    "docs/data.md": {},
    "docs/scenes.md": {},
    "docs/heads.md": {},
    "docs/fine-tune.md": {},
    "docs/faq.md": {},
}
"""Pages whose Python blocks are run one after the other, with the files that they name."""
SNIPPETS_ELSEWHERE = {
    "docs/bulk.md": "tests/bulk reads such results",
    "docs/evaluation.md": "tests/evaluation/test_documented_scorer.py",
    "docs/extend.md": "tests/test_plugin.py",
    "docs/models.md": "downloads weights",
    "docs/web.md": "tests/web asks the same of a server",
}
SYNOPSIS = re.compile(r" \| --|\[--|[A-Z]{3,}\b(?!=)")


def shown(text: str) -> list[str]:
    """The commands of this program in a block, as one types them."""
    joined = text.replace("\\\n", " ")
    found = re.findall(r"^(?:\$ |  )?((?:torchrun .* -m )?simsc .*)$", joined, re.MULTILINE)
    return [line[line.index("simsc ") :] for each in found for line in each.split(" && ")]


def words(line: str) -> list[str]:
    return shlex.split(line, comments=True)[1:]


@cache
def program() -> Any:
    """The parser of the command line; building it takes a while."""
    return get_command(app)


def check(arguments: list[str], complete: bool) -> Any:
    """Parse a command without running it; what is misspelt raises, and so does what is missing from a complete one."""
    command, name = program(), "simsc"
    while hasattr(command, "commands") and arguments and arguments[0] not in ("--help", "--version"):
        assert arguments[0] in command.commands, f"there is no command {name} {arguments[0]}"
        name, command, arguments = f"{name} {arguments[0]}", command.commands[arguments[0]], arguments[1:]
    if hasattr(command, "commands"):
        return {}
    try:
        return command.make_context(name, arguments).params
    except Exception as error:
        if type(error).__name__ in ("MissingParameter", "BadOptionUsage") and not complete:
            return {}
        raise AssertionError(f"{name} {shlex.join(arguments)}: {error}") from error


def check_settings(parameters: dict[str, Any], line: str) -> None:
    """Keys of ``--set`` and names of presets exist."""
    keys = {each.name for each in fields(Config)}
    for setting in [*(parameters.get("settings") or []), *(parameters.get("set") or [])]:
        assert setting.partition("=")[0] in keys, f"{line}: there is no key {setting}"
    if preset := parameters.get("preset"):
        assert preset in list_presets() or preset.startswith("fixed:"), f"{line}: there is no preset {preset}"


def test_every_command_in_a_block_is_one_of_the_program(blocks) -> None:
    count = 0
    for page, found in blocks.items():
        for block in found:
            for line in shown(block.text):
                if page == "docs/matching.md" and SYNOPSIS.search(line):
                    line = re.sub(r"\s*[\[|].*|\.\.\.", "", line)  # the rest of the form is a choice
                check_settings(check(words(line), complete=True), f"{page}: {line}")
                count += 1
    assert count > 60


def test_every_command_in_a_sentence_is_one_of_the_program(pages) -> None:
    for page, text in pages.items():
        prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
        for line in re.findall(r"`(simsc [^`]*)`", prose):
            line = re.sub(r"\b[A-Z]{3,}\b", "x", " ".join(line.split())).replace("...", "")
            check_settings(check(words(line.replace("|", " ")), complete=False), f"{page}: {line}")


def test_every_make_target_exists(pages) -> None:
    rules = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for page, text in pages.items():
        named = set(re.findall(r"`make ([\w-]+)", text)) | set(re.findall(r"^make ([\w-]+)", text, re.MULTILINE))
        assert named <= rules, f"{page}: {named - rules}"


def test_every_page_is_run_or_listed_with_a_reason(blocks, pages) -> None:
    with_commands = {page for page, found in blocks.items() if any(shown(block.text) for block in found)}
    assert with_commands <= {*RUN, *READ_ONLY}
    assert {*RUN, *READ_ONLY} <= set(pages), "a page is listed that is not there"
    with_python = {page for page, found in blocks.items() if any(block.language == "python" for block in found)}
    assert with_python <= {*SNIPPETS, *SNIPPETS_ELSEWHERE}


@pytest.fixture
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like the repository's, with nine of its photographs, in a world where everything is quick."""
    import simsc.training.adapt as adapt

    if not PHOTOS.is_dir():
        pytest.skip("the source distribution leaves the photographs out")
    photos = tmp_path / "examples" / "photos"
    photos.mkdir(parents=True)
    (tmp_path / "more-photos").mkdir()
    for name in QUADRUPEDS:
        shutil.copy(PHOTOS / f"{name}.jpg", photos)
    shutil.copy(PHOTOS / "wapiti.jpg", tmp_path / "more-photos")
    shutil.copy(PHOTOS / "horse.json", photos)
    coco = json.loads((PHOTOS / "keypoints.json").read_text(encoding="utf-8"))
    kept = {image["id"] for image in coco["images"] if Path(image["file_name"]).stem in QUADRUPEDS}
    coco["images"] = [image for image in coco["images"] if image["id"] in kept]
    coco["annotations"] = [item for item in coco["annotations"] if item["image_id"] in kept]
    (photos / "keypoints.json").write_text(json.dumps(coco))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIMSC_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("simsc.models.card.DEFAULT", "simsc-resnet50")
    monkeypatch.setattr(adapt, "DEFAULT", "simsc-resnet50")
    monkeypatch.setitem(adapt.adapt_objects.__kwdefaults__, "steps", 2)
    monkeypatch.setattr("uvicorn.run", _look)
    return tmp_path


def _look(server: FastAPI, host: str, port: int, **_: Any) -> None:
    """Open the page once instead of serving; a reviewer finds all points right that are there."""
    client = TestClient(server, base_url=f"http://{host}:{port}")
    assert client.get("/").status_code == 200
    if server.title == "simsc review":
        for thing in client.get("/api/review").json()["objects"]:
            points = [2 if index % 3 == 2 and value else value for index, value in enumerate(thing["keypoints"])]
            settled = client.put(f"/api/review/{thing['id']}", json={"keypoints": points, "settled": True})
            assert settled.status_code == 204


def run_line(line: str) -> None:
    if line.startswith("cd "):
        os.chdir(line.split("#")[0].split()[1])
    elif line.startswith(("mkdir ", "cp ")):
        subprocess.run(["bash", "-c", line], check=True)
    elif line.startswith("simsc ") and not any(re.match(pattern, line) for pattern in NOT_RUN):
        arguments = [
            one for word in words(line) for one in (sorted(map(str, Path().glob(word))) if "*" in word else [word])
        ]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, f"{line}\n{result.output[-500:]}\n{result.exception!r}"
    else:
        assert line.startswith(("simsc ", "make ", "pip ", "python docs/results/", "#")) or not line.strip(), (
            f"nobody knows how to run: {line}"
        )


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN)
def test_commands_run(quick: Path, blocks, page: str) -> None:
    for block in blocks[page]:
        if block.language in ("", "bash") and not block.text.startswith("$"):
            for line in block.text.splitlines():
                run_line(line)


def test_every_exception_is_needed(blocks) -> None:
    lines = [line for page in RUN for block in blocks[page] for line in shown(block.text)]
    for pattern in NOT_RUN:
        assert any(re.match(pattern, line) for line in lines), f"no page shows {pattern}"


@pytest.mark.slow
@pytest.mark.parametrize("page", SNIPPETS)
def test_snippets_run(quick: Path, blocks, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    from simsc.models.heads import HEADS

    monkeypatch.setattr(HEADS, "_items", dict(HEADS._items))  # what a page registers is forgotten afterwards
    for name, photo in SNIPPETS[page].get("files", {}).items():
        shutil.copy(PHOTOS / f"{photo}.jpg", name)
    photos = [str(quick / "examples" / "photos" / f"{name}.jpg") for name in QUADRUPEDS[:2]]
    space: dict[str, Any] = {"paths": photos, "points": [(96, 136)], "mask": np.ones((420, 520), bool)}
    snippets = [block.text for block in blocks[page] if block.language == "python"]
    assert snippets
    for text in snippets:
        exec(compile(text, page, "exec"), space)
