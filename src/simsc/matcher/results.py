"""What a match says about every point."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F

from simsc.coordinates import Convention, Size, aligns_corners
from simsc.errors import ConfigError, DataError
from simsc.files import write_json
from simsc.matching.scores import ScoreMaps

if TYPE_CHECKING:
    import pandas
    from PIL import Image


@dataclass(frozen=True, repr=False)
class MatchResult:
    """Where points of the source lie in the target; sizes are ``(height, width)`` of the images as shown.

    Attributes:
        source_points: ``(n, 2)`` xy, the queries, in pixels of the source.
        points: ``(n, 2)`` xy in pixels of the target; the best guess also where ``matched`` is False.
        confidence: ``(n,)`` in [0, 1], probability that the match is right (within a tenth of the object's larger side)
            where the model has a calibration; else that of the most likely cell.
        cycle_error: ``(n,)`` pixels of the source between a query and where its match leads back to.
        matched: ``(n,)`` bool, whether there is a counterpart and the match passes the limits that were asked for.
        status: ``(n,)`` of ``sure``, ``unsure`` and ``none``; a model without a calibration is never sure.
        peak: ``(n,)`` probability of the most likely cell.
        signals: ``(n, k)`` what the confidence is computed from, see :mod:`simsc.matching.signals`.
        temperature: effective temperature of the pair, the product of both images' temperatures.
        names: ``n`` names, where the query was a dictionary.
        index: of the target among those of :meth:`simsc.matcher.Matcher.match_many`.
        images: source and target as they were given, for :meth:`draw`.
        mirrored: whether the mirror image of the source was matched; then a left part is found at the right one.
        scorer, cells: what the heat-maps are computed from when they are asked for.
        convention: how the target's cells and pixels relate.
    """

    source_points: np.ndarray
    points: np.ndarray
    confidence: np.ndarray
    cycle_error: np.ndarray
    matched: np.ndarray
    status: np.ndarray
    peak: np.ndarray
    temperature: float
    source_size: Size
    target_size: Size
    scorer: ScoreMaps = field(repr=False, compare=False)
    cells: torch.Tensor = field(repr=False, compare=False)
    signals: np.ndarray = field(repr=False, compare=False)
    convention: Convention = "center"
    names: tuple[str, ...] = ()
    index: int = 0
    images: tuple[Any, Any] | None = field(default=None, repr=False, compare=False)
    mirrored: bool = False

    def __len__(self) -> int:
        return len(self.points)

    def __repr__(self) -> str:
        counts = ", ".join(f"{(self.status == each).sum()} {each}" for each in ("sure", "unsure", "none"))
        return f"MatchResult({len(self)} points: {counts}; temperature {self.temperature:.4f})"

    def draw(self, source: Any = None, target: Any = None, **options: Any) -> Image.Image:
        """A picture of the matches.

        Args:
            source, target: the images; None for those that were matched, which are not known if they were encoded.
            options: of :func:`simsc.pictures.draw_matches`.
        """
        from simsc.images import read_image
        from simsc.pictures import draw_matches

        known = self.images or (None, None)
        chosen = [given if given is not None else kept for given, kept in zip((source, target), known, strict=True)]
        if any(image is None for image in chosen):
            raise DataError("the images were encoded before, so their pixels are not known: give draw() both images")
        first, second = (read_image(image) for image in chosen)
        facts = {"status": self.status, "confidence": self.confidence, "names": self.names, **options}
        return draw_matches(first, second, self.source_points, self.points, **facts)

    def save(self, path: str | Path, **options: Any) -> Path:
        """Write the matches: as a picture, see :meth:`draw`, or with the ending ``.json`` as :meth:`to_dict`."""
        path = Path(path)
        if path.suffix.lower() == ".json":
            write_json(path, self.to_dict())
            return path
        from simsc.pictures import save_picture

        save_picture(self.draw(**options), path)
        return path

    def show(self, **options: Any) -> None:
        """Open a picture of the matches in the system's viewer."""
        self.draw(**options).show()

    def _repr_png_(self) -> bytes | None:
        """The picture that a notebook shows; None, so that it prints the text, where the pixels are not known."""
        if self.images is None:
            return None
        stream = io.BytesIO()
        self.draw().save(stream, "PNG")
        return stream.getvalue()

    def to_pandas(self) -> pandas.DataFrame:
        """One row for each point; needs pandas."""
        try:
            import pandas
        except ImportError:
            raise ConfigError("to_pandas needs pandas: pip install pandas") from None
        columns = {
            "x_source": self.source_points[:, 0], "y_source": self.source_points[:, 1],
            "x": self.points[:, 0], "y": self.points[:, 1],
            "confidence": self.confidence, "status": self.status, "cycle_error": self.cycle_error,
            "matched": self.matched,
        }  # fmt: skip
        return pandas.DataFrame(columns, index=list(self.names) or None)

    @cached_property
    def heatmaps(self) -> np.ndarray:
        """``(n, h, w)`` probabilities over the target's cells, each summing to 1; computed on first use."""
        with torch.inference_mode():
            scores = self.scorer(self.cells[None])[0]
            return torch.softmax(scores.flatten(1), dim=1).view_as(scores).cpu().numpy()

    def heatmap_image(self, index: int, size: Size | None = None) -> np.ndarray:
        """The heat-map of one point, up-sampled to the target as shown or to ``size``: ``(H, W)``."""
        return upsample(self.heatmaps[index], size or self.target_size, self.convention)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, lists and dictionaries, for JSON."""
        rows = zip(
            self.source_points, self.points, self.confidence, self.cycle_error, self.matched, self.status, strict=True
        )
        return {
            "source": _extent(self.source_size),
            "target": _extent(self.target_size),
            "temperature": self.temperature,
            "mirrored": self.mirrored,
            "matches": [
                {
                    "source": _rounded(source),
                    "target": _rounded(target),
                    "confidence": round(float(confidence), 6),
                    "cycle_error": round(float(error), 3),
                    "matched": bool(matched),
                    "status": str(status),
                    **({"name": self.names[number]} if self.names else {}),
                }
                for number, (source, target, confidence, error, matched, status) in enumerate(rows)
            ],
        }


def upsample(values: np.ndarray, size: Size, convention: Convention = "center") -> np.ndarray:
    """Bilinear up-sampling of values ``(h, w)`` or ``(h, w, c)`` over an image of ``size``, float32.

    Cells and pixels both tile the image, so one resize leads from the cells to the pixels as shown.

    >>> upsample(np.array([[0.0, 1.0]]), (1, 4)).tolist()
    [[0.0, 0.25, 0.75, 1.0]]
    """
    maps = torch.from_numpy(np.asarray(values, dtype=np.float32))
    planes = maps[None] if maps.ndim == 2 else maps.permute(2, 0, 1)
    large = F.interpolate(planes[None], size=size, mode="bilinear", align_corners=aligns_corners(convention))[0]
    return (large[0] if maps.ndim == 2 else large.permute(1, 2, 0)).numpy()


def _extent(size: Size) -> dict[str, int]:
    return {"width": size[1], "height": size[0]}


def _rounded(point: np.ndarray) -> list[float]:
    return [round(float(value), 3) for value in point]
