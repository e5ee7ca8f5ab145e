"""The methods of the ObjectStore for secondary copies."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Connection

from airflow_hivex.core.catalog import capacity, copy_rows, partition_rows, table_rows
from airflow_hivex.core.catalog.bound_tables import BoundTable, bind_table
from airflow_hivex.core.catalog.copy_rows import NewCopies
from airflow_hivex.core.catalog.directories import RegisteredDirectory
from airflow_hivex.core.catalog.history import TableHistory, read_history
from airflow_hivex.core.catalog.metadata_reader import SnapshotReading
from airflow_hivex.core.errors import CopyMismatchError, InvalidOperationError, NoSuchPartitionError
from airflow_hivex.core.events.notification_log import EventType
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.partitions import partition_values
from airflow_hivex.core.model.predicates import Value
from airflow_hivex.core.model.snapshots import Moment
from airflow_hivex.core.model.write_ids import ValidTxnList, ValidWriteIdList


class CopyMethods(SnapshotReading):
    """The methods of ``ObjectStore`` that register copies on secondary clusters, and withdraw them."""

    def register_copy(
        self,
        database: str,
        table: str,
        cluster: str,
        partitions: Sequence[str | Sequence[Value]] | None = None,
        *,
        location: str | None = None,
    ) -> list[str]:
        """Register files that another program has copied to ``cluster``, and return the names of their partitions.

        ``partitions`` are names (``month=1``) or values; None means all partitions. For a table without partitions, the
        result has the table's name. ``location`` is the folder of the table on the cluster; by default it is the same
        path as on the primary. Before the registration, the files that the current snapshot reads are compared by name
        and size. Later writes to the primary make the copy stale until the copy is registered again
        (docs/reference/clusters.md, M11).

        Raises:
            UnknownClusterError: the cluster is not configured.
            InvalidOperationError: the cluster is the table's primary, or the table is a view.
            NoSuchPartitionError: a partition does not exist.
            CopyMismatchError: files are missing or differ; nothing was registered.
            CopyOutdatedError: the table has changed while the files were compared; nothing was registered.
        """
        target = self._clusters.get(cluster)
        taken_ms = self._clock()
        bound, _, valid_txns = self._bind_copies(database, table, partitions)
        stored = bound.table
        if stored.is_view:
            raise InvalidOperationError("register_copy", stored.full_name, "it is a view, which has no files")
        if target.name == stored.storage.primary.cluster:
            raise InvalidOperationError("register_copy", stored.full_name, f"{cluster} is its primary cluster")
        root = target.relative(location) if location else stored.storage.primary.location
        primary = self._clusters.get(stored.storage.primary.cluster)
        found = copy_rows.compare(
            bound,
            ClusterFiles.of(primary),
            ClusterFiles.of(target),
            root,
        )
        if found:
            raise CopyMismatchError(stored.full_name, cluster, found)
        names = bound.partition_names
        self._add_copies(
            NewCopies(
                stored,
                target.name,
                bound.registered_directories,
                partitions=frozenset(names),
                location=root,
                write_ids=bound.write_ids,
                moment=Moment(taken_ms, valid_txns),
            )
        )
        return names if stored.is_partitioned else [stored.full_name]

    def add_copies(
        self,
        table: StoredTable,
        cluster: str,
        directories: Collection[RegisteredDirectory],
        checksums: Mapping[int, str] | None = None,
        *,
        partitions: Collection[str] = (),
        location: str | None = None,
        locations: Mapping[str | None, str] | None = None,
        write_ids: ValidWriteIdList | None = None,
        moment: Moment | None = None,
    ) -> None:
        """Register copies of registered directories on ``cluster``, in one database transaction. Safe to repeat.

        The caller has copied and verified the files. ``checksums`` is a dict from directory id to checksum. A query
        uses the copy of a partition if the copy has all directories that the query's snapshot reads. Several calls can
        register the directories of one partition; directories of earlier calls stay registered. ``partitions`` has the
        names of copied partitions without registered directories, such as empty partitions and partitions of a table
        without transactions.

        ``location`` is the table's folder on the cluster. By default it is the folder of earlier copies of the table
        or, without copies, the same path as on the primary cluster. ``locations`` is a dict from partition to location,
        for partitions outside of this folder; the key None stands for a table without partitions. ``write_ids`` is the
        write id list of the snapshot in which the copy was made. ``moment`` is this snapshot; sessions that accept a
        lag can read the copy as of this moment. If ``cluster`` is the primary cluster, only the checksums are stored.

        Raises:
            UnknownClusterError: the cluster is not configured.
            NoSuchTableError, NoSuchPartitionError: the table or a partition was dropped meanwhile.
            CopyOutdatedError: a directory is not registered any more, or has grown since it was copied.
            QuotaExceededError: the namespace would have more bytes than its quota on the cluster.
        """
        target = self._clusters.get(cluster)
        self._add_copies(
            NewCopies(
                table,
                target.name,
                tuple(directories),
                checksums or {},
                frozenset(partitions),
                target.relative(location) if location else None,
                write_ids,
                {name: target.relative(each) for name, each in (locations or {}).items()},
                moment,
            )
        )

    def copy_checksums(self, directories: Collection[RegisteredDirectory]) -> dict[int, str]:
        """Return the known checksums of registered directories, as a dict from directory id to checksum.

        A checksum is the same on each cluster.
        """
        with self._read() as connection:
            return copy_rows.checksums_of(connection, [each.id for each in directories])

    def registered_ms(self, directories: Collection[RegisteredDirectory], cluster: str) -> dict[int, int]:
        """Return a dict from directory id to the time (ms) of the directory's registration on a cluster."""
        with self._read() as connection:
            return copy_rows.registered_ms(connection, [each.id for each in directories], cluster)

    def history(self, table: StoredTable, clusters: Collection[str]) -> TableHistory:
        """Return the history of a table, with the moments at which its copies on ``clusters`` were made."""
        with self._read() as connection:
            return read_history(connection, table, clusters)

    def _add_copies(self, new: NewCopies) -> None:
        table = new.table

        def work(connection: Connection) -> None:
            self._lock_for_copies(connection, table)
            use = capacity.lock_use(connection, table.id, new.cluster)
            names = copy_rows.add_copies(connection, new, self._clock())
            capacity.check_use(connection, use)
            message = {
                "cluster": new.cluster,
                "partitions": names if table.is_partitioned else None,
                "directories": sorted({each.name for each in new.directories}),
            }
            self._record(connection, EventType.REGISTER_COPY, table, new.write_ids, None, message)

        self._write(work)

    def unregister_copy(
        self, database: str, table: str, cluster: str, partitions: Sequence[str | Sequence[Value]] | None = None
    ) -> None:
        """Withdraw the copies of partitions on ``cluster``. The files stay.

        ``partitions`` is None for all partitions, and for a table without partitions.

        Raises:
            NoSuchPartitionError: a partition does not exist.
        """
        bound, ids, _ = self._bind_copies(database, table, partitions)
        stored = bound.table

        def work(connection: Connection) -> None:
            self._lock_for_copies(connection, stored)
            copy_rows.drop_copies(connection, stored, list(ids.values()) if stored.is_partitioned else None, cluster)
            message = {"cluster": cluster, "partitions": sorted(ids) if stored.is_partitioned else None}
            self._record(connection, EventType.UNREGISTER_COPY, stored, bound.write_ids, None, message)

        self._write(work)

    @staticmethod
    def _lock_for_copies(connection: Connection, table: StoredTable) -> None:
        table_rows.hold_existing(connection, table)
        table_rows.raise_versions(connection, [table.id])

    def _bind_copies(
        self, database: str, name: str, wanted: Sequence[str | Sequence[Value]] | None
    ) -> tuple[BoundTable, dict[str, int], ValidTxnList]:
        """Return a table with the chosen partitions, a dict from partition name to id, and the valid transactions."""
        named = (normalise(database), normalise(name))
        snapshot = self.snapshot([named])
        table = snapshot.tables[named]
        contents = self.contents(snapshot, table, None, ())
        bound = bind_table(table, contents, None, snapshot, ())
        if wanted is not None and not table.is_partitioned:
            raise InvalidOperationError("register_copy", table.full_name, "the table has no partition keys")
        if wanted is not None:
            names = {
                partition_rows.name_of(table, partition_values(each) if isinstance(each, str) else each)
                for each in wanted
            }
            missing = names.difference(bound.partition_names)
            if missing:
                raise NoSuchPartitionError(table.database, table.name, min(missing))
            bound = replace(bound, partitions=tuple(each for each in bound.partitions if each.name in names))
        ids = {each.name: each.id for each in contents.partitions}
        return bound, {name: ids[name] for name in bound.partition_names}, snapshot.valid_txns
