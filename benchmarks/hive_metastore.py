"""A real Hive Metastore 2.3 as a peer: the server in the jars of pyspark's wheel, and its Thrift client."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.postgresql import free_port

JDBC_DRIVER = Path("/usr/share/java/postgresql.jar")
_START_S = 180
_PACKAGES = (
    "java.lang java.lang.invoke java.lang.reflect java.io java.net java.nio java.util java.util.concurrent "
    "java.util.concurrent.atomic sun.nio.ch sun.nio.cs sun.security.action sun.util.calendar"
)
# What Hive makes itself are the tables of its catalog only. Source: Hive TxnDbUtil, and the index that
# its hive-txn-schema-2.3.0.postgres.sql has.
_TRANSACTION_TABLES = """
CREATE TABLE TXNS (TXN_ID bigint PRIMARY KEY, TXN_STATE char(1) NOT NULL, TXN_STARTED bigint NOT NULL,
    TXN_LAST_HEARTBEAT bigint NOT NULL, TXN_USER varchar(128) NOT NULL, TXN_HOST varchar(128) NOT NULL,
    TXN_AGENT_INFO varchar(128), TXN_META_INFO varchar(128), TXN_HEARTBEAT_COUNT integer);
CREATE TABLE TXN_COMPONENTS (TC_TXNID bigint REFERENCES TXNS (TXN_ID), TC_DATABASE varchar(128) NOT NULL,
    TC_TABLE varchar(128), TC_PARTITION varchar(767), TC_OPERATION_TYPE char(1) NOT NULL);
CREATE INDEX TC_TXNID_INDEX ON TXN_COMPONENTS (TC_TXNID);
CREATE TABLE COMPLETED_TXN_COMPONENTS (CTC_TXNID bigint, CTC_DATABASE varchar(128) NOT NULL,
    CTC_TABLE varchar(256), CTC_PARTITION varchar(767));
CREATE TABLE NEXT_TXN_ID (NTXN_NEXT bigint NOT NULL);
INSERT INTO NEXT_TXN_ID VALUES (1);
CREATE TABLE HIVE_LOCKS (HL_LOCK_EXT_ID bigint NOT NULL, HL_LOCK_INT_ID bigint NOT NULL, HL_TXNID bigint,
    HL_DB varchar(128) NOT NULL, HL_TABLE varchar(128), HL_PARTITION varchar(767), HL_LOCK_STATE char(1) NOT NULL,
    HL_LOCK_TYPE char(1) NOT NULL, HL_LAST_HEARTBEAT bigint NOT NULL, HL_ACQUIRED_AT bigint,
    HL_USER varchar(128) NOT NULL, HL_HOST varchar(128) NOT NULL, HL_HEARTBEAT_COUNT integer,
    HL_AGENT_INFO varchar(128), HL_BLOCKEDBY_EXT_ID bigint, HL_BLOCKEDBY_INT_ID bigint,
    PRIMARY KEY (HL_LOCK_EXT_ID, HL_LOCK_INT_ID));
CREATE INDEX HL_TXNID_INDEX ON HIVE_LOCKS (HL_TXNID);
CREATE TABLE NEXT_LOCK_ID (NL_NEXT bigint NOT NULL);
INSERT INTO NEXT_LOCK_ID VALUES (1);
CREATE TABLE COMPACTION_QUEUE (CQ_ID bigint PRIMARY KEY, CQ_DATABASE varchar(128) NOT NULL,
    CQ_TABLE varchar(128) NOT NULL, CQ_PARTITION varchar(767), CQ_STATE char(1) NOT NULL, CQ_TYPE char(1) NOT NULL,
    CQ_TBLPROPERTIES varchar(2048), CQ_WORKER_ID varchar(128), CQ_START bigint, CQ_RUN_AS varchar(128),
    CQ_HIGHEST_TXN_ID bigint, CQ_META_INFO bytea, CQ_HADOOP_JOB_ID varchar(32));
CREATE TABLE NEXT_COMPACTION_QUEUE_ID (NCQ_NEXT bigint NOT NULL);
INSERT INTO NEXT_COMPACTION_QUEUE_ID VALUES (1);
CREATE TABLE COMPLETED_COMPACTIONS (CC_ID bigint PRIMARY KEY, CC_DATABASE varchar(128) NOT NULL,
    CC_TABLE varchar(128) NOT NULL, CC_PARTITION varchar(767), CC_STATE char(1) NOT NULL, CC_TYPE char(1) NOT NULL,
    CC_TBLPROPERTIES varchar(2048), CC_WORKER_ID varchar(128), CC_START bigint, CC_END bigint,
    CC_RUN_AS varchar(128), CC_HIGHEST_TXN_ID bigint, CC_META_INFO bytea, CC_HADOOP_JOB_ID varchar(32));
CREATE TABLE AUX_TABLE (MT_KEY1 varchar(128) NOT NULL, MT_KEY2 bigint NOT NULL, MT_COMMENT varchar(255),
    PRIMARY KEY (MT_KEY1, MT_KEY2));
CREATE TABLE WRITE_SET (WS_DATABASE varchar(128) NOT NULL, WS_TABLE varchar(128) NOT NULL,
    WS_PARTITION varchar(767), WS_TXNID bigint NOT NULL, WS_COMMIT_ID bigint NOT NULL,
    WS_OPERATION_TYPE char(1) NOT NULL);
"""


@contextmanager
def hive_metastore(folder: Path, database_url: str) -> Iterator[int]:
    """The port of a metastore server on a PostgreSQL database, as long as the block runs.

    It listens on all addresses, which cannot be changed: run this only where no other address than the loopback exists.
    """
    if not JDBC_DRIVER.exists():
        raise FileNotFoundError(f"{JDBC_DRIVER} is missing: scripts/install-system-packages.sh jdbc")
    libpq_url = database_url.replace("postgresql+psycopg://", "postgresql://", 1)
    with psycopg.connect(libpq_url, autocommit=True) as connection:
        connection.execute(_TRANSACTION_TABLES)  # type: ignore[arg-type]
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    classes = f"{folder}:{Path(found.origin).parent / 'jars'}/*:{JDBC_DRIVER}"
    _configure(folder, libpq_url)
    port = free_port()
    java = Path(os.environ["JAVA_HOME"], "bin/java") if "JAVA_HOME" in os.environ else Path("java")
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _PACKAGES.split()]
    main = ["-cp", classes, "org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port)]
    log = folder / "hive_metastore.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [str(java), *opened, "-Xmx2g", *main], stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=folder
        )
    try:
        _await(process, port, log)
        yield port
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def connect(port: int) -> Any:
    """A Thrift client, with the accelerated protocol."""
    from hive_metastore import ThriftHiveMetastore
    from thrift.protocol import TBinaryProtocol
    from thrift.transport import TSocket, TTransport

    channel = TSocket.TSocket("127.0.0.1", port)
    channel.setTimeout(60_000)
    transport = TTransport.TBufferedTransport(channel)
    protocols = TBinaryProtocol.TBinaryProtocolAcceleratedFactory(fallback=False)
    client = ThriftHiveMetastore.Client(protocols.getProtocol(transport))
    transport.open()
    channel.handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def _configure(folder: Path, libpq_url: str) -> None:
    authority, _, database = libpq_url.removeprefix("postgresql://").rpartition("/")
    user, _, server = authority.rpartition("@")
    properties = {
        "hive.metastore.warehouse.dir": str(folder / "warehouse"),
        "hive.metastore.schema.verification": "false",
        "datanucleus.schema.autoCreateAll": "true",
        # Its defaults, BoneCP and an asynchronous log, are not among Spark's jars.
        "datanucleus.connectionPoolingType": "HikariCP",
        "hive.async.log.enabled": "false",
        "hive.txn.manager": "org.apache.hadoop.hive.ql.lockmgr.DbTxnManager",
        "hive.support.concurrency": "true",
        "hive.stats.autogather": "false",
        "javax.jdo.option.ConnectionURL": f"jdbc:postgresql://{server}/{database}",
        "javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver",
        "javax.jdo.option.ConnectionUserName": user,
        "javax.jdo.option.ConnectionPassword": "unused",
    }
    lines = [f"<property><name>{name}</name><value>{value}</value></property>" for name, value in properties.items()]
    site = '<?xml version="1.0"?>\n<configuration>\n' + "\n".join(lines) + "\n</configuration>\n"
    (folder / "hive-site.xml").write_text(site)
    (folder / "log4j2.properties").write_text(
        "status = error\nrootLogger.level = error\nrootLogger.appenderRef.c.ref = c\nappender.c.type = Console\n"
        "appender.c.name = c\nappender.c.layout.type = PatternLayout\n"
        "appender.c.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n%throwable\n"
    )


def _await(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + _START_S
    while process.poll() is None and time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        # It does not say when it listens.
        time.sleep(0.1)
    else:
        raise RuntimeError(f"The Hive Metastore did not start:\n{log.read_text()[-3000:]}")
    connect(port).get_all_databases()
