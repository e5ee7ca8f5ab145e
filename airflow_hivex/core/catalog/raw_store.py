# ruff: noqa: D102 - ObjectStore says what each method gives and raises
"""RawStore: the interface of every store of metadata, the database or a cache in front of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from airflow_hivex.core.catalog.given_lists import GivenList, StateOf
from airflow_hivex.core.model.objects import Database, Partition, StoredPartition, StoredTable, Table, TableType
from airflow_hivex.core.model.permanent_functions import PermanentFunction
from airflow_hivex.core.model.predicates import Predicate


class RawStore(Protocol):
    """Reads and writes of databases, functions, tables and partitions (Source: Hive RawStore).

    ``valid_write_ids`` of a read is the query's own list for the table, as a value or as text, which a cache compares
    with the list of its entry. Without the argument a read returns the current state. None says that the caller has no
    list: this is refused for a transactional table; for another table a cache may answer with its entry.

    ``valid_write_ids`` of a write is the list of the writer. A write on a managed table takes a write id of the
    transaction ``txn_id``, or of a transaction that is opened and committed together with the write. The event of the
    change has the list with this write id as committed.

    ``cluster`` is the cluster of a session after USE CLUSTER; without it a client sees the location on the default
    cluster, else on the primary (docs/reference/clusters.md, M3 and S5).
    """

    def create_database(self, database: Database) -> Database: ...

    def get_database(self, name: str) -> Database: ...

    def alter_database(self, name: str, database: Database) -> Database: ...

    def drop_database(self, name: str, *, cascade: bool = False) -> list[StoredTable]: ...

    def list_databases(self, pattern: str | None = None) -> list[str]: ...

    def create_function(self, function: PermanentFunction) -> PermanentFunction: ...

    def get_function(self, database: str, name: str) -> PermanentFunction: ...

    def get_functions(self, database: str | None = None, pattern: str | None = None) -> list[PermanentFunction]: ...

    def list_functions(self, database: str, pattern: str | None = None) -> list[str]: ...

    def alter_function(self, database: str, name: str, function: PermanentFunction) -> PermanentFunction: ...

    def drop_function(self, database: str, name: str) -> PermanentFunction: ...

    def create_table(
        self, table: Table, valid_write_ids: GivenList = StateOf.NOW, txn_id: int | None = None
    ) -> StoredTable: ...

    def get_table(
        self,
        database: str,
        name: str,
        valid_write_ids: GivenList = StateOf.NOW,
        cluster: str | None = None,
    ) -> StoredTable: ...

    def get_tables(
        self,
        database: str,
        names: Sequence[str],
        valid_write_ids: Mapping[str, GivenList] | None = None,
        cluster: str | None = None,
    ) -> list[StoredTable]: ...

    def alter_table(
        self,
        database: str,
        name: str,
        table: Table,
        valid_write_ids: GivenList = StateOf.NOW,
        txn_id: int | None = None,
    ) -> StoredTable: ...

    def drop_table(
        self,
        database: str,
        name: str,
        valid_write_ids: GivenList = StateOf.NOW,
        txn_id: int | None = None,
        *,
        cascade: bool = False,
    ) -> StoredTable: ...

    def list_tables(self, database: str, pattern: str | None = None, type: TableType | None = None) -> list[str]: ...

    def add_partitions(
        self,
        database: str,
        table: str,
        new: Sequence[Partition],
        valid_write_ids: GivenList = StateOf.NOW,
        *,
        if_not_exists: bool = False,
        txn_id: int | None = None,
    ) -> list[str]: ...

    def get_partition(
        self,
        database: str,
        table: str,
        values: Sequence[str],
        valid_write_ids: GivenList = StateOf.NOW,
        cluster: str | None = None,
    ) -> StoredPartition: ...

    def get_partitions(
        self,
        database: str,
        table: str,
        valid_write_ids: GivenList = StateOf.NOW,
        *,
        batch_size: int = 1000,
        cluster: str | None = None,
    ) -> Iterator[list[StoredPartition]]: ...

    def get_partitions_by_names(
        self,
        database: str,
        table: str,
        names: Sequence[str],
        valid_write_ids: GivenList = StateOf.NOW,
        cluster: str | None = None,
    ) -> list[StoredPartition]: ...

    def get_partitions_by_expr(
        self,
        database: str,
        table: str,
        expr: Predicate | None,
        valid_write_ids: GivenList = StateOf.NOW,
        cluster: str | None = None,
    ) -> list[StoredPartition]: ...

    def list_partition_names(
        self,
        database: str,
        table: str,
        expr: Predicate | None = None,
        valid_write_ids: GivenList = StateOf.NOW,
    ) -> list[str]: ...

    def drop_partitions(
        self,
        database: str,
        table: str,
        names: Sequence[str],
        valid_write_ids: GivenList = StateOf.NOW,
        *,
        if_exists: bool = False,
        txn_id: int | None = None,
    ) -> list[StoredPartition]: ...

    def alter_partitions(
        self,
        database: str,
        table: str,
        changed: Sequence[Partition],
        valid_write_ids: GivenList = StateOf.NOW,
        *,
        txn_id: int | None = None,
    ) -> list[StoredPartition]: ...

    def rename_partition(
        self,
        database: str,
        table: str,
        name: str,
        new_name: str,
        valid_write_ids: GivenList = StateOf.NOW,
        *,
        txn_id: int | None = None,
    ) -> int | None: ...
