"""Make the photographs of this folder and their annotations from Debian's package ``tuxpaint-stamps-default``.

    apt-get download tuxpaint-stamps-default && dpkg-deb -x tuxpaint-stamps-default_*.deb stamps
    python examples/photos/make.py stamps

Each stamp is a small cut-out photograph. It is enlarged, given a soft sky, ground and shadow, and saved as JPEG; its
transparency gives the box and the outline in the annotations, the named points were placed by hand (``points.py``).
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import contourpy
import numpy as np
from PIL import Image, ImageFilter
from points import BIRD, BIRD_LINKS, POINTS, QUADRUPED, QUADRUPED_LINKS

STAMPS = Path("usr/share/tuxpaint/stamps")
HERE = Path(__file__).resolve().parent
QUALITY = 88
Colour = tuple[int, int, int]
MEADOW: tuple[Colour, Colour, Colour] = ((196, 214, 226), (231, 232, 222), (142, 152, 112))
SAND: tuple[Colour, Colour, Colour] = ((206, 215, 218), (236, 230, 216), (190, 171, 138))
STEPPE: tuple[Colour, Colour, Colour] = ((188, 204, 220), (228, 224, 208), (168, 160, 112))
STONE: tuple[Colour, Colour, Colour] = ((203, 209, 213), (228, 229, 228), (158, 157, 152))


@dataclass(frozen=True)
class Photo:
    """Where a stamp goes: its file, the picture's size, the width of the cut-out and its left top corner in pixels."""

    stamp: str
    size: tuple[int, int]
    width: int
    corner: tuple[int, int]
    ground: tuple[Colour, Colour, Colour]
    category: str


PHOTOS = {
    "horse": Photo("animals/mammals/equines/horse", (560, 420), 440, (62, 62), MEADOW, "quadruped"),
    "zebra": Photo("animals/mammals/equines/zebra", (540, 420), 400, (66, 64), STEPPE, "quadruped"),
    "donkey": Photo("animals/mammals/equines/donkey", (520, 420), 400, (58, 50), SAND, "quadruped"),
    "cow": Photo("animals/mammals/bovines/cow", (560, 420), 400, (84, 78), MEADOW, "quadruped"),
    "bison": Photo("animals/mammals/bovines/bison", (600, 420), 400, (112, 88), STEPPE, "quadruped"),
    "gnu": Photo("animals/mammals/bovines/gnu-stand", (600, 480), 480, (58, 66), SAND, "quadruped"),
    "chamois": Photo("animals/mammals/bovines/mountaingoat", (480, 480), 320, (88, 72), STONE, "quadruped"),
    "wapiti": Photo("animals/mammals/deer/wapiti", (560, 480), 380, (92, 92), MEADOW, "quadruped"),
    "lion": Photo("animals/mammals/cats/lion-2", (640, 420), 500, (66, 74), STEPPE, "quadruped"),
    "blackbird": Photo("animals/birds/blackbird", (520, 400), 380, (66, 88), STONE, "bird"),
    "crow": Photo("animals/birds/crow", (480, 400), 360, (66, 62), MEADOW, "bird"),
    "duck": Photo("animals/birds/duck", (500, 420), 380, (60, 58), SAND, "bird"),
    "pigeon": Photo("animals/birds/pigeon", (500, 400), 360, (74, 76), STONE, "bird"),
    "lark": Photo("animals/birds/lark", (560, 420), 300, (132, 128), SAND, "bird"),
    "sedan": Photo("vehicles/auto/sedan", (600, 360), 440, (86, 140), STONE, "car"),
    "truck": Photo("vehicles/auto/truck", (640, 400), 500, (66, 140), SAND, "car"),
}


def enlarged(stamp: Image.Image, width: int) -> Image.Image:
    """The cut-out at another width; colours are weighted by transparency so that its rim takes no dark halo."""
    rgba = np.asarray(stamp.convert("RGBA"), dtype=np.float32) / 255
    weighted = np.concatenate([rgba[..., :3] * rgba[..., 3:], rgba[..., 3:]], axis=-1)
    size = (width, round(stamp.height * width / stamp.width))
    bands = [Image.fromarray(weighted[..., band]).resize(size, Image.Resampling.BICUBIC) for band in range(4)]
    out = np.stack([np.asarray(band) for band in bands], axis=-1).clip(0, 1)
    out[..., :3] = (out[..., :3] / np.maximum(out[..., 3:], 1e-4)).clip(0, 1)
    return Image.fromarray((out * 255).round().astype(np.uint8), "RGBA")


def background(size: tuple[int, int], horizon: float, ground: tuple[Colour, Colour, Colour], seed: int) -> Image.Image:
    """Sky that pales towards a soft horizon (a share of the height), and ground with cloudy grain."""
    width, height = size
    high, low, earth = (np.array(colour, dtype=np.float32) for colour in ground)
    rows = np.linspace(0, 1, height, dtype=np.float32)[:, None, None]
    sky = high + (low - high) * np.clip(rows / horizon, 0, 1)
    soil = earth * (1.08 - 0.22 * np.clip((rows - horizon) / (1 - horizon), 0, 1))
    blend = 1 / (1 + np.exp(-(rows - horizon) * 60))
    picture = np.broadcast_to(sky * (1 - blend) + soil * blend, (height, width, 3)).copy()
    random = np.random.default_rng(seed)
    for cell, strength in ((4, 5.0), (16, 7.0), (64, 8.0)):  # grain of three sizes looks like soil, one like noise
        noise = random.standard_normal((height // cell + 2, width // cell + 2)).astype(np.float32)
        grain = np.asarray(Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC))[..., None]
        picture += strength * grain * (0.15 + 0.85 * blend)
    return Image.fromarray(picture.clip(0, 255).astype(np.uint8))


def shadow(cutout: Image.Image, size: tuple[int, int], corner: tuple[int, int]) -> Image.Image:
    """The cut-out's own shape lying flat at its feet, blurred."""
    height = max(8, cutout.height // 7)
    flat = cutout.getchannel("A").resize((cutout.width, height))
    mask = Image.new("L", size)
    mask.paste(flat, (corner[0], corner[1] + cutout.height - round(height * 0.62)))
    return mask.filter(ImageFilter.GaussianBlur(7)).point(lambda value: round(value * 0.42))


def compose(photo: Photo, stamps: Path, seed: int) -> tuple[Image.Image, np.ndarray]:
    """The finished picture and its ``(H, W)`` transparency from 0 to 1."""
    with Image.open(stamps / f"{photo.stamp}.png") as file:
        cutout = enlarged(file, photo.width)
    picture = background(photo.size, 0.62, photo.ground, seed)
    picture.paste((38, 36, 30), (0, 0), shadow(cutout, photo.size, photo.corner))
    picture.paste(cutout, photo.corner, cutout)
    alpha = Image.new("L", photo.size)
    alpha.paste(cutout.getchannel("A"), photo.corner)
    return picture, np.asarray(alpha, dtype=np.float32) / 255


def outline(alpha: np.ndarray) -> list[list[float]]:
    """COCO polygons around the cut-out, without specks and with one point in about three pixels."""
    lines = contourpy.contour_generator(z=np.pad(alpha, 1)).lines(0.5)
    rings = [np.asarray(line)[::3] - 1 for line in lines]
    return [[round(float(value), 1) for value in ring.ravel()] for ring in rings if _area(ring) > 40]


def _area(ring: np.ndarray) -> float:
    """Area of a ring, positive for outer ones: holes run the other way and COCO's polygons cannot have them."""
    x, y = ring.T
    return float(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2


def annotation(number: int, category: int, name: str, names: tuple[str, ...], alpha: np.ndarray) -> dict[str, Any]:
    """One COCO annotation: hand-placed points, and box, area and polygon from the cut-out."""
    points = POINTS[name]
    ys, xs = np.nonzero(alpha > 0.5)
    left, top = int(xs.min()), int(ys.min())
    flat = [value for point in names for value in ((*points[point], 2) if point in points else (0, 0, 0))]
    return {
        "id": number,
        "image_id": number,
        "category_id": category,
        "keypoints": flat,
        "num_keypoints": len(points),
        "bbox": [left, top, int(xs.max()) + 1 - left, int(ys.max()) + 1 - top],
        "area": int((alpha > 0.5).sum()),
        "segmentation": outline(alpha),
        "iscrowd": 0,
    }


def coco(names: list[str], alphas: dict[str, np.ndarray]) -> dict[str, Any]:
    """A COCO key-point file of these photographs."""
    kinds = {"quadruped": (1, QUADRUPED, QUADRUPED_LINKS), "bird": (2, BIRD, BIRD_LINKS)}
    used = {PHOTOS[name].category for name in names}
    return {
        "info": {"description": "Photographs of tuxpaint-stamps-default with hand-placed key-points", "version": "1"},
        "licenses": [{"id": 1, "name": "GPL-2.0-or-later", "url": "https://www.gnu.org/licenses/old-licenses/gpl-2.0"}],
        "images": [
            {"id": i, "file_name": f"{n}.jpg", "width": PHOTOS[n].size[0], "height": PHOTOS[n].size[1], "license": 1}
            for i, n in enumerate(names, 1)
        ],
        "annotations": [
            annotation(i, kinds[PHOTOS[n].category][0], n, kinds[PHOTOS[n].category][1], alphas[n])
            for i, n in enumerate(names, 1)
        ],
        "categories": [
            {"id": number, "name": kind, "supercategory": "animal", "keypoints": list(parts), "skeleton": links}
            for kind, (number, parts, links) in kinds.items()
            if kind in used
        ],
    }


def write(content: dict[str, Any], path: Path) -> None:
    """JSON with one image, annotation or category per line, so that a change to one is one line of a diff."""
    parts = []
    for key, value in content.items():
        items = ",\n".join(f"  {json.dumps(item)}" for item in value) if isinstance(value, list) else ""
        parts.append(f'"{key}": [\n{items}\n]' if items else f'"{key}": {json.dumps(value)}')
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def main() -> None:
    """Write all pictures and both annotation files."""
    parser = argparse.ArgumentParser(description="Make the example photographs from the unpacked package.")
    parser.add_argument("package", type=Path, help="folder that `dpkg-deb -x` filled")
    parser.add_argument("--out", type=Path, default=HERE, help="folder to write to")
    arguments = parser.parse_args()
    alphas = {}
    for seed, (name, photo) in enumerate(PHOTOS.items()):
        picture, alphas[name] = compose(photo, arguments.package / STAMPS, seed)
        picture.save(arguments.out / f"{name}.jpg", quality=QUALITY, optimize=True)
    labelled = [name for name in PHOTOS if name in POINTS]
    write(coco(["horse"], alphas), arguments.out / "horse.json")
    write(coco(labelled, alphas), arguments.out / "keypoints.json")


if __name__ == "__main__":
    main()
