"""The transactions of a streaming batch: they are opened together, kept alive together, and used one by one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from airflow_hivex.core.errors import InvalidOperationError, InvalidParametersError, InvalidTransactionRequestError
from airflow_hivex.core.execution.context import BatchTransaction, Result, StatementContext
from airflow_hivex.core.execution.select_and_insert import run_insert
from airflow_hivex.core.model.identifiers import Span
from airflow_hivex.core.model.objects import Table
from airflow_hivex.core.parser.lexer.markers import parameter_literal
from airflow_hivex.core.parser.statements import Insert, Query, TableName, ValueList
from airflow_hivex.core.transactions.heartbeats import batch_heartbeats

_OPERATION = "A batch of transactions"


def open_batch(context: StatementContext, name: TableName, count: int, resources: ExitStack) -> list[BatchTransaction]:
    """Return ``count`` open transactions with write ids for the table. They are kept alive until ``resources`` close.

    Raises:
        InvalidOperationError: the session is in a transaction, or the table cannot be written. Insert-only tables are
            refused, too, since their rows do not store write ids.
        InvalidTransactionRequestError: the count is not positive, or more than ``hive.txn.max.open.batch``.
    """
    services, session = context.services, context.session
    most = int(services.settings["hive.txn.max.open.batch"])
    if not (isinstance(count, int) and 1 <= count <= most):
        raise InvalidTransactionRequestError(
            f"A batch of {count!r} transactions on {name} cannot be opened; have 1 to {most} (hive.txn.max.open.batch)."
        )
    table = services.catalog.get_table(*session.qualify(name))
    _check(context, table)
    txn_ids = services.transactions.open(count, user=session.user, agent_info=session.agent_info)
    try:
        timeout_s = int(services.settings["hive.txn.timeout"])
        resources.enter_context(batch_heartbeats(services.transactions, txn_ids[0], txn_ids[-1], timeout_s))
        write_ids = services.transactions.allocate_write_ids(txn_ids, table.database, table.name)
    except BaseException:
        resources.close()
        services.transactions.abort_many(txn_ids)
        raise
    bounds = min(write_ids.values()), max(write_ids.values())
    return [BatchTransaction(txn_id, table.id, bounds) for txn_id in txn_ids]


def check_alone(context: StatementContext) -> None:
    """Refuse a batch in a session that is in a transaction, since the batch has transactions of its own.

    Raises:
        InvalidOperationError: the session is in a transaction.
    """
    if context.session.transaction is not None:
        raise InvalidOperationError(
            _OPERATION,
            f"transaction {context.session.transaction.txn_id}",
            "it is open; COMMIT or ROLLBACK comes first",
        )


def _check(context: StatementContext, table: Table) -> None:
    check_alone(context)
    if table.not_written:
        raise InvalidOperationError(_OPERATION, table.full_name, table.not_written)
    if table.is_insert_only:
        raise InvalidOperationError(
            _OPERATION,
            table.full_name,
            "it is insert-only: its files do not say to which transaction a row belongs; use INSERT",
        )


def insert_rows(
    context: StatementContext, name: TableName, rows: Sequence[Sequence[object] | Mapping[str, object]]
) -> Result:
    """Insert rows of Python values. The transaction is the one of the streaming batch that the context names.

    Raises:
        InvalidParametersError: rows have different columns, or Spark has no literal for a value.
    """
    columns, values = _columns(rows)
    literals = tuple(
        tuple(parameter_literal(f"of column {i + 1}", value) for i, value in enumerate(row)) for row in values
    )
    # The same values as parameters, for the case that Spark must run the INSERT.
    parameters = {f"r{i}c{j}": value for i, row in enumerate(values) for j, value in enumerate(row)}
    text, cells = "VALUES ", []
    for i, row in enumerate(literals):
        places = []
        for j in range(len(row)):
            text += ", " if j else "("
            start = len(text)
            text += f":r{i}c{j}"
            places.append(Span(start, len(text)))
        text += ")" if i + 1 == len(literals) else "), "
        cells.append(tuple(places))
    listed = ValueList(tuple(cells), tuple(tuple(literal.type for literal in row) for row in literals))
    insert = Insert(
        target=name,
        query=Query(text, 0, len(text), (), parameters=frozenset(parameters), values=listed),
        columns=columns,
        rows=literals,
    )
    return run_insert(replace(context, parameters=parameters), insert)


def _columns(
    rows: Sequence[Sequence[object] | Mapping[str, object]],
) -> tuple[tuple[str, ...] | None, list[list[object]]]:
    """Return the column names, and the values of each row in the order of these names.

    The names are None if the rows are sequences of values.
    """
    if not rows:
        raise InvalidParametersError("There are no rows to write; give at least one.")
    names = list(rows[0]) if isinstance(rows[0], Mapping) else None
    values: list[list[object]] = []
    for number, row in enumerate(rows, 1):
        if names is not None and isinstance(row, Mapping) and set(row) == set(names):
            values.append([row[name] for name in names])
        elif names is None and isinstance(row, Iterable) and not isinstance(row, (Mapping, str, bytes)):
            values.append(list(row))
        else:
            raise InvalidParametersError(
                f"Row {number} is a {type(row).__name__}; give all as sequences of values, or all as mappings of the "
                "same columns."
            )
    return None if names is None else tuple(names), values


def close_batch(context: StatementContext, transactions: Sequence[BatchTransaction]) -> None:
    """Abort the transactions of a batch that are still open."""
    if transactions:
        context.services.transactions.abort_many([each.txn_id for each in transactions])
