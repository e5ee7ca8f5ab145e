"""Constraints of tables as Hive's structures, and back. Pure.

Hive has a name for each constraint. Here a CHECK has one, and the names of the others come from their columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from airflow_hivex.core.errors import InvalidObjectError, SqlError
from airflow_hivex.core.model.constraints import Constraints, Key, KeyKind
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.objects import Table
from airflow_hivex.core.parser.grammar.constraints import expression_columns
from airflow_hivex.core.parser.statements import ChangeConstraints, TableName
from airflow_hivex.core.thrift.bindings import ttypes

_KINDS = {KeyKind.PRIMARY_KEY: "primary_keys", KeyKind.UNIQUE: "unique", KeyKind.FOREIGN_KEY: "foreign_keys"}
_NAMES = {KeyKind.PRIMARY_KEY: "pk_name", KeyKind.UNIQUE: "uk_name", KeyKind.FOREIGN_KEY: "fk_name"}
_ENFORCED = {"enable_cstr": True, "validate_cstr": True, "rely_cstr": True}
_NOT_NULL, _DEFAULT = "_not_null", "_default"


class Given(NamedTuple):
    """The lists of constraints that a call has. Each may be missing."""

    primary_keys: Sequence[Any] | None = None
    foreign_keys: Sequence[Any] | None = None
    unique: Sequence[Any] | None = None
    not_null: Sequence[Any] | None = None
    defaults: Sequence[Any] | None = None
    checks: Sequence[Any] | None = None


def not_null_constraints(table: Table, given: str) -> list[Any]:
    """Return the NOT NULL constraints of a table; ``given`` is the name of its database in answers."""
    constraints = Constraints.of(table.parameters)
    enforced = [
        ttypes.SQLNotNullConstraint(**_of_table(table, given), column_name=each, nn_name=each + _NOT_NULL)
        for each in constraints.not_null
    ]
    return enforced + [
        ttypes.SQLNotNullConstraint(**_of_table(table, given, key), column_name=column, nn_name=name)
        for name, key in constraints.keys.items()
        if key.kind is KeyKind.NOT_NULL
        for column in key.columns
    ]


def primary_keys(table: Table, given: str) -> list[Any]:
    """Return the columns of the primary key of a table; ``given`` is the name of its database in answers."""
    return [
        ttypes.SQLPrimaryKey(**_of_table(table, given, key), column_name=column, key_seq=number, pk_name=name)
        for name, key in _keys(table, KeyKind.PRIMARY_KEY)
        for number, column in enumerate(key.columns, start=1)
    ]


def unique_constraints(table: Table, given: str) -> list[Any]:
    """Return the columns of the unique constraints of a table; ``given`` is the name of its database in answers."""
    return [
        ttypes.SQLUniqueConstraint(**_of_table(table, given, key), column_name=column, key_seq=number, uk_name=name)
        for name, key in _keys(table, KeyKind.UNIQUE)
        for number, column in enumerate(key.columns, start=1)
    ]


def foreign_keys(table: Table, given: str) -> list[Any]:
    """Return the columns of the foreign keys of a table; ``given`` is the name of its database in answers."""
    found = []
    for name, key in _keys(table, KeyKind.FOREIGN_KEY):
        assert key.parent is not None
        of_table = _of_table(table, given, key)
        of_table = {"fktable_db": of_table.pop("table_db"), "fktable_name": of_table.pop("table_name"), **of_table}
        for number, (column, parent) in enumerate(zip(key.columns, key.parent_columns, strict=True), start=1):
            found.append(
                ttypes.SQLForeignKey(
                    **of_table,
                    pktable_db=key.parent[0],
                    pktable_name=key.parent[1],
                    pkcolumn_name=parent,
                    fkcolumn_name=column,
                    key_seq=number,
                    fk_name=name,
                )
            )
    return found


def _keys(table: Table, kind: KeyKind) -> list[tuple[str, Key]]:
    return [each for each in Constraints.of(table.parameters).keys.items() if each[1].kind is kind]


def default_constraints(table: Table, given: str) -> list[Any]:
    """Return the default values of a table's columns; ``given`` is the name of its database in answers."""
    defaults = Constraints.of(table.parameters).defaults
    return [
        ttypes.SQLDefaultConstraint(
            **_of_table(table, given), column_name=each, default_value=text, dc_name=each + _DEFAULT
        )
        for each, text in defaults.items()
    ]


def check_constraints(table: Table, given: str) -> list[Any]:
    """Return the CHECKs of a table; one of a single column has its name, as in Hive."""
    found = []
    for name, text in Constraints.of(table.parameters).checks.items():
        columns = expression_columns(text)
        column = columns[0] if len(columns) == 1 else None
        found.append(
            ttypes.SQLCheckConstraint(
                **_of_table(table, given), column_name=column, check_expression=text, dc_name=name
            )
        )
    return found


def described_constraints(table: str, given: Given, taken: Iterable[str] = ()) -> Constraints:
    """Return the constraints that a client describes; ``taken`` are names that constraints of the table have.

    Raises:
        InvalidObjectError: a key is to be enforced, another constraint is not, a constraint is given twice, or its
            text cannot be read.
    """
    keys: dict[str, Key] = {}
    for kind in _KINDS:
        keys |= _described_keys(table, kind, given, {*taken, *keys})
    not_null: list[str] = []
    for each in given.not_null or ():
        if each.enable_cstr is False:
            column = normalise(each.column_name or "")
            key = Key(KeyKind.NOT_NULL, (column,), rely=bool(each.rely_cstr))
            keys[_key_name(each.nn_name, f"{column}{_NOT_NULL}", keys)] = key
            continue
        column = _column(table, "NOT NULL", each)
        if column in not_null:
            raise InvalidObjectError("constraint", f"NOT NULL of {column}", "it is given twice")
        not_null.append(column)
    defaults: dict[str, str] = {}
    for each in given.defaults or ():
        column = _column(table, "DEFAULT", each)
        if column in defaults:
            raise InvalidObjectError("constraint", f"DEFAULT of {column}", "it is given twice")
        if _columns_of(f"DEFAULT of {column}", each.default_value):
            raise InvalidObjectError("constraint", f"DEFAULT of {column}", "it reads a column; a text needs quotes")
        defaults[column] = each.default_value
    checks: dict[str, str] = {}
    names = {normalise(name) for name in taken}
    for each in given.checks or ():
        name = normalise(each.dc_name or _free_name(names | checks.keys()))
        _check_enforced(table, f"CHECK {name}", each)
        if name in checks or name in keys:
            raise InvalidObjectError("constraint", name, "it is given twice")
        if not _columns_of(name, each.check_expression):
            raise InvalidObjectError("constraint", name, "it compares no column of the table")
        checks[name] = each.check_expression
    return Constraints(defaults, tuple(not_null), checks, keys)


def _described_keys(table: str, kind: KeyKind, given: Given, taken: Collection[str]) -> dict[str, Key]:
    """Return the keys of a kind by their names. A client gives their columns one by one, with numbers from 1 on.

    Raises:
        InvalidObjectError: one is to be enforced.
    """
    found: list[tuple[str, list[Any]]] = []
    for each in getattr(given, _KINDS[kind]) or ():
        if each.enable_cstr:
            raise InvalidObjectError("table", table, f"nothing enforces a {kind.value}; disable it, and it is kept")
        name = normalise(getattr(each, _NAMES[kind]) or "")
        # As in Hive, one without a name begins with its first column.
        begun = (
            next((columns for of, columns in found if of == name), None) if name else found[-1][1] if found else None
        )
        if begun is None or (not name and each.key_seq == 1):
            found.append((name, [each]))
        else:
            begun.append(each)
    keys: dict[str, Key] = {}
    for name, columns in found:
        columns.sort(key=lambda each: each.key_seq or 0)
        key = Key(kind, tuple(_key_column(each) for each in columns), rely=bool(columns[0].rely_cstr))
        if kind is KeyKind.FOREIGN_KEY:
            parent = (normalise(columns[0].pktable_db or ""), normalise(columns[0].pktable_name or ""))
            key = replace(key, parent=parent, parent_columns=tuple(normalise(each.pkcolumn_name) for each in columns))
        keys[_key_name(name, kind.value.lower().replace(" ", "_"), {*taken, *keys})] = key
    return keys


def _key_column(constraint: Any) -> str:
    name = constraint.fkcolumn_name if isinstance(constraint, ttypes.SQLForeignKey) else constraint.column_name
    return normalise(name or "")


def _key_name(given: str | None, otherwise: str, taken: Collection[str]) -> str:
    """Return the name of a key, one of our own where the client gives none.

    Raises:
        InvalidObjectError: it is taken.
    """
    name, number = normalise(given or otherwise), 1
    while not given and name in taken:
        number += 1
        name = f"{otherwise}_{number}"
    if name in taken:
        raise InvalidObjectError("constraint", name, "it is given twice")
    return name


def dropping(table: Table, name: str) -> ChangeConstraints | None:
    """Return the statement that drops a constraint by its name in answers, or None."""
    constraints = Constraints.of(table.parameters)
    named = TableName(table.name, table.database)
    wanted = normalise(name)
    if wanted in constraints.names:
        return ChangeConstraints(named, dropped_name=wanted)
    for column in constraints.not_null:
        if wanted == column + _NOT_NULL:
            return ChangeConstraints(named, dropped_not_null=column)
    for column in constraints.defaults:
        if wanted == column + _DEFAULT:
            return ChangeConstraints(named, dropped_default=column)
    return None


def _of_table(table: Table, given: str, key: Key | None = None) -> dict[str, Any]:
    enforced = _ENFORCED if key is None else {"enable_cstr": False, "validate_cstr": False, "rely_cstr": key.rely}
    return {"catName": "hive", "table_db": given, "table_name": table.name, **enforced}


def _column(table: str, kind: str, constraint: Any) -> str:
    column = normalise(constraint.column_name or "")
    _check_enforced(table, f"{kind} of {column}", constraint)
    return column


def _check_enforced(table: str, name: str, constraint: Any) -> None:
    if constraint.enable_cstr is False:
        reason = f"{name} is disabled, and a constraint that is not enforced is not kept; leave it out"
        raise InvalidObjectError("table", table, reason)


def _columns_of(name: str, text: str | None) -> tuple[str, ...]:
    if not text:
        raise InvalidObjectError("constraint", name, "it has no expression")
    try:
        return expression_columns(text)
    except SqlError as error:
        reason = f"{text} is not a valid expression here: {str(error).splitlines()[0].rstrip('.')}"
        raise InvalidObjectError("constraint", name, reason) from error


def _free_name(taken: Iterable[str]) -> str:
    names, number = set(taken), 1
    while f"check_{number}" in names:
        number += 1
    return f"check_{number}"
