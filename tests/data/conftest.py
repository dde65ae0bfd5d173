"""Small data sets in their original layouts, made on the spot."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.io
from PIL import Image


def make_image(path: Path, width: int = 100, height: int = 80) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.zeros((height, width, 3), np.uint8)).save(path)
    return path


def write_json(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def write_mat(path: Path, **values: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    scipy.io.savemat(path, values)
    return path


@pytest.fixture
def pfpascal(tmp_path: Path) -> Path:
    """Three cats ``a``, ``b``, ``c`` (100x80) with points 1-based; b lacks the second one."""
    root = tmp_path / "pf-pascal"
    points = {
        "a": [[1, 1], [51, 41], [100, 80]],
        "b": [[11, 21], [np.nan, np.nan], [31, 41]],
        "c": [[5, 5], [6, 6], [7, 7]],
    }
    for name, kps in points.items():
        make_image(root / f"PF-dataset-PASCAL/JPEGImages/{name}.jpg")
        write_mat(
            root / f"PF-dataset-PASCAL/Annotations/cat/{name}.mat", kps=np.array(kps, float), bbox=[[1, 2, 51, 62]]
        )
    lists = root / "image_pairs"
    lists.mkdir()
    image = "PF-dataset-PASCAL/JPEGImages/{}.jpg"
    rows = [("a", "b", 0), ("a", "b", 0), ("b", "a", 1)]
    text = "source_image,target_image,class,flip\n"
    text += "".join(f"{image.format(s)},{image.format(t)},8,{flip}\n" for s, t, flip in rows)
    (lists / "train_pairs.csv").write_text(text)
    (lists / "val_pairs.csv").write_text(text.splitlines()[0] + f"\n{image.format('a')},{image.format('c')},8,0\n")
    test = "source_image,target_image,class,XA,YA,XB,YB\n"
    test += f"{image.format('b')},{image.format('a')},8,11;31,21;41,1;100,1;80\n"
    test += f"{image.format('c')},{image.format('a')},8,5.5;6;7,5;6;7,1;51;100,1;41;80\n"
    (lists / "test_pairs.csv").write_text(test)
    return root


@pytest.fixture
def pfwillow(tmp_path: Path) -> Path:
    """Two sub-classes of two and three images; points of an image are 1-based and shifted by its number."""
    root = tmp_path / "pf-willow"
    for sub_class, count in (("car(G)", 2), ("duck(S)", 3)):
        for number in range(count):
            path = make_image(root / f"PF-dataset/{sub_class}/{number:03}.png")
            xy = np.stack([np.arange(10) + 1 + number, np.arange(10) * 2 + 1])
            write_mat(path.with_suffix(".mat"), pts_coord=xy.astype(float))
    return root


@pytest.fixture
def spair(tmp_path: Path) -> Path:
    """Three cats with ids 0, 2, 10 in common between the first two; pairs from Layout only."""
    root = tmp_path / "SPair-71k"
    points = {
        "a": {"0": [1, 2], "2": [3, 4], "10": [5, 6], "11": None},
        "b": {"10": [50, 60], "0": [10, 20], "2": [30, 40], "11": [7, 7]},
        "c": {"0": [9, 9], "2": None, "10": None, "11": [8, 8]},
    }
    for name, kps in points.items():
        make_image(root / f"JPEGImages/cat/{name}.jpg")
        content = {"image_width": 100, "image_height": 80, "bndbox": [1, 2, 51, 62], "kps": kps}
        write_json(root / f"ImageAnnotation/cat/{name}.json", content)
    layout = root / "Layout/large/test.txt"
    layout.parent.mkdir(parents=True)
    layout.write_text("000001-a-b:cat\n000002-b-c:cat\n")
    return root


@pytest.fixture
def ap10k(tmp_path: Path) -> Path:
    """Two bears; the pair's stored paths begin at another place."""
    root = tmp_path / "ap-10k"
    for name, visible in (("000000000001", 17), ("000000000002", 3)):
        make_image(root / f"JPEGImages/Ursidae/bear/{name}.jpg")
        keypoints = [[x + 1, x + 2, 2 if x < visible else 0] for x in range(17)]
        content = {"keypoints": np.ravel(keypoints).tolist(), "bbox": [10, 20, 30, 40], "width": 100, "height": 80}
        write_json(root / f"ImageAnnotation/Ursidae/bear/{name}.json", content)
    base = "data/ap-10k/ImageAnnotation/Ursidae/bear"
    for folder, category in (("test", "bear"), ("test_cross_family", "all")):
        content = {"src_json_path": f"{base}/000000000001.json", "trg_json_path": f"{base}/000000000002.json"}
        write_json(root / f"PairAnnotation/{folder}/000000000001-000000000002:{category}.json", content)
    return root


@pytest.fixture
def cub(tmp_path: Path) -> Path:
    """Two species; of the first 8 images (5 for training), of the second 2 (1 for training)."""
    root = tmp_path / "CUB_200_2011"
    (root / "parts").mkdir(parents=True)
    tables: dict[str, list[str]] = {name: [] for name in ("images", "labels", "split", "boxes", "locs")}
    for number in range(1, 11):
        species = 1 if number <= 8 else 2
        name = f"{species:03}.Bird/bird_{number:04}.jpg"
        make_image(root / "images" / name)
        tables["images"].append(f"{number} {name}")
        tables["labels"].append(f"{number} {species}")
        tables["split"].append(f"{number} {int(number <= 5 or number == 9)}")
        tables["boxes"].append(f"{number} 5.0 6.0 50.0 40.0")
        tables["locs"] += [f"{number} {part} {part + number}.0 {part}.0 {int(part != number)}" for part in range(1, 16)]
    files = {"images": "images", "labels": "image_class_labels", "split": "train_test_split"}
    files |= {"boxes": "bounding_boxes", "locs": "parts/part_locs"}
    for table, file in files.items():
        (root / f"{file}.txt").write_text("\n".join(tables[table]) + "\n")
    (root / "classes.txt").write_text("1 001.Albatross\n2 002.Auk\n")
    (root / "parts/parts.txt").write_text("".join(f"{part} left part {part}\n" for part in range(1, 16)))
    return root
