"""The files that LOAD DATA and COPY INTO read: where a path leads, which files it names, and who may read them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from airflow_hivex.core.catalog import table_rows
from airflow_hivex.core.catalog.closed_namespaces import foreign_owner
from airflow_hivex.core.errors import InvalidOperationError, LocationOutsideClusterError
from airflow_hivex.core.errors.secrets import hide_in_uri
from airflow_hivex.core.execution.context import StatementContext
from airflow_hivex.core.execution.folder_owners import places_of, real_path
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.model.clusters import Cluster, parse_root
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.settings import LOAD_PATHS

_ANYWHERE = "*"
PATTERN = re.compile(r"[*?\[{]")
"""Finds the characters of glob patterns."""
_BRACES = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """The place to which the path of a statement leads: a location in the file system of a cluster.

    ``is_own`` is true if the location lies below the root of the table's cluster. ``statement`` is the name of the
    statement, ``path`` the path as the user has written it, and ``table`` the table that gets the rows.
    """

    statement: str
    path: str
    table: StoredTable
    cluster: Cluster
    files: ClusterFiles
    location: str
    is_own: bool

    def refused(self, reason: str) -> InvalidOperationError:
        """Return the error of the statement for a reason."""
        return InvalidOperationError(self.statement, self.table.full_name, reason)

    def below(self, name: str) -> str:
        """Return the location of a file with a name below the place. The place itself has an empty name."""
        return f"{self.location}/{name}" if name else self.location

    def check(self, context: StatementContext, location: str) -> None:
        """Refuse a file or folder that is not allowed to be read, or belongs to a table or a closed namespace.

        Symbolic links are resolved first.

        Raises:
            InvalidOperationError: the file or folder must not be read.
        """
        uri = self.cluster.uri(location)
        local = self.files.local_path(location)
        real = real_path(self.files, location)
        if self.is_own:
            target = self.files.link_target(location)
            if target is not None:
                raise self.refused(f"{location} leads by symbolic links to {target}, out of the root of its cluster")
        else:
            self._check_allowed(context, {uri, uri if real is None else real.as_uri()})
        services = context.services
        namespace = self.table.namespace
        shown = self.path if real is None or local == str(real) else f"{self.path}, which leads to {real},"
        with services.store.read() as connection:
            for cluster, place in dict.fromkeys(places_of(services, uri, real)):
                owner = table_rows.owner_at(connection, cluster, place)
                if owner is not None:
                    raise self.refused(f"{shown} belongs to {owner}; read it by INSERT INTO ... SELECT")
                other = foreign_owner(connection, namespace, cluster, place)
                if other is not None:
                    raise self.refused(f"{shown} overlaps with the folder of {other}; a namespace is closed")

    def check_links(self, context: StatementContext, names: Iterable[str]) -> None:
        """Check the targets of those files among ``names``, below the place, that are reached by symbolic links.

        Raises:
            InvalidOperationError: a file must not be read.
        """
        top = real_path(self.files, self.location)
        if top is None:
            return
        for name in names:
            path = self.files.local_path(self.below(name))
            if path is not None and Path(path).resolve() != top / name:
                self.check(context, self.below(name))

    def _check_allowed(self, context: StatementContext, uris: Iterable[str]) -> None:
        allowed = context.services.settings[LOAD_PATHS]
        if _ANYWHERE in allowed:
            return
        roots = [root for root in map(parse_root, allowed) if root is not None]
        if all(any(root.relative(uri) is not None for root in roots) for uri in uris):
            return
        raise self.refused(
            f"{self.path} is not below the root of its cluster, and not below a folder that {LOAD_PATHS} names"
        )


def find_place(
    context: StatementContext, statement: str, path: str, table: StoredTable, *, is_local: bool = False
) -> SourcePlace:
    """Return the place to which a path leads. Nothing is checked yet.

    A path without a scheme belongs to the table's cluster or, with ``is_local``, to this machine.

    Raises:
        LocationOutsideClusterError: a path without a scheme leads out of the cluster.
    """
    cluster, location, is_own = _place(context, path, table, is_local=is_local)
    return SourcePlace(statement, path, table, cluster, ClusterFiles.of(cluster), location, is_own)


def _place(context: StatementContext, path: str, table: StoredTable, *, is_local: bool) -> tuple[Cluster, str, bool]:
    """Return the file system of a path, the location in it, and whether it belongs to the table's cluster."""
    clusters = context.services.clusters
    cluster = clusters.get(table.storage.primary.cluster)
    if is_local:
        # Paths of this machine, on which the jobs run.
        local = replace(cluster, filesystem="file:///", storage_options={})
        if parse_root(path) is None:
            path = f"{Path.cwd()}/{path}"
        return local, local.relative(path), False
    try:
        return cluster, cluster.relative(path), True
    except LocationOutsideClusterError:
        root = parse_root(path)
        # Messages would show the keys in a URI.
        has_keys = hide_in_uri(path) != path
        if root is None or "://" not in path or has_keys:
            raise
    for name in clusters:
        other = clusters.get(name)
        relative = other.root.relative(path)
        if relative is not None:
            return other, relative, False
    top = replace(root, names=())
    same = (root.scheme, root.authority) == (cluster.root.scheme, cluster.root.authority)
    options = cluster.storage_options if same else {}
    return replace(cluster, filesystem=top.uri, storage_options=options), "/".join(root.names), False


def matches(name: str, pattern: str) -> bool:
    """Return whether a path such as ``a/b.csv`` matches a glob pattern. ``*`` matches no ``/``; ``**`` is any folders.

    ``{x,y}`` matches x and y.
    """
    return any(_matches(name.split("/"), each.split("/")) for each in _alternatives(pattern))


def _matches(names: list[str], patterns: list[str]) -> bool:
    if not patterns:
        return not names
    if patterns[0] == "**":
        return any(_matches(names[at:], patterns[1:]) for at in range(len(names) + 1))
    return bool(names) and fnmatchcase(names[0], patterns[0]) and _matches(names[1:], patterns[1:])


@cache
def _alternatives(pattern: str) -> tuple[str, ...]:
    """Return the patterns without braces that together match the same names."""
    alternatives = [pattern]
    while any(match := _BRACES.search(each) for each in alternatives):
        assert match is not None
        alternatives = [
            f"{each[: match.start()]}{choice}{each[match.end() :]}"
            for each in alternatives
            for choice in match[1].split(",")
        ]
    return tuple(alternatives)
