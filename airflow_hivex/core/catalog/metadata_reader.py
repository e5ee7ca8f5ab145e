"""The interface through which statements, hooks and commands read metadata: all of it as of one snapshot."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

from airflow_hivex.core.catalog.contents import TableContents
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.predicates import Predicate
from airflow_hivex.core.model.snapshots import QualifiedName, Snapshot
from airflow_hivex.core.model.write_ids import ValidTxnList


class MetadataReader(Protocol):
    """Reads tables, partitions, directories and copies as of a snapshot.

    Whoever keeps what it has read compares by a snapshot whether that is still true (``Snapshot.agrees_with``): a
    commit changes the write id list of what it has written, and everything else that changes what a reader gets raises
    the version of the table. So a compaction does, which has no write id, when it commits, and the cleaner when it has
    removed directories; and whoever registers copies, adds partitions, or changes a table that has no write ids. A
    snapshot has both, so that it is the one question that a cache has to ask.
    """

    def snapshot(
        self,
        names: Collection[QualifiedName],
        txn_id: int | None = None,
        *,
        valid_txns: ValidTxnList | None = None,
        known: Iterable[StoredTable] = (),
    ) -> Snapshot:
        """Return the tables of these names, and all of their write id lists, at one moment. One round trip.

        It is the snapshot of now, with ``txn_id`` the one that this transaction takes now, or, with ``valid_txns``,
        the one that a transaction has taken. ``known`` are tables that the caller has from an earlier snapshot:
        those that have not changed are not read again.

        Raises:
            NoSuchDatabaseError, NoSuchTableError: a table does not exist.
        """
        ...

    def contents(
        self, snapshot: Snapshot, table: StoredTable, predicate: Predicate | None, clusters: Collection[str]
    ) -> TableContents:
        """Return the partitions that ``predicate`` leaves, with their directories, and their copies on ``clusters``.

        It has all that the snapshot sees, and may have more: what a snapshot reads of it is :func:`binding.bind`'s
        to say. At most one round trip, and one more where a predicate that the database cannot decide leaves many.
        """
        ...
