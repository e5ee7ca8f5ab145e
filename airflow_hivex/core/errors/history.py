"""Errors of earlier versions of tables."""

from __future__ import annotations

from airflow_hivex.core.errors.pep249 import DataError, OperationalError
from airflow_hivex.core.errors.root import HivexError


class NoSuchVersionError(HivexError, DataError):
    """The table has never had this version: no commit has this write id, or the table did not exist at this time."""

    code = "NO_SUCH_VERSION"

    def __init__(self, table: str, version: str, reason: str) -> None:
        super().__init__(
            f"Table {table} has no {version}: {reason}. DESCRIBE HISTORY {table} lists its versions.",
            table,
            version,
            reason,
        )
        self.table = table
        self.version = version
        self.reason = reason


class VersionExpiredError(HivexError, OperationalError):
    """The version has been there, and cannot be read any more."""

    code = "VERSION_EXPIRED"

    def __init__(self, table: str, version: str, reason: str) -> None:
        super().__init__(f"The {version} of table {table} cannot be read any more: {reason}.", table, version, reason)
        self.table = table
        self.version = version
        self.reason = reason
