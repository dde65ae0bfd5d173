"""Results as tables."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table


def print_result(result: dict[str, Any]) -> None:
    """Print PCK per image, per point and per category."""
    console = Console()
    head = " · ".join(str(result[key]) for key in ("model", "data", "split", "protocol") if key in result)
    console.print(f"[bold]{head}[/bold]  threshold {result['threshold']}")
    console.print(_summary(result))
    console.print(_categories(result))
    temperature = result["temperature"]
    console.print(f"effective temperature {temperature['mean']:.4f} ± {temperature['std']:.4f}")


def _summary(result: dict[str, Any]) -> Table:
    alphas = list(result["per_image"])
    table = Table("PCK", "pairs", "points", *(f"@{alpha}" for alpha in alphas))
    for title, part in {"": result, **result.get("subsets", {})}.items():
        name = f"{title} " if title else ""
        for kind in ("per_image", "per_point"):
            row = [f"{name}{kind.replace('_', ' ')}", str(part["pairs"]), str(part["points"])]
            table.add_row(*row, *(f"{part[kind][alpha]:.1f}" for alpha in alphas))
    return table


def _categories(result: dict[str, Any]) -> Table:
    alphas = list(result["per_image"])
    table = Table("category (per image)", *(f"@{alpha}" for alpha in alphas))
    for name, values in result["per_category"].items():
        table.add_row(name, *(f"{values[alpha]:.1f}" for alpha in alphas))
    return table
