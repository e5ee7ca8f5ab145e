"""A cluster: its file system, and how Spark is reached there."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_hivex.core.errors import HivexError, InvalidClusterPropertiesError, LocationOutsideClusterError
from airflow_hivex.core.model.locations import Root, parse_root
from airflow_hivex.core.model.secrets import hide_in_uri, remember, secrets_of, secrets_of_uri
from airflow_hivex.core.model.texts import check_length, check_text

_LONGEST_LOCATION = 600
"""In characters: PostgreSQL finds tables by an index on their locations."""


class JobTrackerKind(enum.Enum):
    """The kind of connection to Spark."""

    LOCAL = "local"
    CONNECT = "connect"
    SUBMIT = "submit"
    CONNECTION = "connection"

    @property
    def is_server(self) -> bool:
        """Return whether a server runs the jobs, so that the process of a statement needs no Java and little memory."""
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
    """Return how ``jobtracker`` reaches Spark: any word that is not a master URL of Spark is an Airflow connection.

    Raises:
        InvalidClusterPropertiesError: it is neither.
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
    """A cluster: the file system that holds its data, and how Spark is reached there.

    ``filesystem`` is a URI without a slash at its end. ``storage_options`` are fsspec's.
    """

    name: str
    filesystem: str
    jobtracker: str
    spark_conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
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
        """Return the full URI of a location that is relative to the cluster's root, or lies inside it.

        Raises:
            LocationOutsideClusterError: it lies outside.
        """
        return self.root.join(self.relative(location))

    def shown_uri(self, location: str) -> str:
        """Return the full URI without a password in it, for people."""
        return hide_in_uri(self.uri(location))

    def relative(self, location: str) -> str:
        """Return the location below the cluster's root; the empty text is the root itself.

        Raises:
            LocationOutsideClusterError: it lies outside, or may leave the root through ``..``.
            InvalidParametersError: it is too long.
            InvalidTextError: it has a NUL character, which no file system takes.
        """
        check_text("A location", check_length("A location", location, _LONGEST_LOCATION))
        found = self.root.relative(location)
        if found is None:
            raise LocationOutsideClusterError(location, self.name, self.filesystem)
        return found


@dataclass(frozen=True, slots=True)
class Health:
    """The answer of a cluster, or of a part of it, to the question whether it can be used now.

    ``problem`` is the error that a statement there would end with, None if nothing is known to be in its way.
    ``version`` is that of the Spark which runs its jobs, where it is known.
    """

    problem: HivexError | None = None
    version: str | None = None


USABLE = Health()
