"""The types whose values a column of another type can take."""

from __future__ import annotations

from dataclasses import replace

from airflow_hivex.core.model.column_types import Array, ColumnType, Family, Map, Primitive, Struct

_NUMBERS = (Family.WHOLE, Family.DECIMAL, Family.FLOATING)
_TO_TEXT = (*_NUMBERS, Family.TEXT, Family.MOMENT, Family.BOOLEAN, Family.BINARY, Family.INTERVAL)


def is_assignable(given: Primitive, target: Primitive) -> bool:
    """Return whether INSERT may store a value of one type in a column of another, whatever their parameters.

    Source: Spark's store assignment policy ANSI (Cast.canANSIStoreAssign).
    """
    return (
        given.family is Family.VOID
        or given.name == target.name
        or (given.family in _NUMBERS and target.family in _NUMBERS)
        or (given.family is target.family is Family.MOMENT)
        or (given.family in _TO_TEXT and target.family is Family.TEXT)
    )


def is_readable(target: ColumnType) -> bool:
    """Return whether INSERT may read a constant text as a value of a type."""
    return isinstance(target, Primitive) and target.family in (*_NUMBERS, Family.MOMENT, Family.BOOLEAN, Family.BINARY)


def is_moment(type: ColumnType) -> bool:
    """Return whether a type is DATE or one of the timestamps."""
    return isinstance(type, Primitive) and type.family is Family.MOMENT


def is_widening(before: ColumnType, after: ColumnType) -> bool:
    """Return whether files with a column of one type can be read with the other, every value as it was."""
    if not isinstance(before, Primitive) or not isinstance(after, Primitive):
        return False
    match before.family, after.family:
        case Family.WHOLE, Family.WHOLE:
            return before.kind.bits <= after.kind.bits
        case Family.DECIMAL, Family.DECIMAL:
            (digits, scale), (more, same) = before.parameters, after.parameters
            return more >= digits and same == scale
        case Family.TEXT, Family.TEXT if "char" not in (before.name, after.name):
            # Texts are stored alike; CHAR is padded and compared in ways of its own.
            return after.name == "string" or (before.name == "varchar" and after.parameters >= before.parameters)
    return (before.name, after.name) == ("float", "double")


def with_fields(before: ColumnType, other: ColumnType) -> ColumnType:
    """Return a type with the fields that only structs of another one have, at any depth, each behind the others."""
    match before, other:
        case Struct(fields), Struct(others):
            by_name = {field.name.lower(): field.type for field in others}
            known = {field.name.lower() for field in fields}
            kept = (
                replace(field, type=with_fields(field.type, by_name.get(field.name.lower(), field.type)))
                for field in fields
            )
            return Struct((*kept, *(field for field in others if field.name.lower() not in known)))
        case Array(element), Array(other_element):
            return Array(with_fields(element, other_element))
        case Map(key, value), Map(other_key, other_value):
            return Map(with_fields(key, other_key), with_fields(value, other_value))
    return before
