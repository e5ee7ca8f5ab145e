"""A real Hive Metastore 2.3: the classes among the jars of PySpark, in a JVM of their own, on Derby in memory.

The server of these classes would listen on all addresses; so its parts are put together here, on the loopback.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

_METASTORE = "org.apache.hadoop.hive.metastore"
_THRIFT = "org.apache.thrift"
_CLIENTS = 16


@contextmanager
def hive_metastore(warehouse: Path, properties: Mapping[str, str] | None = None) -> Iterator[HiveServer]:
    """A metastore server with an empty catalog, as long as the block runs. Starts in some seconds."""
    from py4j.java_gateway import JavaGateway  # noqa: F401 - its types are used by the launcher
    from pyspark.conf import SparkConf
    from pyspark.java_gateway import launch_gateway

    gateway = launch_gateway(SparkConf(loadDefaults=False))
    try:
        with _server(gateway.jvm, warehouse, properties or {}) as server:
            yield server
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(60)


class HiveServer:
    """A running server; ``database_url`` is that of its database for JDBC in its JVM."""

    def __init__(self, jvm: Any, processor: Any, port: int, warehouse: Path, database_url: str) -> None:
        self.jvm = jvm
        self.port = port
        self.warehouse = warehouse
        self.database_url = database_url
        self.address = f"thrift://127.0.0.1:{port}"
        self._processor = processor

    @contextmanager
    def listening(self, *, framed: bool = False, keystore: Path | None = None) -> Iterator[str]:
        """The address of another port of the same metastore, with framed transport or TLS.

        The password of the keystore is ``changeit``.
        """
        with _listening(self.jvm, self._processor, framed=framed, keystore=keystore) as port:
            yield f"thrift://127.0.0.1:{port}"


@contextmanager
def _server(jvm: Any, warehouse: Path, properties: Mapping[str, str]) -> Iterator[HiveServer]:
    conf = getattr(jvm, "org.apache.hadoop.hive.conf.HiveConf")()
    database_url = f"jdbc:derby:memory:{uuid4().hex}"
    for name, value in {
        "javax.jdo.option.ConnectionURL": f"{database_url};create=true",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
        "hive.metastore.warehouse.dir": str(warehouse),
        "hive.metastore.schema.verification": "false",
        "datanucleus.schema.autoCreateAll": "true",
        # Its default is not among Spark's jars.
        "datanucleus.connectionPoolingType": "HikariCP",
        "hive.stats.autogather": "false",
        **properties,
    }.items():
        conf.set(name, value)
    # With hive.in.test the server would make these itself, and then refuse locks without an operation.
    getattr(jvm, f"{_METASTORE}.txn.TxnDbUtil").prepDb(conf)
    handler = getattr(jvm, f"{_METASTORE}.HiveMetaStore").newRetryingHMSHandler("tests", conf, True)
    processor = getattr(jvm, f"{_METASTORE}.TSetIpAddressProcessor")(handler)
    with _listening(jvm, processor) as port:
        yield HiveServer(jvm, processor, port, warehouse, database_url)


@contextmanager
def _listening(jvm: Any, processor: Any, *, framed: bool = False, keystore: Path | None = None) -> Iterator[int]:
    transport = f"{_THRIFT}.transport"
    if keystore is None:
        channel = getattr(jvm, f"{transport}.TServerSocket")(jvm.java.net.InetSocketAddress("127.0.0.1", 0))
    else:
        parameters = getattr(jvm, f"{transport}.TSSLTransportFactory$TSSLTransportParameters")()
        parameters.setKeyStore(str(keystore), "changeit")
        loopback = jvm.java.net.InetAddress.getByName("127.0.0.1")
        make = getattr(jvm, f"{transport}.TSSLTransportFactory").getServerSocket
        channel = make(0, 0, loopback, parameters)
    arguments = getattr(jvm, f"{_THRIFT}.server.TThreadPoolServer$Args")(channel)
    arguments = arguments.processor(processor).maxWorkerThreads(_CLIENTS)
    if framed:
        arguments = arguments.transportFactory(getattr(jvm, f"{transport}.layered.TFramedTransport$Factory")())
    server = getattr(jvm, f"{_THRIFT}.server.TThreadPoolServer")(arguments)
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    while not server.isServing():
        assert thread.is_alive(), "the Thrift server ended before it listened"
        # It does not say when it listens; the test's own time-out ends it.
        time.sleep(0.01)
    try:
        yield channel.getServerSocket().getLocalPort()
    finally:
        server.stop()
        thread.join(30)


@contextmanager
def hive_client(server: HiveServer, timeout_ms: int | None = None) -> Iterator[Any]:
    """A Thrift client of the server, with all that Hive can. A call may wait ``timeout_ms`` for its answer."""
    from hive_metastore import ThriftHiveMetastore
    from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
    from thrift.transport.TSocket import TSocket
    from thrift.transport.TTransport import TBufferedTransport

    socket = TSocket("127.0.0.1", server.port)
    socket.setTimeout(timeout_ms)
    transport = TBufferedTransport(socket)
    transport.open()
    try:
        yield ThriftHiveMetastore.Client(TBinaryProtocolAccelerated(transport))
    finally:
        transport.close()
