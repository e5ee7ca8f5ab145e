"""Errors of earlier versions of tables."""

from __future__ import annotations

from airflow_hivex.core.errors import pep249
from airflow_hivex.core.errors.root import HivexError


class NoSuchVersionError(HivexError, pep249.DataError):
    """The table has never had this version: no commit has this write id, or the table did not exist at this time."""

    code = "NO_SUCH_VERSION"
    sentence = "Table {table} has no {version}: {reason}. DESCRIBE HISTORY {table} lists its versions."
    table: str
    version: str
    reason: str


class VersionExpiredError(HivexError, pep249.OperationalError):
    """The version has been there, and cannot be read any more."""

    code = "VERSION_EXPIRED"
    sentence = "The {version} of table {table} cannot be read any more: {reason}."
    table: str
    version: str
    reason: str
