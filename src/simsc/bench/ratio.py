"""A measured ratio and what it should be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Ratio:
    """One line of the report.

    Attributes:
        name: what is compared with what.
        value: what was measured.
        target: the bound.
        at_least: whether the value must be at least the target, or at most.
        unit: ``x`` for a ratio, or a unit such as ``MB``.
        detail: the two measurements behind it.
    """

    name: str
    value: float
    target: float
    at_least: bool
    unit: str = "x"
    detail: str = ""

    @property
    def passed(self) -> bool:
        """Whether the target is met.

        >>> Ratio("cached step, faster", 12.0, 10.0, at_least=True).passed
        True
        """
        return self.value >= self.target if self.at_least else self.value <= self.target

    def to_dict(self) -> dict[str, object]:
        """Plain values, for JSON."""
        return {**vars(self), "passed": self.passed}
