"""Results as tables."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table


def print_result(result: dict[str, Any]) -> None:
    """Print PCK per image, per point and per category."""
    console = Console()
    head = " · ".join(str(result[key]) for key in ("model", "data", "split", "protocol") if key in result)
    console.print(f"[bold]{head}[/bold] · threshold {result['threshold']}", highlight=False)
    console.print(_summary(result))
    console.print(_categories(result))
    temperature = result["temperature"]
    console.print(f"effective temperature {temperature['mean']:.4f} ± {temperature['std']:.4f}", highlight=False)
    if "note" in result:
        console.print(result["note"], style="yellow", highlight=False, markup=False)


def _summary(result: dict[str, Any]) -> Table:
    subsets = result.get("subsets", {})
    table = _table("PCK (%)", result, "pairs", "points")
    for name, part in {"official" if subsets else "": result, **subsets}.items():
        for kind in ("per_image", "per_point"):
            title = f"{name} {kind.replace('_', ' ')}".strip()
            _add_row(table, title, part[kind], f"{part['pairs']:,}", f"{part['points']:,}")
    return table


def _categories(result: dict[str, Any]) -> Table:
    table = _table("category, per image", result)
    for name, values in result["per_category"].items():
        _add_row(table, name, values)
    return table


def _table(title: str, result: dict[str, Any], *columns: str) -> Table:
    table = Table(title)
    for name in (*columns, *(f"@{alpha}" for alpha in result["per_image"])):
        table.add_column(name, justify="right")
    return table


def _add_row(table: Table, title: str, values: dict[Any, float], *cells: str) -> None:
    table.add_row(title, *cells, *(f"{value:.1f}" for value in values.values()))
