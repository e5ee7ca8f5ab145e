"""Links, which show tables of other namespaces: creation, changes, reads and drops."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection

from airflow_hivex.core.catalog import link_rows, partition_rows, table_rows
from airflow_hivex.core.catalog.database_rows import finding, matching, select_database
from airflow_hivex.core.catalog.link_rows import record_link_event
from airflow_hivex.core.catalog.pruning import find_partitions
from airflow_hivex.core.catalog.specifications import covered
from airflow_hivex.core.clock import Clock
from airflow_hivex.core.errors import (
    AlreadyExistsError,
    HivexError,
    InvalidOperationError,
    NoSuchDatabaseError,
    NoSuchLinkError,
    NoSuchLinkSourceError,
    NoSuchPartitionError,
    NoSuchTableError,
    NotLinkableError,
    OwnTableLinkError,
)
from airflow_hivex.core.events.notification_log import EventType
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.links import Link, LinkName, LinkType, normalised_properties
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.predicates import Predicate
from airflow_hivex.core.model.table_properties import check_spelling
from airflow_hivex.core.store.engine import JoinsTransactions, Store
from airflow_hivex.core.store.exchange import together

log = logging.getLogger(__name__)

T = TypeVar("T")

_MS_PER_DAY = 86_400_000


class Links(JoinsTransactions):
    """The links of all namespaces.

    The arguments for a link are its namespace and its name ``table@namespace``, as in ``links.get("a", "t@b")``. Each
    change is one database transaction. Changes through :meth:`joining` are part of the caller's transaction.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        super().__init__(store)
        self._clock = clock

    # -- reading ---------------------------------------------------------------

    def get(self, namespace: str, link: str) -> Link:
        """Return a link with its properties and partitions. Two round trips.

        Raises:
            NoSuchLinkError: the namespace has no such link.
        """
        name = LinkName.of(namespace, link)
        with self._read() as connection:
            return _described(connection, name)

    def find(self, names: Collection[LinkName]) -> dict[LinkName, Link]:
        """Return a dict from name to link. The links lack properties, owner and creation time. One round trip.

        Raises:
            NoSuchLinkError: a link does not exist.
        """
        with self._read() as connection:
            found = link_rows.find_links(connection, names)
        for name in names:
            if name not in found:
                raise NoSuchLinkError(name.database, name.in_database)
        return found

    def show(self, namespace: str, pattern: str | None = None) -> list[Link]:
        """Return the links of a namespace that match a SHOW pattern, sorted by name, without their partitions.

        Raises:
            NoSuchDatabaseError: the namespace does not exist.
        """
        of_namespace = link_rows.described(link_rows.links_in(normalise(namespace)))
        with self._read() as connection:
            rows, databases = together(connection, of_namespace, finding(namespace))
        if not databases:
            raise NoSuchDatabaseError(normalise(namespace))
        found = link_rows.described_from(rows)
        names = set(matching([each.name.in_database for each in found], pattern))
        return [each for each in found if each.name.in_database in names]

    def show_all(self) -> list[Link]:
        """Return the links of all namespaces, sorted by name, without their partitions."""
        with self._read() as connection:
            return link_rows.describe_links(connection)

    def sources(self, database: str) -> frozenset[str]:
        """Return the names of the tables of a database that links of other namespaces show. One round trip."""
        with self._read() as connection:
            return frozenset(
                each.source[1] for each in link_rows.describe_links(connection, link_rows.links_from(database))
            )

    def of_table(self, table: StoredTable) -> list[Link]:
        """Return the links that show a table, sorted by name, without their partitions."""
        with self._read() as connection:
            return link_rows.describe_links(connection, link_rows.links_to([table.id]))

    def source(self, link: Link) -> StoredTable:
        """Return the table that a link shows.

        Raises:
            NoSuchLinkError: the link was dropped together with the table.
        """
        with self._read() as connection:
            return _source(connection, link)

    def partitions(self, namespace: str, link: str, specification: Predicate | None = None) -> list[str]:
        """Return the names of the partitions that a link shows, sorted.

        ``specification`` selects partitions. The values in it must have the types of the partition keys.

        Raises:
            NoSuchLinkError: the namespace has no such link.
            InvalidOperationError: the link's source has no partition keys.
        """
        name = LinkName.of(namespace, link)
        with self._read() as connection:
            found = _found(connection, name)
            source = _source(connection, found)
            _check_partitioned("SHOW PARTITIONS", name, source)
            names = [each.name for each in find_partitions(connection, source, specification) if found.shows(each.id)]
        return sorted(names if specification is None else covered(names, specification, source.partition_keys))

    def check(self, name: LinkName) -> StoredTable:
        """Return the table that a link of this name would show.

        Raises:
            OwnTableLinkError, NotLinkableError, NoSuchLinkSourceError: the table cannot be linked.
        """
        with self._read() as connection:
            return check_source(connection, name)

    # -- changes ---------------------------------------------------------------

    def create(
        self,
        namespace: str,
        link: str,
        *,
        static: bool = False,
        properties: Mapping[str, str] | None = None,
        owner: str | None = None,
    ) -> Link:
        """Create a link. It shows none of the current partitions of its source.

        Raises:
            OwnTableLinkError: the table is in the link's own namespace.
            NotLinkableError: the source is not a managed table.
            NoSuchLinkSourceError: the source does not exist.
            AlreadyExistsError: the namespace has a link of this name, or another link to the table.
        """
        name = LinkName.of(namespace, link)
        kept = normalised_properties(name, properties or {})
        check_spelling("link", str(name), kept)

        def work(connection: Connection) -> Link:
            database_id = select_database(connection, name.database).id
            # Commits that add partitions lock this row, too: the link comes either before or after each such commit.
            table_rows.hold_for_change(connection, [check_source(connection, name).id])
            source = check_source(connection, name)
            link_rows.insert_link(
                connection,
                name,
                database_id,
                source,
                type=LinkType.STATIC if static else LinkType.DYNAMIC,
                properties=kept,
                owner=owner,
                now_ms=self._clock(),
            )
            created = _described(connection, name)
            self._record(connection, EventType.CREATE_LINK, created)
            return created

        return self._write(work)

    def drop(self, namespace: str, link: str) -> None:
        """Remove a link. The files of its source are not changed.

        Raises:
            NoSuchLinkError: the namespace has no such link.
        """

        def work(connection: Connection, found: Link, _: StoredTable) -> None:
            link_rows.delete_links(connection, [found.id])
            self._record(connection, EventType.DROP_LINK, found)

        self._change(LinkName.of(namespace, link), work)

    def set_properties(
        self,
        namespace: str,
        link: str,
        properties: Mapping[str, str],
        unset: Collection[str] = (),
    ) -> None:
        """Add ``properties`` to a link, and remove the properties ``unset``.

        Raises:
            NoSuchLinkError: the namespace has no such link.
            InvalidObjectError: RETENTION is not a number of days.
        """
        name = LinkName.of(namespace, link)
        added = normalised_properties(name, properties)
        removed = normalised_properties(name, dict.fromkeys(unset, "1")).keys()

        def work(connection: Connection, found: Link, _: StoredTable) -> None:
            check_spelling("link", str(name), (*added, *removed), found.properties)
            kept = {key: value for key, value in found.properties.items() if key not in removed}
            link_rows.update_properties(connection, found, {**kept, **added})
            self._record(connection, EventType.ALTER_LINK, _described(connection, name))

        self._change(name, work)

    def add_partitions(
        self, namespace: str, link: str, names: Sequence[str], *, if_not_exists: bool = False
    ) -> list[str]:
        """Add partitions to a link, all or none; return the partitions that the link did not show before.

        Raises:
            NoSuchLinkError: the namespace has no such link.
            NoSuchPartitionError: the source of the link does not have a partition.
            AlreadyExistsError: the link shows a partition already, and ``if_not_exists`` is false; or a name is given
                twice.
            InvalidOperationError: the source has no partition keys.
        """
        name = LinkName.of(namespace, link)

        def work(connection: Connection, found: Link, source: StoredTable) -> list[str]:
            ids = _ids_of(connection, "ALTER LINK ADD PARTITION", name, source, names)
            added: dict[str, int] = {}
            for each in names:
                spelled = partition_rows.spelled_name(source, each)
                if spelled not in ids:
                    raise NoSuchPartitionError(name.database, name.in_database, spelled)
                if (spelled in added or found.shows(ids[spelled])) and not if_not_exists:
                    raise AlreadyExistsError("partition", f"{name} {spelled}")
                if not found.shows(ids[spelled]):
                    added[spelled] = ids[spelled]
            link_rows.show_partitions(connection, found.id, added.values(), shown=True, now_ms=self._clock())
            if added:
                self._record(connection, EventType.ALTER_LINK, found, added=sorted(added))
            return sorted(added)

        return self._change(name, work)

    def drop_partitions(self, namespace: str, link: str, names: Sequence[str], *, if_exists: bool = False) -> list[str]:
        """Remove partitions from a link, but not from its source, all or none; return the removed partitions.

        Raises:
            NoSuchLinkError: the namespace has no such link.
            NoSuchPartitionError: the link does not show a partition and ``if_exists`` is false.
            InvalidOperationError: the source has no partition keys.
        """
        name = LinkName.of(namespace, link)

        def work(connection: Connection, found: Link, source: StoredTable) -> list[str]:
            ids = _ids_of(connection, "ALTER LINK DROP PARTITION", name, source, names)
            removed: dict[str, int] = {}
            for each in names:
                spelled = partition_rows.spelled_name(source, each)
                if spelled in ids and found.shows(ids[spelled]):
                    removed[spelled] = ids[spelled]
                elif not if_exists:
                    raise NoSuchPartitionError(name.database, name.in_database, spelled)
            self._hide(connection, found, list(removed.values()))
            if removed:
                self._record(connection, EventType.ALTER_LINK, found, removed=sorted(removed))
            return sorted(removed)

        return self._change(name, work)

    def expire(self) -> int:
        """Remove partitions that are older than RETENTION from all links; return the number of removed partitions.

        The housekeeper calls this method. Each link is changed in a database transaction of its own.
        """
        with self._read() as connection:
            found = [each for each in link_rows.describe_links(connection) if each.retention_days is not None]
        return sum(map(self._expire, found))

    def _expire(self, link: Link) -> int:
        def work(connection: Connection, current: Link, _: StoredTable) -> int:
            days = current.retention_days
            if days is None:
                return 0
            before = self._clock() - days * _MS_PER_DAY
            by_hand, by_themselves = link_rows.expired_partitions(connection, current, before)
            self._hide(connection, current, [*by_hand, *by_themselves])
            if by_hand or by_themselves:
                names = sorted(
                    row.name for row in partition_rows.select_partitions(connection, [*by_hand, *by_themselves])
                )
                self._record(connection, EventType.ALTER_LINK, current, removed=names)
            return len(by_hand) + len(by_themselves)

        try:
            return self._change(link.name, work)
        except NoSuchLinkError:
            return 0
        except HivexError as error:
            log.warning("The partitions of link %s that are older than RETENTION stay for now: %s", link.name, error)
            return 0

    def _hide(self, connection: Connection, link: Link, ids: Sequence[int]) -> None:
        if not ids:
            return
        link_rows.forget_shown(connection, link.id, ids)
        if not link.is_static:
            later = [each for each in ids if each > link.after_partition_id]
            link_rows.show_partitions(connection, link.id, later, shown=False, now_ms=self._clock())
            link_rows.raise_beginning(connection, link)

    def _change(self, name: LinkName, work: Callable[[Connection, Link, StoredTable], T]) -> T:
        """Lock the rows of a link and of its source; then return the result of ``work``.

        Raises:
            NoSuchLinkError: the namespace has no such link.
        """

        def whole(connection: Connection) -> T:
            source_id = _found(connection, name).source_id
            # The source is locked first: commits to it lock its row, and look at its links before.
            table_rows.hold_for_change(connection, [source_id])
            found = _described(connection, name)
            if not link_rows.lock_link(connection, found.id):
                raise NoSuchLinkError(name.database, name.in_database)
            return work(connection, found, _source(connection, found))

        return self._write(whole)

    def _record(self, connection: Connection, type: EventType, link: Link, **others: Any) -> None:
        record_link_event(connection, self._clock(), type, link, **others)


def check_source(connection: Connection, name: LinkName) -> StoredTable:
    """Return the source of a link that is to be created.

    Raises:
        OwnTableLinkError: the source is in the link's own namespace.
        NotLinkableError: the source is not a managed table.
        NoSuchLinkSourceError: the source does not exist.
    """
    if name.namespace == name.database:
        raise OwnTableLinkError(name.in_database, name.table, name.namespace)
    try:
        source = table_rows.select_table(connection, name.namespace, name.table)
    except (NoSuchTableError, NoSuchDatabaseError) as error:
        raise NoSuchLinkSourceError(name.in_database, name.table, name.namespace) from error
    if source.is_view:
        raise NotLinkableError(name.in_database, "a view")
    if source.is_external:
        raise NotLinkableError(name.in_database, "an external table")
    return source


def _found(connection: Connection, name: LinkName) -> Link:
    found = link_rows.find_links(connection, [name])
    if name not in found:
        raise NoSuchLinkError(name.database, name.in_database)
    return found[name]


def _described(connection: Connection, name: LinkName) -> Link:
    found = _found(connection, name)
    described = link_rows.describe_links(connection, link_rows.link_is(name))
    if not described:
        raise NoSuchLinkError(name.database, name.in_database)
    return link_rows.combined(found, described[0])


def _source(connection: Connection, link: Link) -> StoredTable:
    found = table_rows.select_tables_by_id(connection, [link.source_id])
    if not found:
        raise NoSuchLinkError(link.name.database, link.name.in_database)
    return found[0]


def _ids_of(
    connection: Connection, operation: str, name: LinkName, source: StoredTable, names: Sequence[str]
) -> dict[str, int]:
    _check_partitioned(operation, name, source)
    return partition_rows.partition_ids(
        connection, source, [partition_rows.spelled_name(source, each) for each in names]
    )


def _check_partitioned(operation: str, name: LinkName, source: StoredTable) -> None:
    if not source.is_partitioned:
        reason = f"table {source.full_name} has no partition keys, so that the link shows all of it"
        raise InvalidOperationError(operation, str(name), reason)
