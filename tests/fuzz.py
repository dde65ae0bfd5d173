"""``make fuzz``: files and requests that are wrong in every way we could think of.

Each case is made from a good file by a seed, and tried in a process of its own that may take so much memory and time
and no more. It passes if it is read, and then holds only what may be in it, or if it is refused by an error written for
people. Anything else (another exception, a crash, a limit) is a fault: its files are kept below ``fuzz-found/``, and
belong into ``tests/regressions/`` once they are mended.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import faulthandler
import io
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import tarfile
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from simsc.errors import SimscError

MEMORY = 1536 << 20
SECONDS = 20
Files = dict[str, bytes]
"""Content by path below a folder."""
Make, Mutate, Try = Callable[[], Files], Callable[[bytes, random.Random], bytes], Callable[[Path], None]


@dataclass(frozen=True)
class Target:
    """Something that reads: good files for it, those of them that are damaged (a pattern), how, and the reader."""

    make: Make
    damaged: str
    mutate: Mutate
    attempt: Try


# What is done to a file ------------------------------------------------------------------------------------------


def damage_bytes(content: bytes, chance: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 5, 20))):
        place, kind = chance.randrange(len(data) + 1), chance.randrange(8)
        if kind == 0:
            del data[place:]
        elif kind == 1:
            del data[place : place + chance.choice((1, 4, 50))]
        elif kind == 2:
            data[place:place] = data[chance.randrange(len(data) + 1) :][: chance.choice((1, 8, 200))]
        elif kind == 3:
            extreme = chance.choice((0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFF0, 1 << 28))
            data[place : place + 4] = extreme.to_bytes(4, chance.choice(("little", "big")))
        elif data:
            at = chance.randrange(min(len(data), chance.choice((40, 400, len(data)))))
            data[at] = chance.choice(
                (0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256), data[at] ^ (1 << chance.randrange(8)))
            )
    return bytes(data)


_MARK = "\ue000"
_RAW = ["NaN", "Infinity", "-Infinity", "1e999", "9" * 5000, "-" + "9" * 30, "[" * 3000 + "]" * 3000, '"\\ud800"', "01"]
_JUNK: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        1.5,
        1e9,
        -1e9,
        1e300,
        2**31,
        2**63,
        "",
        "text",
        "1",
        "nan",
        "\0",
        "../x",
        "/dev/zero",
    ),
    *("x" * 3000, [], [1], [[1]], [[1, 2]], [None], [True, False], {}, {"a": 1}, {"": {}}, [[], []], list(range(500))),
]


def damage_json(content: bytes, chance: random.Random) -> bytes:
    if chance.random() < 0.15:
        return damage_bytes(content, chance)
    value = json.loads(content)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        places = list(_places(value))
        part, key = chance.choice(places)
        action = chance.random()
        if action < 0.15:
            del part[key]
        elif action < 0.25 and isinstance(part, list):
            part.insert(key, part[key])
        elif action < 0.35:
            part[key] = _MARK
        elif action < 0.5:
            part[key] = copy.deepcopy(chance.choice(places)[0])
        else:
            part[key] = copy.deepcopy(chance.choice(_JUNK))
        if not any(True for _ in _places(value)):
            break
    text = json.dumps(value)
    return text.replace(json.dumps(_MARK), chance.choice(_RAW)).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


def damage_lines(content: bytes, chance: random.Random) -> bytes:
    """One line of JSON lines, or a cell of a table."""
    if chance.random() < 0.2:
        return damage_bytes(content, chance)
    lines = content.decode().split("\n")
    at = chance.randrange(len(lines))
    if lines[at].startswith("{") and chance.random() < 0.8:
        lines[at] = damage_json(lines[at].encode(), chance).decode("utf-8", "surrogateescape")
        return "\n".join(lines).encode("utf-8", "surrogateescape")
    cells = re.split(r"([,; \t])", lines[at])
    junk = [
        "",
        "x",
        "nan",
        "inf",
        "-1",
        "1e9",
        "1e999",
        "²",
        "9" * 5000,
        ",",
        '"',
        "\0",
        "x" * 200_000,
        "../../x",
        "1.0",
    ]
    cells[chance.randrange(len(cells))] = chance.choice(junk)
    lines[at] = "".join(cells)
    if chance.random() < 0.2:
        chance.shuffle(lines)
    return "\n".join(lines).encode()


# Good files, and who reads them ----------------------------------------------------------------------------------


def picture(form: str = "JPEG", size: tuple[int, int] = (100, 80), **options: Any) -> bytes:
    noise = np.random.default_rng(1).integers(0, 255, (size[1] // 4, size[0] // 4, 3), dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(noise).resize(size).save(stream, form, **options)
    return stream.getvalue()


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _finite_pairs(name: str, root: str = "", split: str = "test") -> Try:
    def attempt(folder: Path) -> None:
        from simsc.data.sources import load_pairs

        for pair in load_pairs(name, folder / root, split):
            for points, image in ((pair.source_points, pair.source), (pair.target_points, pair.target)):
                assert points.dtype == np.float64
                assert np.isfinite(points).all()
                assert len(points) == len(pair.source_points) > 0
                assert min(image.size) > 0
            assert isinstance(pair.name, str)
            assert isinstance(pair.category, str)
            pair.name.encode()

    return attempt


def coco() -> Files:
    names = ["beak", "tail"]
    annotations = [
        {"id": i, "image_id": i, "category_id": 1, "keypoints": [5, 6, 2, 50, 40, i], "bbox": [1, 2, 30, 40]}
        for i in (1, 2)
    ]
    images = [{"id": i, "file_name": f"{i}.jpg", "width": 100, "height": 80} for i in (1, 2)]
    value = {
        "images": images,
        "categories": [{"id": 1, "name": "bird", "keypoints": names}],
        "annotations": annotations,
    }
    return {"test.json": _json(value), "1.jpg": picture(), "2.jpg": picture()}


def own_pairs() -> Files:
    side = {"image": "1.jpg", "points": [[1, 2], [50, 8.5], None], "box": [5, 5, 90, 70]}
    named = {"image": "1.jpg", "points": {"a": [1, 2], "b": None}}
    pairs = [{"name": "a", "category": "c", "source": side, "target": side}, {"source": named, "target": named}]
    return {"test.json": _json({"pairs": pairs, "index_base": 1}), "1.jpg": picture()}


def own_table() -> Files:
    head = "source,target,source_x,source_y,target_x,target_y,source_box,name"
    return {"test.csv": f"{head}\n1.jpg,1.jpg,1;2,3;4,5;6,7;8,1;2;30;40,x\n".encode(), "1.jpg": picture()}


def spair() -> Files:
    files: Files = {"Layout/large/test.txt": b"000001-a-b:cat\n000002-b-a:cat\n"}
    for name in "ab":
        value = {"image_width": 100, "image_height": 80, "bndbox": [1, 2, 51, 62], "pose": "Left", "azimuth_id": 3}
        value["kps"] = {"0": [1, 2], "2": [3, 4], "10": None if name == "a" else [5, 6]}
        files[f"ImageAnnotation/cat/{name}.json"] = _json(value)
        files[f"JPEGImages/cat/{name}.jpg"] = picture()
    return files


def ap10k() -> Files:
    files: Files = {}
    for name in "12":
        files[f"JPEGImages/U/bear/{name}.jpg"] = picture()
        value = {"keypoints": [5, 6, 2] * 17, "bbox": [10, 20, 30, 40], "width": 100, "height": 80}
        files[f"ImageAnnotation/U/bear/{name}.json"] = _json(value)
    base = "data/ap-10k/ImageAnnotation/U/bear"
    pair = {"src_json_path": f"{base}/1.json", "trg_json_path": f"{base}/2.json"}
    return {**files, "PairAnnotation/test/1-2:bear.json": _json(pair)}


def cub() -> Files:
    tables: dict[str, list[str]] = {name: [] for name in ("images", "image_class_labels", "train_test_split")}
    tables |= {"bounding_boxes": [], "parts/part_locs": []}
    files: Files = {
        "classes.txt": b"1 001.Albatross\n",
        "parts/parts.txt": b"".join(b"%d p\n" % i for i in range(1, 16)),
    }
    for number in range(1, 5):
        files[f"images/001.A/{number}.jpg"] = picture()
        tables["images"].append(f"{number} 001.A/{number}.jpg")
        tables["image_class_labels"].append(f"{number} 1")
        tables["train_test_split"].append(f"{number} {number % 2}")
        tables["bounding_boxes"].append(f"{number} 5.0 6.0 50.0 40.0")
        tables["parts/part_locs"] += [f"{number} {part} {part}.0 {part}.0 1" for part in range(1, 16)]
    return files | {f"{name}.txt": "\n".join([*lines, ""]).encode() for name, lines in tables.items()}


def mat(compressed: bool = False) -> bytes:
    import scipy.io

    stream = io.BytesIO()
    values = {
        "kps": np.array([[1, 1], [51, 41], [np.nan, np.nan]]),
        "bbox": np.array([[1.0, 2, 51, 62]]),
        "class": "cat",
    }
    scipy.io.savemat(stream, values, do_compression=compressed)
    return stream.getvalue()


def pfpascal() -> Files:
    image = "PF-dataset-PASCAL/JPEGImages/{}.jpg"
    text = "source_image,target_image,class,XA,YA,XB,YB\n"
    text += f"{image.format('a')},{image.format('b')},8,1;51,1;41,1;51,1;41\n"
    text += f"{image.format('b')},{image.format('a')},8,,,,\n"
    files = {image.format(name): picture() for name in "ab"}
    files |= {f"PF-dataset-PASCAL/Annotations/cat/{name}.mat": mat(name == "b") for name in "ab"}
    return {**files, "image_pairs/test_pairs.csv": text.encode()}


def arrays() -> Files:
    return {"a.mat": mat(), "b.mat": mat(compressed=True)}


def read_mats(folder: Path) -> None:
    from simsc.data.readers.matlab import read_arrays

    for name in ("a.mat", "b.mat"):
        assert all(array.dtype == np.float64 for array in read_arrays(folder / name).values())


PREDICTION = {
    "pair": "a", "category": "cat", "source": "a", "target": "b", "source_points": [[1, 2]], "target_points": [[3, 4]],
    "predicted": [[3, 5]], "confidence": [0.5], "temperature": 0.1, "source_size": [50, 60], "target_size": [50, 60],
    "target_box": [0, 0, 20, 30], "protocol": "paper-256", "threshold": "img",
}  # fmt: skip


def predictions() -> Files:
    return {"p.jsonl": b"\n".join([_json(PREDICTION), _json({**PREDICTION, "pair": "b"}), b""])}


def score(folder: Path) -> None:
    from simsc.evaluation.predictions import read_predictions
    from simsc.evaluation.protocol import find_protocol
    from simsc.evaluation.scoring import score as score_them
    from simsc.evaluation.scoring import stated_rules

    found = read_predictions(folder / "p.jsonl")
    protocol, threshold = stated_rules(found)
    json.dumps(score_them(found, find_protocol(protocol), threshold).to_dict(), allow_nan=False)  # type: ignore[arg-type]


def labels() -> Files:
    points = {"label": "eye", "points": [[3, 4]], "shape_type": "point", "group_id": 1}
    box = {"label": "cat", "points": [[9, 8], [1, 2]], "shape_type": "rectangle", "group_id": 1}
    outline = {"label": "dog", "points": [[0, 0], [4, 0], [4, 4]], "shape_type": "polygon", "group_id": None}
    plain = {"category": "cat", "keypoints": {"nose": [1, 2]}, "box": [0, 0, 5, 6], "mask": "mask.png"}
    detailed = json.loads(coco()["test.json"])
    detailed["annotations"][0]["segmentation"] = {"size": [80, 100], "counts": [10, 20, 7970]}
    detailed["annotations"][1]["segmentation"] = [[0, 0, 5, 0, 5, 5]]
    return {
        "coco.json": _json(detailed),
        "labelme.json": _json({"shapes": [points, box, outline], "imagePath": "1.jpg"}),
        "plain.json": _json({"instances": [plain]}),
        "mask.png": picture("PNG"),
        **{name: picture() for name in ("1.jpg", "2.jpg")},
    }


def read_labels(folder: Path) -> None:
    from simsc.transfer.reading import find_sources, read_categories, read_instances

    for name in ("coco.json", "labelme.json", "plain.json"):
        for thing in read_instances(folder / name, folder / "1.jpg", (80, 100)):
            assert all(np.isfinite(point).all() and len(point) == 2 for point in thing.keypoints.values())
            assert thing.box is None or np.isfinite(thing.box).all()
            assert thing.mask is None or thing.mask.shape == (80, 100)
            assert isinstance(thing.category, str)
        read_categories(folder / name)
    find_sources(folder / "coco.json")


def journal() -> Files:
    moved = {"category": "cat", "keypoints": {"a": [1, 2]}, "keypoint_confidence": {"a": 0.5}}
    moved |= {"keypoint_status": {"a": "sure"}, "box": [1, 2, 3, 4], "box_confidence": 0.5}
    moved |= {"mask": {"size": [2, 2], "counts": [0, 1, 3]}, "mask_confidence": None}
    lines = [_json({"a": 1}), *(_json({"image": name, "size": [4, 5], "found": [moved]}) for name in ("a", "b"))]
    return {"j.jsonl": b"\n".join([*lines, b""])}


def read_journal(folder: Path) -> None:
    from simsc.transfer.run import Journal

    with Journal(folder / "j.jsonl", {"a": 1}) as found:
        before = len(found.done)
    with Journal(folder / "j.jsonl", {"a": 1}) as found:
        assert len(found.done) == before
        assert not found.skipped


def points() -> Files:
    return {"p.json": _json({"points": [[1, 2], [3.5, 4]]}), "p.txt": b"1,2\n3.5 4 # nose\n"}


def read_points_files(folder: Path) -> None:
    from simsc.matcher.queries import read_points

    for name in ("p.json", "p.txt"):
        assert read_points(folder / name).shape[1:] == (2,)


def images() -> Files:
    forms = {
        "a.jpg": "JPEG",
        "b.png": "PNG",
        "c.gif": "GIF",
        "d.bmp": "BMP",
        "e.ppm": "PPM",
        "f.webp": "WEBP",
        "g.tif": "TIFF",
    }
    exif = Image.Exif()
    exif[0x0112] = 6
    found = {name: picture(form, (48, 36)) for name, form in forms.items()}
    found["h.jpg"] = picture("JPEG", (48, 36), exif=exif.tobytes(), progressive=True)
    found["i.tif"] = picture("TIFF", (48, 36), compression="tiff_lzw")
    with contextlib.suppress(KeyError, OSError):
        found["j.avif"] = picture("AVIF", (48, 36))
    return found


def read_images(folder: Path) -> None:
    from simsc.images import image_size, read_image

    for path in sorted(folder.iterdir()):
        pixels = None
        with contextlib.suppress(SimscError):
            pixels = read_image(path, max_pixels=10_000_000)
        with contextlib.suppress(SimscError):
            size = image_size(path)
            assert pixels is None or pixels.shape == (*size, 3)


def archives() -> Files:
    zipped, tarred = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("set/a.txt", "set/b.txt"):
            archive.writestr(name, name * 50)
    with tarfile.open(fileobj=tarred, mode="w:gz") as tar:
        for name in ("set/a.txt", "set/b.txt"):
            info = tarfile.TarInfo(name)
            info.size = len(name)
            tar.addfile(info, io.BytesIO(name.encode()))
    with tarfile.open(fileobj=(plain := io.BytesIO()), mode="w") as tar:
        tar.addfile(tarfile.TarInfo("set/c.txt"), io.BytesIO())
    return {"a.zip": zipped.getvalue(), "b.tgz": tarred.getvalue(), "c.tar": plain.getvalue()}


def unpack(folder: Path) -> None:
    from simsc.data.archives import extract

    for name in ("a.zip", "b.tgz", "c.tar"):
        with contextlib.suppress(SimscError):
            extract(folder / name, folder / "inside" / "out")
    assert {path.name for path in folder.iterdir()} <= {"a.zip", "b.tgz", "c.tar", "inside"}
    assert not (folder / "inside").exists() or {path.name for path in (folder / "inside").iterdir()} <= {"out"}


def checkpoints() -> Files:
    import torch
    from safetensors.torch import save

    tensors = {"backbone.layer.weight": torch.ones(2, 3), "bias": torch.zeros(4)}
    stream = io.BytesIO()
    torch.save({"state_dict": tensors, "epoch": 3}, stream)
    description = json.dumps({"backbone": "resnet50", "temperature": "mlp", "beta_eval": 1.0, "image_size": 256})
    return {"a.safetensors": save(tensors, {"simsc": description}), "b.pth": stream.getvalue()}


def read_checkpoints(folder: Path) -> None:
    from simsc.models.card import Card
    from simsc.models.weights import read_tensors

    with contextlib.suppress(SimscError):
        assert Card.read(folder / "a.safetensors").design.backbone
    for name in ("a.safetensors", "b.pth"):
        with contextlib.suppress(SimscError):
            assert all(tensor.isfinite().all() for tensor in read_tensors(folder / name).values())


def run_folder() -> Files:
    from simsc.training.config import Config

    record = {"step": 20, "epoch": 0, "loss": 0.5}
    lines = [_json(record), _json({**record, "val": {"0.1": 50.0}}), b""]
    return {"metrics.jsonl": b"\n".join(lines), "config.json": _json(Config().to_dict())}


def read_run(folder: Path) -> None:
    from simsc.training.config import Config
    from simsc.training.run_folder import RunFolder

    run = RunFolder(folder)
    assert all(isinstance(record["step"], int) for record in run.read_metrics())
    run.start(Config(), {}, resume=True)


def cache_entry() -> Files:
    import torch

    from simsc.data.records import ImageRef
    from simsc.evaluation.cache import TrunkCache

    with tempfile.TemporaryDirectory() as place:
        TrunkCache("float32", Path(place), "f").put(ImageRef("a", (4, 4), render=_blank), (torch.arange(64.0),))
        return {path.relative_to(place).as_posix(): path.read_bytes() for path in Path(place).rglob("*.safetensors")}


def _blank() -> np.ndarray:
    return np.zeros((4, 4, 3), np.uint8)


def read_cache(folder: Path) -> None:
    from simsc.data.records import ImageRef
    from simsc.evaluation.cache import TrunkCache

    cache, ref = TrunkCache("float32", folder, "f"), ImageRef("a", (4, 4), render=_blank)
    if ref in cache:
        assert cache.get([ref])[0].tolist() == [list(range(64))]


def requests() -> Files:
    body = {"source": "@", "target": "@", "points": [[10, 20], [30.5, 4]], "localizer": "argmax", "temperature": 0.1}
    headers = {"host": "localhost", "content-type": "application/json", "origin": "http://localhost"}
    ask = {"method": "POST", "path": "/api/match", "headers": headers, "body": {**body, "scores": True}}
    warp = {"method": "POST", "path": "/api/warp", "headers": headers, "body": {"source": "@", "target": "@"}}
    export = {"method": "POST", "path": "/api/export/coco", "headers": headers, "body": body}
    return {"request.json": _json([ask, warp, export]), "upload.png": picture("PNG", (48, 36))}


def damage_request(content: bytes, chance: random.Random) -> bytes:
    return damage_json(content, chance) if content.startswith(b"[") else damage_bytes(content, chance)


def serve(folder: Path) -> None:
    from fastapi.testclient import TestClient

    client = TestClient(_application(), base_url="http://localhost", raise_server_exceptions=False)
    upload = (folder / "upload.png").read_bytes()
    answers = [client.post("/api/images", files={"file": ("a.png", upload)})]
    good = client.post("/api/images", files={"file": ("a.png", picture("PNG", (48, 36)))}).json()["id"]
    try:
        asked = json.loads((folder / "request.json").read_text())
    except (ValueError, RecursionError):
        asked = [{"method": "POST", "path": "/api/match", "body": (folder / "request.json").read_bytes()}]
    for each in asked if isinstance(asked, list) else [asked]:
        each = each if isinstance(each, dict) else {}
        body = each.get("body")
        content = body if isinstance(body, bytes) else json.dumps(body).replace('"@"', json.dumps(good)).encode()
        headers = each.get("headers")
        headers = {str(name): str(value) for name, value in headers.items()} if isinstance(headers, dict) else {}
        with contextlib.suppress(_UNSENDABLE):
            path = "/" + str(each.get("path", "")).lstrip("/")
            answers.append(client.request(str(each.get("method", "GET")), path, content=content, headers=headers))
    for answer in answers:
        assert answer.status_code < 500 or answer.status_code == 503, answer.text


_UNSENDABLE: tuple[type[Exception], ...] = (UnicodeError, ValueError, TypeError, AttributeError)


def _application() -> Any:
    global _UNSENDABLE
    from dataclasses import replace

    import httpx
    import torch

    from simsc.matcher import Matcher
    from simsc.models.backbone import from_spec
    from simsc.models.model import SimSC
    from simsc.models.specs import find_backbone
    from simsc.web.app import create_app
    from simsc.web.settings import Settings

    def opener(name: str) -> Matcher:
        sizes = {"depths": (1, 1, 1), "widths": (16, 32, 64), "stem": 8}
        spec = find_backbone(name)
        spec = replace(spec, settings={**spec.settings, **sizes}, channels=64, blocks=3, input_size=128)
        torch.manual_seed(1)
        return Matcher(SimSC(from_spec(spec), temperature="mlp", trainable="none"), device="cpu")

    _UNSENDABLE = (*_UNSENDABLE, httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.LocalProtocolError)
    settings = Settings(models={"first": "resnet50.v1_in1k"}, max_upload=2**20, max_pixels=500_000, max_images=6)
    return create_app(settings, opener)


TARGETS = {
    "matlab": Target(arrays, r".*\.mat", damage_bytes, read_mats),
    "coco": Target(coco, r".*\.json", damage_json, _finite_pairs("coco")),
    "own pairs": Target(own_pairs, r".*\.json", damage_json, _finite_pairs("pairs")),
    "own table": Target(own_table, r".*\.csv", damage_lines, _finite_pairs("pairs")),
    "spair": Target(spair, r".*\.json", damage_json, _finite_pairs("spair")),
    "spair list": Target(spair, r".*\.txt", damage_lines, _finite_pairs("spair")),
    "ap10k": Target(ap10k, r".*\.json", damage_json, _finite_pairs("ap10k")),
    "cub": Target(cub, r".*\.txt", damage_lines, _finite_pairs("cub")),
    "pfpascal": Target(pfpascal, r".*\.mat", damage_bytes, _finite_pairs("pfpascal")),
    "pfpascal list": Target(pfpascal, r".*\.csv", damage_lines, _finite_pairs("pfpascal")),
    "predictions": Target(predictions, r".*", damage_lines, score),
    "labels": Target(labels, r".*\.json", damage_json, read_labels),
    "journal": Target(journal, r".*", damage_lines, read_journal),
    "points": Target(points, r".*\.json", damage_json, read_points_files),
    "points as text": Target(points, r".*\.txt", damage_lines, read_points_files),
    "images": Target(images, r".*", damage_bytes, read_images),
    "archives": Target(archives, r".*", damage_bytes, unpack),
    "checkpoints": Target(checkpoints, r".*", damage_bytes, read_checkpoints),
    "run folder": Target(run_folder, r".*json", damage_json, read_run),
    "metrics": Target(run_folder, r".*jsonl", damage_lines, read_run),
    "cache": Target(cache_entry, r".*", damage_bytes, read_cache),
    "server": Target(requests, r".*", damage_request, serve),
}


# One case ----------------------------------------------------------------------------------------------------------


def case(name: str, seed: int, known: dict[str, Files]) -> Files:
    """The files of a case: the good ones with one of them damaged."""
    target = TARGETS[name]
    files = known.setdefault(name, target.make())
    chance = random.Random(f"{name} {seed}")
    chosen = chance.choice(sorted(path for path in files if re.fullmatch(target.damaged, path)))
    return {**files, chosen: target.mutate(files[chosen], chance)}


def outcome(name: str, files: Files) -> tuple[str, str]:
    """``(read | refused | fault, what happened)`` of some files in a process of their own."""
    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryFile() as said:
        child = os.fork()
        if child == 0:
            os._exit(_in_child(name, files, Path(place), said.fileno()))
        status = os.waitpid(child, 0)[1]
        said.seek(0)
        text = said.read(20_000).decode("utf-8", "replace")
    if os.WIFSIGNALED(status):
        return "fault", f"killed by {signal.Signals(os.WTERMSIG(status)).name}\n{text}"
    return {0: "read", 1: "refused"}.get(os.WEXITSTATUS(status), "fault"), text


def _data_bytes() -> int:
    """What counts for RLIMIT_DATA in this process now."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split("VmData:")[1].split()[0]) * 1024


def _in_child(name: str, files: Files, folder: Path, said: int) -> int:
    os.dup2(said, 1)
    os.dup2(said, 2)
    faulthandler.enable()
    limit = MEMORY + _data_bytes()  # a test's process may hold much already
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    signal.alarm(3 * SECONDS)  # waiting for ever is no use of the processor
    try:
        for path, content in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        TARGETS[name].attempt(folder)
        return 0
    except SimscError as error:
        text = str(error)
        if "\n" in text or len(text) > 2000:
            print(f"not a sentence: {text[:3000]}", flush=True)
            return 2
        print(text, flush=True)
        return 1
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        return 2


def keep(files: Files, folder: Path) -> None:
    """Write down a case."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cases", type=int, default=20_000)
    options.add_argument("--first", type=int, default=1000, help="seed of the first case")
    options.add_argument("--only", choices=TARGETS)
    options.add_argument("--found", type=Path, default=Path("fuzz-found"))
    given = options.parse_args()
    names = [given.only] if given.only else list(TARGETS)
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    known: dict[str, Files] = {}
    for name in names:  # what a reader imports is imported once, here
        _warm(name)
        assert (good := outcome(name, TARGETS[name].make()))[0] == "read", (name, good)
    begun, faults = time.monotonic(), Counter[str]()
    for number in range(given.cases):
        name, seed = names[number % len(names)], given.first + number // len(names)
        files = case(name, seed, known)
        result, said = outcome(name, files)
        counts[name][result] += 1
        if result == "fault":
            last = said.strip().splitlines()[-1:] or [""]
            faults[f"{name}: {last[0][:150]}"] += 1
            keep(files, given.found / f"{name.replace(' ', '-')}-{seed}")
        if number % 1000 == 999:
            print(f"{number + 1} cases, {sum(faults.values())} faults, {time.monotonic() - begun:.0f} s", flush=True)
    for name, count in counts.items():
        print(f"{name:16} read {count['read']:5}  refused {count['refused']:5}  faults {count['fault']}")
    for fault, times in faults.most_common():
        print(f"{times:5} x {fault}")
    print(f"{given.cases} cases, {sum(faults.values())} faults, {time.monotonic() - begun:.0f} s")
    sys.exit(1 if faults else 0)


def _warm(name: str) -> None:
    """Have the parent import what the target needs, without starting threads, which a fork would not survive."""

    if name == "server":
        _application()
    if name not in ("server", "archives"):
        with tempfile.TemporaryDirectory() as place:
            keep(TARGETS[name].make(), Path(place))
            TARGETS[name].attempt(Path(place))


if __name__ == "__main__":
    shutil.rmtree("fuzz-found", ignore_errors=True)
    main()
