"""Errors of the import of an existing Hive metastore."""

from __future__ import annotations

from airflow_hivex.core.errors.pep249 import OperationalError
from airflow_hivex.core.errors.root import HivexError


class HiveMetastoreError(HivexError, OperationalError):
    """An existing Hive metastore could not be read."""

    code = "HIVE_METASTORE"


class InvalidHiveAddressError(HiveMetastoreError):
    """The address of a Hive metastore is not valid."""

    code = "HIVE_ADDRESS"

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(
            f"{address!r} is not the address of a Hive metastore: {reason}. An address is thrift://host:port, or "
            "several with commas between them.",
            address,
            reason,
        )
        self.address = address


class HiveClientMissingError(HiveMetastoreError):
    """The library that reads Hive metastores is not installed."""

    code = "HIVE_CLIENT_MISSING"

    def __init__(self, missing: str) -> None:
        super().__init__(
            "To read a Hive metastore, or to serve one, install airflow-provider-hivex with its extra 'hive': "
            f"there is no {missing}.",
            missing,
        )


class HiveUnavailableError(HiveMetastoreError):
    """A Hive metastore cannot be reached, or does not answer. What was imported before is complete."""

    code = "HIVE_UNAVAILABLE"
    retryable = True

    def __init__(self, address: str, doing: str, reason: str) -> None:
        super().__init__(
            f"The Hive metastore {address} does not answer ({doing}): {reason}. Repeat the import when it runs; "
            "objects that were imported before are skipped.",
            address,
            doing,
            reason,
        )
        self.address = address


class HiveProtocolError(HiveMetastoreError):
    """A server does not answer as a Hive metastore does."""

    code = "HIVE_PROTOCOL"

    def __init__(self, address: str, doing: str, reason: str) -> None:
        super().__init__(
            f"The server {address} does not answer as a Hive metastore ({doing}): {reason}. The import needs the "
            "Thrift port of a metastore (9083 as a rule); --tls and --framed choose TLS and framed transport, SASL "
            "(Kerberos) and HTTP are not supported.",
            address,
            doing,
            reason,
        )
        self.address = address


class HiveRefusedError(HiveMetastoreError):
    """A Hive metastore has refused a call."""

    code = "HIVE_REFUSED"

    def __init__(self, address: str, doing: str, reason: str) -> None:
        super().__init__(f"The Hive metastore {address} refuses ({doing}): {reason}.", address, doing, reason)
        self.address = address
