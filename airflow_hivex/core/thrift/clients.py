"""The state of a client's connection, and the names that a client calls databases and clusters by. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

HIVE_CATALOG = "hive"
"""The one catalog that each client of Hive 3 and later knows, which names no cluster here."""
CLUSTER_KEY = "hivex.cluster"
"""The key of ``setMetaConf`` and of an EnvironmentContext that names a cluster."""


class DatabaseName(NamedTuple):
    """A database as a client names it.

    ``given`` is the text that answers must have, too: Spark's next call takes the name from the answer. ``cluster`` is
    the one that the name has, or None.
    """

    name: str
    given: str
    cluster: str | None = None


def read_database(text: str | None, catalog: str | None = None) -> DatabaseName:
    """Return the database of ``name`` or ``@cluster#name``, the form that clients of Hive 3 give a catalog in.

    A catalog is a cluster: ``catalog`` is that of a request with a field of its own for it.
    """
    given = text or ""
    cluster = catalog
    name = given
    if given.startswith("@") and "#" in given:
        cluster, _, name = given[1:].partition("#")
        if name == "!":
            # Hive's sign for an empty name; without it there is no name.
            name = ""
    if cluster is not None and cluster.lower() in ("", HIVE_CATALOG):
        cluster = None
    return DatabaseName(name.lower(), given.lower() if cluster is None else given, cluster)


def user_and_cluster(user: str) -> tuple[str, str | None]:
    """Return the user and the cluster of ``alice@c2``; None without a cluster."""
    name, at, cluster = user.rpartition("@")
    return (name, cluster) if at and name and cluster else (user, None)


def without_password(user: str) -> tuple[str, str | None]:
    """Return a user and the password of ``alice:secret`` or ``alice:secret@c2``; None without a password.

    The call that names a user has no place for a password. Where a client gives one, logs and locks do not show it.
    """
    name, colon, rest = user.partition(":")
    if not (name and colon):
        return user, None
    secret, at, cluster = rest.rpartition("@")
    return (f"{name}@{cluster}", secret) if at else (name, rest)


@dataclass(slots=True)
class Client:
    """The state of one connection."""

    peer: str
    endpoint_cluster: str | None = None
    user: str = ""
    groups: tuple[str, ...] = ()
    user_cluster: str | None = None
    configuration: dict[str, str] = field(default_factory=dict)
    is_authenticated: bool = False

    def cluster(self, name: DatabaseName | None = None, context: Mapping[str, str] | None = None) -> str | None:
        """Return the cluster of a call, None for a client that names none.

        The name of the database decides, then the context of the call, ``setMetaConf``, the name of the user, and the
        cluster of the endpoint.
        """
        return (
            (name.cluster if name is not None else None)
            or (context or {}).get(CLUSTER_KEY)
            or self.configuration.get(CLUSTER_KEY)
            or self.user_cluster
            or self.endpoint_cluster
        )
