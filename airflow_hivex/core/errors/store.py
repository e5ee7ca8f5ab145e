"""Errors of the metastore database."""

from __future__ import annotations

from airflow_hivex.core.errors import pep249
from airflow_hivex.core.errors.root import HivexError, Outcome


class StoreError(HivexError, pep249.OperationalError):
    """The metastore database refused or failed a call."""

    code = "STORE"


class StoreUnavailableError(StoreError):
    """The metastore database cannot be reached, or was too busy for too long."""

    code = "STORE_UNAVAILABLE"
    retryable = True
    sentence = "Metastore database {url} is not available: {reason}."
    url: str
    reason: str


class StoreMissingError(StoreError):
    """The database has no metastore yet, and the caller only reads."""

    code = "STORE_MISSING"
    sentence = "There is no metastore in the database {url} yet. Check the name: the first statement on it creates one."
    url: str


class StoreDriverMissingError(StoreError):
    """The package that connects to a PostgreSQL metastore cannot be imported."""

    code = "STORE_DRIVER_MISSING"
    sentence = (
        "A metastore in PostgreSQL needs the package psycopg, which cannot be imported: {reason}. Install it with: pip "
        "install 'airflow-provider-hivex[postgresql]'"
    )
    reason: str


class StoreRefusedError(StoreError):
    """The metastore database refused a call for what it holds; nothing was changed."""

    code = "STORE_REFUSED"
    sentence = "Metastore database {url} refused a call, and nothing was changed: {reason}."
    url: str
    reason: str


class StoreTooOldError(StoreError):
    """The database has an older schema than this release needs."""

    code = "STORE_TOO_OLD"
    sentence = (
        "Metastore database {url} has schema revision {found}, this release needs {needed}. Upgrade it with: hivex "
        "--metastore '{url}' metastore upgrade"
    )
    url: str
    found: str
    needed: str


class StoreTooNewError(StoreError):
    """The database was upgraded by a newer release."""

    code = "STORE_TOO_NEW"
    sentence = (
        "Metastore database {url} has schema revision {found}, which this release (up to {known}) does not know. "
        "Upgrade airflow-provider-hivex."
    )
    url: str
    found: str
    known: str


class NotAMetastoreError(StoreError):
    """The database, or the file in its place, holds something else."""

    code = "NOT_A_METASTORE"
    sentence = (
        "Database {url} is not a metastore, and nothing was changed in it: {reason}. Give an empty database, a file "
        "that does not exist yet, or, in PostgreSQL, an empty schema of its own: "
        "postgresql://.../database?options=-csearch_path%3Dhivex"
    )
    url: str
    reason: str


class StoreDamagedError(StoreError):
    """The file of a SQLite metastore is damaged."""

    code = "STORE_DAMAGED"
    outcome = Outcome.UNKNOWN
    sentence = (
        "Metastore database {url} is damaged: {reason}. Restore it from a backup; the data files are not touched."
    )
    url: str
    reason: str


class StorePermissionError(StoreError):
    """The metastore database does not let its user do what the metastore needs."""

    code = "STORE_PERMISSION"
    sentence = (
        "Metastore database {url} refuses what the metastore needs: {reason}. Its user must own the schema, or have "
        "the privileges USAGE and CREATE on it."
    )
    url: str
    reason: str
