"""The Hive Metastore endpoint in a thread of the test, and Thrift clients of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hive_metastore import ThriftHiveMetastore, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TFramedTransport

from airflow_hivex.core.metastore import Metastore
from airflow_hivex.core.thrift.endpoint import Endpoint
from airflow_hivex.core.thrift.server import Server

_ORC = "org.apache.hadoop.hive.ql.io.orc"


class Serving:
    """A running server."""

    def __init__(self, server: Server, port: int, loop: asyncio.AbstractEventLoop) -> None:
        self.server = server
        self.port = port
        self.loop = loop

    def stop(self) -> None:
        """Stop the server as a signal does; twice is a no-op."""
        asyncio.run_coroutine_threadsafe(self.server.stop(), self.loop).result(30)


@contextmanager
def serving(
    metastore: Metastore,
    cluster: str | None = None,
    *,
    lock_patience_s: float = 10,
    address: str = "127.0.0.1",
    **given: Any,
) -> Iterator[Serving]:
    """A server over a metastore on a free port of an address, as long as the block runs."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="endpoint of a test")
    thread.start()

    async def start() -> Serving:
        server = Server(Endpoint(metastore, cluster, lock_patience_s=lock_patience_s), **given)
        return Serving(server, await server.start(address, 0), loop)

    try:
        running = asyncio.run_coroutine_threadsafe(start(), loop).result(30)
        try:
            yield running
        finally:
            running.stop()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


@contextmanager
def hive_client(port: int, user: str | None = "ann", *, framed: bool = False) -> Iterator[Any]:
    """A Thrift client that says who it is, as Hive's clients do first of all."""
    socket = TSocket("127.0.0.1", port)
    socket.setTimeout(60_000)
    transport = TFramedTransport(socket) if framed else TBufferedTransport(socket)
    transport.open()
    try:
        client = ThriftHiveMetastore.Client(TBinaryProtocolAccelerated(transport, fallback=False))
        if user is not None:
            client.set_ugi(user, [])
        yield client
    finally:
        transport.close()


def descriptor(location: str | None = None, **columns: str) -> Any:
    """A storage descriptor of ORC files."""
    columns = columns or {"id": "bigint", "name": "string"}
    return ttypes.StorageDescriptor(
        cols=[ttypes.FieldSchema(name, of, None) for name, of in columns.items()],
        location=location,
        inputFormat=f"{_ORC}.OrcInputFormat",
        outputFormat=f"{_ORC}.OrcOutputFormat",
        compressed=False,
        numBuckets=-1,
        serdeInfo=ttypes.SerDeInfo(None, f"{_ORC}.OrcSerde", {"serialization.format": "1"}),
        bucketCols=[],
        sortCols=[],
        parameters={},
    )


def table(database: str, name: str, **given: Any) -> Any:
    """A table; ``keys`` are its partition keys with their types."""
    keys = given.pop("keys", {})
    described = {
        "tableName": name,
        "dbName": database,
        "owner": "ann",
        "sd": descriptor(),
        "partitionKeys": [ttypes.FieldSchema(key, of, None) for key, of in keys.items()],
        "parameters": {},
        "tableType": "MANAGED_TABLE",
        **given,
    }
    return ttypes.Table(**described)


def partition(database: str, name: str, *values: str, **given: Any) -> Any:
    """A partition."""
    described = {"sd": descriptor(), "parameters": {}, **given}
    return ttypes.Partition(values=list(values), dbName=database, tableName=name, **described)
