"""Dictionaries that cannot be changed: the parameters of the objects that the catalog shares between its readers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class FrozenDict(dict[K, V]):
    """A dict that refuses each change. ``{**frozen, key: value}`` and ``frozen.copy()`` return a dict of one's own.

    It is a dict, so that it is written as JSON and pickled like one.
    """

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(
            "The parameters of an object of the catalog cannot be changed; make another object with "
            "dataclasses.replace(table, parameters={**table.parameters, key: value}) and give it to alter_table()"
        )

    __setitem__ = __delitem__ = __ior__ = _refuse
    update = setdefault = pop = popitem = clear = _refuse

    def __reduce__(self) -> tuple[type[FrozenDict[K, V]], tuple[dict[K, V]]]:
        return FrozenDict, (dict(self),)

    def __copy__(self) -> FrozenDict[K, V]:
        return self


_EMPTY: FrozenDict[Any, Any] = FrozenDict()


def frozen(values: Mapping[K, V]) -> Mapping[K, V]:
    """Return a mapping that cannot be changed, also by a holder of ``values``."""
    if isinstance(values, FrozenDict):
        return values
    return FrozenDict(values) if values else _EMPTY


def freeze(owner: Any, *names: str) -> None:
    """Freeze fields of a frozen dataclass: for its ``__post_init__``. Lists become tuples."""
    for name in names:
        value = getattr(owner, name)
        if isinstance(value, list):
            object.__setattr__(owner, name, tuple(value))
        elif value.__class__ is not FrozenDict and isinstance(value, Mapping):
            object.__setattr__(owner, name, frozen(value))
