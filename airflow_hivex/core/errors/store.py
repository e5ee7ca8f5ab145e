"""Errors of the metastore database."""

from __future__ import annotations

from airflow_hivex.core.errors.pep249 import OperationalError
from airflow_hivex.core.errors.root import HivexError, Outcome


class StoreError(HivexError, OperationalError):
    """The metastore database refused or failed a call."""

    code = "STORE"


class StoreUnavailableError(StoreError):
    """The metastore database cannot be reached, or was too busy for too long."""

    code = "STORE_UNAVAILABLE"
    retryable = True

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"Metastore database {url} is not available: {reason}.", url, reason)


class StoreMissingError(StoreError):
    """The database has no metastore yet, and the caller only reads."""

    code = "STORE_MISSING"

    def __init__(self, url: str) -> None:
        super().__init__(
            f"There is no metastore in the database {url} yet. Check the name: the first statement on it creates one.",
            url,
        )


class StoreDriverMissingError(StoreError):
    """The package that connects to a PostgreSQL metastore cannot be imported."""

    code = "STORE_DRIVER_MISSING"

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"A metastore in PostgreSQL needs the package psycopg, which cannot be imported: {reason}. "
            "Install it with: pip install 'airflow-provider-hivex[postgresql]'",
            reason,
        )


class StoreRefusedError(StoreError):
    """The metastore database refused a call for what it holds; nothing was changed."""

    code = "STORE_REFUSED"

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"Metastore database {url} refused a call, and nothing was changed: {reason}.", url, reason)


class StoreTooOldError(StoreError):
    """The database has an older schema than this release needs."""

    code = "STORE_TOO_OLD"

    def __init__(self, url: str, found: str, needed: str) -> None:
        super().__init__(
            f"Metastore database {url} has schema revision {found}, this release needs {needed}. "
            f"Upgrade it with: hivex --metastore '{url}' metastore upgrade",
            url,
            found,
            needed,
        )


class StoreTooNewError(StoreError):
    """The database was upgraded by a newer release."""

    code = "STORE_TOO_NEW"

    def __init__(self, url: str, found: str, known: str) -> None:
        super().__init__(
            f"Metastore database {url} has schema revision {found}, which this release (up to {known}) does not "
            "know. Upgrade airflow-provider-hivex.",
            url,
            found,
            known,
        )


class NotAMetastoreError(StoreError):
    """The database, or the file in its place, holds something else."""

    code = "NOT_A_METASTORE"

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(
            f"Database {url} is not a metastore, and nothing was changed in it: {reason}. Give an empty database, "
            "a file that does not exist yet, or, in PostgreSQL, an empty schema of its own: "
            "postgresql://.../database?options=-csearch_path%3Dhivex",
            url,
            reason,
        )


class StoreDamagedError(StoreError):
    """The file of a SQLite metastore is damaged."""

    code = "STORE_DAMAGED"
    outcome = Outcome.UNKNOWN

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(
            f"Metastore database {url} is damaged: {reason}. Restore it from a backup; the data files are not touched.",
            url,
            reason,
        )


class StorePermissionError(StoreError):
    """The metastore database does not let its user do what the metastore needs."""

    code = "STORE_PERMISSION"

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(
            f"Metastore database {url} refuses what the metastore needs: {reason}. Its user must own the schema, "
            "or have the privileges USAGE and CREATE on it.",
            url,
            reason,
        )
