"""The contents of ``hive.cluster.properties``: the clusters, their file systems and job trackers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_hivex.core.errors import (
    InvalidClusterPropertiesError,
    InvalidSettingError,
    UnknownClusterError,
)
from airflow_hivex.core.errors.secrets import hide_in_uri
from airflow_hivex.core.files.object_stores import is_object_store, spark_settings
from airflow_hivex.core.model.clusters import ANSWER_TIMEOUT_S, Cluster
from airflow_hivex.core.model.identifiers import MAX_NAME_LENGTH

_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_REQUIRED = ("filesystem", "jobtracker")
_OPTIONAL = ("spark_conf", "storage_options")


@dataclass(frozen=True, slots=True)
class Clusters:
    """All clusters in the order of ``hive.cluster.properties``. Iteration returns their names.

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
        answer_timeout_s: int = ANSWER_TIMEOUT_S,
    ) -> Clusters:
        """Return the clusters in ``value``, which is a mapping, a JSON text, or the path of a file with a JSON text.

        A single cluster is the default cluster, unless ``default`` names one. The call does not access the clusters.

        Raises:
            InvalidClusterPropertiesError: the description is malformed or incomplete, or two clusters share a file
                system.
            UnknownClusterError: the default cluster is not described.
            InvalidSettingError: there are several clusters and no default.
        """
        by_name = {name: _cluster(name, properties, answer_timeout_s) for name, properties in _described(value).items()}
        _check_disjoint(list(by_name.values()))
        if default is None:
            if len(by_name) > 1:
                reason = f"there are several clusters; set it to one of {', '.join(by_name)}"
                raise InvalidSettingError("hive.default.cluster.name", None, reason)
            (default,) = by_name
        if default not in by_name:
            raise UnknownClusterError(default, tuple(by_name))
        return cls(by_name, default, use_default)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names, in the order of the description."""
        return tuple(self.by_name)

    def get(self, name: str) -> Cluster:
        """Return the cluster with the name.

        Raises:
            UnknownClusterError: no cluster has the name.
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
        # The path of a file does not begin like a JSON value.
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


def _cluster(name: object, properties: object, answer_timeout_s: int) -> Cluster:
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
    filesystem = texts["filesystem"].strip()
    if is_object_store(filesystem) and hide_in_uri(filesystem) != filesystem:
        # pyarrow would refuse the URI, and show it.
        reason = "filesystem has keys of S3; they belong to storage_options"
        raise InvalidClusterPropertiesError(reason, name)
    conf = {key: _conf_text(name, key, value) for key, value in _options(name, properties, "spark_conf").items()}
    options = _options(name, properties, "storage_options")
    conf = {**spark_settings(filesystem, options, conf), **conf}
    return Cluster(name, filesystem, texts["jobtracker"].strip(), conf, options, answer_timeout_s)


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
    """Return the JSON type of a value, for errors that must not show the value itself, which can be a secret."""
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
