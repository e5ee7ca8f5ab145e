"""The record of the commits to each table, in the order of commits.

During a commit, the functions ``note_...`` collect the changes to each table. At the end of the commit one row is
written for each table. All functions run in the database transaction of the caller.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, String, Text, bindparam, cast, delete, insert, select
from sqlalchemy.types import TypeEngine

from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.table_properties import history_retention_ms
from airflow_hivex.core.model.transactions import Operation
from airflow_hivex.core.settings import HISTORY_RETENTION, Settings
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.exchange import Call, Prepared, later
from airflow_hivex.core.store.schema import table_commits, tables, txns
from airflow_hivex.core.transactions.conflicts import Write

CREATION = "CREATE TABLE"
"""The recorded operation of the commit that creates a table."""

_COLLECTED = "hivex_commit_facts"
_ALTERED = "ALTER TABLE"
_LONGEST = 256
_C = table_commits.c
_BY_LETTER = {each.value: each.name for each in (Operation.INSERT, Operation.UPDATE, Operation.DELETE)}


@dataclass(slots=True)
class CommitFacts:
    """The changes of a transaction to a table: statements, numbers of rows and bytes, and the previous columns.

    An updated row counts as an added row and a deleted row.
    """

    operations: list[str] = field(default_factory=list)
    rows_added: int = 0
    rows_deleted: int = 0
    size_bytes: int = 0
    columns_before: str | None = None

    @property
    def operation(self) -> str:
        """Return the names of the statements, separated by commas. Each name appears once."""
        return ", ".join(dict.fromkeys(self.operations))[:_LONGEST]


@contextmanager
def collected(connection: Connection) -> Iterator[Mapping[int, CommitFacts]]:
    """Yield a dict from table id to changes. During the block, the functions ``note_...`` add changes to the dict."""
    facts: dict[int, CommitFacts] = {}
    info = connection.info
    info[_COLLECTED] = facts
    try:
        yield facts
    finally:
        info.pop(_COLLECTED, None)


def _facts_of(connection: Connection, table_id: int) -> CommitFacts | None:
    facts: dict[int, CommitFacts] | None = connection.info.get(_COLLECTED)
    return None if facts is None else facts.setdefault(table_id, CommitFacts())


def note_operation(connection: Connection, table_id: int, operation: str) -> None:
    """Note the name of a statement that changes a table, for the record of the commit."""
    facts = _facts_of(connection, table_id)
    if facts is not None:
        facts.operations.append(operation)


def note_volume(connection: Connection, table_id: int, *, added: int, deleted: int, size_bytes: int) -> None:
    """Note the numbers of rows and bytes that were written to a table, for the record of the commit."""
    facts = _facts_of(connection, table_id)
    if facts is not None:
        facts.rows_added += added
        facts.rows_deleted += deleted
        facts.size_bytes += size_bytes


def note_columns(connection: Connection, table_id: int, before: Sequence[Column]) -> None:
    """Note the columns that a table had before a change, for the record of the commit."""
    facts = _facts_of(connection, table_id)
    if facts is not None and facts.columns_before is None:
        facts.columns_before = json.dumps([asdict(column) for column in before])


_GIVEN: Mapping[str, TypeEngine[Any]] = {
    "table_id": BigInteger(),
    "write_id": BigInteger(),
    "txn_id": BigInteger(),
    "committed_ms": BigInteger(),
    "operation": String(),
    "rows_added": BigInteger(),
    "rows_deleted": BigInteger(),
    "size_bytes": BigInteger(),
    "columns_before": Text(),
}
_INSERT = insert(table_commits)
_RECORD = Prepared(
    insert(table_commits)
    .from_select(
        [*_GIVEN, "user", "agent_info"],
        select(
            *(bindparam(name, type_=kind).label(name) for name, kind in _GIVEN.items()), txns.c.user, txns.c.agent_info
        ).where(txns.c.id == bindparam("txn_id", type_=BigInteger())),
    )
    .inline()
)


def recording(txn_id: int, writes: Iterable[Write], facts: Mapping[int, CommitFacts], now_ms: int) -> list[Call]:
    """Return the calls that record the commit of a transaction: one call for each table with a write id."""
    letters: dict[tuple[int, int], list[str]] = {}
    for write in writes:
        if write.write_id:
            named = letters.setdefault((write.table_id, write.write_id), [])
            if write.operation in _BY_LETTER:
                named.append(_BY_LETTER[write.operation])
    calls = []
    for (table_id, write_id), named in letters.items():
        found = facts.get(table_id) or CommitFacts()
        calls.append(
            _RECORD(
                table_id=table_id,
                write_id=write_id,
                txn_id=txn_id,
                committed_ms=now_ms,
                operation=found.operation or ", ".join(sorted(set(named))) or _ALTERED,
                rows_added=found.rows_added,
                rows_deleted=found.rows_deleted,
                size_bytes=found.size_bytes,
                columns_before=found.columns_before,
            )
        )
    return calls


def record_creation(connection: Connection, table_id: int, write_id: int, user: str, now_ms: int) -> None:
    """Record the creation of an empty table. One round trip.

    ``write_id`` is lower by 1 than the first write id of the table.
    """
    _record(connection, table_id, write_id, CREATION, user, now_ms)


def record_break(connection: Connection, table_id: int, now_ms: int) -> None:
    """Record that the versions of a table before this moment cannot be read any more. One round trip."""
    _record(connection, table_id, None, "", "", now_ms)


def _record(
    connection: Connection, table_id: int, write_id: int | None, operation: str, user: str, now_ms: int
) -> None:
    row = {"table_id": table_id, "write_id": write_id, "committed_ms": now_ms, "user": user, "operation": operation}
    later(connection, _INSERT, {**row, "rows_added": 0, "rows_deleted": 0, "size_bytes": 0})


def own_retentions(connection: Connection, settings: Settings) -> dict[int, int]:
    """Return a dict from table id to retention in milliseconds. One round trip.

    The dict has only the tables with the property ``hivex.history.retention``.
    """
    has_own = cast(tables.c.parameters, Text).contains(HISTORY_RETENTION, autoescape=True)
    rows = connection.execute(select(tables.c.id, tables.c.parameters).where(has_own))
    return {row.id: history_retention_ms(settings, row.parameters) for row in rows}


def purges(now_ms: int, own: Mapping[int, int], settings: Settings) -> Iterator[Callable[[Connection], object]]:
    """Yield functions that remove the records of old commits.

    A commit is old if it is older than its table's retention.

    Each function runs one query. ``own`` is the result of :func:`own_retentions`. The newest old commit of each table
    stays, because the table had the version of this commit when the retention began.
    """
    of_others = [_C.table_id.not_in(batch) for batch in batches(sorted(own))]
    yield _purge_before(now_ms - history_retention_ms(settings, {}), *of_others)
    for table_id, own_ms in own.items():
        yield _purge_before(now_ms - own_ms, _C.table_id == table_id)


def _purge_before(before_ms: int, *of_tables: ColumnElement[bool]) -> Callable[[Connection], object]:
    newer = table_commits.alias("newer")
    is_superseded = (
        select(newer.c.id)
        .where(
            newer.c.table_id == _C.table_id,
            newer.c.id > _C.id,
            newer.c.committed_ms <= before_ms,
            newer.c.write_id.is_not(None),
        )
        .exists()
    )
    # Rows are compared by id, as readers do: times may fall if the clock was put back.
    removal = delete(table_commits).where(is_superseded, *of_tables)
    return lambda connection: connection.execute(removal)
