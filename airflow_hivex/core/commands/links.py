"""CREATE, DROP and ALTER LINK, and SHOW LINKS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlalchemy import Connection

from airflow_hivex.core.catalog.partition_rows import name_of
from airflow_hivex.core.catalog.specifications import covered, typed_specification
from airflow_hivex.core.errors import (
    AlreadyExistsError,
    InvalidObjectError,
    LinkIsNotATableError,
    NoSuchColumnError,
    NoSuchDatabaseError,
    NoSuchLinkError,
    NoSuchPartitionError,
    NoSuchTableError,
    TableIsNotALinkError,
    ViewIsNotALinkError,
)
from airflow_hivex.core.execution.context import Result, StatementContext
from airflow_hivex.core.execution.locking import acquire
from airflow_hivex.core.execution.statement_transactions import own_transaction
from airflow_hivex.core.model.links import Link
from airflow_hivex.core.model.objects import StoredTable, Table
from airflow_hivex.core.parser.statements import (
    AddLinkPartitions,
    CreateLink,
    DropLink,
    DropLinkPartitions,
    Literal,
    SetLinkProperties,
    ShowLinks,
    TableName,
)

SHOW_LINKS_COLUMNS = ("link", "type", "source", "owner", "created", "properties")


def create_link(context: StatementContext, statement: CreateLink) -> Result:
    """Run CREATE LINK: the new link shows none of the partitions that its source table has now.

    Raises:
        OwnTableLinkError, NotLinkableError, NoSuchLinkSourceError: the table cannot be linked.
        AlreadyExistsError: the namespace has the link, or another link to the same table.
    """
    services = context.services
    name = context.session.qualify_link(statement.link)
    source = services.links.check(name)
    try:
        with own_transaction(context) as running:
            acquire(context, running, services.statement_locks.create_link(name.database, source))

            def change(connection: Connection) -> None:
                services.links.joining(connection).create(
                    name.database,
                    name.in_database,
                    static=statement.static,
                    properties=statement.properties,
                    owner=context.session.user,
                )

            services.transactions.commit(running.txn_id, change)
            return Result(txn_id=running.txn_id)
    except AlreadyExistsError as error:
        # The user does not know the name of another link to the same table.
        if not statement.if_not_exists or error.name != str(name):
            raise
        return Result()


def drop_link(context: StatementContext, statement: DropLink) -> Result:
    """Run DROP LINK: remove a link. The rows of its source table stay.

    Raises:
        TableIsNotALinkError, ViewIsNotALinkError: the name is that of a table or view.
        NoSuchLinkError: the namespace has no such link.
    """
    if statement.link.namespace is None:
        refuse_table(context, "DROP LINK", statement.link, if_exists=statement.if_exists)
        return Result()
    name = context.session.qualify_link(statement.link)
    try:
        context.services.links.drop(name.database, name.in_database)
    except (NoSuchLinkError, NoSuchDatabaseError):
        if not statement.if_exists:
            raise
    return Result()


def add_link_partitions(context: StatementContext, statement: AddLinkPartitions) -> Result:
    """Run ALTER LINK ADD PARTITION: return one row for each partition that the link did not show before."""
    link, source = _link(context, "ALTER LINK", statement.link)
    names = [_full_name(link, as_link(source, link), each) for each in statement.partitions]
    wanted: set[str] = set()
    for specification in statement.specifications:
        exact = typed_specification("ALTER LINK ADD PARTITION", as_link(source, link), specification)
        may = context.services.catalog.list_partition_names(source.database, source.name, exact)
        found = covered(may, exact, source.partition_keys)
        if not found and not statement.if_not_exists:
            raise NoSuchPartitionError(link.name.database, link.name.in_database, "that the specification covers")
        wanted |= set(found)
    # A condition adds the partitions that the link does not show yet; a named partition can be added only once.
    shown = set(context.services.links.partitions(link.name.database, link.name.in_database)) if wanted else set()
    names += sorted(wanted - shown)
    added = context.services.links.add_partitions(
        link.name.database, link.name.in_database, names, if_not_exists=statement.if_not_exists
    )
    return Result(["partition"], [(each,) for each in added])


def drop_link_partitions(context: StatementContext, statement: DropLinkPartitions) -> Result:
    """Run ALTER LINK DROP PARTITION: return one row for each partition that the link does not show any more."""
    link, source = _link(context, "ALTER LINK", statement.link)
    links = context.services.links
    names: set[str] = set()
    for specification in statement.specifications:
        exact = typed_specification("ALTER LINK DROP PARTITION", as_link(source, link), specification)
        found = links.partitions(link.name.database, link.name.in_database, exact)
        if not found and not statement.if_exists:
            raise NoSuchPartitionError(link.name.database, link.name.in_database, "that the specification covers")
        names |= set(found)
    removed = links.drop_partitions(link.name.database, link.name.in_database, sorted(names), if_exists=True)
    return Result(["partition"], [(each,) for each in removed])


def set_link_properties(context: StatementContext, statement: SetLinkProperties) -> Result:
    """Run ALTER LINK SET and UNSET LINKPROPERTIES: change the properties of a link."""
    link, _ = _link(context, "ALTER LINK", statement.link)
    has = {key.upper() for key in link.properties}
    missing = [key for key in statement.unset if key.upper() not in has]
    if missing and not statement.if_exists:
        raise InvalidObjectError("link", str(link.name), f"it has no property {missing[0]} to unset")
    context.services.links.set_properties(
        link.name.database, link.name.in_database, statement.set, unset=statement.unset
    )
    return Result()


def show_links(context: StatementContext, statement: ShowLinks) -> Result:
    """Run SHOW LINKS: return one row for each link, sorted by name. With TO, the first column is the link's namespace.

    Raises:
        NoSuchTableError: the table of TO does not exist.
    """
    services = context.services
    if statement.table is None:
        found = services.links.show(statement.database or context.session.database, statement.pattern)
        return Result(list(SHOW_LINKS_COLUMNS), [_described(link) for link in found])
    table = services.catalog.get_table(*context.session.qualify(statement.table))
    found = services.links.of_table(table)
    return Result(["namespace", *SHOW_LINKS_COLUMNS], [(link.name.database, *_described(link)) for link in found])


def _described(link: Link) -> tuple[object, ...]:
    return (
        link.name.in_database,
        link.type.value,
        ".".join(link.source),
        link.owner,
        None if link.created_at is None else link.created_at.isoformat(),
        ", ".join(f"{key}={value}" for key, value in sorted(link.properties.items())),
    )


def refuse_link(context: StatementContext, operation: str, name: TableName, *, if_exists: bool) -> None:
    """Refuse a link as the object of DROP TABLE or DROP VIEW. If ``if_exists`` is true, do nothing.

    Raises:
        LinkIsNotATableError: the link exists.
        NoSuchLinkError: the link does not exist.
    """
    link = context.session.qualify_link(name)
    if if_exists:
        return
    context.services.links.find([link])
    raise LinkIsNotATableError(operation, link.in_database)


def linked(context: StatementContext, name: TableName) -> tuple[Link, StoredTable]:
    """Return a link and the table that it shows.

    Raises:
        NoSuchLinkError: the namespace has no such link.
    """
    qualified = context.session.qualify_link(name)
    link = context.services.links.get(qualified.database, qualified.in_database)
    return link, context.services.links.source(link)


def as_link(source: Table, link: Link) -> Table:
    """Return the source table of a link, renamed to the link's name for messages and descriptions."""
    return replace(source, database=link.name.database, name=link.name.in_database)


def _link(context: StatementContext, operation: str, name: TableName) -> tuple[Link, StoredTable]:
    if name.namespace is None:
        refuse_table(context, operation, name, if_exists=False)
    return linked(context, name)


def refuse_table(context: StatementContext, operation: str, name: TableName, *, if_exists: bool) -> None:
    """Refuse the name of a table or view in a statement on links. If ``if_exists`` is true, do nothing, as in Hive.

    Raises:
        TableIsNotALinkError, ViewIsNotALinkError: the table or view exists.
        NoSuchLinkError, NoSuchDatabaseError: neither a table nor a view has the name.
    """
    if if_exists:
        return
    database, table_name = context.session.qualify(name)
    try:
        table = context.services.catalog.get_table(database, table_name)
    except NoSuchTableError as error:
        raise NoSuchLinkError(database, table_name) from error
    refused = ViewIsNotALinkError if table.is_view else TableIsNotALinkError
    raise refused(operation, table.full_name)


def _full_name(link: Link, source: Table, given: Mapping[str, Literal]) -> str:
    """Return the name of the partition that has the ``given`` values of the partition keys.

    Raises:
        NoSuchColumnError: a key is not a partition key of the source.
        InvalidObjectError: a key has no value, or a value of another type.
    """
    keys = [key.name.lower() for key in source.partition_keys]
    if not keys:
        reason = f"table {source.full_name} has no partition keys, so that the link shows all of it"
        raise InvalidObjectError("link", str(link.name), reason)
    for key in given:
        if key not in keys:
            raise NoSuchColumnError(source.full_name, f"{key} among its partition keys", keys)
    missing = [key for key in keys if key not in given]
    if missing:
        raise InvalidObjectError("partition", f"of {link.name}", f"no value for key {missing[0]}")
    return name_of(source, [given[key].value for key in keys])  # type: ignore[misc]
