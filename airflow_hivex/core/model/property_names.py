"""The names of the properties of databases, tables and links that mean something here, each in one spelling."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from airflow_hivex.core.errors import InvalidObjectError
from airflow_hivex.core.model.compaction import JOB_PREFIX, JOB_QUEUE, TABLE_PROPERTY_PREFIX
from airflow_hivex.core.model.compaction_thresholds import DELTA_NUM, DELTA_PCT, OVERRIDE_PREFIX, POOL
from airflow_hivex.core.model.constraints import CHECKS, DEFAULTS, KEYS, NOT_NULL
from airflow_hivex.core.model.links import RETENTION
from airflow_hivex.core.model.objects import (
    BUCKETING_VERSION,
    CLUSTER,
    DROPPED_COLUMNS,
    EXTERNAL,
    MOVING_FOLDER,
    PARTITION_ROW_IDS,
    PURGE,
    ROW_LAYOUT,
    TEMPORARY_NAMESPACE,
    TRANSACTIONAL,
    TRANSACTIONAL_PROPERTIES,
    TRANSLATED,
)
from airflow_hivex.core.settings import HISTORY_RETENTION, NAMESPACE_MODE

_NAMES = (
    *(NAMESPACE_MODE, CLUSTER, HISTORY_RETENTION, ROW_LAYOUT, PARTITION_ROW_IDS, TEMPORARY_NAMESPACE, MOVING_FOLDER),
    *(DROPPED_COLUMNS, NOT_NULL, POOL, f"{OVERRIDE_PREFIX}{DELTA_NUM}", f"{OVERRIDE_PREFIX}{DELTA_PCT}"),
    *(f"{JOB_PREFIX}{JOB_QUEUE}", TRANSACTIONAL, TRANSACTIONAL_PROPERTIES, BUCKETING_VERSION),
    *(EXTERNAL, PURGE, TRANSLATED),
)
_OF_LINKS = (RETENTION,)
_PREFIXES = (DEFAULTS, CHECKS, KEYS, JOB_PREFIX, TABLE_PROPERTY_PREFIX, OVERRIDE_PREFIX, "hivex.")


def check_spelling(kind: str, object_name: str, properties: Iterable[str], known: Collection[str] = ()) -> None:
    """Refuse names of properties that differ by case alone from names with a meaning: no code would use them.

    ``known`` are names that the object has already, which are not refused. Names that are read in any case, such as
    ``orc.compress``, are not refused either.

    Raises:
        InvalidObjectError: there is such a name.
    """
    names = (*_NAMES, *_OF_LINKS) if kind == "link" else _NAMES
    for each in properties:
        written = _written(each, names)
        if each not in known and written != each:
            reason = f"property {each!r} means nothing, as names of properties are case-sensitive; write {written!r}"
            raise InvalidObjectError(kind, object_name, reason)


def _written(name: str, names: Collection[str]) -> str:
    """Return a name in the case that it has here, as far as it is known."""
    lower = name.lower()
    for each in names:
        if lower == each.lower():
            return each
    for prefix in _PREFIXES:
        if lower.startswith(prefix):
            rest = name[len(prefix) :]
            return prefix + (_written(rest, names) if prefix == TABLE_PROPERTY_PREFIX else rest)
    return name
