"""What ``hive.cluster.properties`` says: the clusters, their file systems and job trackers."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_hivex.core.clusters.locations import Root, parse_root
from airflow_hivex.core.errors import (
    InvalidClusterPropertiesError,
    InvalidSettingError,
    LocationOutsideClusterError,
    UnknownClusterError,
)
from airflow_hivex.core.model.identifiers import MAX_NAME_LENGTH
from airflow_hivex.core.model.secrets import hide_in_uri, remember, secrets_of, secrets_of_uri
from airflow_hivex.core.model.texts import check_length

_LONGEST_LOCATION = 600
"""In characters: PostgreSQL finds tables by an index on their locations."""
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_REQUIRED = ("filesystem", "jobtracker")
_OPTIONAL = ("spark_conf", "storage_options")


class JobTrackerKind(enum.Enum):
    """How Spark is reached."""

    LOCAL = "local"
    CONNECT = "connect"
    SUBMIT = "submit"
    CONNECTION = "connection"


_HOST = r"(?:\[[0-9A-Fa-f:.]+\]|[^\s/,:;\[\]]+)"
# Spark itself refuses most malformed masters only when the first job starts.
_KINDS = (
    (JobTrackerKind.LOCAL, re.compile(r"local(?:\[(?:\*|[1-9][0-9]*)(?:,\s*[1-9][0-9]*)?\])?")),
    (JobTrackerKind.CONNECT, re.compile(rf"sc://{_HOST}(?::[0-9]+)?(?:/(?:;\S*)?)?")),
    (JobTrackerKind.SUBMIT, re.compile(rf"yarn|spark://{_HOST}:[0-9]+(?:,{_HOST}:[0-9]+)*|k8s://\S+")),
    (JobTrackerKind.CONNECTION, re.compile(r"[A-Za-z0-9_.-]+")),
)


def jobtracker_kind(jobtracker: str, cluster: str | None = None) -> JobTrackerKind:
    """How ``jobtracker`` reaches Spark: any word that is no master of Spark is an Airflow connection.

    Raises:
        InvalidClusterPropertiesError: it is neither.
    """
    for kind, pattern in _KINDS:
        if pattern.fullmatch(jobtracker):
            return kind
    raise InvalidClusterPropertiesError(
        f"jobtracker {jobtracker!r} is none of local[n], sc://host:port, spark://host:port, yarn, k8s://url "
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
        """The file system without a password in it, for people."""
        return hide_in_uri(self.filesystem)

    @property
    def shown_jobtracker(self) -> str:
        """The job tracker without a token in it, for people."""
        return hide_in_uri(self.jobtracker)

    @property
    def kind(self) -> JobTrackerKind:
        """How Spark is reached."""
        return jobtracker_kind(self.jobtracker, self.name)

    def uri(self, location: str) -> str:
        """The full URI of a location that is relative to the cluster's root, or lies inside it.

        Raises:
            LocationOutsideClusterError: it lies outside.
        """
        return self.root.join(self.relative(location))

    def shown_uri(self, location: str) -> str:
        """The full URI without a password in it, for people."""
        return hide_in_uri(self.uri(location))

    def relative(self, location: str) -> str:
        """The location below the cluster's root; the empty text is the root itself.

        Raises:
            LocationOutsideClusterError: it lies outside, or may leave the root through ``..``.
            InvalidParametersError: it is too long.
        """
        check_length("A location", location, _LONGEST_LOCATION)
        found = self.root.relative(location)
        if found is None:
            raise LocationOutsideClusterError(location, self.name, self.filesystem)
        return found


@dataclass(frozen=True, slots=True)
class Clusters:
    """All clusters in the order of their description. Iterating gives their names.

    ``default`` is ``hive.default.cluster.name``, ``use_default`` is ``hive.use.default.cluster``.
    """

    by_name: Mapping[str, Cluster]
    default: str
    use_default: bool = False

    @classmethod
    def from_properties(
        cls,
        value: Mapping[str, Any] | str | Path | None,
        default: str | None = None,
        use_default: bool = False,
    ) -> Clusters:
        """The clusters that ``value`` describes: a mapping, JSON text, or a file with JSON text.

        A default that is not given is the only cluster. Reads the file, touches no cluster.

        Raises:
            InvalidClusterPropertiesError: the description is malformed or incomplete, or two
                clusters share a file system.
            UnknownClusterError: the default is not one of them.
            InvalidSettingError: there are several and no default.
        """
        by_name = {name: _cluster(name, properties) for name, properties in _described(value).items()}
        _check_disjoint(list(by_name.values()))
        if default is None:
            if len(by_name) > 1:
                raise InvalidSettingError(
                    "hive.default.cluster.name", None, f"name one of the clusters {', '.join(by_name)}"
                )
            (default,) = by_name
        if default not in by_name:
            raise UnknownClusterError(default, tuple(by_name))
        return cls(by_name, default, use_default)

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in the order of the description."""
        return tuple(self.by_name)

    def get(self, name: str) -> Cluster:
        """The cluster of that name.

        Raises:
            UnknownClusterError: there is none.
        """
        try:
            return self.by_name[name]
        except KeyError:
            raise UnknownClusterError(name, self.names) from None

    def __contains__(self, name: object) -> bool:
        return name in self.by_name

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def __len__(self) -> int:
        return len(self.by_name)


def _described(value: Mapping[str, Any] | str | Path | None) -> Mapping[str, Any]:
    if isinstance(value, Path):
        value = _read(_file_text(value), f"file {value}")
    elif isinstance(value, str):
        text = value.strip()
        # No path that anyone means starts like a JSON value.
        if text.startswith(("{", "[", '"')):
            value = _read(text, "the text")
        elif text:
            path = Path(text.removeprefix("file://"))
            value = _read(_file_text(path), f"file {path}")
    if not value:
        raise InvalidClusterPropertiesError("no cluster is described")
    if not isinstance(value, Mapping):
        raise InvalidClusterPropertiesError("it is not an object of cluster names")
    return value


def _file_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidClusterPropertiesError(
            f"it is neither JSON text nor a file that can be read; {path}: {reason}"
        ) from error


def _read(text: str, source: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_without_duplicates)
    except json.JSONDecodeError as error:
        # The error holds the whole text, with its secrets.
        raise InvalidClusterPropertiesError(
            f"{source} is not JSON: {error.msg}, line {error.lineno} column {error.colno}"
        ) from None
    except (RecursionError, ValueError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else "a number has too many digits"
        raise InvalidClusterPropertiesError(f"{source} cannot be read: {reason}") from None


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidClusterPropertiesError(f"{twice!r} is given twice")
    return found


def _cluster(name: object, properties: object) -> Cluster:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > MAX_NAME_LENGTH:
        raise InvalidClusterPropertiesError("a cluster's name has letters, digits, '_', '.' and '-' only", str(name))
    if not isinstance(properties, Mapping):
        raise InvalidClusterPropertiesError(f"its properties are {_kind(properties)}, not an object", name)
    unknown = [str(key) for key in properties if key not in (*_REQUIRED, *_OPTIONAL)]
    if unknown:
        raise InvalidClusterPropertiesError(
            f"unknown properties {', '.join(unknown)}; allowed are {', '.join((*_REQUIRED, *_OPTIONAL))}", name
        )
    missing = [key for key in _REQUIRED if key not in properties]
    if missing:
        raise InvalidClusterPropertiesError(f"{' and '.join(missing)} is missing", name)
    texts = {key: properties[key] for key in _REQUIRED}
    for key, text in texts.items():
        if not isinstance(text, str) or not text.strip():
            raise InvalidClusterPropertiesError(f"{key} is {_kind(text)}; a text is expected", name)
    return Cluster(
        name,
        texts["filesystem"].strip(),
        texts["jobtracker"].strip(),
        {key: _conf_text(name, key, value) for key, value in _options(name, properties, "spark_conf").items()},
        _options(name, properties, "storage_options"),
    )


def _options(name: str, properties: Mapping[str, Any], key: str) -> dict[str, Any]:
    options = properties.get(key)
    if options is None:
        return {}
    if not isinstance(options, Mapping) or not all(isinstance(option, str) for option in options):
        raise InvalidClusterPropertiesError(f"{key} is {_kind(options)}, not an object", name)
    return dict(options)


def _conf_text(name: str, key: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise InvalidClusterPropertiesError(f"spark_conf {key} is {_kind(value)}, not a text, number or boolean", name)


def _kind(value: object) -> str:
    """What a value is, in JSON's words. The value itself may be a secret in the wrong place."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return "a text" if value.strip() else "an empty text"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    return (
        "an object" if isinstance(value, Mapping) else "a list" if isinstance(value, list | tuple) else "no JSON value"
    )


def _check_disjoint(clusters: list[Cluster]) -> None:
    for at, cluster in enumerate(clusters):
        for other in clusters[:at]:
            if cluster.root.overlaps(other.root):
                raise InvalidClusterPropertiesError(
                    f"its filesystem {cluster.filesystem} and {other.filesystem} of cluster {other.name!r} "
                    "hold each other's files; give every cluster a root of its own",
                    cluster.name,
                )
