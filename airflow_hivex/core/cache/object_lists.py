"""The tables that may be cached: the white list and the black list of Hive's cache."""

from __future__ import annotations

import re
from collections.abc import Sequence

from airflow_hivex.core.errors import InvalidSettingError
from airflow_hivex.core.settings import Settings

CATALOG = "hive"
"""The name of the one catalog, as Hive's clients know it."""

_MOST_KNOWN = 100_000


class ObjectLists:
    """Patterns of ``catalog.database.table``: the black list counts before the white list.

    A pattern matches the whole name: ``hive[.]sales[.].*`` matches the tables of the database ``sales``, and
    ``sales.*`` matches none of them. Source: Hive CachedStore.shouldCacheTable.
    """

    def __init__(self, settings: Settings) -> None:
        catalogs = settings["metastore.cached.rawstore.catalogs"]
        self._is_cached = not catalogs or CATALOG in catalogs
        self._white = _patterns(settings, "metastore.cached.rawstore.cached.object.whitelist")
        self._black = _patterns(settings, "metastore.cached.rawstore.cached.object.blacklist")
        self._known: dict[tuple[str, str], bool] = {}

    def include(self, database: str, table: str) -> bool:
        """Return whether a table may be kept."""
        known = self._known.get((database, table))
        if known is None:
            name = f"{CATALOG}.{database}.{table}"
            known = (
                self._is_cached
                and not any(pattern.fullmatch(name) for pattern in self._black)
                and any(pattern.fullmatch(name) for pattern in self._white)
            )
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[database, table] = known
        return known


def _patterns(settings: Settings, name: str) -> Sequence[re.Pattern[str]]:
    """Return the patterns of a setting.

    Raises:
        InvalidSettingError: one is not a regular expression.
    """
    patterns = []
    for text in settings[name]:
        try:
            patterns.append(re.compile(text, re.IGNORECASE))
        except re.error as error:
            raise InvalidSettingError(name, text, f"a list of regular expressions ({error})") from error
    return patterns
