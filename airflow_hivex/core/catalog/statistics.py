"""The rows of statistics. Functions here take part in the caller's database transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from airflow_hivex.core.catalog.table_rows import lock_for_change
from airflow_hivex.core.errors import NoSuchTableError
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.statistics import ColumnStatistics, Statistics
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.exchange import later
from airflow_hivex.core.store.schema import partitions, statistics


def select_statistics(
    connection: Connection, table: StoredTable, partition_ids: Sequence[int] = ()
) -> dict[int | None, Statistics]:
    """Return a dict from partition id to statistics, for a table and some partitions. One round trip per batch.

    The key None stands for the table. A table or partition without statistics is missing.
    """
    s = statistics.c
    conditions: list[ColumnElement[bool]] = [(s.table_id == table.id) & s.partition_id.is_(None)]
    conditions += [s.partition_id.in_(batch) for batch in batches(partition_ids)]
    query = select(s.partition_id, s.num_rows, s.num_files, s.total_size, s.valid_write_ids, s.computed_ms, s.columns)
    return {
        row.partition_id: Statistics(
            row.num_rows,
            row.num_files,
            row.total_size,
            row.valid_write_ids,
            row.computed_ms,
            {name: ColumnStatistics.from_json(document) for name, document in row.columns.items()},
        )
        for condition in conditions
        for row in connection.execute(query.where(condition))
    }


def store_statistics(connection: Connection, table: StoredTable, found: Mapping[str | None, Statistics]) -> None:
    """Store the statistics that ANALYZE has computed.

    ``found`` is a dict from partition name to statistics; the key None stands for the table. Earlier statistics are
    replaced, except for columns that ``found`` lacks. Partitions that were dropped meanwhile are skipped. Two round
    trips, and three per batch of partitions.

    Raises:
        NoSuchTableError: the table was dropped meanwhile.
    """
    # Other ANALYZE statements of the table wait here, so that none overwrites the results of another.
    if not lock_for_change(connection, [table.id]):
        raise NoSuchTableError(table.database, table.name)
    ids: dict[str | None, int | None] = {None: None}
    for names in batches(sorted(name for name in found if name is not None)):
        rows = connection.execute(
            select(partitions.c.name, partitions.c.id)
            .where(partitions.c.table_id == table.id, ~partitions.c.dropped, partitions.c.name.in_(names))
            .with_for_update(read=True)
        )
        ids |= {row.name: row.id for row in rows}
    wanted = [partition_id for name, partition_id in ids.items() if name in found and partition_id is not None]
    earlier = select_statistics(connection, table, wanted)
    s = statistics.c
    if None in found:
        later(connection, delete(statistics).where(s.table_id == table.id, s.partition_id.is_(None)))
    for batch in batches(wanted):
        later(connection, delete(statistics).where(s.partition_id.in_(batch)))
    values = []
    for name, new in found.items():
        if name not in ids:
            continue
        old = earlier.get(ids[name])
        kept = new if old is None else new.after(old)
        values.append(
            {
                "table_id": table.id,
                "partition_id": ids[name],
                "num_rows": kept.num_rows,
                "num_files": kept.num_files,
                "total_size": kept.total_size,
                "valid_write_ids": kept.valid_write_ids,
                "computed_ms": kept.computed_ms,
                "columns": {column: each.to_json() for column, each in kept.columns.items()},
            }
        )
    for rows_of_batch in batches(values, 1000):
        later(connection, insert(statistics), rows_of_batch)


def delete_column_statistics(
    connection: Connection, table: StoredTable, partition_id: int | None, column: str | None
) -> bool:
    """Delete the statistics of a column (None: of all columns), and return whether statistics existed.

    ``column`` is the column's name in files.

    Raises:
        NoSuchTableError: the table was dropped meanwhile.
    """
    if not lock_for_change(connection, [table.id]):
        raise NoSuchTableError(table.database, table.name)
    known = select_statistics(connection, table, [] if partition_id is None else [partition_id]).get(partition_id)
    columns = {} if known is None else dict(known.columns)
    left = {name: each for name, each in columns.items() if column is not None and name != column}
    if len(left) == len(columns):
        return False
    s = statistics.c
    own = s.partition_id.is_(None) if partition_id is None else s.partition_id == partition_id
    documents = {name: each.to_json() for name, each in left.items()}
    later(connection, update(statistics).where(s.table_id == table.id, own).values(columns=documents))
    return True


def store_sizes(
    connection: Connection, table: StoredTable, partition_id: int | None, num_files: int, total_size: int
) -> None:
    """Change the numbers of files and bytes in the statistics of a table or partition, if it has statistics."""
    s = statistics.c
    own = s.partition_id.is_(None) if partition_id is None else s.partition_id == partition_id
    sizes = {"num_files": num_files, "total_size": total_size}
    later(connection, update(statistics).where(s.table_id == table.id, own).values(sizes))
