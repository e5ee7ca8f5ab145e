"""The tables that a statement means by its names, which may be names of links."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from airflow_hivex.core.catalog import table_rows
from airflow_hivex.core.catalog.closed_namespaces import closed_namespaces, foreign_owner
from airflow_hivex.core.catalog.contents import TableContents
from airflow_hivex.core.catalog.database_rows import select_database_names
from airflow_hivex.core.catalog.folders import table_folders
from airflow_hivex.core.execution.context import Services, StatementContext
from airflow_hivex.core.files.filesystem import ClusterFiles
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
        """Return the database and name of a table; for a link, of its source."""
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


def real_path(files: ClusterFiles, location: str) -> Path | None:
    """Return the path to which the symbolic links of a location lead; None for file systems that are not local."""
    local = files.local_path(location)
    return None if local is None else Path(local).resolve()


def places_of(services: Services, uri: str, real: Path | None) -> Iterator[tuple[str, str]]:
    """Yield a URI, and its real path, as locations of the clusters; symbolic links may lead to roots, too."""
    for name in services.clusters:
        root = services.clusters.get(name).root
        relative = root.relative(uri)
        if relative is not None:
            yield name, relative
        top = Path("/", *root.names).resolve()
        if real is not None and root.scheme == "file" and real.is_relative_to(top):
            yield name, "/".join(real.relative_to(top).parts)


def linked_owner(
    services: Services, files: ClusterFiles, location: str, uri: str, *, only_managed: bool = True
) -> str | None:
    """Return the table to whose folder the links of a location lead, or None.

    No round trip where no symbolic link is below the root, else one for each cluster.
    """
    real, root = real_path(files, location), real_path(files, "")
    if real is None or root is None or real == root.joinpath(*location.split("/")):
        return None
    places = dict.fromkeys(places_of(services, uri, real))
    with services.store.read() as connection:
        found = (table_rows.owner_at(connection, *each, only_managed=only_managed) for each in places)
        return next(filter(None, found), None)


def owner_elsewhere(
    services: Services, files: ClusterFiles, namespace: str, location: str, uri: str, *, is_closed: bool = False
) -> str | None:
    """Return an owner in another namespace whose folder overlaps a location through symbolic links.

    None where neither namespace is closed. The catalog compares the locations themselves. At most five round trips, one
    where no namespace is closed.
    """
    real = real_path(files, location)
    if real is None:
        return None
    with services.store.read() as connection:
        closed = closed_namespaces(connection, select_database_names(connection, None))
        closed |= {namespace} if is_closed else set()
        if not closed:
            return None
        for cluster, place in dict.fromkeys(places_of(services, uri, real)):
            owner = foreign_owner(connection, namespace, cluster, place, closed=closed)
            if owner is not None:
                return owner
        others = [
            each
            for each in table_folders(connection)
            if each.namespace != namespace and each.cluster in services.clusters
            if not closed.isdisjoint((namespace, each.namespace))
        ]
    parents: dict[str, Path] = {}
    for each in others:
        root = services.clusters.get(each.cluster).root
        if root.scheme != "file":
            continue
        parent, _, name = f"/{'/'.join((*root.names, each.location))}".rpartition("/")
        if parent not in parents:
            parents[parent] = Path(parent).resolve()
        there = parents[parent] / name
        there = there.resolve() if there.is_symlink() else there
        if there.is_relative_to(real) or real.is_relative_to(there):
            return each.owner
    return None
