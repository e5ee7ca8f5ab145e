"""Spark's types as text: their names and parameters, and which may be stored in which."""

from __future__ import annotations

import re

WHOLE_NUMBERS = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
"""Whole-number types, with the bits beside the sign."""

_NUMBERS = frozenset({*WHOLE_NUMBERS, "float", "double", "decimal"})
TEXT = frozenset({"string", "varchar", "char"})
_MOMENTS = frozenset({"date", "timestamp", "timestamp_ntz"})
_ATOMIC = _NUMBERS | TEXT | _MOMENTS | {"boolean", "binary"}
_SYNONYMS = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "character": "char",
    "timestamp_ltz": "timestamp",
    "null": "void",
}

_TYPE = re.compile(r"\s*([a-z_]+)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?\s*")


def parse_atomic(type: str) -> tuple[str, tuple[int, ...]] | None:
    """Return the name and parameters of a type without parts, ``("decimal", (10, 2))``; None for any other."""
    found = _TYPE.fullmatch(type.lower())
    if found is None:
        return None
    name = _SYNONYMS.get(found[1], found[1])
    parameters = tuple(int(number) for number in found.groups()[1:] if number is not None)
    if name == "decimal":
        parameters = (*parameters, *(10, 0)[len(parameters) :])
    return name, parameters


def is_assignable(given: str, target: str) -> bool:
    """Return whether INSERT may store a value of one atomic type, by name, in a column of another.

    Source: Spark's store assignment policy ANSI (Cast.canANSIStoreAssign).
    """
    return (
        given in (target, "void")
        or (given in _NUMBERS and target in _NUMBERS)
        or (given in _MOMENTS and target in _MOMENTS)
        or (given in _ATOMIC and target in TEXT)
    )


def is_widening(given: str, target: str) -> bool:
    """Return whether files with a column of one type can be read with the other, every value as it was."""
    before, after = parse_atomic(given), parse_atomic(target)
    if before is None or after is None:
        return False
    (name, parameters), (wanted, wanted_parameters) = before, after
    if name in WHOLE_NUMBERS and wanted in WHOLE_NUMBERS:
        return WHOLE_NUMBERS[name] <= WHOLE_NUMBERS[wanted]
    if name == wanted == "decimal":
        (digits, scale), (more, same) = parameters, wanted_parameters
        return more >= digits and same == scale
    if name in ("varchar", "string") and wanted in ("varchar", "string"):
        # Texts are stored alike; CHAR is padded and compared in ways of its own.
        return wanted == "string" or (name == "varchar" and wanted_parameters >= parameters)
    return (name, wanted) == ("float", "double")
