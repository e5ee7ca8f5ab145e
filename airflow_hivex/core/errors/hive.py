"""Errors of the import of an existing Hive metastore."""

from __future__ import annotations

from airflow_hivex.core.errors import pep249
from airflow_hivex.core.errors.root import HivexError


class HiveMetastoreError(HivexError, pep249.OperationalError):
    """An existing Hive metastore could not be read."""

    code = "HIVE_METASTORE"


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

    code = "HIVE_CLIENT_MISSING"
    sentence = (
        "To read a Hive metastore, or to serve one, install airflow-provider-hivex with its extra 'hive': there is no "
        "{missing}."
    )
    missing: str


class HiveUnavailableError(HiveMetastoreError):
    """A Hive metastore cannot be reached, or does not answer. What was imported before is complete."""

    code = "HIVE_UNAVAILABLE"
    retryable = True
    sentence = (
        "The Hive metastore {address} does not answer ({doing}): {reason}. Repeat the import when it runs; objects "
        "that were imported before are skipped."
    )
    address: str
    doing: str
    reason: str


class HiveProtocolError(HiveMetastoreError):
    """A server does not answer as a Hive metastore does."""

    code = "HIVE_PROTOCOL"
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

    code = "HIVE_REFUSED"
    sentence = "The Hive metastore {address} refuses ({doing}): {reason}."

    address: str
    doing: str
    reason: str
