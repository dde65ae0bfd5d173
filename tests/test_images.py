"""Images of every kind become (H, W, 3) uint8 RGB, or a sentence that names the file."""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from simsc.errors import DataError
from simsc.images import FORMATS, image_size, pad_to_square, read_image, resize_image

RED = np.array([[[255, 0, 0], [0, 0, 0]]], np.uint8)  # one row: red, black


def png(image: Image.Image, **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, "PNG", **options)
    return stream.getvalue()


def test_path_bytes_pil_and_array_agree(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.fromarray(RED).save(path)
    for source in (path, str(path), path.read_bytes(), Image.open(path), RED):
        np.testing.assert_array_equal(read_image(source), RED)


def test_array_is_copied() -> None:
    pixels = RED.copy()
    result = read_image(pixels)
    pixels[:] = 7
    np.testing.assert_array_equal(result, RED)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_float_tensor_is_channels_first(dtype: torch.dtype) -> None:
    tensor = torch.from_numpy(RED).permute(2, 0, 1).to(dtype) / 255
    np.testing.assert_array_equal(read_image(tensor.requires_grad_()), RED)


def test_uint8_tensor() -> None:
    np.testing.assert_array_equal(read_image(torch.from_numpy(RED).permute(2, 0, 1)), RED)


def test_grey_array_and_bool_array() -> None:
    np.testing.assert_array_equal(read_image(np.array([[True, False]])), [[[255] * 3, [0] * 3]])
    np.testing.assert_array_equal(read_image(np.array([[9]], np.uint8)), [[[9] * 3]])


@pytest.mark.parametrize("mode", ["L", "1", "P", "CMYK", "YCbCr", "RGB", "LA", "RGBA", "I;16", "I"])
def test_white_stays_white_in_every_mode(mode: str) -> None:
    if mode.startswith("I"):
        image = Image.fromarray(np.full((2, 3), 65535, np.uint16 if mode == "I;16" else np.int32))
    else:
        image = Image.new("RGB", (3, 2), "white").convert(mode)
    pixels = read_image(image)
    assert pixels.shape == (2, 3, 3)
    assert pixels.dtype == np.uint8
    assert (pixels == 255).all()


def test_16_bit_is_scaled_not_clipped() -> None:
    grey = Image.fromarray(np.array([[0, 32768, 65535]], np.uint16))
    assert read_image(png(grey))[0, :, 0].tolist() == [0, 128, 255]


def test_transparency_is_laid_over_white() -> None:
    half = Image.new("RGBA", (1, 1), (0, 0, 0, 0))
    assert read_image(half).tolist() == [[[255, 255, 255]]]
    palette = Image.new("P", (1, 1), 0)
    palette.putpalette([0, 0, 0] * 256)
    assert read_image(png(palette, transparency=0)).tolist() == [[[255, 255, 255]]]


def test_cmyk_jpeg(tmp_path: Path) -> None:
    path = tmp_path / "c.jpg"
    Image.new("RGB", (8, 8), (255, 0, 0)).convert("CMYK").save(path, quality=100)
    red, green, blue = read_image(path)[4, 4].tolist()
    assert red > 240
    assert max(green, blue) < 15


def test_first_frame_of_an_animation(tmp_path: Path) -> None:
    path = tmp_path / "a.gif"
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    frames[0].save(path, save_all=True, append_images=frames[1:])
    assert read_image(path)[0, 0].tolist() == [255, 0, 0]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation(tmp_path: Path, orientation: int) -> None:
    path = tmp_path / "turned.png"
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = np.zeros((2, 3, 3), np.uint8)
    stored[0, 0] = 255  # where the stored top left corner is shown
    Image.fromarray(stored).save(path, exif=exif)
    pixels = read_image(path)
    assert image_size(path) == pixels.shape[:2] == ((3, 2) if orientation > 4 else (2, 3))
    row, column = np.argwhere(pixels[..., 0])[0]
    height, width = pixels.shape[:2]
    top, left = row == 0, column == 0
    expected = {1: (1, 1), 2: (1, 0), 3: (0, 0), 4: (0, 1), 5: (1, 1), 6: (1, 0), 7: (0, 0), 8: (0, 1)}
    assert (top, left) == tuple(map(bool, expected[orientation]))
    assert row in (0, height - 1)
    assert column in (0, width - 1)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "not an image"), (b"hello", "not an image"), (None, "no such"), ("truncated", "truncated")],
)
def test_bad_files_are_named(tmp_path: Path, content: bytes | str | None, words: str) -> None:
    path = tmp_path / "bad.png"
    if content == "truncated":
        noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)
        path.write_bytes(png(Image.fromarray(noise))[:2000])
    elif isinstance(content, bytes):
        path.write_bytes(content)
    with pytest.raises(DataError, match=words) as caught:
        read_image(path)
    assert "bad.png" in str(caught.value)


def test_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="folder"):
        read_image(tmp_path)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (np.zeros((2, 2, 5), np.uint8), "expected shape"),
        (np.zeros((0, 2, 3), np.uint8), "expected shape"),
        (np.zeros(3, np.uint8), "expected shape"),
        (np.full((2, 2, 3), 200.0), "lie in"),
        (np.full((2, 2, 3), np.nan), "lie in"),
        (np.full((2, 2), -4), "lie in"),
        (np.array([["a"]]), "numbers"),
        (torch.zeros(2, 2, 3), "tensor: expected shape"),
        (torch.zeros(1, 3, 4, 4), "expected shape"),
        (3, "cannot read an image from int"),
    ],
)
def test_wrong_arrays(source: object, words: str) -> None:
    with pytest.raises(DataError, match=words):
        read_image(source)  # type: ignore[arg-type]


def test_too_many_pixels_are_refused_before_decoding(tmp_path: Path) -> None:
    path = tmp_path / "big.png"
    Image.new("1", (200, 100)).save(path)
    with pytest.raises(DataError, match=r"big.png: 200x100 pixels are more than max_pixels = 19,999"):
        read_image(path, max_pixels=19_999)
    assert read_image(path, max_pixels=20_000).shape == (100, 200, 3)


def test_bomb_by_header(tmp_path: Path) -> None:
    path = tmp_path / "bomb.png"
    content = bytearray(png(Image.new("L", (1, 1))))
    content[16:24] = struct.pack(">II", 30_000, 30_000)  # width and height of the header
    content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"bomb\.png: too large"):
        read_image(path)


def test_resize_is_antialiased_with_half_pixel_centres() -> None:
    ramp = np.repeat(np.arange(0, 256, dtype=np.uint8)[None, :, None], 3, axis=2).repeat(8, axis=0)
    small = resize_image(ramp, (4, 64))
    assert small.dtype == torch.float32
    # The middle of four neighbours of a ramp is their mean, away from the border.
    expected = torch.arange(64) * 4 + 1.5
    torch.testing.assert_close(small[0, 1, 2:-2] * 255, expected[2:-2], atol=1.0, rtol=0)


def test_resize_to_same_size_keeps_pixels() -> None:
    np.testing.assert_allclose(resize_image(RED, (1, 2)).permute(1, 2, 0).numpy() * 255, RED, atol=1e-4)


def test_resize_refuses_other_shapes() -> None:
    with pytest.raises(DataError, match=r"\(H, W, 3\)"):
        resize_image(np.zeros((2, 2), np.uint8), (1, 1))


@pytest.mark.parametrize("shape", [(2, 5), (5, 2), (3, 3)])
def test_padding_keeps_coordinates(shape: tuple[int, int]) -> None:
    pixels = np.full((*shape, 3), 9, np.uint8)
    padded = pad_to_square(pixels)
    assert padded.shape == (max(shape),) * 2 + (3,)
    np.testing.assert_array_equal(padded[: shape[0], : shape[1]], pixels)
    assert padded.sum() == pixels.sum()


def saved(image: Image.Image, form: str, **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


@pytest.mark.parametrize("form", ["EPS", "DDS", "TGA", "PCX", "ICO", "PDF"])
def test_only_listed_decoders_see_a_file(tmp_path: Path, form: str) -> None:
    """Whatever its name: for EPS, Pillow would start ghostscript."""
    path = tmp_path / "picture.jpg"
    path.write_bytes(saved(Image.new("RGB", (16, 16)), form))
    for read in (read_image, image_size):
        with pytest.raises(DataError, match=r"picture\.jpg: not an image, or not of a supported format \(JPEG, PNG"):
            read(path)


@pytest.mark.parametrize("form", ["WEBP", "TIFF", "BMP", "GIF", "PPM", "MPO", "AVIF"])
def test_listed_formats(form: str) -> None:
    if form == "AVIF" and "AVIF" not in FORMATS:
        pytest.skip("this Pillow has no AVIF")
    assert read_image(saved(Image.new("RGB", (16, 12), "white"), form)).tolist() == np.full((12, 16, 3), 255).tolist()


def test_heic_gets_a_hint() -> None:
    with pytest.raises(DataError, match="a HEIC image, which is not supported; save it as JPEG"):
        read_image(b"\0\0\0\x18ftypheic" + bytes(100))


def test_pipes_and_devices_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.jpg")
    for path in (tmp_path / "a.jpg", Path("/dev/zero")):
        with pytest.raises(DataError, match="not a regular file"):
            read_image(path)


def test_what_else_holds_bytes_or_pixels() -> None:
    content = png(Image.fromarray(RED))
    for source in (io.BytesIO(content), bytearray(content), memoryview(content)):
        np.testing.assert_array_equal(read_image(source), RED)  # type: ignore[arg-type]
    grey = np.array([[0.0, 1.0]])
    matrix = np.matrix(grey)
    np.testing.assert_array_equal(read_image(matrix), read_image(grey))


@pytest.mark.parametrize(
    "tensor",
    [
        torch.ones(3, 4, 4).to_sparse(),
        torch.ones(4, 4).to_sparse_csr(),
        torch.ones(3, 4, 4, device="meta"),
    ],
)
def test_tensors_that_are_no_images(tensor: torch.Tensor) -> None:
    with pytest.raises(DataError, match="expected a dense tensor"):
        read_image(tensor)


def test_complex_tensors_are_refused() -> None:
    with pytest.raises(DataError, match="pixels must be numbers"):
        read_image(torch.ones(3, 4, 4, dtype=torch.complex64).conj())


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "P", "I;16", "1", "LA"])
def test_stripes_make_no_difference(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    noise = np.random.default_rng(3).integers(0, 65535, (37, 29))
    image = Image.fromarray(noise.astype(np.uint16)) if mode == "I;16" else None
    image = image or Image.fromarray(noise.astype(np.uint8)).convert(mode)
    if mode in ("RGBA", "LA"):
        image.putalpha(Image.fromarray((noise >> 8).astype(np.uint8)))
    content = png(image, **({"transparency": 3} if mode == "P" else {}))
    whole = read_image(content)
    monkeypatch.setattr("simsc.images._STRIPE", 100)
    np.testing.assert_array_equal(read_image(content), whole)


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "form"), [("RGB", "JPEG"), ("RGBA", "PNG")])
def test_large_images_stay_within_bounds(tmp_path: Path, mode: str, form: str) -> None:
    """88 megapixels: Pillow's four bytes a pixel and three of the result, and little more."""
    pytest.importorskip("resource")
    path = tmp_path / "large"
    Image.new(mode, (11_000, 8_000), "red").save(path, form, **({"compress_level": 1} if form == "PNG" else {}))
    program = (
        "import resource, sys; from simsc.images import read_image; base = resource.getrusage(0).ru_maxrss;"
        "assert read_image(sys.argv[1]).shape == (8000, 11000, 3); print(resource.getrusage(0).ru_maxrss - base)"
    )
    run = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(run.stdout) * unit < 8 * 88_000_000
