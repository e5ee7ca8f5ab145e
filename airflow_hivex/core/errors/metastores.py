"""Errors of opening metastores: parameters, connections, the database, and Hive's own metastores."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_hivex.core.errors import pep249
from airflow_hivex.core.errors.root import HivexError, Outcome
from airflow_hivex.core.errors.secrets import hide


class SettingsError(HivexError, pep249.ProgrammingError):
    """A hive.* parameter cannot be used as given."""


class UnknownSettingError(SettingsError):
    """The parameter does not exist."""

    name: str
    suggestions: Sequence[str] = ()

    def _describe(self) -> str:
        hint = f" Did you mean {' or '.join(self.suggestions)}?" if self.suggestions else ""
        return f"There is no setting {self.name!r}.{hint}"


class InvalidSettingError(SettingsError):
    """The parameter exists, but its value has the wrong type or is out of range."""

    name: str
    value: object
    reason: str

    def __init__(self, name: str, value: object, reason: str) -> None:
        problem = f"{name} has no value" if value is None else f"{name} = {value!r} is not usable"
        # Any object may be given, also one that cannot be pickled.
        kept = value if value is None or isinstance(value, bool | int | float) else hide(str(value))
        self.name, self.value, self.reason = name, kept, reason
        super().__init__(f"Setting {problem}: {reason}.")


class InvalidClusterPropertiesError(SettingsError):
    """hive.cluster.properties is malformed or incomplete."""

    reason: str
    cluster: str | None = None

    def _describe(self) -> str:
        where = f", cluster {self.cluster!r}" if self.cluster is not None else ""
        return (
            f"hive.cluster.properties{where}: {self.reason}. Expected JSON such as "
            '{"c1": {"filesystem": "file:///data/c1", "jobtracker": "local[2]"}}.'
        )


class InvalidConnectionError(SettingsError):
    """An Airflow connection does not describe a metastore or the Spark of a cluster."""

    sentence = "Connection {conn_id!r} is not usable: {reason}."
    conn_id: str
    reason: str


class StoreError(HivexError, pep249.OperationalError):
    """The metastore database refused or failed a call."""


class StoreUnavailableError(StoreError):
    """The metastore database cannot be reached, or was too busy for too long."""

    retryable = True
    sentence = "Metastore database {url} is not available: {reason}."
    url: str
    reason: str


class StoreLockedError(StoreUnavailableError):
    """Other clients of the metastore database have kept rows locked for too long."""

    sentence = (
        "Metastore database {url} has not applied a change: {reason}. Repeat the call when these clients have finished "
        "(SELECT pg_terminate_backend(<server process>) ends one that hangs), or raise hivex.database.lock.timeout."
    )


class StoreMissingError(StoreError):
    """The database has no metastore yet, and the caller only reads."""

    sentence = "There is no metastore in the database {url} yet. Check the name: the first statement on it creates one."
    url: str


class StoreDriverMissingError(StoreError):
    """The package that connects to PostgreSQL cannot be imported."""

    sentence = (
        "A metastore in PostgreSQL needs the package psycopg, which cannot be imported: {reason}. Install it with: pip "
        "install 'airflow-provider-hivex[postgresql]'"
    )
    reason: str


class StoreRefusedError(StoreError):
    """The metastore database refused a value or a change, for example by a constraint; nothing was changed."""

    sentence = "Metastore database {url} refused a call, and nothing was changed: {reason}."
    url: str
    reason: str


class StoreTooOldError(StoreError):
    """The database has an older schema than this release needs."""

    sentence = (
        "Metastore database {url} has schema revision {found}, this release needs {needed}. Upgrade it with: hivex "
        "--metastore '{url}' metastore upgrade"
    )
    url: str
    found: str
    needed: str


class StoreTooNewError(StoreError):
    """The database was upgraded by a newer release."""

    sentence = (
        "Metastore database {url} has schema revision {found}, which this release (up to {known}) does not know. "
        "Upgrade airflow-provider-hivex."
    )
    url: str
    found: str
    known: str


class NotAMetastoreError(StoreError):
    """The database, or the file in its place, is not a metastore."""

    sentence = (
        "Database {url} is not a metastore, and nothing was changed in it: {reason}. Give an empty database, a file "
        "that does not exist yet, or, in PostgreSQL, an empty schema of its own: "
        "postgresql://.../database?options=-csearch_path%3Dhivex"
    )
    url: str
    reason: str


class StoreDamagedError(StoreError):
    """The file of a SQLite metastore is damaged."""

    outcome = Outcome.UNKNOWN
    sentence = (
        "Metastore database {url} is damaged: {reason}. Restore it from a backup; the data files are not touched."
    )
    url: str
    reason: str


class StorePermissionError(StoreError):
    """The metastore database denies its user a permission."""

    sentence = (
        "Metastore database {url} refuses what the metastore needs: {reason}. Its user must own the schema, or have "
        "the privileges USAGE and CREATE on it."
    )
    url: str
    reason: str


class HiveMetastoreError(HivexError, pep249.OperationalError):
    """An existing Hive metastore could not be read."""


class InvalidHiveAddressError(HiveMetastoreError):
    """The address of a Hive metastore is not valid."""

    code = "HIVE_ADDRESS"
    sentence = (
        "{address!r} is not the address of a Hive metastore: {reason}. An address is thrift://host:port, or several "
        "with commas between them."
    )
    address: str
    reason: str


class HiveClientMissingError(HiveMetastoreError):
    """The library that reads Hive metastores is not installed."""

    sentence = (
        "To read a Hive metastore, or to serve one, install airflow-provider-hivex with its extra 'hive': there is no "
        "{missing}."
    )
    missing: str


class HiveUnavailableError(HiveMetastoreError):
    """A Hive metastore cannot be reached, or does not answer. Objects imported before the error are complete."""

    retryable = True
    sentence = (
        "The Hive metastore {address} does not answer ({doing}): {reason}. Repeat the import when it runs; objects "
        "that were imported before are skipped."
    )
    address: str
    doing: str
    reason: str


class HiveProtocolError(HiveMetastoreError):
    """The answer of a server is not an answer of a Hive metastore."""

    sentence = (
        "The server {address} does not answer as a Hive metastore ({doing}): {reason}. The import needs the Thrift "
        "port of a metastore (9083 as a rule); --tls and --framed choose TLS and framed transport, SASL (Kerberos) and "
        "HTTP are not supported."
    )
    address: str
    doing: str
    reason: str


class HiveRefusedError(HiveMetastoreError):
    """A Hive metastore has refused a call."""

    sentence = "The Hive metastore {address} refuses ({doing}): {reason}."

    address: str
    doing: str
    reason: str
