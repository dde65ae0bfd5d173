"""Things that are chosen by name: one small registry, open to other packages through entry points."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from simsc.errors import ConfigError, unknown_name

Item = TypeVar("Item")


class Registry(Generic[Item]):
    """Items by name, in the order they were added; those of other packages come last.

    An item is added at once (:meth:`add`, or :meth:`register` as a decorator), or as ``"module:attribute"`` that is
    imported when it is first asked for (:meth:`lazy`), so that listing names imports nothing. Another package adds an
    item by an entry point of the registry's ``group``, whose name is the item's.

    Args:
        what: what an item is called in errors, for example ``"localizer"``.
        group: name of the entry points, for example ``"simsc.localizers"``; None for a closed registry.

    >>> shapes: Registry[Callable[[float], float]] = Registry("shape")
    >>> @shapes.register("square")
    ... def square(side: float) -> float:
    ...     return side**2
    >>> shapes["square"](3.0), list(shapes)
    (9.0, ['square'])
    >>> shapes["sqare"]
    Traceback (most recent call last):
    simsc.errors.ConfigError: unknown shape 'sqare'; did you mean 'square'? Allowed: square
    """

    def __init__(self, what: str, group: str | None = None) -> None:
        self.what, self.group = what, group
        self._items: dict[str, Item] = {}
        self._places: dict[str, str] = {}
        self._plugins: dict[str, EntryPoint] | None = None

    def add(self, name: str, item: Item) -> Item:
        """Add an item; a name can be taken once."""
        self._take(name)
        self._items[name] = item
        return item

    def register(self, name: str) -> Callable[[Item], Item]:
        """Decorator: add what it decorates under ``name``."""
        return lambda item: self.add(name, item)

    def lazy(self, name: str, place: str) -> None:
        """Add the item at ``"module:attribute"``, imported when it is first asked for."""
        self._take(name)
        self._places[name] = place

    def __getitem__(self, name: str) -> Item:
        if name not in self._items:
            self._items[name] = self._load(name)
        return self._items[name]

    def __contains__(self, name: object) -> bool:
        return name in self._items or name in self._places or name in self._entry_points()

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._places, *self._items, *self._entry_points()]))

    @property
    def own(self) -> list[str]:
        """Names without those of other packages, which are looked for only when they are needed."""
        return list(dict.fromkeys([*self._places, *self._items]))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def items(self) -> Iterator[tuple[str, Item]]:
        """Names with their items; imports those that were not asked for yet."""
        return ((name, self[name]) for name in list(self))

    def _load(self, name: str) -> Item:
        if name in self._places:
            module, _, attribute = self._places[name].partition(":")
            item: Item = getattr(import_module(module), attribute)
            return item
        if (plugin := self._entry_points().get(name)) is None:
            raise ConfigError(unknown_name(self.what, name, self))
        try:
            loaded: Item = plugin.load()
        except Exception as error:
            # Whatever another package does wrong, the sentence must say which one it is.
            raise ConfigError(f"{self.what} '{name}' of {plugin.value} cannot be loaded: {error}") from error
        return loaded

    def _entry_points(self) -> dict[str, EntryPoint]:
        if self._plugins is None:
            found = entry_points(group=self.group) if self.group else ()
            for point in found:
                self._take(point.name)
            self._plugins = {point.name: point for point in found}
        return self._plugins

    def _take(self, name: str) -> None:
        """Refuse a name that is taken. Looks at no entry points: reading all packages' takes time at every start."""
        if name in self._items or name in self._places or name in (self._plugins or {}):
            raise ConfigError(f"there is already a {self.what} named '{name}'")
