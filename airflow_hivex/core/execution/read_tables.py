"""The tables that a statement reads, and their contents, in the statement's snapshot."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_hivex.core.catalog.contents import TableContents
from airflow_hivex.core.catalog.metadata_reader import later_snapshot
from airflow_hivex.core.catalog.pruning import partition_predicate
from airflow_hivex.core.catalog.snapshot_rows import snapshot_call
from airflow_hivex.core.errors import NoSuchTableError
from airflow_hivex.core.execution.context import Answers, JoinedTransaction, Running, StatementContext
from airflow_hivex.core.execution.statement_transactions import OutrunError
from airflow_hivex.core.model.links import Link, LinkName
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.plans import WrittenDirectory
from airflow_hivex.core.model.predicates import And, Predicate
from airflow_hivex.core.model.snapshots import QualifiedName, Snapshot
from airflow_hivex.core.model.write_ids import ValidTxnList
from airflow_hivex.core.parser.statements import RoutedStatement, TableName, TableReference
from airflow_hivex.core.store.exchange import Call
from airflow_hivex.core.transactions.shared_state import share_snapshot, stored_snapshot


class Names:
    """The tables that a statement names. A link stands for its source, the table that it shows.

    Links are looked up once, before the locks of the statement are acquired.
    """

    def __init__(self, context: StatementContext) -> None:
        self._context = context
        self._links: dict[LinkName, Link] = {}

    def look_up(self, names: Iterable[TableName]) -> None:
        """Look up the links among ``names``. The call takes one round trip, or none if all links are known.

        Raises:
            NoSuchLinkError: a link does not exist.
        """
        wanted = {self._context.session.qualify_link(name) for name in names if name.namespace is not None}
        new = wanted - self._links.keys()
        if new:
            self._links |= self._context.services.links.find(new)

    def of(self, name: TableName) -> QualifiedName:
        """Return the database and name of a table; for a link, those of its source."""
        link = self.link(name)
        return self._context.session.qualify(name) if link is None else link.source

    def link(self, name: TableName) -> Link | None:
        """Return the link of a name, or None for a table."""
        return None if name.namespace is None else self._links[self._context.session.qualify_link(name)]

    def are_of(self, snapshot: Snapshot) -> bool:
        """Return True, unless ``snapshot`` has another table under the name of a link's source."""
        return all(
            (table := snapshot.tables.get(link.source)) is None or table.id == link.source_id
            for link in self._links.values()
        )

    @property
    def have_links(self) -> bool:
        """Return whether at least one of the names is a link."""
        return bool(self._links)


@dataclass(frozen=True, slots=True)
class ReadTable:
    """The table of one reference of a statement, the conditions on its partitions, and the link in the reference."""

    table: StoredTable
    predicate: Predicate | None
    link: Link | None

    def shown(self, contents: TableContents) -> TableContents:
        """Return the contents of the table; for a link, only the partitions that the link shows."""
        link = self.link
        if link is None or not contents.partitions:
            return contents
        return replace(contents, partitions=[each for each in contents.partitions if link.shows(each.id)])

    def shown_of_own(
        self, own: Mapping[str | None, Sequence[WrittenDirectory]], contents: TableContents
    ) -> Mapping[str | None, Sequence[WrittenDirectory]]:
        """Return ``own``, the written directories of the transaction; for a link, only in partitions that it shows.

        ``contents`` has all partitions of the table. A dynamic link also shows partitions that the transaction has
        added.
        """
        link = self.link
        if link is None or not own:
            return own
        ids = {each.name: each.id for each in contents.partitions}
        return {
            name: written
            for name, written in own.items()
            if name is None or (link.shows(ids[name]) if name in ids else not link.is_static)
        }


_MOST_TABLES = 8
"""The largest number of tables whose snapshot is taken together with the locks."""


class StatementReading:
    """The tables that a statement reads, with their contents in its current snapshot.

    The contents of a table are read once, and again only if a later snapshot has changes of the table
    (``Snapshot.agrees_with``).
    """

    def __init__(self, context: StatementContext, snapshot: Snapshot, names: Names) -> None:
        self.snapshot = snapshot
        self.names = names
        self._context = context
        self._read: dict[tuple[int, Predicate | None], tuple[Snapshot, Collection[str], TableContents]] = {}

    def asking(self) -> list[Call]:
        """Return the query that takes the statement's snapshot. Send it together with the request for the locks.

        The list is empty if the statement reads many tables.
        """
        # Others that open a transaction wait while the query runs.
        return [snapshot_call(self.snapshot.tables, None)] if len(self.snapshot.tables) <= _MOST_TABLES else []

    def take_snapshot(self, running: Running, answers: Answers | None) -> None:
        """Replace ``snapshot`` by the snapshot that was taken after the statement had acquired its locks.

        ``answers`` has the answer to :meth:`asking`, or is None or empty if no query was sent with the locks. With an
        answer the call takes no round trip, unless a table has changed.

        Raises:
            OutrunError: the source of a link was renamed or dropped meanwhile.
        """
        taken = later_snapshot(self.snapshot, answers[0], running.txn_id) if answers else None
        if taken is None:
            taken = self._own_snapshot(running)
        self.snapshot, running.snapshot = taken, taken.valid_txns
        if not self.names.are_of(self.snapshot):
            raise OutrunError("the source of a link was renamed or dropped while the statement waited")

    def _own_snapshot(self, running: Running) -> Snapshot:
        names = list(self.snapshot.tables)
        try:
            return statement_snapshot(self._context, names, running, known=self.snapshot.tables.values())
        except NoSuchTableError as error:
            if not self.names.have_links:
                raise
            raise OutrunError("the source of a link was renamed or dropped while the statement waited") from error

    def table(self, name: TableName) -> StoredTable:
        """Return the table of a name; for a link, the source."""
        return self.snapshot.tables[self.names.of(name)]

    def read(self, reference: TableReference) -> ReadTable:
        """Return the table of a reference, with the conditions of the query and of a static link on its partitions."""
        table, link = self.table(reference.table), self.names.link(reference.table)
        predicate = partition_predicate(reference.filters, table.partition_keys)
        restriction = None if link is None else link.restriction(table.partition_keys)
        if predicate is None or restriction is None:
            return ReadTable(table, predicate or restriction, link)
        return ReadTable(table, And((restriction, predicate)), link)

    def candidates(self, statement: RoutedStatement) -> frozenset[str]:
        """Return the clusters whose copies can possibly serve the statement."""
        named = [*(reference.table for reference in statement.references), *statement.targets]
        primaries = {self.table(name).storage.primary.cluster for name in named}
        pinned = self._context.session.cluster
        return frozenset({*primaries, self._context.services.clusters.default, *([pinned] if pinned else ())})

    def contents(self, table: StoredTable, predicate: Predicate | None, clusters: Collection[str]) -> TableContents:
        """Return the partitions that can match ``predicate``, with their directories and copies on ``clusters``."""
        key = (table.id, predicate)
        if key in self._read:
            earlier, on, contents = self._read[key]
            if on == clusters and self.snapshot.agrees_with(earlier, table):
                return contents
        contents = self._context.services.catalog.contents(self.snapshot, table, predicate, clusters)
        self._read[key] = (self.snapshot, clusters, contents)
        return contents


def statement_snapshot(
    context: StatementContext,
    names: Collection[QualifiedName],
    running: Running,
    known: Iterable[StoredTable] = (),
) -> Snapshot:
    """Take and return the statement's snapshot. Statements of one joined transaction share one snapshot."""
    if running.joined is not None and running.joined.snapshot is None:
        _share_snapshot(context, running.joined)
    shared = None if running.joined is None else running.joined.snapshot
    snapshot = context.services.catalog.snapshot(names, running.txn_id, valid_txns=shared, known=known)
    running.snapshot = snapshot.valid_txns
    return snapshot


def shared_snapshot(context: StatementContext, joined: JoinedTransaction) -> ValidTxnList | None:
    """Return the snapshot that the statements of a transaction share, or None if none of them has read yet.

    The call takes one round trip if this process does not know the snapshot, which another process has possibly taken.
    """
    if joined.snapshot is None:
        with context.services.store.read() as connection:
            joined.snapshot = stored_snapshot(connection, joined.txn_id)
    return joined.snapshot


def _share_snapshot(context: StatementContext, joined: JoinedTransaction) -> None:
    if shared_snapshot(context, joined) is None:
        joined.snapshot = context.services.store.write(lambda writing: share_snapshot(writing, joined.txn_id))
