"""The PARTITION clauses of ALTER TABLE and SHOW PARTITIONS, and the partitions that they cover exactly.

A query is allowed to read a partition without matching rows, but ALTER TABLE must drop only partitions that certainly
match. For this reason, values are converted to the types of their keys before they are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from airflow_hivex.core.catalog.partition_rows import stored_values
from airflow_hivex.core.errors import InvalidObjectError, InvalidOperationError, NoSuchColumnError
from airflow_hivex.core.model.objects import Column, Table
from airflow_hivex.core.model.partitions import DEFAULT_PARTITION, partition_values
from airflow_hivex.core.model.predicates import (
    And,
    ColumnReference,
    Comparison,
    IsNull,
    Not,
    PaddedText,
    Predicate,
    Value,
    typed,
)
from airflow_hivex.core.parser.statements import Literal

_HOLDS = {
    "=": lambda order: order == 0,
    "<>": lambda order: order != 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}


def check_partitioned(operation: str, table: Table) -> None:
    """Refuse an operation on partitions of a table without partitions.

    Raises:
        InvalidOperationError: the table has no partition keys.
    """
    if not table.is_partitioned:
        raise InvalidOperationError(operation, table.full_name, "the table has no partition keys")


def typed_specification(operation: str, table: Table, specification: Predicate) -> Predicate:
    """Return the specification of a PARTITION clause, with each value converted to the type of its key.

    A comparison with NULL or the empty string becomes IS NULL.

    Raises:
        InvalidOperationError: the table has no partition keys.
        NoSuchColumnError: the clause names a column that is not a partition key.
        InvalidObjectError: a value is not of its key's type.
    """
    check_partitioned(operation, table)
    match specification:
        case And(operands):
            return And(tuple(typed_specification(operation, table, operand) for operand in operands))
        case Not(operand):
            return Not(typed_specification(operation, table, operand))
        case IsNull(ColumnReference() as column):
            _key(table, column)
            return specification
        case Comparison(ColumnReference() as column, operator, value):
            return _typed_comparison(table, _key(table, column), column, operator, value)
    raise InvalidOperationError(operation, table.full_name, "a PARTITION clause compares keys with constants")


def clause_condition(operation: str, table: Table, clause: Mapping[str, Literal | None]) -> Predicate:
    """Return the condition of a PARTITION clause. The clause is a dict from key to value; None stands for any value.

    Raises:
        InvalidOperationError: the table has no partition keys.
        NoSuchColumnError: the clause names a column that is not a partition key.
        InvalidObjectError: a value is not of its key's type.
    """
    check_partitioned(operation, table)
    keys = [key.name for key in table.partition_keys]
    conditions: list[Predicate] = []
    for key, literal in clause.items():
        if key not in keys:
            raise NoSuchColumnError(table.full_name, f"{key} among its partition keys", keys)
        if literal is not None:
            column = ColumnReference(key)
            # A binary value is refused, because it is not of the key's type.
            conditions.append(IsNull(column) if literal.value is None else Comparison(column, "=", literal.value))  # type: ignore[arg-type]
    return typed_specification(operation, table, And(tuple(conditions)))


def covered(names: Iterable[str], specification: Predicate, keys: Sequence[Column]) -> list[str]:
    """Return the names of the partitions that match a specification of :func:`typed_specification`.

    A partition never matches if one of its values is not of its key's type.
    """
    found = []
    for name in names:
        try:
            values = {
                key.name.lower(): typed(None if text == DEFAULT_PARTITION else text, key.parsed_type)
                for key, text in zip(keys, partition_values(name), strict=True)
            }
        except ValueError:
            continue
        if _covers(specification, values):
            found.append(name)
    return found


def _key(table: Table, column: ColumnReference) -> Column:
    for key in table.partition_keys:
        if key.name.lower() == column.name.lower():
            return key
    names = [key.name for key in table.partition_keys]
    raise NoSuchColumnError(table.full_name, f"{column.name} among its partition keys", names)


def _typed_comparison(table: Table, key: Column, column: ColumnReference, operator: str, value: Value) -> Predicate:
    (text,) = stored_values(table.full_name, [key], [value])
    if text != DEFAULT_PARTITION:
        return Comparison(column, operator, typed(text, key.parsed_type))
    if operator == "=":
        return IsNull(column)
    if operator == "<>":
        return Not(IsNull(column))
    raise InvalidObjectError(
        "partition", f"{key.name} {operator} {value!r}", "NULL and the empty string can be compared by = and <> only"
    )


def _covers(specification: Predicate, values: dict[str, Value]) -> bool:
    match specification:
        case And(operands):
            return all(_covers(operand, values) for operand in operands)
        case Not(operand):
            return not _covers(operand, values)
        case IsNull(ColumnReference() as column):
            return values[column.name.lower()] is None
        case Comparison(ColumnReference() as column, operator, value):
            left = values[column.name.lower()]
            return left is not None and _HOLDS[operator](_order(left, value))
    return False


def _order(left: Value, right: Value) -> int:
    """Return a negative number if ``left`` is less than ``right``, 0 if they are equal, else a positive number."""
    a, b = left, right
    if isinstance(left, PaddedText) and isinstance(right, PaddedText):
        width = max(len(left), len(right))
        a, b = left.ljust(width), right.ljust(width)
    elif isinstance(left, float) and isinstance(right, float) and (left != left or right != right):
        # To Spark NaN is equal to itself, and above all numbers.
        a, b = left != left, right != right
    return int(a > b) - int(a < b)  # type: ignore[operator]
