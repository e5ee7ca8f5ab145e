"""The tables, databases and namespaces that own a folder, directly or through symbolic links."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from airflow_hivex.core.catalog import table_rows
from airflow_hivex.core.catalog.closed_namespaces import closed_namespaces, foreign_owner
from airflow_hivex.core.catalog.database_rows import select_database_names
from airflow_hivex.core.catalog.folders import table_folders
from airflow_hivex.core.execution.context import Services
from airflow_hivex.core.files.filesystem import ClusterFiles


def real_path(files: ClusterFiles, location: str) -> Path | None:
    """Return the path of a location after following symbolic links, or None if the file system is not local."""
    local = files.local_path(location)
    return None if local is None else Path(local).resolve()


def places_of(services: Services, uri: str, real: Path | None) -> Iterator[tuple[str, str]]:
    """Yield (cluster, relative location) for each cluster whose root contains the URI or the real path.

    The real path is compared with the real paths of local roots only. If the root contains both the URI and the real
    path, the cluster is yielded twice.
    """
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
    """Return the table whose folder a location reaches through symbolic links, or None.

    The call takes one round trip for each cluster whose root contains the location, and none if the location has no
    symbolic link.
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
    """Return an owner in another namespace whose folder overlaps ``location`` because of symbolic links, or None.

    An owner is returned only if its namespace or ``namespace`` is closed. The catalog itself finds overlaps without
    symbolic links. The call takes at most five round trips, and only one if no namespace is closed.
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
