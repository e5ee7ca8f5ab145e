"""The registered directories: their rows, the clusters that have them, and their removal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    Text,
    bindparam,
    cast,
    delete,
    func,
    insert,
    literal_column,
    select,
    update,
)

from airflow_hivex.core.catalog.partition_rows import delete_storage_descriptors
from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.core.model.directories import parse_directory
from airflow_hivex.core.model.objects import StoredTable, Table
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.exchange import Prepared, Value, joined, later, together
from airflow_hivex.core.store.schema import (
    change_streams,
    cluster_storage_descriptors,
    completed_txn_components,
    directories,
    directory_copies,
    kept_snapshots,
    loaded_files,
    next_write_ids,
    partition_key_values,
    partitions,
    pending_writes,
    statistics,
    table_commits,
    tables,
    txn_components,
    txn_to_write_id,
    write_set,
    written_batches,
)
from airflow_hivex.core.store.upserts import insert_into

_FEW = 16
"""The largest number of rows that are written or looked up with prepared queries."""

_INSERT = Prepared(
    insert(directories)
    .values({each.name: bindparam(each.name, type_=each.type) for each in directories.c if each.name != "id"})
    .inline()
)
_COPIED = ("cluster", "registered_ms", "checksum")
_INSERT_COPY = Prepared(
    insert(directory_copies).from_select(
        ["directory_id", *_COPIED],
        # The newest row, should a transaction have registered the name before.
        select(
            func.max(directories.c.id).label("directory_id"),
            *(cast(bindparam(name), directory_copies.c[name].type).label(name) for name in _COPIED),
        ).where(
            directories.c.table_id == bindparam("of_table", type_=BigInteger),
            directories.c.partition_id.is_not_distinct_from(bindparam("of_partition", type_=BigInteger)),
            directories.c.name == bindparam("named", type_=Text),
            directories.c.txn_id == bindparam("of_txn", type_=BigInteger),
        ),
    )
)
_OF_TABLE = (
    select(directories.c.id)
    .where(
        directories.c.table_id == bindparam("table_id", type_=BigInteger),
        directories.c.kind == literal_column("'base'"),
        directories.c.max_write_id > bindparam("write_id", type_=BigInteger),
    )
    .limit(literal_column("1"))
)
_OF_PARTITIONS = _OF_TABLE.join(partitions, partitions.c.id == directories.c.partition_id).where(~partitions.c.dropped)
_LATER_BASE = Prepared(_OF_TABLE)
_LATER_BASE_IN = Prepared(_OF_PARTITIONS.where(partitions.c.name == bindparam("name", type_=Text)))


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory of a table or partition, or a file from before the table was transactional, as a reader uses it."""

    name: str
    row_layout: str
    files: int
    rows: int
    size_bytes: int

    @property
    def is_delete_delta(self) -> bool:
        """Return whether the directory is a delete delta, whose records are the ids of deleted rows."""
        return self.name.startswith("delete_delta_")

    @property
    def is_growing(self) -> bool:
        """Return whether the directory is the delta of a streaming batch, to which later transactions can add files."""
        found = parse_directory(self.name)
        return found is not None and found.is_batch

    @property
    def is_original(self) -> bool:
        """Return whether this is an original file. The ``name`` of an original file is its path below the partition."""
        return parse_directory(self.name) is None


@dataclass(frozen=True, slots=True)
class RegisteredDirectory(Directory):
    """A registered directory. ``partition_id`` is None for a table without partitions."""

    id: int
    partition_id: int | None


@dataclass(frozen=True, slots=True)
class NewDirectory:
    """A directory or an original file that is to be registered.

    ``partition`` is None for a table without partitions. ``checksum`` is the checksum of the files, if it is known.
    """

    partition: str | None
    name: str
    kind: str
    min_write_id: int
    max_write_id: int
    row_layout: str
    files: int
    rows: int
    size_bytes: int
    statement_id: int | None = None
    visibility_txn_id: int = 0
    checksum: str | None = None


def insert_directories(
    connection: Connection,
    table: StoredTable,
    new: Sequence[NewDirectory],
    partition_ids: Mapping[str, int],
    *,
    txn_id: int,
    cluster: str,
    now_ms: int,
    may_grow: bool = False,
) -> None:
    """Register directories that were written on ``cluster``.

    If ``may_grow`` is true and a directory is registered already, the numbers of files, rows and bytes are added to its
    row. Up to 16 directories are sent together with the next query. More directories take one or more round trips per
    batch.
    """
    if may_grow:
        new = _not_there(connection, table, new, partition_ids, txn_id, cluster)
    d = directories.c
    rows: list[dict[str, Value]] = []
    checksums: dict[tuple[int | None, str], str] = {}
    for directory in new:
        columns = asdict(directory)
        partition, checksum = columns.pop("partition"), columns.pop("checksum")
        partition_id = None if partition is None else partition_ids[partition]
        if checksum is not None:
            checksums[partition_id, directory.name] = checksum
        rows.append({"table_id": table.id, "partition_id": partition_id, "txn_id": txn_id, **columns})
    if rows and len(rows) <= _FEW:
        of_all: dict[str, Value] = {"cluster": cluster, "registered_ms": now_ms, "of_table": table.id, "of_txn": txn_id}
        for row, each in zip(rows, new, strict=True):
            of_one = {"of_partition": row["partition_id"], "named": each.name, "checksum": each.checksum}
            joined(connection).later(_INSERT(**row), _INSERT_COPY(**of_one, **of_all))
        return
    for batch in batches(rows, 1000):
        made = connection.execute(insert(directories).returning(d.id, d.partition_id, d.name), batch)
        put_copies(connection, {id_: checksums.get((of, name)) for id_, of, name in made}, cluster, now_ms)


def _not_there(
    connection: Connection,
    table: StoredTable,
    written: Sequence[NewDirectory],
    partition_ids: Mapping[str, int],
    txn_id: int,
    cluster: str,
) -> list[NewDirectory]:
    """Return the written directories that the catalog does not have yet. Add new files to the directories that it has.

    If a registered directory gets new files, its copies on other clusters lack these files, and are no longer recorded
    as copies. The checksum of the directory becomes unknown.

    Raises:
        InvalidOperationError: the existing files and the new ones have different layouts (``hivex.row.layout``).
    """
    d = directories.c
    new = []
    for each in written:
        partition_id = None if each.partition is None else partition_ids[each.partition]
        row = connection.execute(
            update(directories)
            .where(d.table_id == table.id, d.partition_id.is_not_distinct_from(partition_id), d.name == each.name)
            .values(
                files=d.files + each.files,
                rows=d.rows + each.rows,
                size_bytes=d.size_bytes + each.size_bytes,
                txn_id=txn_id,
            )
            .returning(d.id, d.row_layout)
        ).one_or_none()
        if row is None:
            new.append(each)
        elif row.row_layout != each.row_layout:
            raise InvalidOperationError(
                "INSERT",
                table.full_name,
                f"its row layout is no longer the batch's, {row.row_layout}; open another batch",
            )
        else:
            copies = directory_copies.c
            of_directory = copies.directory_id == row.id
            later(connection, delete(directory_copies).where(of_directory, copies.cluster != cluster))
            later(connection, update(directory_copies).where(of_directory).values(checksum=None))
    return new


def put_copies(connection: Connection, checksums: Mapping[int, str | None], cluster: str, now_ms: int) -> None:
    """Record that ``cluster`` has directories. Safe to repeat.

    ``checksums`` is a dict from directory id to the checksum, which is None if it is unknown.
    """
    statement = insert_into(connection, directory_copies)
    given = statement.excluded
    statement = statement.on_conflict_do_update(
        index_elements=[directory_copies.c.directory_id, directory_copies.c.cluster],
        # The time of the first registration stays: on the primary it is the time of the commit.
        set_={"checksum": func.coalesce(given.checksum, directory_copies.c.checksum)},
    )
    rows = [
        {"directory_id": each, "cluster": cluster, "registered_ms": now_ms, "checksum": checksum}
        for each, checksum in sorted(checksums.items())
    ]
    for batch in batches(rows):
        later(connection, statement, batch)


def has_directories(connection: Connection, table_id: int) -> bool:
    """Return whether a table has a registered directory or original file."""
    found = select(directories.c.id).where(directories.c.table_id == table_id).limit(1)
    return connection.execute(found).first() is not None


def directories_of(
    connection: Connection, table: Table, partition_ids: Sequence[int] | None
) -> dict[int | None, list[RegisteredDirectory]]:
    """Return a dict from partition id to the directories of a table.

    The id is None for a table without partitions. If ``partition_ids`` is None, all partitions are read, in one round
    trip.
    """
    d = directories.c
    query = select(d.name, d.row_layout, d.files, d.rows, d.size_bytes, d.id, d.partition_id)
    if partition_ids is None:
        queries = [query.where(d.table_id == table.id)]
    else:
        queries = [query.where(d.partition_id.in_(batch)) for batch in batches(partition_ids)]
    found: dict[int | None, list[RegisteredDirectory]] = defaultdict(list)
    for each in queries:
        for row in connection.execute(each).all():
            found[row.partition_id].append(RegisteredDirectory(*row))
    return found


def writers_of(connection: Connection, table: Table, names: Collection[str | None]) -> frozenset[int]:
    """Return the ids of the transactions that have written registered directories of the named partitions.

    ``names`` has only None for a table without partitions. Transactions of compactions are left out, since compactions
    only merge rows of earlier transactions.
    """
    query = select(directories.c.txn_id).where(directories.c.table_id == table.id, directories.c.visibility_txn_id == 0)
    query = query.distinct()
    if not table.is_partitioned:
        return frozenset(connection.execute(query).scalars())
    of_partitions = query.join(partitions, partitions.c.id == directories.c.partition_id)
    return frozenset(
        txn_id
        for batch in batches(sorted(name for name in names if name is not None))
        for txn_id in connection.execute(of_partitions.where(partitions.c.name.in_(batch))).scalars()
    )


def check_no_later_base(
    connection: Connection, table: Table, names: Collection[str | None], write_id: int, error: Exception
) -> None:
    """Raise ``error`` if one of the partitions has a base directory with a higher write id.

    Such a base would hide the rows of a delta with ``write_id``. A few partitions are checked together with the
    caller's next query, which then raises the error. ``names`` has only None for a table without partitions.
    """

    def check(found: Sequence[object]) -> None:
        if found:
            raise error

    values = {"table_id": table.id, "write_id": write_id}
    if not table.is_partitioned:
        joined(connection).later(_LATER_BASE(**values), check=check)
        return
    named = sorted(name for name in names if name is not None)
    if len(named) <= _FEW:
        joined(connection).later(*(_LATER_BASE_IN(**values, name=name) for name in named), check=check)
        return
    for batch in batches(named):
        check(connection.execute(_OF_PARTITIONS.where(partitions.c.name.in_(batch)), values).all())


def forget_partitions(connection: Connection, ids: Sequence[int]) -> None:
    """Remove all rows of dropped partitions. Call it after their files were deleted."""
    for batch in batches(ids):
        of_partitions = select(directories.c.id).where(directories.c.partition_id.in_(batch))
        later(connection, delete(directory_copies).where(directory_copies.c.directory_id.in_(of_partitions)))
        later(connection, delete(directories).where(directories.c.partition_id.in_(batch)))
        later(connection, delete(statistics).where(statistics.c.partition_id.in_(batch)))
        later(connection, delete(partition_key_values).where(partition_key_values.c.partition_id.in_(batch)))
        of_batch = _storage_of_partitions(partitions.c.id.in_(batch), partitions.c.dropped)
        storage_ids = connection.execute(of_batch).scalars().all()
        later(connection, delete(partitions).where(partitions.c.id.in_(batch), partitions.c.dropped))
        delete_storage_descriptors(connection, storage_ids)


def forget_tables(connection: Connection, ids: Sequence[int]) -> None:
    """Remove all rows of dropped tables. Call it after their files were deleted."""
    # First, because a transaction that takes a write id locks this row before it refers to the row of the table.
    later(connection, delete(next_write_ids).where(next_write_ids.c.table_id.in_(ids)))
    # From here on no transaction adds a row that refers to the tables.
    later(connection, select(tables.c.id).where(tables.c.id.in_(ids)).order_by(tables.c.id).with_for_update())
    of_partitions, own = together(
        connection,
        _storage_of_partitions(partitions.c.table_id.in_(ids)),
        select(tables.c.storage_descriptor_id).where(tables.c.id.in_(ids), tables.c.dropped),
    )
    storage_ids = [row.storage_descriptor_id for row in (*of_partitions, *own)]
    of_tables = select(directories.c.id).where(directories.c.table_id.in_(ids))
    later(connection, delete(directory_copies).where(directory_copies.c.directory_id.in_(of_tables)))
    for child in (
        directories,
        statistics,
        cluster_storage_descriptors,
        partition_key_values,
        partitions,
        pending_writes,
        txn_components,
        completed_txn_components,
        write_set,
        txn_to_write_id,
        written_batches,
        kept_snapshots,
        table_commits,
        change_streams,
        loaded_files,
    ):
        later(connection, delete(child).where(child.c.table_id.in_(ids)))
    later(connection, delete(tables).where(tables.c.id.in_(ids), tables.c.dropped))
    delete_storage_descriptors(connection, storage_ids)


def _storage_of_partitions(*conditions: ColumnElement[bool]) -> Select[Any]:
    """Return the query for the ids of the storage descriptors of partitions."""
    storage_id = partitions.c.storage_descriptor_id
    return select(storage_id).where(*conditions, storage_id.is_not(None))
