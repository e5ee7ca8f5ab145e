"""A client of a Hive metastore's Thrift server, which only reads. Only this module knows Thrift.

The bindings for Hive 4 are a part of pyiceberg. Metastores from Hive 2.3 on understand the calls of this module.
"""

from __future__ import annotations

import logging
import re
import socket
import ssl
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from airflow_hivex.core.errors import (
    HiveClientMissingError,
    HiveProtocolError,
    HiveRefusedError,
    HiveUnavailableError,
    InvalidHiveAddressError,
    InvalidSettingError,
)
from airflow_hivex.core.model.write_ids import ValidTxnList, ValidWriteIdList

log = logging.getLogger(__name__)

_ADDRESS = re.compile(r"thrift://(\[[0-9A-Fa-f:.]+\]|[^\s/:\[\]@]+):([0-9]{1,5})/?")
_ABORTED = 2
"""Hive's TxnState.ABORTED."""
_INSERT_ONLY_TABLES = 2
"""Hive's ClientCapability; without it metastores of Hive 3 and later hide insert-only tables."""
_UNKNOWN_METHOD = 1
_LONGEST_REPLY = 1 << 30


@dataclass(frozen=True, slots=True)
class HiveAddress:
    """The host and port of a metastore server."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"thrift://{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class HiveTransport:
    """The transport to a metastore, as the settings of its server describe it.

    ``tls`` is the setting ``hive.metastore.use.SSL``, and ``framed`` is
    ``hive.metastore.thrift.framed.transport.enabled``. ``ca_file`` (PEM) has the certificates by which the server's
    certificate is verified; None means the system's certificates.
    """

    tls: bool = False
    ca_file: str | None = None
    framed: bool = False

    def tls_context(self) -> ssl.SSLContext:
        """Return the context of TLS connections, which verifies certificates and the names of hosts.

        Raises:
            InvalidSettingError: the file has no certificates.
        """
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ssl.SSLError) as error:
            expected = f"a file with certificates in PEM is expected ({error})"
            raise InvalidSettingError("ca_file", self.ca_file, expected) from error


def parse_addresses(text: str) -> tuple[HiveAddress, ...]:
    """Return the servers in a text of the form of ``hive.metastore.uris``: ``thrift://host:port[,thrift://...]``.

    Raises:
        InvalidHiveAddressError: the text has another form.
    """
    found = []
    for part in (each.strip() for each in text.split(",")):
        match = _ADDRESS.fullmatch(part)
        if match is None:
            reason = "it has no port" if re.fullmatch(r"thrift://[^\s/:]+/?", part) else "its form is another one"
            raise InvalidHiveAddressError(text, reason)
        port = int(match[2])
        if not 0 < port < 1 << 16:
            raise InvalidHiveAddressError(text, f"there is no port {port}")
        found.append(HiveAddress(match[1].strip("[]"), port))
    return tuple(found)


class HiveMetastoreClient:
    """A connection to a Hive metastore, opened by its first call. Use it as a context manager, in one thread.

    All calls only read. After a lost connection, a call is repeated once on a new connection. Replies are structures of
    Hive's Thrift interface.

    Raises:
        InvalidHiveAddressError: the address is not valid.
        InvalidSettingError: the file of certificates is not valid.
        HiveClientMissingError: the bindings are not installed.
    """

    def __init__(
        self, address: str, *, user: str, timeout_s: float = 60, transport: HiveTransport = HiveTransport()
    ) -> None:
        try:
            import hive_metastore.ThriftHiveMetastore
            import thrift.Thrift
        except ImportError as error:
            raise HiveClientMissingError(error.name or "pyiceberg") from error
        self._service = hive_metastore.ThriftHiveMetastore
        self._types = hive_metastore.ttypes
        self._thrift = thrift.Thrift
        self.addresses = parse_addresses(address)
        self._shown = str(self.addresses[0])
        self._user = user
        self._timeout_s = timeout_s
        self._tls = transport.tls_context() if transport.tls else None
        self._is_framed = transport.framed
        self._has_answered = False
        self._transport: Any = None
        self._client: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the next call opens another one."""
        transport, self._transport, self._client = self._transport, None, None
        if transport is not None:
            transport.close()

    # -- databases, tables, partitions --------------------------------------------------

    def database_names(self) -> list[str]:
        """Return the names of all databases, sorted."""
        return sorted(self._call("list its databases", lambda client: client.get_all_databases()))

    def database(self, name: str) -> Any:
        """Return a database."""
        return self._call(f"read database {name}", lambda client: client.get_database(name))

    def table_names(self, database: str) -> list[str]:
        """Return the names of a database's tables and views, sorted."""
        return sorted(self._call(f"list the tables of {database}", lambda client: client.get_all_tables(database)))

    def tables(self, database: str, names: Sequence[str]) -> list[Any]:
        """Return the named tables that exist."""
        types = self._types
        request = types.GetTablesRequest(
            dbName=database,
            tblNames=list(names),
            capabilities=types.ClientCapabilities([_INSERT_ONLY_TABLES]),
        )
        found = self._call(
            f"read {len(names)} tables of {database}", lambda client: client.get_table_objects_by_name_req(request)
        )
        return list(found.tables or ())

    def functions(self, database: str) -> list[Any]:
        """Return the permanent functions of a database, sorted by name."""
        doing = f"read the functions of {database}"
        names = sorted(self._call(doing, lambda client: client.get_functions(database, "*")))
        return [self._call(doing, partial(_function, database=database, name=name)) for name in names]

    def partition_names(self, database: str, table: str) -> list[str]:
        """Return the names of all partitions of a table, in Hive's spelling."""
        doing = f"list the partitions of {database}.{table}"
        return list(self._call(doing, lambda client: client.get_partition_names(database, table, -1)))

    def partitions(self, database: str, table: str, names: Sequence[str]) -> list[Any]:
        """Return the named partitions that exist."""
        doing = f"read {len(names)} partitions of {database}.{table}"
        return list(self._call(doing, lambda client: client.get_partitions_by_names(database, table, list(names))))

    # -- statistics of columns ----------------------------------------------------------

    def table_statistics(self, database: str, table: str, columns: Sequence[str]) -> list[Any]:
        """Return the existing statistics of columns of a table."""
        request = self._types.TableStatsRequest(dbName=database, tblName=table, colNames=list(columns))
        doing = f"read the statistics of {database}.{table}"
        return list(self._call(doing, lambda client: client.get_table_statistics_req(request)).tableStats or ())

    def partition_statistics(
        self, database: str, table: str, columns: Sequence[str], names: Sequence[str]
    ) -> Mapping[str, Sequence[Any]]:
        """Return a dict from Hive's name of a partition to the statistics of its columns."""
        request = self._types.PartitionsStatsRequest(
            dbName=database, tblName=table, colNames=list(columns), partNames=list(names)
        )
        doing = f"read the statistics of {len(names)} partitions of {database}.{table}"
        found = self._call(doing, lambda client: client.get_partitions_statistics_req(request))
        return dict(found.partStats or {})

    # -- transactions -------------------------------------------------------------------

    def valid_txns(self) -> ValidTxnList:
        """Return Hive's current transaction list: the highest id, and the ids of open and aborted transactions.

        Raises:
            HiveRefusedError: the metastore has no tables for transactions.
        """
        found = self._call("list its transactions", lambda client: client.get_open_txns_info())
        of_state: dict[bool, list[int]] = {True: [], False: []}
        for each in found.open_txns or ():
            of_state[each.state == _ABORTED].append(each.id)
        return ValidTxnList.of(found.txn_high_water_mark, of_state[False], of_state[True])

    def valid_write_ids(self, database: str, table: str, valid_txns: ValidTxnList) -> ValidWriteIdList:
        """Return the list of valid write ids of a table in a snapshot.

        A metastore before Hive 3 has no write ids. For such a metastore, the method returns transaction ids as write
        ids, as an upgrade of Hive does.

        Source: Hive's ``hive-schema-3.0.0`` upgrade scripts, which fill TXN_TO_WRITE_ID with transaction ids.
        """
        name = f"{database}.{table}"
        request = self._types.GetValidWriteIdsRequest(fullTableNames=[name], validTxnList=str(valid_txns))
        found = self._call(
            f"read the write ids of {name}",
            lambda client: client.get_valid_write_ids(request),
            without=valid_txns,
        )
        if isinstance(found, ValidTxnList):
            return ValidWriteIdList.of(name, found.high_watermark, found.open_ids, found.aborted_ids)
        (listed,) = found.tblValidWriteIds
        bits = listed.abortedBits or b""
        of_state: dict[bool, list[int]] = {True: [], False: []}
        for index, write_id in enumerate(listed.invalidWriteIds or ()):
            # A bit for each exception. Source: java.util.BitSet.toByteArray.
            of_state[index < 8 * len(bits) and bool(bits[index // 8] >> index % 8 & 1)].append(write_id)
        return ValidWriteIdList.of(name, listed.writeIdHighWaterMark, of_state[False], of_state[True])

    # -- calls --------------------------------------------------------------------------

    def _call(self, doing: str, call: Callable[[Any], Any], *, without: object = None) -> Any:
        """Return the answer to a call. Return ``without`` if the server lacks the method."""
        try:
            return self._call_once(doing, call, without)
        except HiveUnavailableError:
            # The server closes idle and old connections. All calls only read, so a call may be repeated.
            log.info("Connecting to the Hive metastore again, to %s", doing)
            return self._call_once(doing, call, without)

    def _call_once(self, doing: str, call: Callable[[Any], Any], without: object) -> Any:
        thrift = self._thrift
        try:
            return call(self._connected(doing))
        except thrift.TApplicationException as error:
            # The state of this connection is not known any more.
            self.close()
            if without is not None and error.type == _UNKNOWN_METHOD:
                return without
            raise HiveRefusedError(self._shown, doing, str(error)) from error
        except (EOFError, OSError) as error:
            self.close()
            raise HiveUnavailableError(self._shown, doing, self._message_of(error)) from error
        except thrift.TException as error:
            from thrift.protocol.TProtocol import TProtocolException
            from thrift.transport.TTransport import TTransportException

            if isinstance(error, TTransportException):
                self.close()
                raise HiveUnavailableError(self._shown, doing, self._message_of(error)) from error
            if isinstance(error, TProtocolException):
                self.close()
                raise HiveProtocolError(self._shown, doing, _reason(error)) from error
            # The method declares this error: the connection stays usable.
            raise HiveRefusedError(self._shown, doing, _reason(error)) from error
        except (ValueError, TypeError, MemoryError, OverflowError, struct.error) as error:
            # A reply that cannot be decoded.
            self.close()
            raise HiveProtocolError(self._shown, doing, _reason(error)) from error
        except BaseException:
            self.close()
            raise

    def _message_of(self, error: BaseException) -> str:
        """Return the text of an error. If the server has never answered, the text adds a possible reason."""
        hint = "" if self._has_answered else f"; {_OTHER_TRANSPORT}"
        return f"{_reason(error)}{hint}"

    def _connected(self, doing: str) -> Any:
        if self._client is None:
            self._connect(doing)
        return self._client

    def _connect(self, doing: str) -> None:
        from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
        from thrift.transport.TTransport import TBufferedTransport, TFramedTransport, TTransportException

        last: Exception | None = None
        for address in self.addresses:
            channel = self._channel(address)
            channel.setTimeout(int(self._timeout_s * 1000))
            transport = TFramedTransport(channel) if self._is_framed else TBufferedTransport(channel)
            try:
                transport.open()
            except (TTransportException, OSError) as error:
                if isinstance(getattr(error, "inner", error), ssl.SSLError):
                    raise HiveProtocolError(str(address), doing, _reason(getattr(error, "inner", error))) from error
                last = error
                continue
            channel.handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            protocol = TBinaryProtocolAccelerated(
                transport,
                strictRead=True,
                string_length_limit=_LONGEST_REPLY,
                container_length_limit=_LONGEST_REPLY,
            )
            self._transport, self._client = transport, self._service.Client(protocol)
            self._shown = str(address)
            # As Spark and Beeline do first of all; a metastore without security takes the user from it.
            self._client.set_ugi(self._user, [])
            self._has_answered = True
            return
        shown = ",".join(map(str, self.addresses))
        raise HiveUnavailableError(shown, doing, _reason(last)) from last

    def _channel(self, address: HiveAddress) -> Any:
        from thrift.transport.TSocket import TSocket
        from thrift.transport.TSSLSocket import TSSLSocket

        if self._tls is None:
            return TSocket(address.host, address.port)
        return TSSLSocket(address.host, address.port, ssl_context=self._tls)


_OTHER_TRANSPORT = (
    "it may expect TLS, framed transport (the options --tls and --framed) or SASL, which is not supported"
)


def _reason(error: BaseException | None) -> str:
    """Return the text of an error without the full stop at its end. An error without a text is named by its class."""
    text = str(getattr(error, "message", None) or error or "")
    return (" ".join(text.split()) or type(error).__name__)[:500].rstrip(".")


def _function(client: Any, *, database: str, name: str) -> Any:
    return client.get_function(database, name)
