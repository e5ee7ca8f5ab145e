"""The rows of links. Functions here take part in the caller's database transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    delete,
    func,
    insert,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.exc import IntegrityError

from airflow_hivex.core.clock import to_datetime, to_ms
from airflow_hivex.core.errors import AlreadyExistsError
from airflow_hivex.core.events import notification_log
from airflow_hivex.core.events.notification_log import EventType
from airflow_hivex.core.model.identifiers import MAX_NAME_LENGTH, check_owner
from airflow_hivex.core.model.links import Link, LinkName, LinkType
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.exchange import later
from airflow_hivex.core.store.schema import databases, link_partitions, links, partitions, tables
from airflow_hivex.core.store.upserts import insert_into

_OWN = databases.alias("own_databases")
_OF_SOURCES = databases.alias("source_databases")
_L, _EXCEPTIONS = links.c, link_partitions.c
_MOST_NAMES = 500


def _select(*more: ColumnElement[Any]) -> Select[Any]:
    return (
        select(
            _L.id,
            _OWN.c.name.label("database"),
            _L.table_name,
            _L.namespace,
            _L.type,
            _OF_SOURCES.c.name.label("source_database"),
            tables.c.name.label("source_name"),
            _L.table_id,
            _L.after_partition_id,
            *more,
        )
        .join(_OWN, _OWN.c.id == _L.database_id)
        .join(tables, tables.c.id == _L.table_id)
        .join(_OF_SOURCES, _OF_SOURCES.c.id == tables.c.database_id)
    )


_FOR_READERS = (
    _select(_EXCEPTIONS.partition_id, _EXCEPTIONS.is_shown, partitions.c.name.label("partition"))
    .join(link_partitions, _EXCEPTIONS.link_id == _L.id, isouter=True)
    .join(partitions, partitions.c.id == _EXCEPTIONS.partition_id, isouter=True)
)
_DESCRIBED = _select(_L.parameters, _L.owner, _L.created_ms).order_by(_OWN.c.name, _L.table_name, _L.namespace)


def find_links(connection: Connection, names: Collection[LinkName]) -> dict[LinkName, Link]:
    """Return a dict from name to link for the links that exist among ``names``. One round trip.

    The links have the partitions that ALTER LINK has shown or hidden. Properties, owner and creation time are not read.
    """
    found: dict[LinkName, Link] = {}
    rows: dict[LinkName, list[Row[Any]]] = {}
    for batch in batches(sorted(names), _MOST_NAMES):
        of_names = tuple_(_OWN.c.name, _L.table_name, _L.namespace).in_([tuple(name) for name in batch])
        for row in connection.execute(_FOR_READERS.where(of_names)):
            rows.setdefault(LinkName(row.database, row.table_name, row.namespace), []).append(row)
    for name, of_link in rows.items():
        changed = [row for row in of_link if row.partition_id is not None]
        found[name] = _link(
            of_link[0],
            name,
            shown={row.partition_id: row.partition for row in changed if row.is_shown},
            hidden=frozenset(row.partition_id for row in changed if not row.is_shown),
        )
    return found


def describe_links(connection: Connection, *conditions: ColumnElement[bool]) -> list[Link]:
    """Return the links that satisfy the conditions, sorted by name. One round trip.

    The links have properties, owner and creation time. Their partitions are not read.
    """
    return described_from(connection.execute(described(*conditions)))


def described(*conditions: ColumnElement[bool]) -> Select[Any]:
    """Return the query for the links that satisfy the conditions. :func:`described_from` reads its rows."""
    return _DESCRIBED.where(*conditions)


def described_from(rows: Iterable[Any]) -> list[Link]:
    """Return the links in rows of :func:`described`, with properties, owner and creation time."""
    return [
        _link(
            row,
            LinkName(row.database, row.table_name, row.namespace),
            properties=row.parameters,
            owner=row.owner,
            created_at=to_datetime(row.created_ms),
        )
        for row in rows
    ]


def combined(found: Link, described: Link) -> Link:
    """Return a link of :func:`find_links` with the properties, owner and time from :func:`describe_links`."""
    return replace(found, properties=described.properties, owner=described.owner, created_at=described.created_at)


def _link(row: Any, name: LinkName, **others: Any) -> Link:
    return Link(
        row.id,
        name,
        LinkType(row.type),
        (row.source_database, row.source_name),
        row.table_id,
        row.after_partition_id,
        **others,
    )


def links_in(database: str) -> ColumnElement[bool]:
    """Return the SQL condition for the links in a namespace."""
    return _OWN.c.name == database


def links_to(table_ids: Collection[int]) -> ColumnElement[bool]:
    """Return the SQL condition for the links whose source is one of the tables."""
    return _L.table_id.in_(table_ids)


def links_from(database: str) -> ColumnElement[bool]:
    """Return the SQL condition for the links whose source is a table of ``database``."""
    return _OF_SOURCES.c.name == database


def link_is(name: LinkName) -> ColumnElement[bool]:
    """Return the SQL condition for the link with a name."""
    return and_(_OWN.c.name == name.database, _L.table_name == name.table, _L.namespace == name.namespace)


def insert_link(
    connection: Connection,
    name: LinkName,
    database_id: int,
    source: StoredTable,
    *,
    type: LinkType,
    properties: Mapping[str, str],
    owner: str | None,
    now_ms: int,
) -> None:
    """Add a link that shows none of the partitions that its source has now.

    The caller has locked the row of the source table for a change, so that no commit adds a partition meanwhile.

    Raises:
        AlreadyExistsError: the namespace has a link of that name, or another link to the same table.
    """
    last = connection.execute(select(func.max(partitions.c.id)).where(partitions.c.table_id == source.id)).scalar_one()
    values = {
        "database_id": database_id,
        "table_name": name.table,
        "namespace": name.namespace,
        "table_id": source.id,
        "type": type.value,
        "after_partition_id": last or 0,
        "parameters": dict(properties),
        "owner": check_owner(owner),
        "created_ms": now_ms,
    }
    try:
        with connection.begin_nested():
            connection.execute(insert(links).values(**values))
    except IntegrityError as error:
        others = describe_links(connection, links_in(name.database), links_to([source.id]))
        if others and others[0].name != name:
            reason = f"a namespace imports a table once, and {others[0].name.in_database} is that import"
            raise AlreadyExistsError("link", f"to {source.full_name}", reason) from error
        raise AlreadyExistsError("link", str(name)) from error


def delete_links(connection: Connection, ids: Collection[int]) -> None:
    """Remove links and the rows of their partitions. The files of the source tables stay."""
    for batch in batches(sorted(ids)):
        # From here on no other writer adds partitions to the links.
        connection.execute(select(_L.id).where(_L.id.in_(batch)).order_by(_L.id).with_for_update()).all()
        later(connection, delete(link_partitions).where(_EXCEPTIONS.link_id.in_(batch)))
        later(connection, delete(links).where(_L.id.in_(batch)))


def update_properties(connection: Connection, link: Link, properties: Mapping[str, str]) -> None:
    """Store the properties of a link."""
    later(connection, update(links).where(_L.id == link.id).values(parameters=dict(properties)))


def lock_link(connection: Connection, link_id: int) -> bool:
    """Lock a link until the caller's database transaction ends, and return whether the link exists."""
    return connection.execute(select(_L.id).where(_L.id == link_id).with_for_update()).scalar_one_or_none() is not None


def show_partitions(connection: Connection, link_id: int, ids: Iterable[int], *, shown: bool, now_ms: int) -> None:
    """Store that a link shows partitions of its source, or hides them if ``shown`` is false. One query per batch."""
    statement = insert_into(connection, link_partitions)
    statement = statement.on_conflict_do_update(
        index_elements=[_EXCEPTIONS.link_id, _EXCEPTIONS.partition_id],
        set_={"is_shown": statement.excluded.is_shown, "changed_ms": statement.excluded.changed_ms},
    )
    rows = [{"link_id": link_id, "partition_id": each, "is_shown": shown, "changed_ms": now_ms} for each in sorted(ids)]
    for batch in batches(rows):
        later(connection, statement, batch)


def forget_shown(connection: Connection, link_id: int, ids: Sequence[int]) -> None:
    """Remove the rows that say that a link shows or hides the given partitions."""
    for batch in batches(ids):
        rows = (_EXCEPTIONS.link_id == link_id, _EXCEPTIONS.partition_id.in_(batch))
        later(connection, delete(link_partitions).where(*rows))


def forget_dropped(connection: Connection, partition_ids: Sequence[int]) -> dict[LinkName, list[str]]:
    """Remove dropped partitions from all links. Two round trips per batch.

    Return the partitions that static links have lost, as a dict from the link's name to the partitions' names.
    """
    lost: dict[LinkName, list[str]] = {}
    for batch in batches(partition_ids):
        of_partitions = _EXCEPTIONS.partition_id.in_(batch)
        query = (
            select(_OWN.c.name, _L.table_name, _L.namespace, partitions.c.name.label("partition"))
            .join(_OWN, _OWN.c.id == _L.database_id)
            .join(link_partitions, _EXCEPTIONS.link_id == _L.id)
            .join(partitions, partitions.c.id == _EXCEPTIONS.partition_id)
            .where(of_partitions, _L.type == LinkType.STATIC.value)
            .order_by(_L.id, partitions.c.name)
        )
        for database, table, namespace, partition in connection.execute(query):
            lost.setdefault(LinkName(database, table, namespace), []).append(partition)
        later(connection, delete(link_partitions).where(of_partitions))
    return lost


def expired_partitions(connection: Connection, link: Link, before_ms: int) -> tuple[list[int], list[int]]:
    """Return two lists of ids of partitions that a link began to show before ``before_ms``. One round trip.

    The first list has partitions that ALTER LINK has added. The second list has partitions that a dynamic link shows
    because they are newer than the link.
    """
    p = partitions.c
    of_link = and_(_EXCEPTIONS.link_id == link.id, _EXCEPTIONS.partition_id == p.id)
    by_themselves = and_(_EXCEPTIONS.link_id.is_(None), p.id > link.after_partition_id, p.created_ms < before_ms)
    by_hand = and_(_EXCEPTIONS.is_shown, _EXCEPTIONS.changed_ms < before_ms)
    query = (
        select(p.id, _EXCEPTIONS.link_id)
        .join(link_partitions, of_link, isouter=True)
        .where(p.table_id == link.source_id, ~p.dropped, by_hand if link.is_static else or_(by_hand, by_themselves))
        .order_by(p.id)
    )
    rows = connection.execute(query).all()
    return [row.id for row in rows if row.link_id is not None], [row.id for row in rows if row.link_id is None]


def raise_beginning(connection: Connection, link: Link) -> None:
    """Raise the ``after_partition_id`` of a dynamic link, without a change of the partitions that the link shows.

    A dynamic link shows the partitions with higher ids, except those that ALTER LINK has hidden. Rows for hidden
    partitions with ids up to ``after_partition_id`` are removed. The caller has locked the row of the source table for
    a change. Four round trips.
    """
    p = partitions.c
    has_row = select(_EXCEPTIONS.link_id).where(_EXCEPTIONS.link_id == link.id, _EXCEPTIONS.partition_id == p.id)
    of_source = p.table_id == link.source_id
    by_itself = (of_source, ~p.dropped, p.id > link.after_partition_id, ~has_row.exists())
    first = connection.execute(select(func.min(p.id)).where(*by_itself)).scalar_one()
    last = connection.execute(select(func.max(p.id)).where(of_source)).scalar_one()
    beginning = max(link.after_partition_id, last or 0 if first is None else first - 1)
    if beginning > link.after_partition_id:
        later(connection, update(links).where(_L.id == link.id).values(after_partition_id=beginning))
        before = (_EXCEPTIONS.link_id == link.id, ~_EXCEPTIONS.is_shown, _EXCEPTIONS.partition_id <= beginning)
        later(connection, delete(link_partitions).where(*before))


def record_link_event(
    connection: Connection,
    now_ms: int,
    type: EventType,
    link: Link,
    *,
    added: Sequence[str] = (),
    removed: Sequence[str] = (),
) -> None:
    """Record an event of a link in the caller's database transaction. One round trip."""
    message: dict[str, Any] = {
        "object": {
            "database": link.name.database,
            "link": link.name.in_database,
            "type": link.type.value,
            "source": ".".join(link.source),
            "source_id": link.source_id,
            "parameters": dict(link.properties),
            "owner": link.owner,
            "created_ms": None if link.created_at is None else to_ms(link.created_at),
        },
        "added_partitions": list(added),
        "removed_partitions": list(removed),
    }
    table = link.name.in_database[:MAX_NAME_LENGTH]
    notification_log.record(connection, now_ms, type, database=link.name.database, table=table, message=message)
