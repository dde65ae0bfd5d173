"""The guide to the architecture names every room, in an order that the imports keep to."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "simsc"
ANYWHERE = {"_version", "__init__", "__main__"}


def floors() -> dict[str, int]:
    """Line of each room in the guide's drawing, where two spaces join the names that share a line."""
    drawing = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split("```")[1].strip()
    rooms = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    found = {
        name.strip("/"): number
        for number, line in enumerate(drawing.splitlines())
        for name in re.findall(r"^\w+/?(?:  \w+/?)*", line)[0].split()
    }
    assert set(found) == rooms - ANYWHERE
    return found


def imports(path: Path) -> set[str]:
    """Rooms that a file imports from, inside of functions too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    return {match[1] for name in names if (match := re.match(r"simsc\.(\w+)", name))} - ANYWHERE


def test_no_import_goes_down() -> None:
    floor = floors()
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        below = {name for name in imports(path) if room in floor and floor[name] > floor[room]}
        assert not below, f"{path.relative_to(PACKAGE)} imports from {below}"
