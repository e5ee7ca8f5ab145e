"""Calls a second of the Hive Metastore endpoint, compared with a real Hive Metastore 2.3 on the same PostgreSQL server.

Clients are processes that replay encoded calls and read the answers to their ends, so that they cost little. The
statements of both servers are the same bytes. PostgreSQL flushes each commit to disk.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil
from hive_metastore import ThriftHiveMetastore, ttypes

from airflow_hivex.core.thrift.messages import CALL, Head, MessageScanner, encoded, written_head
from benchmarks.harness import Figure, compare, interleave
from benchmarks.hive_metastore import connect, hive_metastore
from benchmarks.teams import Worker, case, team
from benchmarks.transactions import SERVER_OPTIONS, raise_loopback
from tests.hive_endpoint import descriptor, partition, table
from tests.postgresql import start_durable_postgresql

TABLES = 100
PARTITIONS = int(os.environ.get("HIVEX_ENDPOINT_PARTITIONS") or 10_000)
CACHED = int(os.environ.get("HIVEX_ENDPOINT_CACHED") or 100_000)
COLUMNS = {f"column_{number}": "bigint" for number in range(20)}
CLIENTS = 8
ROUNDS = 7
HIVE, OURS = "Hive 2.3", "endpoint"
CALLS: dict[str, tuple[int, dict[int, float]]] = {
    # The work, the calls of a round for the peer's pace, and how many times as fast it is to be, for 1 and 8 clients.
    "get_table": (400, {1: 30, CLIENTS: 30}),
    "get_partition": (200, {1: 30}),
    "get_partitions_by_names": (10, {1: 25}),
    "get_partitions_by_filter": (10, {1: 10}),
    "transactions": (60, {1: 1.3, CLIENTS: 2}),
    "create_table": (20, {1: 3}),
    "add_partitions": (2, {1: 3}),
}


def run(folder: Path) -> list[Figure]:
    """Figures in a network namespace of its own, because Hive's server listens on all addresses."""
    results = folder / "figures.json"
    alone = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-rn"]
    subprocess.run([*alone, sys.executable, "-m", "benchmarks.endpoint", str(folder), str(results)], check=True)
    return [Figure(**figure) for figure in json.loads(results.read_text())]


def measure(folder: Path) -> list[Figure]:
    """:func:`run` where there is a loopback interface only."""
    figures = []
    with ExitStack() as stack:
        server = start_durable_postgresql(SERVER_OPTIONS)
        stack.callback(server.stop)
        started = time.perf_counter()
        ports = {HIVE: stack.enter_context(hive_metastore(folder, server.create_database()))}
        connect(ports[HIVE]).getStatus()
        of_hive = time.perf_counter() - started
        url = server.create_database()
        with our_server(folder, url):
            pass
        started = time.perf_counter()
        ports[OURS] = stack.enter_context(our_server(folder, url))
        connect(ports[OURS]).getStatus()
        start_up = {OURS: [time.perf_counter() - started], HIVE: [of_hive]}
        figures.append(compare("start-up until the first answer", start_up, OURS, HIVE, goal=1 / 3))
        for port in ports.values():
            prepare(connect(port))
        at_rest = memory_mb()
        teams = {name: stack.enter_context(team(Replay, port, CLIENTS)) for name, port in ports.items()}
        for work, (count, goals) in CALLS.items():
            for clients, goal in goals.items():
                cases = {name: case(members[:clients], work, count) for name, members in teams.items()}
                seconds = interleave(cases, rounds=ROUNDS, warm_up=2)
                name = f"{work}, {clients} client(s)"
                figures.append(compare(name, seconds, OURS, HIVE, goal=1 / goal, count=count * clients))
        after = memory_mb()
        for label, found in (("memory after the load, MB", at_rest), ("memory after all calls, MB", after)):
            figures.append(compare(label, {name: [mb] for name, mb in found.items()}, OURS, HIVE, goal=1.0))
        # Hive's server has no cache, and would add that many for a quarter of an hour.
        read_many(connect(ports[OURS]))
        label = f"memory with {CACHED:,} partitions in its cache, MB"
        figures.append(compare(label, {OURS: [memory_mb()[OURS]], HIVE: [after[HIVE]]}, OURS, HIVE, goal=1.0))
    return figures


def read_many(client: Any) -> None:
    """Add partitions to a table, and read all of them twice."""
    keys = {"ds": "string", "hr": "int"}
    client.create_table(table("default", "many", sd=descriptor(**COLUMNS), keys=keys, tableType="EXTERNAL_TABLE"))
    for start in range(0, CACHED, 1000):
        numbers = range(start, min(start + 1000, CACHED))
        client.add_partitions([partition("default", "many", *values(number)) for number in numbers])
    for _ in range(2):
        for start in range(0, CACHED, 1000):
            names = ["ds={}/hr={}".format(*values(number)) for number in range(start, min(start + 1000, CACHED))]
            assert len(client.get_partitions_by_names("default", "many", names)) == len(names)


@contextmanager
def our_server(folder: Path, url: str) -> Iterator[int]:
    """The port of ``hivex metastore serve``, as long as the block runs."""
    cluster = json.dumps({"c1": {"filesystem": (folder / "c1").as_uri(), "jobtracker": "local[1]"}})
    command = [sys.executable, "-m", "airflow_hivex.cli.main", "--metastore", url, "--clusters", cluster]
    with subprocess.Popen(
        [*command, "metastore", "serve", "--port", "0"], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            found = re.search(r":(\d+)$", line.strip())
            assert found, line + process.stderr.read()
            yield int(found[1])
        finally:
            process.terminate()
            process.wait(60)


def memory_mb() -> dict[str, float]:
    """The resident memory of both servers."""
    found = {}
    for process in psutil.process_iter(["cmdline", "memory_info"]):
        command = " ".join(process.info["cmdline"] or ())
        name = HIVE if "metastore.HiveMetaStore" in command else OURS if "metastore serve" in command else None
        if name is not None:
            found[name] = process.info["memory_info"].rss / 1e6
    return found


def prepare(client: Any) -> None:
    """Make the tables and partitions that the calls read."""
    for number in range(TABLES):
        client.create_table(table("default", f"t{number}", sd=descriptor(**COLUMNS), tableType="EXTERNAL_TABLE"))
    for number in range(CLIENTS):
        described = table("default", f"acid{number}", parameters={"transactional": "true"})
        described.sd.numBuckets, described.sd.bucketCols = 2, ["id"]
        client.create_table(described)
    for name in ("p", "added"):
        keys = {"ds": "string", "hr": "int"}
        described = table("default", name, sd=descriptor(**COLUMNS), keys=keys, tableType="EXTERNAL_TABLE")
        client.create_table(described)
    for start in range(0, PARTITIONS, 100):
        numbers = range(start, min(start + 100, PARTITIONS))
        client.add_partitions(
            [partition("default", "p", *values(number), sd=descriptor(**COLUMNS)) for number in numbers]
        )


def values(number: int) -> tuple[str, str]:
    """The values of a partition."""
    return f"day{number // 24:04d}", str(number % 24)


# -- clients -----------------------------------------------------------------------------


class Replay(Worker):
    """A connection that sends encoded calls."""

    def __init__(self, port: int, number: int) -> None:
        self._channel = socket.create_connection(("127.0.0.1", port))
        self._channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client = connect(port)
        self._number = number
        self._made = 0
        self._sizes: dict[bytes, int] = {}
        self._calls = {name: getattr(self, f"_{name}")() for name in ("get_table", "get_partition")}
        self._calls["get_partitions_by_names"] = [self._by_names()]
        self._calls["get_partitions_by_filter"] = [self._by_filter()]

    def work(self, name: str, count: int) -> None:
        """Do some work ``count`` times."""
        known = self._calls.get(name)
        if known is None:
            super().work(name, count)
            return
        for number in range(count):
            self._send(known[number % len(known)])

    def _send(self, call: bytes) -> None:
        self._channel.sendall(call)
        size = self._sizes.get(call)
        if size is None:
            self._sizes[call] = self._read_first()
            return
        left = size
        while left:
            left -= len(self._channel.recv(min(left, 1 << 20)))

    def _read_first(self) -> int:
        scanner, buffer = MessageScanner(1 << 30), bytearray()
        while (end := scanner.end(buffer)) is None:
            buffer += self._channel.recv(1 << 20)
        # An exception of the interface has another field than 0.
        assert b"Exception" not in buffer[:200], buffer[:200]
        return end

    def _get_table(self) -> list[bytes]:
        return [
            call("get_table", ThriftHiveMetastore.get_table_args("default", f"t{number}")) for number in range(TABLES)
        ]

    def _get_partition(self) -> list[bytes]:
        return [
            call("get_partition", ThriftHiveMetastore.get_partition_args("default", "p", list(values(number))))
            for number in range(0, PARTITIONS, max(PARTITIONS // 100, 1))
        ]

    def _by_names(self) -> bytes:
        numbers = range(0, PARTITIONS, max(PARTITIONS // 1000, 1))
        names = [f"ds={ds}/hr={hr}" for ds, hr in map(values, numbers)]
        return call("get_partitions_by_names", ThriftHiveMetastore.get_partitions_by_names_args("default", "p", names))

    def _by_filter(self) -> bytes:
        args = ThriftHiveMetastore.get_partitions_by_filter_args("default", "p", 'ds = "day0001"', -1)
        return call("get_partitions_by_filter", args)

    def transactions(self) -> None:
        """Open a transaction, lock, and commit."""
        client = self._client
        (txn_id,) = client.open_txns(ttypes.OpenTxnRequest(1, "bench", "localhost")).txn_ids
        component = ttypes.LockComponent(2, 2, "default", f"acid{self._number}", None, 2, True)
        response = client.lock(ttypes.LockRequest([component], txn_id, "bench", "localhost", "bench"))
        assert response.state == ttypes.LockState.ACQUIRED
        client.commit_txn(ttypes.CommitTxnRequest(txnid=txn_id))

    def create_table(self) -> None:
        """Create a table."""
        self._made += 1
        name = f"made_{self._number}_{self._made}"
        self._client.create_table(table("default", name, sd=descriptor(**COLUMNS), tableType="EXTERNAL_TABLE"))

    def add_partitions(self) -> None:
        """Add 100 partitions."""
        self._made += 1
        new = [
            partition("default", "added", f"c{self._number}m{self._made}", str(hour), sd=descriptor(**COLUMNS))
            for hour in range(100)
        ]
        self._client.add_partitions(new)


def call(name: str, args: Any) -> bytes:
    """An encoded call."""
    return written_head(Head(name.encode(), CALL, 1, True, 0), CALL) + encoded(args)


if __name__ == "__main__":
    raise_loopback()
    Path(sys.argv[2]).write_text(json.dumps([asdict(figure) for figure in measure(Path(sys.argv[1]))]))
