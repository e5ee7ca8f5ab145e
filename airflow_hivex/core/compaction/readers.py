"""The readers for which the cleaner keeps the files of a table: open transactions, kept snapshots and kept versions.

A statement requests all its locks at once, before it reads its snapshot. So a transaction of one statement delays the
cleaning only of the tables that it has locked (Hive's MIN_HISTORY_WRITE_ID).

A transaction of several statements keeps its first snapshot, and its next statement can read any table. If a compaction
has replaced directories of the table meanwhile, the statement can read the result of the compaction only if all merged
writes had ended in the snapshot (:mod:`catalog.bound_tables`).

Source: docs/reference/compaction.md, "Readers".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, and_, func, or_, select

from airflow_hivex.core.clock import to_datetime
from airflow_hivex.core.model.cleaning import Blocker, View, capped, settled_below
from airflow_hivex.core.model.locks import DataOperation
from airflow_hivex.core.model.transactions import TxnState
from airflow_hivex.core.model.versions import without
from airflow_hivex.core.model.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hivex.core.settings import HISTORY_RETENTION
from airflow_hivex.core.snapshots.valid_lists import VALID_TXNS, read_valid_write_ids, valid_txns_of
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.exchange import together
from airflow_hivex.core.store.schema import (
    databases,
    kept_snapshots,
    locks,
    table_commits,
    tables,
    txn_components,
    txns,
)

# SQLite allows conditions of depth 1,000 at most.
_TABLES_A_BATCH = 200


@dataclass(slots=True)
class _Open:
    """An open transaction: its locked or written tables, and whether its next statements can read other tables."""

    blocker: Blocker
    min_open_id: int
    snapshot: ValidTxnList | None
    goes_on: bool
    tables: set[int] = field(default_factory=set)
    is_reading: bool = False
    makes_table: bool = False

    @property
    def is_undecided(self) -> bool:
        """Return whether the transaction's tables are unknown, because its statement has not requested locks yet."""
        return not self.goes_on and (not self.tables or (self.makes_table and not self.is_reading))

    @property
    def settled_txn(self) -> int:
        """Return the highest id up to which all transactions have ended in the snapshot of this transaction.

        If the snapshot is not stored, the result is the id before the lowest transaction that was open when this
        transaction began.
        """
        if self.snapshot is None:
            return self.min_open_id - 1
        lowest = self.snapshot.min_open
        return min(self.blocker.txn_id if lowest is None else lowest, self.snapshot.high_watermark + 1) - 1


class Readers:
    """The readers of some tables at one moment, each with a view: the snapshot and the write ids that it reads.

    A transaction without locks counts as a reader of all tables.

    ``names`` is a dict from table id to full name. If ``without_locks`` is true, readers take no locks, and each open
    transaction counts as a reader of all tables. ``retentions`` is a dict from table id to the time, in ms, for which
    earlier versions can be read.
    """

    def __init__(
        self,
        connection: Connection,
        names: Mapping[int, str],
        *,
        without_locks: bool,
        now_ms: int,
        retentions: Mapping[int, int],
    ) -> None:
        self._connection = connection
        self._names = names
        self._without_locks = without_locks
        self._write_ids: dict[ValidTxnList, Mapping[int, ValidWriteIdList]] = {}
        # The database answers them in this order, each after the commits before its own start.
        ((last, open_ids, aborted_ids),), *open_rows, kept = together(connection, VALID_TXNS, *_OPEN, _kept_at(now_ms))
        self.valid_txns = valid_txns_of(last, open_ids, aborted_ids, None)
        self._open = _open_from(*open_rows)
        self._kept = _kept_from(kept)
        # Read after the snapshot, so that all commits in the snapshot are recorded.
        self._since = {table_id: now_ms - kept_ms for table_id, kept_ms in retentions.items() if kept_ms}
        self._later = _read_later(connection, self._since)

    def first_version(self, table_id: int, highest: int | None) -> View | None:
        """Return the view of a table's oldest kept version, or None if this is the current version."""
        later = self._later.get(table_id)
        if not later:
            return None
        now = self.now(table_id, highest)
        write_ids = tuple(sorted(each.write_id for each in later))
        changes = [each.txn_id for each in later if each.changes_columns]
        seen = without(now.write_ids, write_ids)
        return View(now.valid_txns, seen, now.highest, write_ids, min(changes, default=None))

    def now(self, table_id: int, highest: int | None) -> View:
        """Return the view of a table for a reader that begins now, limited to the write ids up to ``highest``."""
        write_ids = self.write_ids(table_id)
        return View(self.valid_txns, write_ids, write_ids.high_watermark if highest is None else highest)

    def write_ids(self, table_id: int, valid_txns: ValidTxnList | None = None) -> ValidWriteIdList:
        """Return the write ids of a table in a snapshot, by default the current snapshot. One query for all tables."""
        seen = self.valid_txns if valid_txns is None else valid_txns
        if seen not in self._write_ids:
            self._write_ids[seen] = read_valid_write_ids(self._connection, self._names, seen)
        return self._write_ids[seen][table_id]

    def of_table(self, table_id: int, highest: int | None) -> list[tuple[Blocker, View]]:
        """Return the readers of a table, each with its oldest possible view.

        Readers are kept snapshots, earlier versions within the retention, and open transactions.
        """
        now = self.now(table_id, highest)
        found = []
        for blocker, settled_txn in self._kept.get(table_id, ()):
            seen = capped(self.valid_txns, settled_txn)
            found.append((blocker, View(seen, self.write_ids(table_id, seen), now.highest)))
        first = self.first_version(table_id, highest)
        if first is not None:
            begin = to_datetime(self._since[table_id])
            found.append((Blocker(0, "", "-", f"versions since {begin} ({HISTORY_RETENTION})", begin), first))
        for each in self._open:
            if self._without_locks or each.is_undecided or table_id in each.tables:
                # The transaction may read the files of the table now.
                seen = capped(self.valid_txns, each.settled_txn)
                found.append((each.blocker, View(seen, self.write_ids(table_id, seen), now.highest)))
            elif each.goes_on:
                snapshot = each.snapshot or capped(self.valid_txns, each.settled_txn)
                settled = settled_below(self.write_ids(table_id, snapshot))
                found.append((each.blocker, View(now.valid_txns, now.write_ids, min(now.highest, settled))))
        return found


def _kept_at(now_ms: int) -> Select[Any]:
    """Return the query whose rows :func:`_kept_from` reads."""
    k = kept_snapshots.c
    return select(kept_snapshots).where(k.expires_ms > now_ms).order_by(k.txn_id)


def _kept_from(rows: Iterable[Any]) -> Mapping[int, list[tuple[Blocker, int]]]:
    """Return a dict from table id to the snapshots that are kept for DataFrames and for lists of files."""
    found: defaultdict[int, list[tuple[Blocker, int]]] = defaultdict(list)
    for row in rows:
        until = f"a DataFrame or a list of files, kept until {to_datetime(row.expires_ms)}"
        blocker = Blocker(row.txn_id, row.user, "-", until, to_datetime(row.started_ms))
        found[row.table_id].append((blocker, row.settled_txn_id))
    return found


_T, _HELD = txns.c, locks.c
_OPEN = (
    select(_HELD.txn_id, _HELD.operation, tables.c.id)
    .select_from(
        locks.outerjoin(databases, databases.c.name == _HELD.database).outerjoin(
            tables, and_(tables.c.database_id == databases.c.id, tables.c.name == _HELD.table, ~tables.c.dropped)
        )
    )
    .where(_HELD.txn_id > 0, _HELD.table != "")
    .distinct(),
    select(txn_components.c.txn_id, txn_components.c.table_id)
    .join(txns, _T.id == txn_components.c.txn_id)
    .where(_T.state == TxnState.OPEN.value)
    .distinct(),
    select(_T.id, _T.min_open_id, _T.snapshot, _T.user, _T.host, _T.agent_info, _T.started_ms)
    .where(_T.state == TxnState.OPEN.value)
    .order_by(_T.id),
)
"""The queries whose rows :func:`_open_from` reads: the locks, the components, and then the open transactions."""


def _open_from(locked: Iterable[Any], written: Iterable[Any], rows: Iterable[Any]) -> list[_Open]:
    found = {
        row.id: _Open(
            Blocker(row.id, row.user, row.host, row.agent_info, to_datetime(row.started_ms)),
            row.id if row.min_open_id is None else row.min_open_id,
            ValidTxnList.parse(row.snapshot) if row.snapshot else None,
            row.snapshot is not None,
        )
        for row in rows
    }
    of_txn: defaultdict[int, list[int]] = defaultdict(list)
    for txn_id, table_id in written:
        of_txn[txn_id].append(table_id)
    for txn_id, each in found.items():
        each.tables.update(of_txn.get(txn_id, ()))
    for txn_id, operation, table_id in locked:
        if txn_id not in found:
            continue
        if table_id is None:
            found[txn_id].makes_table = True
        else:
            found[txn_id].tables.add(table_id)
            found[txn_id].is_reading |= operation == DataOperation.SELECT.value
    return list(found.values())


class _Later(NamedTuple):
    """A commit to a table after a given version of the table."""

    write_id: int
    txn_id: int
    changes_columns: bool


def _read_later(connection: Connection, since: Mapping[int, int]) -> Mapping[int, list[_Later]]:
    """Return a dict from table id to the commits after a version of the table. One query for each 200 tables.

    ``since`` is a dict from table id to the time of the version, in ms. A commit is after the version if it has a
    higher id. Times are not compared, because a clock can be put back.
    """
    c, earlier = table_commits.c, table_commits.alias("earlier").c
    found: defaultdict[int, list[_Later]] = defaultdict(list)

    def after(table_id: int, since_ms: int) -> ColumnElement[bool]:
        of_table = (earlier.table_id == table_id, earlier.write_id.is_not(None), earlier.committed_ms <= since_ms)
        first = select(func.max(earlier.id)).where(*of_table).scalar_subquery()
        return and_(c.table_id == table_id, c.id > func.coalesce(first, 0))

    for batch in batches(sorted(since.items()), _TABLES_A_BATCH):
        conditions = [after(table_id, since_ms) for table_id, since_ms in batch]
        columns = (c.table_id, c.write_id, c.txn_id, c.columns_before.is_not(None))
        query = select(*columns).where(c.write_id.is_not(None), c.txn_id.is_not(None), or_(*conditions))
        for table_id, *row in connection.execute(query):
            found[table_id].append(_Later(*row))
    return found
