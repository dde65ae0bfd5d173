"""Models on the hub, against a stand-in that keeps repositories in memory and speaks the same protocol on 127.0.0.1."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from simsc.models.card import Card, Design
from simsc.models.published import FILE, PAGE, model_page
from simsc.models.trained import Trained

Commit = dict[str, bytes]
SCRIPT = """
import json, sys
from pathlib import Path
from typer.testing import CliRunner
from simsc.cli import app
from simsc.errors import WeightsError
from simsc.models.card import find_model
from simsc.models.trained import Trained

model, = sys.argv[1:]
def push(*arguments):
    result = CliRunner().invoke(app, ["models", "push", *arguments])
    return result.output.strip() if result.exit_code == 0 else f"{type(result.exception).__name__}: {result.exception}"
first = push(model, "somebody/birds", "--private")
opened = Trained.open("hf:somebody/birds")
fetched = CliRunner().invoke(app, ["models", "fetch", "hf:somebody/birds"]).output.strip()
second = push("simsc-resnet50", "somebody/birds")
again = Trained.open("hf:somebody/birds@" + second.rpartition("@")[2])
begun = Trained.begin({"backbone": "resnet50", "start": "hf:somebody/birds@" + first.rpartition("@")[2]})
backbone = find_model("hf:somebody/backbone")
refused = push(model, "locked/birds")
try:
    find_model("hf:nobody/nothing")
except WeightsError as error:
    missing = str(error)
print(json.dumps({
    "first": first, "opened": opened.name, "seed": opened.card.training["seed"], "second": second, "again": again.name,
    "protocol": again.card.protocol, "start": begun.card.training["start"], "backbone": backbone, "refused": refused,
    "missing": missing, "fetched": fetched,
}))
"""


class Hub(ThreadingHTTPServer):
    """Repositories by name, each a list of commits, the newest last."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.repositories: dict[str, list[Commit]] = {"somebody/backbone": [{"config.json": b"{}"}]}
        self.private: dict[str, bool] = {}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @staticmethod
    def commit_id(number: int) -> str:
        return f"{number + 1:040x}"

    def files(self, repository: str, revision: str) -> tuple[str, Commit] | None:
        commits = self.repositories.get(repository, [])
        known = {self.commit_id(number): commit for number, commit in enumerate(commits)}
        if revision == "main" and commits:
            revision = self.commit_id(len(commits) - 1)
        return (revision, known[revision]) if revision in known else None


class Handler(BaseHTTPRequestHandler):
    """The calls that publishing and loading make."""

    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Be quiet."""

    def do_POST(self) -> None:
        body = (
            self.rfile.read(int(self.headers["Content-Length"])) if "Content-Length" in self.headers else self._chunks()
        )
        parts = self.path.strip("/").split("/")
        if self.path == "/api/repos/create":
            self._create(json.loads(body))
        elif self.path == "/api/validate-yaml":
            self._answer(200, {"warnings": [], "errors": []})
        elif parts[4] == "preupload":
            names = [file["path"] for file in json.loads(body)["files"]]
            files = [{"path": name, "uploadMode": "regular", "shouldIgnore": False} for name in names]
            self._answer(200, {"files": files})
        elif parts[4] == "commit":
            self._commit("/".join(parts[2:4]), body)

    def do_HEAD(self) -> None:
        self._file()

    def do_GET(self) -> None:
        self._file()

    def _create(self, wanted: dict) -> None:
        if wanted["organization"] == "locked":
            self._answer(403, {"error": "You have no right to create a model here"})
            return
        name = f"{wanted['organization']}/{wanted['name']}"
        self.server.private.setdefault(name, wanted.get("private") or wanted.get("visibility") == "private")
        self.server.repositories.setdefault(name, [])
        self._answer(200, {"url": f"{self.server.address}/{name}"})

    def _commit(self, name: str, body: bytes) -> None:
        commits = self.server.repositories[name]
        files = dict(commits[-1]) if commits else {}
        for line in map(json.loads, body.splitlines()):
            if line["key"] == "file":
                files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
        commits.append(files)
        oid = self.server.commit_id(len(commits) - 1)
        self._answer(
            200, {"success": True, "commitOid": oid, "commitUrl": f"{self.server.address}/{name}/commit/{oid}"}
        )

    def _file(self) -> None:
        match = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", self.path)
        if match is None or match[1] not in self.server.repositories:
            self._answer(404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})
        elif (found := self.server.files(match[1], match[2])) is None:
            self._answer(404, {"error": "no such revision"}, {"X-Error-Code": "RevisionNotFound"})
        elif match[3] not in found[1]:
            self._answer(404, {"error": "no such file"}, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": found[0]})
        else:
            content = found[1][match[3]]
            etag = f'"{hashlib.sha256(content).hexdigest()}"'
            self._answer(200, content, {"X-Repo-Commit": found[0], "ETag": etag})

    def _answer(self, code: int, body: dict | bytes, headers: dict[str, str] | None = None) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _chunks(self) -> bytes:
        data = b""
        while size := int(self.rfile.readline(), 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.slow
def test_what_is_pushed_is_loaded_with_its_commit(tmp_path: Path, hub: Hub) -> None:
    model = tmp_path / "model.safetensors"
    Trained.begin({"backbone": "resnet50", "weights": None, "seed": 3}).save(model)
    hidden = {key: value for key, value in os.environ.items() if not key.upper().endswith("_PROXY")}
    places = {"HF_ENDPOINT": hub.address, "HF_HOME": str(tmp_path / "home"), "HF_TOKEN": "x"}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(model)],
        env={**hidden, **places},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    said = json.loads(run.stdout.splitlines()[-1])
    name = f"hf:somebody/birds@{hub.commit_id(0)}"
    assert said["first"] == said["opened"] == said["start"] == name
    assert said["seed"] == 3
    assert said["second"] == said["again"] == f"hf:somebody/birds@{hub.commit_id(1)}"
    assert said["backbone"] is None
    assert said["fetched"] == "hf:somebody/birds is in the cache of the hub"
    assert said["refused"].startswith(f"WeightsError: cannot publish {model} as locked/birds (")
    assert said["missing"].startswith("cannot load hf:nobody/nothing (")
    first, second = hub.repositories["somebody/birds"]
    assert first[FILE] == model.read_bytes() != second[FILE]
    assert first[PAGE] == second[PAGE]  # a page that is there is kept
    assert hub.private["somebody/birds"]


def test_the_page_has_metadata_and_says_how_to_use_it() -> None:
    card = Card(
        Design("resnet50.v1_in1k"), image_size=256, training={"data": "coco:birds.json", "weights": "/home/me/w"}
    )
    page = model_page(card, "somebody/birds")
    _, head, text = page.split("---\n", 2)
    assert yaml.safe_load(head)["library_name"] == "simsc"
    assert 'simsc.load("hf:somebody/birds")' in text
    assert "| trained on | `coco:birds.json` |" in text
    assert "/home/me" not in page
