"""A warehouse on hosts whose links are cut: a client, PostgreSQL, a standalone master and worker, and a server of S3.

Client and worker see the shared folder over links of their own. This process is a second client, which cleans up.
"""

from __future__ import annotations

import itertools
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs as pafs

from airflow_hivex.core import Metastore
from airflow_hivex.core.files.object_stores import open_object_store
from tests.acceptance.middle_of_writes import has_attempts
from tests.hosts import cut_client
from tests.hosts.faulty_folder import DistantFolder
from tests.hosts.networks import CHECKOUT, Host, Network
from tests.standalone_clusters import StandaloneCluster
from tests.waiting import wait_until

TIMEOUT_S = 60
SETTINGS = {
    "hive.default.cluster.name": "c1",
    "hive.txn.timeout": TIMEOUT_S,
    "hivex.allow.code.execution": True,
}
BEFORE = [1, 2]
AFTER = [*BEFORE, *range(10, 250)]
_SLEEP = "coalesce(java_method('java.lang.Thread', 'sleep', {}L), 'null') = 'null'"
_INSERT = "INSERT INTO {t} SELECT id FROM range(10, 250, 1, 8)"
SLOW_INSERT = f"INSERT INTO {{t}} SELECT id FROM range(10, 250, 1, 2) WHERE {_SLEEP.format(100)}"
_SELECT = "SELECT sum(id) FROM {t}"
SLOW_SELECT = f"SELECT sum(t.id) FROM range(0, 240, 1, 2) r CROSS JOIN {{t}} t WHERE {_SLEEP.format(50)}"
_tables = itertools.count()


class Client:
    """A client on a host of its own."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
            )
        self._events: queue.Queue[dict[str, Any]] = queue.Queue()
        self._receiver = threading.Thread(target=self._receive, daemon=True)
        self._receiver.start()

    def _receive(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._events.put(json.loads(line))
        self._events.put({"ended": True})

    def ask(self, **request: str) -> None:
        """Send a request."""
        self._write(json.dumps(request))

    def go_on(self) -> None:
        """Let the client leave the point of its request."""
        self._write("")

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def event(self, limit_s: float, *kinds: str) -> dict[str, Any] | None:
        """The next event of one of the kinds, or None if the limit passes without one."""
        end = time.monotonic() + limit_s
        while (left_s := end - time.monotonic()) > 0:
            try:
                found = self._events.get(timeout=left_s)
            except queue.Empty:
                return None
            assert "ended" not in found, self._log.read_text()[-3000:]
            if any(kind in found for kind in kinds):
                return found
        return None

    def answer(self, limit_s: float) -> dict[str, Any] | None:
        """The rows or the error of the last request, or None if the limit passes without them."""
        return self.event(limit_s, "rows", "error")

    def run(self, statement: str) -> list[list[Any]]:
        """The rows of a statement that succeeds."""
        self.ask(statement=statement)
        found = self.answer(120)
        assert found is not None, f"no answer to {statement}: {self._log.read_text()[-3000:]}"
        assert "error" not in found, f"{statement}: {found}"
        rows: list[list[Any]] = found["rows"]
        return rows

    def try_to_run(self, statement: str) -> bool:
        """Whether a statement succeeds."""
        self.ask(statement=statement)
        return "rows" in (self.answer(120) or {})

    def interrupt(self) -> None:
        """Interrupt the request, as from the keyboard."""
        self._write("interrupt")

    def kill(self) -> None:
        """End the process by the end of its input: kill -9."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        # A call of a store that is away may not be interrupted.
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
            self._receiver.join()
            assert self._process.stdout is not None
            self._process.stdout.close()


@dataclass
class Hosts:
    """The hosts of a warehouse. ``metastore`` is that of this process, a second client."""

    network: Network
    cluster: StandaloneCluster
    url: str
    root: Path
    views: Mapping[str, DistantFolder]
    stores: Mapping[str, Mapping[str, Any]]
    metastore: Metastore

    def add(self, name: str, view: str, mounts: Sequence[str] = ()) -> Host:
        """Add a host that sees the shared folder by a view of it."""
        return add_host(self.network, name, self.root, self.views[view], mounts)

    @contextmanager
    def client(self, name: str = "client", variables: Mapping[str, str] | None = None) -> Iterator[Client]:
        """Yield a client on a host, in whose environment are more variables."""
        host = self.network.hosts[name]
        properties = clusters(self.cluster, self.root, self.stores, host.address)
        given = (self.url, json.dumps(properties), json.dumps(SETTINGS))
        own = [f"{name}={value}" for name, value in (variables or {}).items()]
        command = [*host.command, "env", *own, sys.executable, "-m", cut_client.__name__, *given]
        client = Client(command, self.root.parent / "client.log")
        try:
            assert client.event(60, "ready")
            yield client
        finally:
            client.kill()

    def move_worker(self, name: str, mounts: Sequence[str] = (), variables: Mapping[str, str] | None = None) -> None:
        """Start the worker on a new host; wait until the master knows it."""
        host = self.add(name, "worker", mounts)
        own = [f"{name}={value}" for name, value in (variables or {}).items()]
        self.cluster.workers = [replace(host, command=(*host.command, "env", *own))]
        self.cluster.start_worker()
        wait_until(lambda: host.address in self._alive(), limit_s=60)

    def _alive(self) -> list[str]:
        """The addresses of the workers that are alive for the master."""
        state = self.cluster.state() or {}
        return [str(each["host"]) for each in state.get("workers", []) if each["state"] == "ALIVE"]

    def new_table(self, cluster: str = "c1") -> str:
        """The name of a new table with two rows."""
        name = f"t{next(_tables)}"
        with self.metastore.session() as session:
            session.sql(f"CREATE TABLE {name} (id bigint) TBLPROPERTIES ('hivex.cluster' = '{cluster}')")
            session.sql(f"INSERT INTO {name} VALUES {', '.join(f'({each})' for each in BEFORE)}")
        return name

    def is_writing(self, table: str, cluster: str) -> bool:
        """Whether tasks write files of a table."""
        if cluster == "c1":
            return has_attempts(self.root / "default.db" / table)
        store = self.stores[cluster]
        place = f"{str(store['filesystem']).partition('://')[2]}/default.db/{table}"
        selected = pafs.FileSelector(place, recursive=True, allow_not_found=True)
        files = open_object_store(str(store["filesystem"]), store["storage_options"]).get_file_info(selected)
        return any("/_temporary/0/_temporary/attempt" in each.path for each in files)

    def rows(self, table: str) -> list[int]:
        with self.metastore.session() as session:
            return sorted(session.to_arrow(table)["id"].to_pylist())

    def cleaning(self) -> Future[float]:
        """Clean up as a second host does, until no lock is left. The result is that moment."""
        moment = Future[float]()

        def clean() -> None:
            try:
                while self.metastore.locks.show():
                    self.metastore.housekeeper.run()
                    # Between two looks at what the client does.
                    time.sleep(0.5)
                moment.set_result(time.monotonic())
                self.metastore.compactor.clean()
            except Exception as error:
                moment.set_exception(error)

        threading.Thread(target=clean, daemon=True).start()
        return moment


def add_host(network: Network, name: str, root: Path, view: DistantFolder, mounts: Sequence[str] = ()) -> Host:
    """Add a host that sees a folder by a view of it."""
    return network.add(name, [root, view.path], [f"mount --bind {view.path} {root}", *mounts])


def clusters(
    cluster: StandaloneCluster, root: Path, stores: Mapping[str, Mapping[str, Any]], address: str
) -> dict[str, Any]:
    """The clusters for a client: one with the shared folder, ``s3`` without Spark, and ``cloud`` with Spark on S3."""
    found = {"c1": cluster.properties(root, address), **stores}
    conf = {**stores["cloud"]["spark_conf"], **cluster.conf(address)}
    return {**found, "cloud": {**stores["cloud"], "spark_conf": conf}}


@dataclass(frozen=True)
class Link:
    """A link between two hosts, or between a host and the shared folder, which is its ``store``."""

    one: str
    other: str
    cluster: str = "c1"

    def cut(self, hosts: Hosts) -> None:
        """Let nothing pass any more."""
        if self.other == "store":
            hosts.views[self.one].cut()
        else:
            hosts.network.cut(self.one, self.other)

    def heal(self, hosts: Hosts) -> None:
        """Let all pass again."""
        if self.other == "store":
            hosts.views[self.one].heal()
        else:
            hosts.network.heal(self.one, self.other)

    def name(self, hosts: Hosts) -> str:
        """The name of the other end in errors."""
        return str(hosts.root) if self.other == "store" else hosts.network.hosts[self.other].address


LINKS = {
    "client to database": Link("client", "database"),
    "client to master": Link("client", "master"),
    "driver to executor": Link("client", "worker"),
    "executor to store": Link("worker", "store"),
    "driver to store": Link("client", "store"),
    "client to S3": Link("client", "s3", "s3"),
    "executor to S3": Link("worker", "s3", "cloud"),
    "driver to S3": Link("client", "s3", "cloud"),
}
MOMENTS = ("write", "commit", "read")


def begin(hosts: Hosts, client: Client, link: Link, moment: str, table: str) -> None:
    """Run a statement of the client until the moment, and cut the link then."""
    if link.other == "store" and moment != "write":
        # The files of tasks, and those of the job, get their names by renames.
        view = hosts.views[link.one]
        view.cut_at("rename" if moment == "commit" else "open")
        if moment == "commit":
            client.ask(statement=_INSERT.format(t=table))
        elif link.one == "client":
            client.ask(reads=table)
        else:
            client.ask(statement=_SELECT.format(t=table))
        wait_until(lambda: view.is_cut, limit_s=60)
        return
    if link.cluster == "cloud" and link.one == "worker" and moment == "read":
        # The tasks open the files at their start.
        link.cut(hosts)
        client.ask(statement=_SELECT.format(t=table))
        return
    waits = stop_in(hosts, client, moment, table, link.cluster)
    link.cut(hosts)
    if waits:
        client.go_on()


def stop_in(hosts: Hosts, client: Client, moment: str, table: str, cluster: str = "c1") -> bool:
    """Run a statement of the client until the moment, and return whether the client waits to go on.

    On the cluster ``s3`` the client works without Spark.
    """
    if cluster == "s3":
        values = ", ".join(f"({each})" for each in AFTER[len(BEFORE) :])
        request = {"reads": table} if moment == "read" else {"statement": f"INSERT INTO {table} VALUES {values}"}
        point = {"write": "while writing", "commit": "before commit", "read": "read"}[moment]
        client.ask(**request, point=point)
        assert client.event(60, "at")
        return True
    if moment == "write":
        client.ask(statement=SLOW_INSERT.format(t=table))
        wait_until(lambda: hosts.is_writing(table, cluster), limit_s=60)
    elif moment == "commit":
        client.ask(statement=_INSERT.format(t=table), point="before commit")
        assert client.event(60, "at")
    else:
        client.ask(statement=SLOW_SELECT.format(t=table))
        assert client.event(60, "running")
    return moment == "commit"


@dataclass
class Outcome:
    """What became of a statement whose link was cut, with the seconds since then."""

    answer: dict[str, Any] | None
    answered_s: float
    is_done: bool
    free_s: float
    interrupted_s: float | None

    @property
    def error(self) -> str:
        return str((self.answer or {}).get("error", ""))

    def describe(self) -> str:
        result = str(self.answer["type"]) if self.answer and self.error else "no error"
        if self.answer is None:
            result = f"no answer, until the statement was interrupted; it ended {self.interrupted_s:.0f} s later"
        rows = "after" if self.is_done else "before"
        return f"rows as {rows}; ended after {self.answered_s:.0f} s; locks free after {self.free_s:.0f} s; {result}"


def try_cut(hosts: Hosts, link: Link, moment: str, length_s: float | None, patience_s: float) -> Outcome:
    """Cut a link in the middle of a statement for a time, or for ever, and return what became of it."""
    is_s3 = link.cluster == "s3"
    table = hosts.new_table(link.cluster)
    with hosts.client() as client, ExitStack() as cut:
        if not is_s3:
            # The application has its executors when the link is cut.
            assert client.run(f"SELECT sum(id) FROM {table}") == [[3]]
        begin(hosts, client, link, moment, table)
        cut.callback(link.heal, hosts)
        began = time.monotonic()
        cleaning = hosts.cleaning()
        answer = client.answer(patience_s if length_s is None else length_s)
        answered_s = time.monotonic() - began
        if length_s is not None:
            if answer is not None:
                cleaning.result(TIMEOUT_S)
                # The link is down for all of the time.
                time.sleep(max(0.0, began + length_s - time.monotonic()))
            cut.close()
            answer = answer or client.answer(patience_s)
            assert answer is not None
            answered_s = time.monotonic() - began if answered_s >= length_s else answered_s
        interrupted_s = None
        if answer is None:
            client.interrupt()
            is_ended = client.answer(60) is not None
            interrupted_s = time.monotonic() - began - answered_s
            if not is_ended:
                client.kill()
        free_s = cleaning.result(2 * TIMEOUT_S) - began
        rows = hosts.rows(table)
        cut.close()
        assert rows in (BEFORE, AFTER), rows
        outcome = Outcome(answer, answered_s, rows == AFTER, free_s, interrupted_s)
        check(hosts, link, moment, outcome)
        if answer is not None:
            insert = f"INSERT INTO {table} VALUES (0)" if is_s3 else f"INSERT INTO {table} SELECT 0"
            # A client remembers for ten seconds that a store has not answered.
            wait_until(lambda: client.try_to_run(insert), limit_s=60)
            assert hosts.rows(table) == [0, *rows]
        return outcome


def check(hosts: Hosts, link: Link, moment: str, outcome: Outcome) -> None:
    """Ensure that the answer is that of the rows, and an error names the host and what to do."""
    if outcome.answer is None:
        assert not outcome.is_done
        return
    if not outcome.error:
        assert outcome.is_done == (moment != "read")
        return
    assert not outcome.is_done or outcome.answer["outcome"] == "UNKNOWN"
    assert link.name(hosts) in outcome.error, outcome.error


_CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long shift(void) { const char *text = getenv("CLOCK_SHIFT_S"); return text ? atol(text) : 0; }

int clock_gettime(clockid_t id, struct timespec *found) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, found);
    if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) found->tv_sec += shift();
    return result;
}

int gettimeofday(struct timeval *found, void *zone) {
    struct timespec now;
    int result = clock_gettime(CLOCK_REALTIME, &now);
    found->tv_sec = now.tv_sec;
    found->tv_usec = now.tv_nsec / 1000;
    return result;
}

time_t time(time_t *found) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (found) *found = now.tv_sec;
    return now.tv_sec;
}
"""
"""A library that shifts the wall clock of the processes that load it."""


def clock_shift(folder: Path) -> dict[str, str]:
    """The variables of a process whose clock is ``CLOCK_SHIFT_S`` ahead; skip the test without a compiler."""
    if shutil.which("cc") is None:
        pytest.skip("there is no compiler for the library that shifts the clock")
    source, library = folder / "clock.c", folder / "clock.so"
    source.write_text(_CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    return {"LD_PRELOAD": str(library)}
