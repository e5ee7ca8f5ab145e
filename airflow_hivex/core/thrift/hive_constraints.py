"""Constraints of tables as Hive's structures, and back. Pure.

Hive has a name for each constraint. Here a CHECK has one, and the names of the others come from their columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from airflow_hivex.core.errors import InvalidObjectError, SqlError
from airflow_hivex.core.model.constraints import Constraints
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.objects import Table
from airflow_hivex.core.model.statements import ChangeConstraints, TableName
from airflow_hivex.core.sql.constraints import expression_columns
from airflow_hivex.core.thrift.bindings import ttypes

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
    names = Constraints.of(table.parameters).not_null
    return [
        ttypes.SQLNotNullConstraint(**_of_table(table, given), column_name=each, nn_name=each + _NOT_NULL)
        for each in names
    ]


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
    """Return the constraints that a client describes; ``taken`` are names of CHECKs that the table has.

    Raises:
        InvalidObjectError: one is of another kind, is not enforced, is given twice, or has a text that cannot be read.
    """
    for kind, found in (("PRIMARY KEY", given.primary_keys), ("FOREIGN KEY", given.foreign_keys)):
        _refuse(table, kind, found)
    _refuse(table, "UNIQUE", given.unique)
    not_null: list[str] = []
    for each in given.not_null or ():
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
        if name in checks:
            raise InvalidObjectError("constraint", name, "it is given twice")
        if not _columns_of(name, each.check_expression):
            raise InvalidObjectError("constraint", name, "it compares no column of the table")
        checks[name] = each.check_expression
    return Constraints(defaults, tuple(not_null), checks)


def dropping(table: Table, name: str) -> ChangeConstraints | None:
    """Return the statement that drops a constraint by its name in answers, None where the table has none of it."""
    constraints = Constraints.of(table.parameters)
    named = TableName(table.name, table.database)
    wanted = normalise(name)
    if wanted in constraints.checks:
        return ChangeConstraints(named, dropped_check=wanted)
    for column in constraints.not_null:
        if wanted == column + _NOT_NULL:
            return ChangeConstraints(named, dropped_not_null=column)
    for column in constraints.defaults:
        if wanted == column + _DEFAULT:
            return ChangeConstraints(named, dropped_default=column)
    return None


def _of_table(table: Table, given: str) -> dict[str, Any]:
    return {"catName": "hive", "table_db": given, "table_name": table.name, **_ENFORCED}


def _refuse(table: str, kind: str, found: Sequence[Any] | None) -> None:
    if found:
        reason = f"a {kind} is not kept; only DEFAULT, NOT NULL and CHECK are, leave other constraints out"
        raise InvalidObjectError("table", table, reason)


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
