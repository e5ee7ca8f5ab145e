"""Frozen dataclasses as plain JSON values and back, by the types of their fields.

A new field of a plan needs nothing here. Types are those that plans have: dataclasses, tuples, mappings of texts,
values of JSON, and None.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
Builder = Callable[[Any], Any]

_SCALARS = frozenset({str, int, float, bool, type(None)})


def plain(value: Any, without: str = "") -> Any:
    """Return a value as JSON has it: objects for dataclasses, lists for sequences, without fields named ``without``."""
    kind: Any = type(value)
    if kind in _SCALARS:
        return value
    if names := _field_names(kind):
        return {name: plain(getattr(value, name), without) for name in names if name != without}
    if isinstance(value, Mapping):
        return {key: plain(item, without) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(item, without) for item in value]
    return value


@cache
def _field_names(of: Any) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass; none of any other type."""
    return tuple(field.name for field in dataclasses.fields(of)) if dataclasses.is_dataclass(of) else ()


def built(of: type[T], document: Mapping[str, Any]) -> T:
    """Return the dataclass of a document of :func:`plain`. Fields that the document lacks get their defaults.

    Raises:
        TypeError: the document has other fields.
    """
    kind: Any = of
    build = _builder(kind)
    assert build is not None, "a dataclass has a builder"
    made: T = build(document)
    return made


@cache
def _builder(of: Any) -> Builder | None:
    """Return the function that makes a value of a type from JSON; None where the value of JSON is that value."""
    if dataclasses.is_dataclass(of):
        return _of_dataclass(of)
    arguments = get_args(of)
    if get_origin(of) is tuple:
        return _of_tuple(arguments)
    if get_origin(of) in (Union, types.UnionType):
        # A field's None needs no builder.
        (inner,) = {_builder(each) for each in arguments if each is not types.NoneType}
        return inner
    return None


def _of_dataclass(of: Any) -> Builder:
    hints = get_type_hints(of)
    found = {field.name: _builder(hints[field.name]) for field in dataclasses.fields(of)}
    builders = [(name, build) for name, build in found.items() if build is not None]

    def build(document: Mapping[str, Any]) -> Any:
        values = dict(document)
        for name, part in builders:
            given = values.get(name)
            if given is not None:
                values[name] = part(given)
        return of(**values)

    return build


def _of_tuple(arguments: tuple[Any, ...]) -> Builder:
    if arguments[-1] is not Ellipsis and any(map(_builder, arguments)):
        raise TypeError("a tuple of parts of several types has values of JSON only")
    inner = _builder(arguments[0])
    return tuple if inner is None else lambda values: tuple(map(inner, values))
