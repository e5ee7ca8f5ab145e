"""The tables that a statement means by its names, which may be names of links."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from airflow_hivex.core.catalog.contents import TableContents
from airflow_hivex.core.execution.context import StatementContext
from airflow_hivex.core.model.links import Link, LinkName
from airflow_hivex.core.model.plans import WrittenDirectory
from airflow_hivex.core.model.snapshots import QualifiedName, Snapshot
from airflow_hivex.core.parser.statements import TableName


class Names:
    """The tables of a statement's names; a link stands for its source.

    Links are looked up once, before the locks of the statement are acquired.
    """

    def __init__(self, context: StatementContext) -> None:
        self._context = context
        self._links: dict[LinkName, Link] = {}

    def look_up(self, names: Iterable[TableName]) -> None:
        """Find the links among names. One round trip where there are new ones.

        Raises:
            NoSuchLinkError: a link does not exist.
        """
        wanted = {self._context.session.qualify_link(name) for name in names if name.namespace is not None}
        new = wanted - self._links.keys()
        if new:
            self._links |= self._context.services.links.find(new)

    def of(self, name: TableName) -> QualifiedName:
        """Return the database and name of a table; for a link those of its source."""
        link = self.link(name)
        return self._context.session.qualify(name) if link is None else link.source

    def link(self, name: TableName) -> Link | None:
        """Return the link of a name, None for a table."""
        return None if name.namespace is None else self._links[self._context.session.qualify_link(name)]

    def are_of(self, snapshot: Snapshot) -> bool:
        """Return whether the source of each link is still the table of its name in a snapshot."""
        return all(
            (table := snapshot.tables.get(link.source)) is None or table.id == link.source_id
            for link in self._links.values()
        )

    @property
    def have_links(self) -> bool:
        """Return whether there is a link among the names."""
        return bool(self._links)


def shown(contents: TableContents, link: Link | None) -> TableContents:
    """Return the contents of a table, for a link only with the partitions that the link shows."""
    if link is None or not contents.partitions:
        return contents
    return replace(contents, partitions=[each for each in contents.partitions if link.shows(each.id)])


def shown_of_own(
    own: Mapping[str | None, Sequence[WrittenDirectory]], contents: TableContents, link: Link | None
) -> Mapping[str | None, Sequence[WrittenDirectory]]:
    """Return the directories of the statement's own transaction; for a link only in partitions that the link shows.

    ``contents`` has all partitions of the table. A dynamic link also shows new partitions of the transaction.
    """
    if link is None or not own:
        return own
    ids = {each.name: each.id for each in contents.partitions}
    return {
        name: written
        for name, written in own.items()
        if name is None or (link.shows(ids[name]) if name in ids else not link.is_static)
    }
