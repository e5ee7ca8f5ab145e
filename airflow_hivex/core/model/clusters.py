"""A cluster: its file system, the locations below its root, and the connection to its Spark."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_hivex.core.errors import HivexError, InvalidClusterPropertiesError, LocationOutsideClusterError
from airflow_hivex.core.errors.secrets import hide_in_uri, remember, secrets_of, secrets_of_uri
from airflow_hivex.core.model.texts import check_length, check_text

_LONGEST_LOCATION = 600
"""The largest number of characters in a location. A location must fit into an index of PostgreSQL."""

ANSWER_TIMEOUT_S = 30
"""The default of ``hivex.cluster.answer.timeout``."""


class JobTrackerKind(enum.Enum):
    """The kind of a cluster's connection to Spark."""

    LOCAL = "local"
    CONNECT = "connect"
    SUBMIT = "submit"
    CONNECTION = "connection"

    @property
    def is_server(self) -> bool:
        """Return whether a server runs the jobs. If so, the process of a statement needs little memory and no Java."""
        return self is JobTrackerKind.CONNECT


_HOST = r"(?:\[[0-9A-Fa-f:.]+\]|[^\s/,:;\[\]]+)"
# Spark itself refuses most malformed masters only when the first job starts.
_KINDS = (
    (JobTrackerKind.LOCAL, re.compile(r"local(?:\[(?:\*|[1-9][0-9]*)(?:,\s*[1-9][0-9]*)?\])?")),
    (JobTrackerKind.CONNECT, re.compile(rf"sc://{_HOST}(?::[0-9]+)?(?:/(?:;\S*)?)?")),
    (JobTrackerKind.SUBMIT, re.compile(rf"yarn|spark://{_HOST}:[0-9]+(?:,{_HOST}:[0-9]+)*|k8s://\S+")),
    (JobTrackerKind.CONNECTION, re.compile(r"[A-Za-z0-9_.-]+")),
)


def jobtracker_kind(jobtracker: str, cluster: str | None = None) -> JobTrackerKind:
    """Return the kind of connection to Spark that a cluster's ``jobtracker`` property describes.

    A word that is not a master URL of Spark is the id of an Airflow connection.

    Raises:
        InvalidClusterPropertiesError: ``jobtracker`` is neither a master URL nor a word.
    """
    for kind, pattern in _KINDS:
        if pattern.fullmatch(jobtracker):
            return kind
    raise InvalidClusterPropertiesError(
        f"jobtracker {jobtracker!r} is not one of local[n], sc://host:port, spark://host:port, yarn, k8s://url "
        "or the id of an Airflow Spark connection",
        cluster,
    )


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster: the file system with its data, and the connection to its Spark.

    ``filesystem`` is a URI without a slash at its end. ``storage_options`` are the options of fsspec.
    ``answer_timeout_s`` is the longest time, in seconds, to wait for the first answer of the cluster's Spark Connect
    server.
    """

    name: str
    filesystem: str
    jobtracker: str
    spark_conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    answer_timeout_s: int = field(default=ANSWER_TIMEOUT_S, repr=False)
    root: Root = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        remember(secrets_of(self.spark_conf))
        remember(secrets_of(self.storage_options))
        remember(secrets_of_uri(self.filesystem) + secrets_of_uri(self.jobtracker))
        root = parse_root(self.filesystem)
        if root is None:
            raise InvalidClusterPropertiesError(
                f"filesystem {self.filesystem!r} is not an absolute URI such as file:///data/c1, without '..'",
                self.name,
            )
        object.__setattr__(self, "root", root)
        object.__setattr__(self, "filesystem", root.uri)
        jobtracker_kind(self.jobtracker, self.name)

    def __repr__(self) -> str:
        return f"Cluster({self.name!r}, {self.shown_filesystem!r}, {self.shown_jobtracker!r})"

    @property
    def shown_filesystem(self) -> str:
        """Return the file system without a password in it, for people."""
        return hide_in_uri(self.filesystem)

    @property
    def shown_jobtracker(self) -> str:
        """Return the job tracker without a token in it, for people."""
        return hide_in_uri(self.jobtracker)

    @property
    def kind(self) -> JobTrackerKind:
        """Return the kind of connection to Spark."""
        return jobtracker_kind(self.jobtracker, self.name)

    def uri(self, location: str) -> str:
        """Return the full URI of a location, which is relative to the cluster's root or a URI inside of the root.

        Raises:
            LocationOutsideClusterError: the location lies outside of the root.
        """
        return self.root.join(self.relative(location))

    def shown_uri(self, location: str) -> str:
        """Return the full URI without a password in it, for people."""
        return hide_in_uri(self.uri(location))

    def relative(self, location: str) -> str:
        """Return the location relative to the cluster's root. An empty text stands for the root itself.

        Raises:
            LocationOutsideClusterError: the location lies outside of the root, or has the name ``..``.
            InvalidParametersError: the location is too long.
            InvalidTextError: the location has a NUL character, which no file system accepts.
        """
        check_text("A location", check_length("A location", location, _LONGEST_LOCATION))
        found = self.root.relative(location)
        if found is None:
            raise LocationOutsideClusterError(location, self.name, self.filesystem)
        return found


@dataclass(frozen=True, slots=True)
class Health:
    """The state of a cluster, or of a part of it: whether it can be used now.

    ``problem`` is the error that a statement on the cluster would raise, or None. ``version`` is the version of Spark
    that runs the jobs of the cluster, or None if the version is not known.
    """

    problem: HivexError | None = None
    version: str | None = None


USABLE = Health()


# A colon inside a relative location, as in "hour:5", does not make a URI of it.
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?:/(?:/([^/]*))?)(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Root:
    """The root of a file system: ``scheme`` in lower case, and the names along the path to it."""

    scheme: str
    authority: str
    names: tuple[str, ...]

    @property
    def uri(self) -> str:
        """Return the root as a URI, without a slash at its end unless it is the top of the file system."""
        return self.join("")

    def join(self, relative: str) -> str:
        """Return the URI of a location that :meth:`relative` has returned."""
        path = "/".join((*self.names, relative) if relative else self.names)
        return f"{self.scheme}://{self.authority}/{path}" if path or not self.authority else self._top

    @property
    def _top(self) -> str:
        return f"{self.scheme}://{self.authority}"

    def relative(self, location: str) -> str | None:
        """Return ``location`` relative to this root, or None if the location lies outside.

        A path without a scheme that starts with a slash belongs to this file system.
        """
        whole = _split(location)
        if whole is None:
            names = _names(location)
            if names is None or not location.startswith("/"):
                return None if names is None else "/".join(names)
        else:
            scheme, authority, names = whole
            if (scheme, authority.lower()) != (self.scheme, self.authority.lower()):
                return None
        if names is None or names[: len(self.names)] != self.names:
            return None
        return "/".join(names[len(self.names) :])

    def real(self, relative: str) -> str | None:
        """Return a location after following symbolic links, or None if the result lies outside of this root.

        The method reads the file system of this machine. For a root that is not local the result is None.
        """
        if self.scheme != "file":
            return None
        top = Path("/", *self.names).resolve()
        found = top.joinpath(relative).resolve()
        return "/".join(found.relative_to(top).parts) if found.is_relative_to(top) else None

    def overlaps(self, other: Root) -> bool:
        """Return whether both roots are equal, or one lies below the other."""
        depth = min(len(self.names), len(other.names))
        return (
            self.scheme == other.scheme
            and self.authority.lower() == other.authority.lower()
            and self.names[:depth] == other.names[:depth]
        )


def parse_root(filesystem: str) -> Root | None:
    """Return the root that a URI or an absolute path names, or None for any other text."""
    whole = _split(filesystem)
    if whole is None:
        names = _names(filesystem) if filesystem.startswith("/") else None
        return None if names is None else Root("file", "", names)
    scheme, authority, names = whole
    return None if names is None or (scheme == "file" and authority) else Root(scheme, authority, names)


def _split(uri: str) -> tuple[str, str, tuple[str, ...] | None] | None:
    found = _URI.fullmatch(uri)
    if not found:
        return None
    scheme, authority, path = found[1].lower(), found[2] or "", found[3]
    if scheme == "file" and authority.lower() == "localhost":
        authority = ""
    return scheme, authority, _names(path)


def _names(path: str) -> tuple[str, ...] | None:
    """Return the names along a path, or None if the path has ``..``.

    A path with ``..`` could lead anywhere, because a name before ``..`` can be a symbolic link.
    """
    names = tuple(name for name in path.split("/") if name not in ("", "."))
    return None if ".." in names else names
