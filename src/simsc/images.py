"""Images as ``(H, W, 3)`` uint8 RGB arrays, whatever they come from, and resized tensors for a network."""

from __future__ import annotations

import io
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from simsc.errors import DataError
from simsc.reading import check_file

if TYPE_CHECKING:
    from torch import Tensor

    from simsc.coordinates import Size

MAX_PIXELS = 89_000_000  # just below the size at which Pillow warns of a decompression bomb

_AVIF = ("AVIF",) if find_spec("PIL.AvifImagePlugin") else ()
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "PPM", "WEBP", "TIFF", *_AVIF)
"""The decoders of Pillow that see a file, whatever its name says; others start programs, or are hardly tested."""
FILE_LIMIT = 1 << 30

_EXIF_ORIENTATION = 0x0112
_STRIPE = 1 << 20  # pixels that are converted at a time
_HEIF_BRANDS = (b"heic", b"heix", b"hevc", b"heim", b"heis", b"mif1", b"msf1")


def read_image(
    source: str | Path | bytes | io.BytesIO | Image.Image | np.ndarray | Tensor, *, max_pixels: int = MAX_PIXELS
) -> np.ndarray:
    """Any image as ``(H, W, 3)`` uint8 RGB.

    Files and bytes, of one of :data:`FORMATS`: EXIF orientation is applied, transparency is laid over white,
    greyscale, palette, CMYK and 16-bit images are converted, and of an animation the first frame is taken.
    Arrays are ``(H, W)`` or ``(H, W, 1|3|4)``, tensors ``(H, W)`` or ``(1|3|4, H, W)``; floats in ``[0, 1]``.

    Args:
        source: path, encoded bytes (also in a ``BytesIO``), PIL image, array or tensor.
        max_pixels: larger images are refused before their pixels are decoded.

    >>> read_image(np.array([[0.0, 0.5, 1.0]])).tolist()
    [[[0, 0, 0], [128, 128, 128], [255, 255, 255]]]
    """
    if isinstance(source, Image.Image):
        return _decode(source, "the PIL image", max_pixels)
    if isinstance(source, np.ndarray):
        return _from_array(np.asarray(source), "the array", max_pixels)  # a plain array, also of a matrix
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _read(io.BytesIO(source), "the image bytes", max_pixels)
    if isinstance(source, io.BytesIO):
        return _read(io.BytesIO(source.getvalue()), "the image bytes", max_pixels)
    if isinstance(source, (str, Path)):
        return _read(Path(source), str(source), max_pixels)
    if _is_tensor(source):
        return _from_tensor(source, max_pixels)
    raise DataError(
        f"cannot read an image from {type(source).__name__}; "
        "give a path, bytes, a PIL image, a numpy array or a torch tensor"
    )


def image_size(path: str | Path) -> Size:
    """``(height, width)`` of the image in a file as shown (EXIF orientation applied), from its header."""
    with _open(Path(path), str(path)) as image:
        width, height = image.size
        turned = _orientation(image) in (5, 6, 7, 8)
    return (width, height) if turned else (height, width)


def resize_image(pixels: np.ndarray, size: Size) -> Tensor:
    """Resize ``(H, W, 3)`` uint8 pixels to a ``(3, h, w)`` float tensor in ``[0, 1]``.

    Antialiased bilinear with half-pixel centres, hence the ``center`` convention of :mod:`simsc.coordinates`.

    >>> resize_image(np.full((4, 6, 3), 255, np.uint8), (2, 3)).shape
    torch.Size([3, 2, 3])
    """
    import torch

    check_pixels(pixels)
    if pixels.shape[:2] != tuple(size):
        height, width = size
        resized = Image.fromarray(pixels).resize((width, height), Image.Resampling.BILINEAR)
        pixels = np.asarray(resized)
    channels_first = np.ascontiguousarray(pixels.transpose(2, 0, 1))
    return torch.from_numpy(channels_first.astype(np.float32) / 255)


def pad_to_square(pixels: np.ndarray, value: int = 0) -> np.ndarray:
    """Extend ``(H, W, 3)`` at the right or bottom to a square; points keep their coordinates.

    >>> pad_to_square(np.ones((2, 3, 3), np.uint8)).shape
    (3, 3, 3)
    """
    check_pixels(pixels)
    height, width = pixels.shape[:2]
    side = max(height, width)
    return np.pad(pixels, ((0, side - height), (0, side - width), (0, 0)), constant_values=value)


def check_pixels(pixels: np.ndarray) -> None:
    """Refuse anything but a non-empty ``(H, W, 3)`` uint8 array."""
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3 or 0 in pixels.shape:
        raise DataError(f"expected pixels of shape (H, W, 3) and type uint8, got {pixels.shape} {pixels.dtype}")


def _open(stream: Path | io.BytesIO, where: str) -> Image.Image:
    if isinstance(stream, Path):
        check_file(stream, FILE_LIMIT, "image file")
    try:
        return Image.open(stream, formats=FORMATS)
    except Image.DecompressionBombError as error:
        raise DataError(f"{where}: too large to open safely ({error})") from None
    except UnidentifiedImageError:
        raise DataError(f"{where}: {_unknown_kind(stream)}") from None
    except MemoryError:
        raise DataError(f"{where}: there is not enough memory to open the image") from None
    except Exception as error:  # decoders meet hostile bytes here, and raise whatever comes to them
        raise DataError(f"{where}: the image cannot be read ({_said(error)})") from None


def _unknown_kind(stream: Path | io.BytesIO) -> str:
    """Why no decoder took a file."""
    if isinstance(stream, Path):
        with stream.open("rb") as file:
            start = file.read(12)
    else:
        start = stream.getvalue()[:12]
    if start[4:8] == b"ftyp" and start[8:12] in _HEIF_BRANDS:
        return "a HEIC image, which is not supported; save it as JPEG or PNG first"
    return f"not an image, or not of a supported format ({', '.join(FORMATS)})"


def _read(stream: Path | io.BytesIO, where: str, max_pixels: int) -> np.ndarray:
    with _open(stream, where) as image:
        return _decode(image, where, max_pixels)


def _decode(image: Image.Image, where: str, max_pixels: int) -> np.ndarray:
    _check_extent(image.height, image.width, where, max_pixels)
    try:
        image.load()
        return _turned(_to_rgb(image, where), _orientation(image))
    except DataError:
        raise
    except MemoryError:
        raise DataError(f"{where}: there is not enough memory for {image.width}x{image.height} pixels") from None
    except Exception as error:  # as above: whatever a decoder raises, the file is to blame
        raise DataError(f"{where}: the image is damaged or truncated ({_said(error)})") from None


def _orientation(image: Image.Image) -> int:
    """How the camera was held, 1 (upright) to 8; damaged EXIF data counts as none, as in every viewer."""
    try:
        return int(image.getexif().get(_EXIF_ORIENTATION, 1))
    except Exception:
        return 1


def _turned(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """``(H, W, 3)`` as shown: EXIF's orientation applied."""
    if orientation not in range(2, 9):
        return pixels
    if orientation >= 5:
        pixels = pixels.transpose(1, 0, 2)
    across, down = orientation in (2, 3, 6, 7), orientation in (3, 4, 7, 8)
    return np.ascontiguousarray(pixels[:: -1 if down else 1, :: -1 if across else 1])


def _to_rgb(image: Image.Image, where: str) -> np.ndarray:
    """All modes as RGB, stripe by stripe: beside Pillow's own pixels, only the result is held as a whole."""
    if image.mode == "F":
        return _from_array(np.asarray(image), where, MAX_PIXELS)
    pixels = np.empty((image.height, image.width, 3), np.uint8)
    rows = max(_STRIPE // image.width, 1)
    for top in range(0, image.height, rows):
        stripe = image.crop((0, top, image.width, min(top + rows, image.height)))
        stripe.info = image.info  # may name the colour that is transparent
        pixels[top : top + rows] = _stripe_to_rgb(stripe, where)
    return pixels


def _stripe_to_rgb(image: Image.Image, where: str) -> np.ndarray:
    if image.mode.startswith("I"):  # 16-bit greyscale; Pillow's own conversion would clip instead of scale
        return _from_array(np.asarray(image).clip(0, 65535).astype(np.uint16), where, MAX_PIXELS)
    if "transparency" in image.info or image.mode in ("RGBA", "LA", "PA", "RGBa", "La"):
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return np.asarray(image.convert("RGB"))


def _said(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _from_tensor(tensor: Any, max_pixels: int) -> np.ndarray:
    if tensor.is_sparse or tensor.is_quantized or tensor.is_meta or str(tensor.layout) != "torch.strided":
        raise DataError("the tensor: expected a dense tensor with values; sparse and quantised ones are not images")
    array = tensor.detach().cpu()
    array = (array.float() if array.is_floating_point() else array).resolve_conj().resolve_neg().numpy()
    if array.ndim == 3:
        if array.shape[0] not in (1, 3, 4):
            raise DataError(f"the tensor: expected shape (1|3|4, H, W) or (H, W), got {tuple(array.shape)}")
        array = array.transpose(1, 2, 0)
    return _from_array(array, "the tensor", max_pixels)


def _from_array(array: np.ndarray, where: str, max_pixels: int) -> np.ndarray:
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4) or 0 in array.shape:
        raise DataError(f"{where}: expected shape (H, W) or (H, W, 1|3|4), got {tuple(array.shape)}")
    _check_extent(array.shape[0], array.shape[1], where, max_pixels)
    array = _to_bytes(array, where)
    if array.shape[2] == 1:
        return np.repeat(array, 3, axis=2)
    if array.shape[2] == 4:
        return _to_rgb(Image.fromarray(np.ascontiguousarray(array)), where)
    return np.array(array, order="C")  # a copy: what the caller does to its array does not reach ours


def _to_bytes(array: np.ndarray, where: str) -> np.ndarray:
    """Values scaled to 0..255: floats from [0, 1], uint16 from 0..65535, bool from 0 and 1."""
    if array.dtype == np.uint8:
        return array
    if array.dtype == np.uint16:
        return np.rint(array / 257).astype(np.uint8)
    if array.dtype == np.bool_:
        return array.astype(np.uint8) * 255
    if array.dtype.kind not in "iuf":
        raise DataError(f"{where}: pixels must be numbers, got {array.dtype}")
    top = 1 if array.dtype.kind == "f" else 255
    low, high = float(array.min()), float(array.max())
    if not (-1e-3 * top <= low and high <= 1.001 * top):  # also false for NaN; resampling may overshoot a little
        raise DataError(f"{where}: {array.dtype} pixels must lie in [0, {top}], got values from {low} to {high}")
    scaled = array.clip(0, top) * (255 / top)
    return np.floor(scaled + 0.5).astype(np.uint8)


def _check_extent(height: int, width: int, where: str, max_pixels: int) -> None:
    if height < 1 or width < 1:
        raise DataError(f"{where}: the image is empty ({width}x{height})")
    if height * width > max_pixels:
        raise DataError(f"{where}: {width}x{height} pixels are more than max_pixels = {max_pixels:,}")


def _is_tensor(source: object) -> bool:
    """Whether ``source`` is a torch tensor, found out without importing torch."""
    return any(f"{kind.__module__}.{kind.__qualname__}" == "torch.Tensor" for kind in type(source).__mro__)
