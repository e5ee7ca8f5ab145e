"""The matching of a DataFrame's columns with a table's columns, by name at any depth, without reading any data."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from airflow_hivex.core.errors import InvalidOperationError, NoSuchColumnError
from airflow_hivex.core.model.column_types import Array, ColumnType, Field, Map, Struct
from airflow_hivex.core.model.objects import Column, Table
from airflow_hivex.core.parser.grammar.views import quoted

_THE_FRAME = "the DataFrame"


def check_names(table: str, given: Sequence[Column]) -> None:
    """Refuse a DataFrame with two columns, or a struct with two fields, of the same name.

    Raises:
        InvalidOperationError: two columns, or two fields of a struct, have the same name.
    """
    _check_once(table, "columns", [column.name for column in given])
    for column in given:
        _check_fields(table, column.name, column.parsed_type)


def _check_once(table: str, kind: str, names: Sequence[str]) -> None:
    seen = set()
    for name in names:
        if name.lower() in seen:
            reason = f"the DataFrame has two {kind} called {name}, in upper or lower case; rename or drop one of them"
            raise InvalidOperationError("A write to", table, reason)
        seen.add(name.lower())


def _check_fields(table: str, path: str, type: ColumnType) -> None:
    match type:
        case Struct(fields):
            _check_once(table, f"fields of {path}", [field.name for field in fields])
            for field in fields:
                _check_fields(table, f"{path}.{field.name}", field.type)
        case Array(element):
            _check_fields(table, path, element)
        case Map(key, value):
            _check_fields(table, path, key)
            _check_fields(table, path, value)


def selection(table: Table, given: Sequence[Column], static: Collection[str], *, fills: bool) -> dict[str, str]:
    """Return a dict from the table's columns to the Spark SQL that computes them from the columns of a DataFrame.

    Structs get the fields of the table. ``static`` are partition keys, in lower case, that have one value for all rows.
    With ``fills`` the DataFrame is allowed to lack columns and fields, but not partition keys. A missing column is
    omitted from the dict, and a missing field is NULL.

    Raises:
        NoSuchColumnError: the DataFrame lacks a column or field, or has a column or field that the table lacks.
        InvalidOperationError: the DataFrame has a column of ``static``.
    """
    shape = _Shape(table.full_name, fills=fills)
    targets = [*table.columns, *(key for key in table.partition_keys if key.name.lower() not in static)]
    by_name = {column.name.lower(): column for column in given}
    for column in given:
        if column.name.lower() in static:
            reason = f"partition gives {column.name} a value, and the DataFrame has a column of that name; drop it"
            raise InvalidOperationError("A write to", table.full_name, reason)
    names = {target.name.lower() for target in targets}
    for column in given:
        if column.name.lower() not in names:
            raise NoSuchColumnError(table.full_name, column.name, [target.name for target in targets])
    found = {}
    for target in targets:
        source = by_name.get(target.name.lower())
        if source is None:
            if fills and target in table.columns:
                continue
            raise NoSuchColumnError(_THE_FRAME, target.name, [column.name for column in given])
        value = shape.value(quoted(source.name), source.parsed_type, target.parsed_type, source.name)
        found[target.name] = f"{value} AS {quoted(target.name)}"
    return found


def reshaped(table: str, text: str, given: Column, wanted: Column) -> str:
    """Return Spark SQL that converts the column ``text`` of one version of a table to its type in another version.

    A field of a struct is NULL if only the other version has the field.
    """
    return _Shape(table, fills=True).value(text, given.parsed_type, wanted.parsed_type, wanted.name)


@dataclass(slots=True)
class _Shape:
    """The conversion of values to a table's types: structs get the table's fields, in the table's order."""

    table: str
    fills: bool
    variables: int = 0

    def value(self, text: str, given: ColumnType, wanted: ColumnType, path: str) -> str:
        """Return Spark SQL that converts ``text`` to the wanted type, or ``text`` itself if no conversion is needed."""
        match given, wanted:
            case Struct(fields), Struct(targets):
                return self._struct(text, fields, targets, path)
            case Array(element), Array(target):
                item = self._variable()
                inner = self.value(item, element, target, path)
                return text if inner == item else f"transform({text}, {item} -> {inner})"
            case Map(key, value), Map(target_key, target):
                name, item = self._variable(), self._variable()
                new_key = self.value(name, key, target_key, path)
                new_value = self.value(item, value, target, path)
                if new_value != item:
                    text = f"transform_values({text}, ({name}, {item}) -> {new_value})"
                return text if new_key == name else f"transform_keys({text}, ({name}, {item}) -> {new_key})"
        return text

    def _struct(self, text: str, fields: Sequence[Field], targets: Sequence[Field], path: str) -> str:
        by_name = {field.name.lower(): field for field in fields}
        names = {field.name.lower() for field in targets}
        for field in fields:
            if field.name.lower() not in names:
                listed = [f"{path}.{target.name}" for target in targets]
                raise NoSuchColumnError(self.table, f"{path}.{field.name}", listed)
        values = []
        for target in targets:
            source = by_name.get(target.name.lower())
            if source is not None:
                own = f"{text}.{quoted(source.name)}"
                values.append(self.value(own, source.type, target.type, f"{path}.{source.name}"))
            elif self.fills:
                values.append(f"CAST(NULL AS {target.type})")
            else:
                listed = [f"{path}.{field.name}" for field in fields]
                raise NoSuchColumnError(_THE_FRAME, f"{path}.{target.name}", listed)
        if values == [f"{text}.{quoted(field.name)}" for field in fields]:
            return text
        named = ", ".join(f"{_literal(target.name)}, {value}" for target, value in zip(targets, values, strict=True))
        return f"IF({text} IS NULL, NULL, named_struct({named}))"

    def _variable(self) -> str:
        self.variables += 1
        return f"hivex_item_{self.variables}"


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
