"""Matplotlib in this project's look; imported only when a curve is drawn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from simsc.errors import SimscError
from simsc.files import atomic_path
from simsc.pictures.style import DASHES, MARKERS, SERIES, hexadecimal, matplotlib_settings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Line = tuple[Sequence[float] | np.ndarray, Sequence[float] | np.ndarray]


class PlotError(SimscError):
    """A curve that cannot be drawn: nothing to show, or Matplotlib is missing."""


@contextmanager
def figure(path: str | Path, columns: int = 1, width: float = 6.4, height: float = 4.0) -> Iterator[list[Axes]]:
    """Axes side by side; on success they are written to ``path`` as PNG and as SVG, whatever its ending."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise PlotError(f"curves need Matplotlib ({error}); install simsc[plots]") from None
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # the user's own settings must not change the look
        settings: Any = matplotlib_settings()  # Matplotlib types its keys one by one
        matplotlib.rcParams.update(settings)
        sheet = Figure(figsize=(width, height), layout="constrained")
        yield [sheet.add_subplot(1, columns, 1 + i) for i in range(columns)]
        _save(sheet, Path(path))


def output_paths(path: str | Path) -> tuple[Path, Path]:
    """The two files of a curve.

    >>> [each.name for each in output_paths("runs/pck.png")]
    ['pck.png', 'pck.svg']
    """
    path = Path(path)
    stem = path.with_suffix("") if path.suffix.lower() in (".png", ".svg") else path
    return stem.with_name(stem.name + ".png"), stem.with_name(stem.name + ".svg")


def draw_lines(axes: Axes, series: Mapping[str, Line], markers: bool = True) -> None:
    """One line per series; besides the colour the marker differs, or the dashes where there are no markers."""
    if not any(len(x) for x, _ in series.values()):
        raise PlotError("nothing to plot: every series is empty")
    for index, (name, (x, y)) in enumerate(series.items()):
        marked = markers or len(x) == 1
        axes.plot(
            x, y, label=name, color=series_color(index), linestyle="-" if marked else DASHES[index % len(DASHES)],
            marker=MARKERS[index % len(MARKERS)] if marked else None, markevery=max(len(x) // 12, 1),
            markeredgecolor="white", markeredgewidth=0.8,
        )  # fmt: skip


def label_ends(axes: Axes, series: Mapping[str, Line]) -> None:
    """Write each series' name at the right of its last point, pushed apart where they would overlap."""
    if len(series) < 2:
        return
    if len(series) > len(SERIES):
        axes.legend()
        return
    sheet: Any = axes.figure
    sheet.draw_without_rendering()  # settles the limits and the height, which place the labels
    shares = [_share(axes, y) for _, y in series.values()]
    step = 15 / (axes.bbox.height / sheet.dpi * 72)  # points of one line of text, as a share of the height
    for index, (name, place) in enumerate(zip(series, spread(shares, step), strict=True)):
        axes.annotate(
            name, (1.0, place), (8, 0), xycoords="axes fraction", textcoords="offset points", va="center",
            color=series_color(index), annotation_clip=False,
        )  # fmt: skip


def spread(places: Sequence[float], step: float) -> list[float]:
    """Places moved as little as needed to lie at least ``step`` apart, keeping their order.

    >>> spread([0.5, 0.5], step=0.2)
    [0.4, 0.6]
    """
    order = np.argsort(places, kind="stable")
    moved = np.asarray(places, dtype=np.float64)[order]
    for _ in range(100):
        overlap = np.clip(step - np.diff(moved), 0, None)
        if overlap.max(initial=0) < 1e-6:
            break
        moved[:-1] -= overlap / 2
        moved[1:] += overlap / 2
    result = np.empty_like(moved)
    result[order] = moved
    return [round(float(place), 6) for place in result]


def series_color(index: int) -> str:
    """Colour of the series number ``index``, as Matplotlib writes it."""
    return hexadecimal(SERIES[index % len(SERIES)])


def _share(axes: Axes, y: Sequence[float] | np.ndarray) -> float:
    """Height of a series' last finite value as a share of the axes."""
    finite = [value for value in y if np.isfinite(value)]
    if not finite:
        return 0.0
    place = axes.transAxes.inverted().transform(axes.transData.transform((axes.get_xlim()[1], finite[-1])))
    return float(np.clip(place[1], 0, 1))


def _save(sheet: Figure, path: Path) -> None:
    for each in output_paths(path):
        metadata: dict[str, Any] = {"Date": None} if each.suffix == ".svg" else {"Software": None}
        with atomic_path(each) as temporary:
            sheet.savefig(temporary, format=each.suffix[1:], metadata=metadata)
