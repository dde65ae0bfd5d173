"""What ``make fuzz`` damages: good files of every kind that is read here, and who reads them."""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from PIL import Image

from fuzz_damage import (
    Mutate,
    damage_archive,
    damage_bytes,
    damage_checkpoint,
    damage_image,
    damage_json,
    damage_lines,
    damage_matlab,
    damage_request,
)
from simsc.errors import SimscError

Files = dict[str, bytes]
"""Content by path below a folder."""
Make, Try = Callable[[], Files], Callable[[Path], None]


@dataclass(frozen=True)
class Target:
    """Something that reads: good files for it, those of them that are damaged (a pattern), how, and the reader."""

    make: Make
    damaged: str
    mutate: Mutate
    attempt: Try


@contextmanager
def refusable() -> Iterator[None]:
    """One of several files, which may be refused in a sentence while the others are read."""
    try:
        yield
    except SimscError as error:
        check_sentence(error)


def check_sentence(error: SimscError) -> str:
    """What an error says, which must be one line that a person can read."""
    text = str(error)
    assert "\n" not in text, f"not a sentence: {text[:3000]}"
    assert 0 < len(text) < 2000, f"not a sentence: {text[:3000]}"
    return text


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
        "pts_coord": np.arange(20.0).reshape(2, 10) + 1,
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
    with suppress(KeyError, OSError):
        found["j.avif"] = picture("AVIF", (48, 36))
    return found


def read_images(folder: Path) -> None:
    from simsc.images import image_size, read_image

    for path in sorted(folder.iterdir()):
        pixels = None
        with refusable():
            pixels = read_image(path, max_pixels=10_000_000)
        with refusable():
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
        with refusable():
            extract(folder / name, folder / "inside" / "out")
    assert {path.name for path in folder.iterdir()} <= {"a.zip", "b.tgz", "c.tar", "inside"}
    assert not (folder / "inside").exists() or {path.name for path in (folder / "inside").iterdir()} <= {"out"}


def checkpoints() -> Files:
    import torch
    from safetensors.torch import save

    tensors = {"backbone.layer.weight": torch.ones(2, 3), "bias": torch.zeros(4)}
    stream = io.BytesIO()
    torch.save({"state_dict": tensors, "epoch": 3}, stream)
    said: dict[str, Any] = {"backbone": "resnet50", "temperature": "mlp", "beta_eval": 1.0, "image_size": 256}
    said["best"] = {"pck": 50.0, "epoch": 3, "val": {"0.1": 50.0}}
    said["calibration"] = {"center": [0.0], "scale": [1.0], "right": [0.0] * 3, "present": [0.0] * 3}
    said["calibration"] |= {"sure": 0.5, "none": 0.5, "fitted_on": "spair"}
    description = json.dumps(said)
    return {"a.safetensors": save(tensors, {"simsc": description}), "b.pth": stream.getvalue()}


def read_checkpoints(folder: Path) -> None:
    from simsc.models.card import Card
    from simsc.models.weights import read_tensors

    with refusable():
        assert Card.read(folder / "a.safetensors").design.backbone
    for name in ("a.safetensors", "b.pth"):
        with refusable():
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
    asked = [{"method": "GET", "path": path, "headers": headers} for path in ("/api/models", "/api/images/@")]
    asked.append({"method": "POST", "path": "/api/match", "headers": headers, "body": {**body, "scores": True}})
    asked.append({"method": "POST", "path": "/api/warp", "headers": headers, "body": {"source": "@", "target": "@"}})
    asked.append({"method": "POST", "path": "/api/export/coco", "headers": headers, "body": body})
    small = picture("PNG", (48, 36))
    parts = [b'name="points"\r\n\r\n[[1, 2]]', b'name="temperature"\r\n\r\n0.1']
    parts += [b'name="%s"; filename="a.png"\r\n\r\n%s' % (side, small) for side in (b"source", b"target")]
    form = b"".join(b"--x\r\nContent-Disposition: form-data; " + part + b"\r\n" for part in parts) + b"--x--\r\n"
    return {"request.json": _json(asked), "upload.png": small, "form": form}


def serve(folder: Path) -> None:
    client = _client()
    upload = (folder / "upload.png").read_bytes()
    form = {"content-type": "multipart/form-data; boundary=x"}
    answers = [client.post("/api/images", files={"file": ("a.png", upload)})]
    answers.append(client.post("/api/match-images", content=(folder / "form").read_bytes(), headers=form))
    good = client.post("/api/images", files={"file": ("a.png", picture("PNG", (48, 36)))}).json()["id"]
    try:
        asked = json.loads((folder / "request.json").read_text())
    except (ValueError, RecursionError):
        asked = [{"method": "POST", "path": "/api/match", "body": (folder / "request.json").read_bytes()}]
    for each in asked if isinstance(asked, list) else [asked]:
        with suppress(_UNSENDABLE):
            answers.append(_send(client, each if isinstance(each, dict) else {}, good))
    for answer in answers:
        assert answer.status_code < 500 or answer.status_code == 503, answer.text


def _send(client: Any, asked: dict[str, Any], good: str) -> Any:
    body, headers = asked.get("body"), asked.get("headers")
    content = body if isinstance(body, bytes) else json.dumps(body).replace('"@"', json.dumps(good)).encode()
    headers = {str(name): str(value) for name, value in headers.items()} if isinstance(headers, dict) else {}
    path = "/" + str(asked.get("path", "")).lstrip("/").replace("@", good)
    return client.request(str(asked.get("method", "GET")), path, content=content, headers=headers)


_UNSENDABLE: tuple[type[Exception], ...] = (UnicodeError, ValueError, TypeError, AttributeError)


@cache
def _client() -> Any:
    """A server in this process; its threads would not survive a fork, so that nobody may ask before one."""
    from fastapi.testclient import TestClient

    return TestClient(application(), base_url="http://localhost", raise_server_exceptions=False).__enter__()


def application() -> Any:
    """The web application with a network so small that a match takes no time."""
    global _UNSENDABLE
    import torch
    from starlette.testclient import httpx

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


# Labels under review, jobs, manifests, encodings: what the larger commands keep ---


def reviewed() -> Files:
    value = json.loads(coco()["test.json"])
    value["annotations"][0] |= {"keypoint_scores": [0.5, 0.9], "reviewed": True}
    return {**coco(), "labels.json": _json(value)}


def review(folder: Path) -> None:
    from fastapi.testclient import TestClient

    from simsc.web.review import ReviewFile, create_review_app
    from simsc.web.settings import Settings

    file = ReviewFile(folder / "labels.json", folder / "labels.reviewed.json")
    client = TestClient(create_review_app(file, Settings()), base_url="http://localhost", raise_server_exceptions=False)
    answers = [client.get(path) for path in ("/api/review", "/api/review.json", "/api/review/images/1")]
    answers.append(client.put("/api/review/1", json={"keypoints": [5, 6, 2, 50, 40, 1], "settled": True}))
    for answer in answers:
        assert answer.status_code < 500, answer.text


def manifests() -> Files:
    row = {"source": "1.jpg", "target": "2.jpg", "points": [[1, 2], [3, 4]], "names": ["a", "b"], "id": "x"}
    table = 'source,target,points,names,id\n1.jpg,2.jpg,"1,2;3,4",a;b,x\n1.jpg,2.jpg,"[[1, 2]]",,\n'
    rows = [row, {"source": "1.jpg", "target": "2.jpg", "annotations": "coco.json"}]
    return {"m.jsonl": b"\n".join([*map(_json, rows), b""]), "m.csv": table.encode()}


def read_manifests(folder: Path) -> None:
    from simsc.bulk.manifest import ParquetManifest, copy_text, count_rows
    from simsc.bulk.places import Place

    for name in ("m.jsonl", "m.csv"):
        with refusable():
            files = copy_text(Place.at(folder / name), Place.at(folder / f"{name}.rows"))
            _check_rows(ParquetManifest([str(file) for file in files], count_rows(files), 2))


def _check_rows(manifest: Any) -> None:
    for shard in range(manifest.shards):
        rows = manifest.read(shard)
        for points, error in zip(rows.points, rows.error, strict=True):
            assert points is None or (points.shape[1:] == (2,) and np.isfinite(points).all())
            assert error is None or "\n" not in error[:500]


def parquet() -> Files:
    from simsc.bulk.manifest import write_rows
    from simsc.bulk.places import Place

    rows = [{"source": "1.jpg", "target": "2.jpg", "points": "[[1, 2]]"} for _ in range(5)]
    with tempfile.TemporaryDirectory() as place:
        (file,) = write_rows(rows, Place.at(place))
        return {"m.parquet": Path(file.path).read_bytes()}


def read_parquet(folder: Path) -> None:
    from simsc.bulk.manifest import ParquetManifest, count_rows
    from simsc.bulk.places import Place

    counts = count_rows([Place.at(folder / "m.parquet")])
    assert sum(counts) < 1 << 40
    _check_rows(ParquetManifest([str(folder / "m.parquet")], counts, 2))


def job() -> Files:
    plan = {"kind": "tiles", "lists": "_images.json", "shard_rows": 4}
    other = {"kind": "parquet", "files": ["m.parquet"], "counts": [5], "shard_rows": 2}
    lists = {"sources": ["1.jpg", "2.jpg"], "targets": None}
    return {
        "_job.json": _json({"asked": {"rule": ["all", 5]}, "plan": plan}),
        "_other.json": _json({"asked": {"rule": ["all", 5]}, "plan": other}),
        "_images.json": _json(lists),
    }


def read_job(folder: Path) -> None:
    from simsc.bulk.job import Job, _read_facts
    from simsc.bulk.places import Place
    from simsc.bulk.worker import Settings

    for name in ("_job.json", "_other.json"):
        with refusable():
            facts = _read_facts(Place.at(folder / name), {"rule": ["all", 5]}, None)
            rows = Job(str(folder), Settings(), facts["plan"], "mark").open_manifest()
            if name == "_job.json":
                _check_rows(rows)


def encoding() -> Files:
    with tempfile.TemporaryDirectory() as place:
        store, image = _store(Path(place)), _encoded()
        store.put("ab", image)
        return {path.relative_to(place).as_posix(): path.read_bytes() for path in Path(place).rglob("*.safetensors")}


def read_encoding(folder: Path) -> None:
    found, good = _store(folder).get("ab"), _encoded()
    if found is not None:
        assert found.size == good.size
        assert found.features.maps.tolist() == good.features.maps.tolist()
        assert found.features.beta.tolist() == good.features.beta.tolist()


def _store(folder: Path) -> Any:
    import torch

    from simsc.bulk.places import Place
    from simsc.bulk.store import Store
    from simsc.matcher.encoded import View

    matcher: Any = SimpleNamespace(view=View(64, 16), device=torch.device("cpu"))
    return Store(Place.at(folder), matcher, "mark")


def _encoded() -> Any:
    import torch

    from simsc.matcher.encoded import EncodedImage, View
    from simsc.matching.features import Features

    frame = View(64, 16).frame((80, 100))
    return EncodedImage(Features(torch.arange(32.0).view(1, 2, 4, 4), torch.full((1, 1, 1), 0.1), frame.canvas), frame)


def run_state() -> Files:
    import torch
    from safetensors.torch import save

    state = {"epoch": 1, "batch": 2, "step": 3, "best": {"pck": 1.0, "epoch": 1, "val": {}}, "random": [1, 2]}
    return {"last.safetensors": save({"model.a": torch.ones(3), "optimizer.0": torch.ones(2)}, {"state": _text(state)})}


def _text(value: Any) -> str:
    return json.dumps(value)


def read_state(folder: Path) -> None:
    from simsc.training.run_folder import RunFolder

    tensors, state = RunFolder(folder).load_state()
    assert isinstance(tensors, dict)
    assert isinstance(state, dict)


def notes() -> Files:
    digest = "0123456789abcdef" * 4
    return {"note": f"{digest} 25\n".encode(), "a.part": b"x", "a.part.tag": b'"tag"', "b.sha256": digest.encode()}


def read_notes(folder: Path) -> None:
    from simsc.data.download import _noted
    from simsc.downloads import _read_tag, recorded_sha256

    noted, tag, recorded = _noted(folder / "note"), _read_tag(folder / "a.part"), recorded_sha256(folder / "b")
    assert noted is None or (len(noted[0]) == 64 and noted[1] >= 0)
    assert tag is None or ("\n" not in tag and tag.isprintable())
    assert recorded is None or len(recorded) == 64


def willow() -> Files:
    folder = "PF-dataset/car(G)"
    files = {f"{folder}/{name}.png": picture("PNG", (48, 36)) for name in "ab"}
    files |= {f"{folder}/{name}.mat": mat(name == "b") for name in "ab"}
    head = [f"{axis}{side}{index + 1}" for side in "AB" for axis in "XY" for index in range(10)]
    row = [f"{folder}/a.png", f"{folder}/b.png", *(str(number % 30 + 1) for number in range(40))]
    text = ",".join(["imageA", "imageB", *head]) + "\n" + ",".join(row) + "\n"
    return {**files, "test_pairs.csv": text.encode()}


def without_list() -> Files:
    return {path: content for path, content in willow().items() if not path.endswith(".csv")}


TARGETS = {
    "matlab": Target(arrays, r".*\.mat", damage_matlab, read_mats),
    "coco": Target(coco, r".*\.json", damage_json, _finite_pairs("coco")),
    "own pairs": Target(own_pairs, r".*\.json", damage_json, _finite_pairs("pairs")),
    "own table": Target(own_table, r".*\.csv", damage_lines, _finite_pairs("pairs")),
    "spair": Target(spair, r".*\.json", damage_json, _finite_pairs("spair")),
    "spair list": Target(spair, r".*\.txt", damage_lines, _finite_pairs("spair")),
    "ap10k": Target(ap10k, r".*\.json", damage_json, _finite_pairs("ap10k")),
    "cub": Target(cub, r".*\.txt", damage_lines, _finite_pairs("cub")),
    "pfpascal": Target(pfpascal, r".*\.mat", damage_matlab, _finite_pairs("pfpascal")),
    "pfpascal list": Target(pfpascal, r".*\.csv", damage_lines, _finite_pairs("pfpascal")),
    "pfwillow": Target(without_list, r".*\.mat", damage_matlab, _finite_pairs("pfwillow")),
    "pfwillow list": Target(willow, r".*\.csv", damage_lines, _finite_pairs("pfwillow")),
    "predictions": Target(predictions, r".*", damage_lines, score),
    "labels": Target(labels, r".*\.json", damage_json, read_labels),
    "journal": Target(journal, r".*", damage_lines, read_journal),
    "review": Target(reviewed, r"labels\.json", damage_json, review),
    "points": Target(points, r".*\.json", damage_json, read_points_files),
    "points as text": Target(points, r".*\.txt", damage_lines, read_points_files),
    "images": Target(images, r".*", damage_image, read_images),
    "archives": Target(archives, r".*", damage_archive, unpack),
    "download notes": Target(notes, r".*", damage_bytes, read_notes),
    "checkpoints": Target(checkpoints, r".*", damage_checkpoint, read_checkpoints),
    "run folder": Target(run_folder, r".*json", damage_json, read_run),
    "metrics": Target(run_folder, r".*jsonl", damage_lines, read_run),
    "run state": Target(run_state, r".*", damage_checkpoint, read_state),
    "cache": Target(cache_entry, r".*", damage_checkpoint, read_cache),
    "encodings": Target(encoding, r".*", damage_checkpoint, read_encoding),
    "manifest": Target(manifests, r".*", damage_lines, read_manifests),
    "parquet": Target(parquet, r".*", damage_bytes, read_parquet),
    "job": Target(job, r".*", damage_json, read_job),
    "server": Target(requests, r".*", damage_request, serve),
}
