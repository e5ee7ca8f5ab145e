"""The ids of tables by name, and the write ids that dropped and renamed tables have used under a name.

The functions run in the caller's database transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    Executable,
    Select,
    String,
    Text,
    bindparam,
    case,
    delete,
    insert,
    literal,
    select,
)

from airflow_hivex.core.errors import NoSuchDatabaseError, NoSuchTableError
from airflow_hivex.core.model.identifiers import DEFAULT_DATABASE, normalise
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.snapshots import QualifiedName
from airflow_hivex.core.model.write_ids import TableMark
from airflow_hivex.core.store.exchange import Call, Prepared, later
from airflow_hivex.core.store.schema import databases, former_write_ids, next_write_ids, tables
from airflow_hivex.core.store.upserts import insert_into

_TABLE_IDS = (
    select(databases.c.name, tables.c.name, tables.c.id, tables.c.version)
    .join(databases, databases.c.id == tables.c.database_id)
    .where(
        databases.c.name.in_(bindparam("databases", expanding=True)),
        tables.c.name.in_(bindparam("tables", expanding=True)),
        ~tables.c.dropped,
    )
)


def read_table_id(connection: Connection, database: str, table: str) -> int:
    """Return the id of a table. One round trip.

    Raises:
        NoSuchDatabaseError, NoSuchTableError: the database or the table does not exist.
    """
    return read_table_ids(connection, [(database, table)])[normalise(database), normalise(table)]


def read_table_ids(connection: Connection, names: Iterable[QualifiedName]) -> dict[QualifiedName, int]:
    """Return a dict from (database, table), in normalised spelling, to table id. One round trip.

    Raises:
        NoSuchDatabaseError, NoSuchTableError: a database or a table does not exist.
    """
    return {name: mark.id for name, mark in read_table_marks(connection, names).items()}


def read_table_marks(connection: Connection, names: Iterable[QualifiedName]) -> dict[QualifiedName, TableMark]:
    """Return a dict from (database, table), in normalised spelling, to id and version of the table. One round trip.

    Raises:
        NoSuchDatabaseError, NoSuchTableError: a database or a table does not exist.
    """
    wanted = dict.fromkeys((normalise(database), normalise(table)) for database, table in names)
    rows = connection.execute(
        _TABLE_IDS,
        {"databases": sorted({database for database, _ in wanted}), "tables": sorted({name for _, name in wanted})},
    )
    found = {(database, table): TableMark(int(id_), version) for database, table, id_, version in rows}
    for database, table in wanted.keys() - found.keys():
        existing = select(databases.c.id).where(databases.c.name == database)
        if connection.execute(existing).one_or_none() is None:
            raise NoSuchDatabaseError(database)
        raise NoSuchTableError(database, table)
    return {name: found[name] for name in wanted}


def split_name(name: str) -> QualifiedName:
    """Split ``database.table`` into database and table. A name without a database belongs to ``default``."""
    database, _, table = name.rpartition(".")
    return database or DEFAULT_DATABASE, table


_KEPT_MS = 10 * 86_400_000
"""The time in milliseconds for which the next write id of a dropped or renamed table is kept under the old name.

By default, caches keep their entries for a shorter time.
"""

_NEXT_OF = select(former_write_ids.c.next).where(
    former_write_ids.c.database == bindparam("of_database", type_=String),
    former_write_ids.c.table == bindparam("of_table", type_=String),
)


_LEFT = _NEXT_OF.scalar_subquery()
_FIRST = bindparam("first", type_=BigInteger)
_BEGIN = Prepared(
    insert(next_write_ids)
    .values(table_id=bindparam("of_id", type_=BigInteger), next=case((_LEFT > _FIRST, _LEFT), else_=_FIRST))
    .returning(next_write_ids.c.next)
)


def leave_names(connection: Connection, left: Sequence[StoredTable], now_ms: int) -> None:
    """Record the next write ids of tables that are dropped or renamed, for the next tables with the same names.

    The write id of the drop or rename itself counts as used. A write id list as text has the name of its table, but not
    the id. So the lists of two tables with the same name must differ. Otherwise a cache could confuse the two tables.
    """
    former, following = former_write_ids.c, next_write_ids.c
    later(connection, delete(former_write_ids).where(former.left_ms < now_ms - _KEPT_MS))
    new = insert_into(connection, former_write_ids)
    highest = case((former.next > new.excluded.next, former.next), else_=new.excluded.next)

    def noted(found: Select[Any]) -> Executable:
        return new.from_select(["database", "table", "next", "left_ms"], found).on_conflict_do_update(
            index_elements=["database", "table"], set_={"next": highest, "left_ms": new.excluded.left_ms}
        )

    # An external table may have write ids from the time before it became external.
    for table in sorted(left, key=lambda table: table.id):
        of_table = select(
            literal(table.database, String), literal(table.name, Text), following.next, literal(now_ms, BigInteger)
        ).where(following.table_id == table.id)
        later(connection, noted(of_table))


def beginning_after(name: QualifiedName, table_id: int, first: int) -> Call:
    """Return the call that stores the first write id of a new table. The answer has this write id as ``next``.

    The first write id is ``first``, or a higher id that no former table of the name has used.
    """
    return _BEGIN(of_database=name[0], of_table=name[1], of_id=table_id, first=first)


def next_of(connection: Connection, name: QualifiedName) -> int:
    """Return the lowest write id above all ids that former tables of a name have used, or 1. One round trip."""
    return connection.execute(_NEXT_OF, {"of_database": name[0], "of_table": name[1]}).scalar_one_or_none() or 1
