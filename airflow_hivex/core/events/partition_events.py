"""Marks of partitions: a client says that a partition is loaded, and others ask for that. Nothing else reads them.

A mark is on the names of its table and partition, as in Hive, and only the housekeeping removes it. It stays when the
table or the partition is dropped or renamed, and holds for the object that gets the name.
"""

from __future__ import annotations

import enum

from sqlalchemy import and_, delete, select
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from airflow_hivex.core.clock import Clock
from airflow_hivex.core.errors import InvalidObjectError
from airflow_hivex.core.model.partitions import check_partition_name
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.schema import partition_events

_E = partition_events.c


class PartitionEventType(enum.IntEnum):
    """The meaning of a mark of a partition, by Hive's number."""

    LOAD_DONE = 1


class PartitionEvents:
    """The marks of partitions."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def mark(self, database: str, table: str, partition: str, event: PartitionEventType) -> None:
        """Mark a partition, which need not exist. Safe to repeat.

        Raises:
            InvalidObjectError: the name of the partition is too long, or has a character that cannot be stored.
        """
        row = {
            "database": database,
            "table": table,
            "partition": check_partition_name(partition),
            "type": event.value,
            "event_ms": self._clock(),
        }
        new = (postgresql_insert if self._store.is_postgresql else sqlite_insert)(partition_events)
        marked = new.values(row).on_conflict_do_update(
            index_elements=["database", "table", "partition", "type"], set_={"event_ms": new.excluded.event_ms}
        )
        self._store.write(lambda connection: connection.execute(marked))

    def is_marked(self, database: str, table: str, partition: str, event: PartitionEventType) -> bool:
        """Return whether a partition is marked."""
        try:
            name = check_partition_name(partition)
        except InvalidObjectError:
            # It cannot be marked.
            return False
        is_it = and_(_E.database == database, _E.table == table, _E.partition == name, _E.type == event.value)
        with self._store.read() as connection:
            return connection.execute(select(_E.event_ms).where(is_it)).first() is not None

    def purge(self, marked_before_ms: int) -> int:
        """Remove the marks that are older; return their number. Safe to repeat."""
        removal = delete(partition_events).where(_E.event_ms < marked_before_ms)
        return self._store.write(lambda connection: connection.execute(removal).rowcount, name="purge")
