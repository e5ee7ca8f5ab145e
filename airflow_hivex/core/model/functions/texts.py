"""Functions of texts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from airflow_hivex.core.model.expressions import Typed, UndecidedError
from airflow_hivex.core.model.functions.arguments import (
    LONGEST_TEXT,
    Function,
    as_number,
    as_string,
    ascii_of,
    int_of,
    own_text,
    text_of,
)


def _substring(text: Typed, start: Typed, length: Typed | None = None) -> Typed:
    value, position = text_of(text), int_of(start)
    first = position - 1 if position > 0 else len(value) + position if position < 0 else 0
    end = len(value) if length is None else first + int_of(length)
    return as_string(value[max(first, 0) : max(end, 0)] if end > first else "")


def _left(text: Typed, length: Typed) -> Typed:
    return as_string(text_of(text)[: max(int_of(length), 0)])


def _right(text: Typed, length: Typed) -> Typed:
    count = int_of(length)
    return as_string(text_of(text)[-count:] if count > 0 else "")


def _replace(text: Typed, search: Typed, replacement: Typed | None = None) -> Typed:
    value, wanted = own_text(text), own_text(search)
    return as_string(value.replace(wanted, "" if replacement is None else own_text(replacement)) if wanted else value)


def _pad(text: Typed, length: Typed, pad: Typed | None) -> tuple[str, str]:
    value, count = text_of(text), int_of(length)
    filling = " " if pad is None else own_text(pad)
    missing = count - len(value)
    if missing <= 0 or not filling:
        return value[: max(count, 0)], ""
    if missing > LONGEST_TEXT:
        raise UndecidedError
    return value, (filling * missing)[:missing]


def _lpad(text: Typed, length: Typed, pad: Typed | None = None) -> Typed:
    value, filling = _pad(text, length, pad)
    return as_string(filling + value)


def _rpad(text: Typed, length: Typed, pad: Typed | None = None) -> Typed:
    value, filling = _pad(text, length, pad)
    return as_string(value + filling)


def _concat(*texts: Typed) -> Typed:
    return as_string("".join(map(text_of, texts)))


def _concat_ws(arguments: Sequence[Typed]) -> Typed:
    if not arguments:
        raise UndecidedError
    separator, *texts = arguments
    if separator.value is None:
        return Typed(None, "string")
    return as_string(own_text(separator).join(text_of(text) for text in texts if text.value is not None))


def _split_part(text: Typed, delimiter: Typed, number: Typed) -> Typed:
    wanted = int_of(number)
    if not wanted or not own_text(delimiter):
        raise UndecidedError
    parts = own_text(text).split(own_text(delimiter))
    index = wanted - 1 if wanted > 0 else len(parts) + wanted
    return as_string(parts[index] if 0 <= index < len(parts) else "")


def _substring_index(text: Typed, delimiter: Typed, count: Typed) -> Typed:
    # Spark finds places of a longer delimiter that overlap.
    if len(own_text(delimiter)) != 1:
        raise UndecidedError
    parts, wanted = own_text(text).split(own_text(delimiter)), int_of(count)
    if wanted == 0:
        return as_string("")
    return as_string(own_text(delimiter).join(parts[:wanted] if wanted > 0 else parts[wanted:]))


FUNCTIONS: dict[str, tuple[int, int, Function]] = {
    "upper": (1, 1, lambda text: as_string(ascii_of(text).upper())),
    "lower": (1, 1, lambda text: as_string(ascii_of(text).lower())),
    "trim": (1, 1, lambda text: as_string(text_of(text).strip(" "))),
    "ltrim": (1, 1, lambda text: as_string(text_of(text).lstrip(" "))),
    "rtrim": (1, 1, lambda text: as_string(text_of(text).rstrip(" "))),
    "length": (1, 1, lambda text: as_number(len(text_of(text)))),
    "substring": (2, 3, _substring),
    "left": (2, 2, _left),
    "right": (2, 2, _right),
    "replace": (2, 3, _replace),
    "lpad": (2, 3, _lpad),
    "rpad": (2, 3, _rpad),
    "concat": (1, 100, _concat),
    "instr": (2, 2, lambda text, part: as_number(own_text(text).find(own_text(part)) + 1)),
    "split_part": (3, 3, _split_part),
    "substring_index": (3, 3, _substring_index),
    "startswith": (2, 2, lambda text, part: Typed(own_text(text).startswith(own_text(part)), "boolean")),
    "endswith": (2, 2, lambda text, part: Typed(own_text(text).endswith(own_text(part)), "boolean")),
    "contains": (2, 2, lambda text, part: Typed(own_text(part) in own_text(text), "boolean")),
}
"""By name: the least and the most arguments, and the function of arguments that are not NULL."""

TEXTS: dict[str, Collection[int]] = {
    "concat": range(100),
    **dict.fromkeys(("replace", "startswith", "endswith", "contains", "instr"), range(3)),
    **dict.fromkeys(("substring", "left", "right"), (0,)),
    **dict.fromkeys(("lpad", "rpad"), (0, 2)),
    **dict.fromkeys(("split_part", "substring_index"), (0, 1)),
}
"""The arguments that are texts by themselves, so that nothing is cast."""

OF_NULLS: dict[str, Callable[[Sequence[Typed]], Typed]] = {"concat_ws": _concat_ws}
"""Functions whose result may have a value where an argument is NULL."""
