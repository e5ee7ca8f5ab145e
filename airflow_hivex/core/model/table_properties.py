"""The properties of tables, databases and links that this package uses, each in one spelling.

Source: Hive's hive_metastoreConstants and its error 10256; Spark's TableCatalog.RESERVED_PROPERTIES.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from airflow_hivex.core.errors import InvalidObjectError, SettingsError
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
from airflow_hivex.core.settings import HISTORY_RETENTION, NAMESPACE_MODE, Settings

_CLAUSES = {
    "location": "the clause LOCATION",
    "provider": "the clause USING",
    "owner": "the user of the session who creates the table",
    TEMPORARY_NAMESPACE: "CREATE TEMPORARY TABLE",
    MOVING_FOLDER: "a rename that moves a folder",
}
"""A dict from reserved name to the clause or property with the same meaning. Most of the names are Spark's."""

_IN_LOWER_CASE = frozenset({TRANSACTIONAL, TRANSACTIONAL_PROPERTIES, BUCKETING_VERSION})


def normalised(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties. Names whose case Hive ignores become lower case."""
    return {name.lower() if name.lower() in _IN_LOWER_CASE else name: value for name, value in properties.items()}


def check_properties(table: str, properties: Mapping[str, str], *, external: bool, bucketed: bool) -> None:
    """Refuse unsupported properties that would change results or lose files if they were ignored.

    Raises:
        InvalidObjectError: a property is not supported.
    """
    given = {name.lower(): value.strip().lower() for name, value in properties.items()}
    for name in sorted(given.keys() & _CLAUSES.keys()):
        raise InvalidObjectError("table", table, f"property {name} is reserved; it is set by {_CLAUSES[name]}")
    if given.get("immutable") == "true":
        reason = "'immutable' = 'true' is not supported: INSERT INTO would add rows to it; leave the property out"
        raise InvalidObjectError("table", table, reason)
    if given.get("external") == "true" and not external:
        reason = "property EXTERNAL does not make a table external; write CREATE EXTERNAL TABLE"
        raise InvalidObjectError("table", table, reason)
    if HISTORY_RETENTION in properties:
        _retention_s(table, properties[HISTORY_RETENTION])
    if bucketed and given.get(BUCKETING_VERSION, "2") != "2":
        reason = f"rows are put into buckets by bucketing version 2 only, not {given[BUCKETING_VERSION]}"
        raise InvalidObjectError("table", table, reason)


def history_retention_ms(settings: Settings, parameters: Mapping[str, str]) -> int:
    """Return the time (ms) for which old versions of a table can be read, from the table's property or the setting."""
    own = parameters.get(HISTORY_RETENTION)
    if own is not None:
        try:
            return 1000 * _retention_s("", own)
        except InvalidObjectError:
            # A client of Hive has set the invalid value without an error.
            pass
    return 1000 * int(settings[HISTORY_RETENTION])


def _retention_s(table: str, value: str) -> int:
    try:
        return int(Settings({HISTORY_RETENTION: value})[HISTORY_RETENTION])
    except SettingsError as error:
        raise InvalidObjectError("table", table, f"its property is not valid: {error}") from error


_NAMES = (
    *(NAMESPACE_MODE, CLUSTER, HISTORY_RETENTION, ROW_LAYOUT, PARTITION_ROW_IDS, TEMPORARY_NAMESPACE, MOVING_FOLDER),
    *(DROPPED_COLUMNS, NOT_NULL, POOL, f"{OVERRIDE_PREFIX}{DELTA_NUM}", f"{OVERRIDE_PREFIX}{DELTA_PCT}"),
    *(f"{JOB_PREFIX}{JOB_QUEUE}", TRANSACTIONAL, TRANSACTIONAL_PROPERTIES, BUCKETING_VERSION),
    *(EXTERNAL, PURGE, TRANSLATED),
)
_OF_LINKS = (RETENTION,)
_PREFIXES = (DEFAULTS, CHECKS, KEYS, JOB_PREFIX, TABLE_PROPERTY_PREFIX, OVERRIDE_PREFIX, "hivex.")


def check_spelling(kind: str, object_name: str, properties: Iterable[str], known: Collection[str] = ()) -> None:
    """Refuse property names that differ only by case from a name that this package uses. They would have no effect.

    The names ``known``, which the object has already, are not refused. Names that are read in any case, such as
    ``orc.compress``, are not refused.

    Raises:
        InvalidObjectError: a name differs only by case from a name that this package uses.
    """
    names = (*_NAMES, *_OF_LINKS) if kind == "link" else _NAMES
    for each in properties:
        written = _written(each, names)
        if each not in known and written != each:
            reason = f"property {each!r} means nothing, as names of properties are case-sensitive; write {written!r}"
            raise InvalidObjectError(kind, object_name, reason)


def _written(name: str, names: Collection[str]) -> str:
    """Return the one of ``names`` that differs from ``name`` at most by case, or ``name`` for an unknown name."""
    lower = name.lower()
    for each in names:
        if lower == each.lower():
            return each
    for prefix in _PREFIXES:
        if lower.startswith(prefix):
            rest = name[len(prefix) :]
            return prefix + (_written(rest, names) if prefix == TABLE_PROPERTY_PREFIX else rest)
    return name
