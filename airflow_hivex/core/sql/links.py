"""CREATE, DROP and ALTER LINK | TABLELINK. Source: Hive HIVE-2989."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, TypeVar

from airflow_hivex.core.model.statements import (
    AddLinkPartitions,
    CreateLink,
    DropLink,
    DropLinkPartitions,
    SetLinkProperties,
    TableName,
)
from airflow_hivex.core.sql.clauses import (
    read_partition_predicate,
    read_properties,
    read_property_keys,
    read_static_partition,
)
from airflow_hivex.core.sql.tokens import Cursor

T = TypeVar("T")

LINK_WORDS = ("LINK", "TABLELINK")

AlterLink: TypeAlias = AddLinkPartitions | DropLinkPartitions | SetLinkProperties


def read_create_link(cursor: Cursor, *, static: bool) -> CreateLink:
    """Return the statement whose words up to LINK are read."""
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    cursor.expect("TO")
    link = read_link_name(cursor)
    properties = read_properties(cursor) if cursor.accept("LINKPROPERTIES") else {}
    return CreateLink(link, static, if_not_exists, properties)


def read_drop_link(cursor: Cursor) -> DropLink:
    """Return the statement whose words up to LINK are read."""
    if_exists = cursor.accept("IF", "EXISTS")
    _accept_to(cursor)
    return DropLink(cursor.table_name(), if_exists)


def read_alter_link(cursor: Cursor) -> AlterLink:
    """Return the statement whose words up to LINK are read."""
    _accept_to(cursor)
    link = cursor.table_name()
    if cursor.accept("ADD"):
        if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
        return AddLinkPartitions(link, _partitions(cursor, read_static_partition), if_not_exists)
    if cursor.accept("DROP"):
        if_exists = cursor.accept("IF", "EXISTS")
        return DropLinkPartitions(link, _partitions(cursor, read_partition_predicate), if_exists)
    if cursor.accept("SET"):
        cursor.expect("LINKPROPERTIES")
        return SetLinkProperties(link, set=read_properties(cursor))
    if cursor.accept("UNSET"):
        cursor.expect("LINKPROPERTIES")
        if_exists = cursor.accept("IF", "EXISTS")
        return SetLinkProperties(link, unset=read_property_keys(cursor), if_exists=if_exists)
    raise cursor.expected("ADD PARTITION, DROP PARTITION, SET LINKPROPERTIES or UNSET LINKPROPERTIES")


def read_link_name(cursor: Cursor) -> TableName:
    """Return a name ``table@namespace``.

    Raises:
        StatementSyntaxError: another name stands there.
    """
    first = cursor.peek()
    name = cursor.table_name()
    if name.namespace is None:
        raise cursor.error(f"{name} is not a valid name of a link; write table@namespace", first)
    return name


def _accept_to(cursor: Cursor) -> None:
    if not cursor.at_symbol("@", ".", ahead=1):
        cursor.accept("TO")


def _partitions(cursor: Cursor, read: Callable[[Cursor], T]) -> tuple[T, ...]:
    cursor.expect("PARTITION")
    found = [read(cursor)]
    while cursor.accept_symbol(",") or cursor.at("PARTITION"):
        cursor.expect("PARTITION")
        found.append(read(cursor))
    return tuple(found)
