from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from simsc import registry
from simsc.errors import ConfigError
from simsc.registry import Registry


def plugged(monkeypatch: pytest.MonkeyPatch, *points: EntryPoint) -> Registry[object]:
    monkeypatch.setattr(registry, "entry_points", lambda group: [point for point in points if point.group == group])
    return Registry("shape", "simsc.shapes")


def test_names_come_in_order_and_import_nothing_until_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = plugged(monkeypatch, EntryPoint("theirs", "no.such.module:x", "simsc.shapes"))
    shapes.lazy("floor", "math:floor")
    shapes.add("one", 1)
    assert list(shapes) == ["floor", "one", "theirs"]
    assert shapes["floor"](1.5) == 1  # type: ignore[operator]
    assert len(shapes) == 3


def test_a_plugin_of_the_group_is_found_and_another_groups_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = EntryPoint("ceil", "math:ceil", "simsc.shapes")
    shapes = plugged(monkeypatch, mine, EntryPoint("sqrt", "math:sqrt", "simsc.other"))
    assert shapes["ceil"](1.5) == 2  # type: ignore[operator]
    assert "sqrt" not in shapes


def test_a_broken_plugin_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = plugged(monkeypatch, EntryPoint("broken", "no.such.module:x", "simsc.shapes"))
    with pytest.raises(ConfigError, match=r"shape 'broken' of no.such.module:x cannot be loaded"):
        shapes["broken"]


def test_a_name_can_be_taken_once_even_by_a_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = plugged(monkeypatch, EntryPoint("ceil", "math:ceil", "simsc.shapes"))
    assert "ceil" in shapes
    for add in (lambda: shapes.add("ceil", 1), lambda: shapes.lazy("ceil", "math:floor")):
        with pytest.raises(ConfigError, match="already a shape named 'ceil'"):
            add()


def test_a_plugin_cannot_take_a_name_of_ours_and_is_not_looked_for_before_it_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shapes = plugged(monkeypatch, EntryPoint("ceil", "math:ceil", "simsc.shapes"))
    shapes.add("ceil", 1)
    assert shapes["ceil"] == 1
    with pytest.raises(ConfigError, match="already a shape named 'ceil'"):
        list(shapes)


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    shapes: Registry[int] = Registry("shape")
    shapes.add("square", 4)
    with pytest.raises(ConfigError, match="did you mean 'square'"):
        shapes["squar"]
