"""Table properties that mean something to Hive or Spark, and cannot be kept as words that nothing obeys.

Source: Hive's hive_metastoreConstants and its error 10256; Spark's TableCatalog.RESERVED_PROPERTIES.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_hivex.core.errors import InvalidObjectError, SettingsError
from airflow_hivex.core.model.objects import (
    BUCKETING_VERSION,
    TEMPORARY_NAMESPACE,
    TRANSACTIONAL,
    TRANSACTIONAL_PROPERTIES,
)
from airflow_hivex.core.settings import HISTORY_RETENTION, Settings

_CLAUSES = {
    "location": "the clause LOCATION",
    "provider": "the clause USING",
    "owner": "the user of the session who creates the table",
    TEMPORARY_NAMESPACE: "CREATE TEMPORARY TABLE",
}
"""Names that are reserved, most of them by Spark, and what says the same."""

_IN_LOWER_CASE = frozenset({TRANSACTIONAL, TRANSACTIONAL_PROPERTIES, BUCKETING_VERSION})


def normalised(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties, with those names in lower case that Hive reads in any case."""
    return {name.lower() if name.lower() in _IN_LOWER_CASE else name: value for name, value in properties.items()}


def check_properties(table: str, properties: Mapping[str, str], *, external: bool, bucketed: bool) -> None:
    """Refuse properties whose meaning is not honoured, where their loss would change answers or lose files.

    Raises:
        InvalidObjectError: there is one.
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
    """Return how long earlier versions of a table can be read, by its property or else the setting of that name."""
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
