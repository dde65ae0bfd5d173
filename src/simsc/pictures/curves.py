"""Curves of runs and experiments; each is written as PNG and as SVG beside each other."""

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


_TEMPERATURES = {"beta_source": "β source", "beta_target": "β target", "temperature": "effective"}
Line = tuple[Sequence[float] | np.ndarray, Sequence[float] | np.ndarray]


def plot_lines(
    series: Mapping[str, Line],
    path: str | Path,
    *,
    xlabel: str = "",
    ylabel: str = "",
    title: str = "",
    log_x: bool = False,
    log_y: bool = False,
    markers: bool = True,
    mark_x: Mapping[str, float] | None = None,
) -> tuple[Path, Path]:
    """Lines over a common axis.

    Args:
        series: name to ``(x, y)``; not-a-number breaks a line.
        path: where to write; PNG and SVG of the same stem.
        xlabel, ylabel, title: texts.
        log_x, log_y: logarithmic axes.
        markers: mark the single values.
        mark_x: named places on the x-axis, drawn as thin vertical lines.

    Returns:
        The paths of the PNG and the SVG.
    """
    with figure(path) as (axes,):
        _fill(axes, series, xlabel, ylabel, title, log_x=log_x, log_y=log_y, markers=markers, mark_x=mark_x)
    return output_paths(path)


def plot_pck_curves(
    curves: Mapping[str, Line], path: str | Path, *, title: str = "PCK by threshold"
) -> tuple[Path, Path]:
    """PCK in percent over the threshold alpha: ``{name: (alphas, values)}``."""
    with figure(path) as (axes,):
        axes.set_ylim(0, 100)
        _fill(axes, curves, r"threshold $\alpha$", "PCK (%)", title)
    return output_paths(path)


def plot_sweep(
    x: Sequence[float],
    series: Mapping[str, Sequence[float]],
    path: str | Path,
    *,
    xlabel: str = "temperature",
    ylabel: str = "PCK@0.1 (%)",
    title: str = "",
    log_x: bool = True,
    log_y: bool = False,
    mark_x: Mapping[str, float] | None = None,
) -> tuple[Path, Path]:
    """Results over a swept setting that all series share: a temperature, a learning rate."""
    for name, values in series.items():
        if len(values) != len(x):
            raise PlotError(f"series '{name}': {len(values)} values for {len(x)} places of {xlabel}")
    lines = {name: (x, values) for name, values in series.items()}
    return plot_lines(
        lines, path, xlabel=xlabel, ylabel=ylabel, title=title, log_x=log_x, log_y=log_y, mark_x=mark_x
    )  # fmt: skip


def plot_gradients(
    series: Mapping[str, Line],
    path: str | Path,
    *,
    ylabel: str = "mean gradient magnitude",
    title: str = "",
) -> tuple[Path, Path]:
    """Gradient magnitudes over training steps, on a logarithmic axis: they differ by orders of magnitude."""
    return plot_lines(series, path, xlabel="step", ylabel=ylabel, title=title, log_y=True, markers=False)


def plot_learning_curves(
    metrics: Sequence[Mapping[str, Any]], path: str | Path, *, title: str = ""
) -> tuple[Path, Path]:
    """Loss, temperatures and validation PCK of a run over its steps.

    Args:
        metrics: the records of the run's ``metrics.jsonl``: training records have ``loss``, validation records ``val``.
            A panel is left out if no record speaks of it.
        path: where to write.
        title: put before the title of the first panel.
    """
    panels = [panel for panel in _learning_panels(metrics) if panel[1]]
    if not panels:
        raise PlotError(f"{path}: no record has a loss, a temperature or a validation result; nothing to plot")
    with figure(path, columns=len(panels), width=4.9 * len(panels), height=3.6) as sheet:
        for axes, (name, series, ylabel) in zip(sheet, panels, strict=True):
            _fill(axes, series, "step", ylabel, name, markers=ylabel.startswith("PCK"))
        if title:
            sheet[0].figure.suptitle(title, x=0.01, ha="left", fontsize=13)
    return output_paths(path)


def smooth(values: Sequence[float] | np.ndarray, window: int) -> np.ndarray:
    """Mean of each value with up to ``window`` of its predecessors: ``(n,)``.

    >>> smooth([0.0, 2.0, 4.0], window=2).tolist()
    [0.0, 1.0, 3.0]
    """
    total = np.cumsum(np.concatenate([[0.0], np.asarray(values, dtype=np.float64)]))
    last = np.arange(1, len(total))
    first = np.maximum(last - window, 0)
    result: np.ndarray = (total[last] - total[first]) / (last - first)
    return result


def _learning_panels(metrics: Sequence[Mapping[str, Any]]) -> list[tuple[str, dict[str, Line], str]]:
    steps, losses = _column(metrics, "loss")
    loss: dict[str, Line] = {}
    if len(losses):
        window = max(len(losses) // 50, 1)
        name = f"mean of {window} records" if window > 1 else "loss"
        loss[name] = (steps, smooth(losses, window))
    betas: dict[str, Line] = {}
    for key, name in _TEMPERATURES.items():
        line = _column(metrics, key)
        if len(line[0]):
            betas[name] = line
    records = [record for record in metrics if record.get("val")]
    alphas = sorted({alpha for record in records for alpha in record["val"]}, key=float)
    pck: dict[str, Line] = {}
    for alpha in alphas:
        at = [record for record in records if alpha in record["val"]]
        pck[f"@{alpha}"] = [each["step"] for each in at], [each["val"][alpha] for each in at]
    return [("Training loss", loss, "loss"), ("Temperature", betas, "β"), ("Validation", pck, "PCK (%)")]


def _column(metrics: Sequence[Mapping[str, Any]], key: str) -> Line:
    records = [record for record in metrics if record.get(key) is not None]
    return [record["step"] for record in records], [float(record[key]) for record in records]


def _fill(
    axes: Axes,
    series: Mapping[str, Line],
    xlabel: str,
    ylabel: str,
    title: str,
    *,
    log_x: bool = False,
    log_y: bool = False,
    markers: bool = True,
    mark_x: Mapping[str, float] | None = None,
) -> None:
    draw_lines(axes, series, markers)
    if log_x:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
    if log_y:
        axes.set_yscale("log")
    axes.set(xlabel=xlabel, ylabel=ylabel, title=title)
    for name, place in (mark_x or {}).items():
        axes.axvline(place, color="#999999", linewidth=1)
        axes.annotate(name, (place, 0.02), (4, 0), xycoords=("data", "axes fraction"), textcoords="offset points",
                      color="#666666", fontsize=9)  # fmt: skip
    label_ends(axes, series)


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
