"""A PostgreSQL server for the tests: one that is named, or one made for this run and thrown away."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from tests.hosts.networks import Host

URL_VARIABLE = "HIVEX_TEST_POSTGRES_URL"
# Durability costs time and buys nothing for a server that lives as long as a test run.
SERVER_OPTIONS = (
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "autovacuum=off",
    "max_connections=100",
)
DURABLE_OPTIONS = ("autovacuum=off", "max_connections=100")
"""For a server that a test crashes: what it has committed must be there afterwards."""


class PostgresqlServer:
    """A running server in which databases can be made. ``url`` is a libpq URL of its maintenance database."""

    def __init__(self, url: str) -> None:
        # Users of SQLAlchemy write the driver into the scheme; libpq does not know it.
        self.url = url.replace("postgresql+psycopg://", "postgresql://", 1)

    def libpq_url(self, database: str) -> str:
        """The URL of a database for libpq."""
        before, _, rest = self.url.partition("://")
        return f"{before}://{rest.partition('/')[0]}/{database}"

    def create_database(self, template: str = "template0") -> str:
        """The SQLAlchemy URL of a new database, empty or a copy of one of that name."""
        name = f"hivex_test_{uuid.uuid4().hex[:12]}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
            connection.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))
        return self.libpq_url(name).replace("://", "+psycopg://", 1)

    def drop_database(self, url: str) -> None:
        """Drop a database of ``create_database``, also under connections that a test left open."""
        name = url.rpartition("/")[2]
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def stop(self) -> None:
        """Nothing to do for a server that another process owns."""


class EmptiedDatabases:
    """Copies of a template for one use after the other: to make one takes a quarter of a second, to empty it little.

    The one that gets a database finds the tables, the rows and the sequences of the template, and no other user on it.
    """

    def __init__(self, server: PostgresqlServer, template: str, tables: Sequence[str]) -> None:
        """``tables`` are all that the template has, each after those that it refers to."""
        self._server = server
        self._template = template
        self._tables = tables
        self._free: list[str] = []
        with psycopg.connect(server.libpq_url(template)) as connection:
            self._definitions = connection.execute(_DEFINITIONS).fetchall()
            rows = {name: _copied(connection, name) for name in tables}
            self._sequences = connection.execute(_SEQUENCES).fetchall()
        self._rows = {name: text for name, text in rows.items() if text}

    def take(self) -> str:
        """The SQLAlchemy URL of a database, for :meth:`give_back` afterwards."""
        return self._free.pop() if self._free else self._server.create_database(self._template)

    def give_back(self, url: str) -> None:
        """Empty a database; one that is large, or not defined as it was, is dropped."""
        with psycopg.connect(self._server.libpq_url(url.rpartition("/")[2]), autocommit=True) as connection:
            connection.execute(_END_OTHERS)
            sizes = dict(connection.execute(_SIZES).fetchall())
            is_usable = (
                connection.execute(_DEFINITIONS).fetchall() == self._definitions
                and max(sizes.values(), default=0) <= _LARGE_BYTES
            )
            if is_usable:
                self._empty(connection, [name for name in self._tables if name in sizes])
        if is_usable:
            self._free.append(url)
        else:
            self._server.drop_database(url)

    def _empty(self, connection: psycopg.Connection[Any], used: Sequence[str]) -> None:
        # TRUNCATE makes each file of each table again, which takes longer for a few rows.
        for name in reversed(used):
            connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(name)))
        # Rows are to lie in the order in which they are rewritten.
        connection.execute(sql.SQL("VACUUM {}").format(sql.SQL(", ").join(map(sql.Identifier, used))))
        connection.execute(_RESTART_SEQUENCES)
        for name, text in self._rows.items():
            with connection.cursor().copy(sql.SQL("COPY {} FROM STDIN").format(sql.Identifier(name))) as copy:
                copy.write(text)
        for name, value in self._sequences:
            connection.execute("SELECT setval(%s::regclass, %s)", (name, value))

    def drop(self) -> None:
        """Drop those that were given back."""
        while self._free:
            self._server.drop_database(self._free.pop())


_LARGE_BYTES = 128 * 1024
_END_OTHERS = """
SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_DEFINITIONS = """
SELECT relname, relkind, attnum, attname, atttypid, attnotnull
FROM pg_class LEFT JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0
WHERE relnamespace = 'public'::regnamespace ORDER BY relname, attnum
"""
_SIZES = """
SELECT relname, pg_relation_size(oid) FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND pg_relation_size(oid) > 0
"""
_SEQUENCES = """
SELECT format('%I.%I', schemaname, sequencename), last_value FROM pg_sequences WHERE last_value IS NOT NULL
"""
_RESTART_SEQUENCES = """
SELECT setval(format('%I.%I', schemaname, sequencename)::regclass, start_value, false) FROM pg_sequences
WHERE last_value IS NOT NULL
"""


def _copied(connection: psycopg.Connection[Any], table: str) -> bytes:
    with connection.cursor().copy(sql.SQL("COPY {} TO STDOUT").format(sql.Identifier(table))) as copy:
        return b"".join(copy)


class TemporaryPostgresqlServer(PostgresqlServer):
    """A server from Debian's binaries, in a directory of its own, on a free port of 127.0.0.1 or of a host."""

    def __init__(self, binaries: Path, options: Sequence[str] = SERVER_OPTIONS, host: Host | None = None) -> None:
        self._binaries = binaries
        self._options = options
        self._command = () if host is None else host.command
        self._address = "127.0.0.1" if host is None else host.address
        self._directory = Path(tempfile.mkdtemp(prefix="hivex-pg-", dir=None if host is None else host.folder))
        self._data = self._directory / "data"
        if os.geteuid() == 0:
            owner = pwd.getpwnam("postgres")
            os.chown(self._directory, owner.pw_uid, owner.pw_gid)
        try:
            self._run(
                "initdb", "-D", self._data, "-U", "hivex", "--auth=trust", "-E", "UTF8", "--locale=C", "--no-sync"
            )
            if host is not None:
                with (self._data / "pg_hba.conf").open("a") as rules:
                    rules.write("host all all samenet trust\n")
            self._port = self._start()
        except BaseException:
            shutil.rmtree(self._directory, ignore_errors=True)
            raise
        super().__init__(f"postgresql://hivex@{self._address}:{self._port}/postgres")

    def stop(self) -> None:
        """Stop the server at once and remove its directory."""
        self.crash()
        shutil.rmtree(self._directory)

    def crash(self) -> None:
        """End the server as a loss of power would: nothing is written any more, clients lose their connections."""
        self._run("pg_ctl", "-D", self._data, "-m", "immediate", "-w", "stop")

    def restart(self) -> None:
        """Start the server after a crash, at the same address; it is ready when this returns."""
        self._start_on(self._port)

    def _start(self) -> int:
        # Another process may take the port after it was found free: then take another one.
        for _ in range(2):
            with contextlib.suppress(PostgresqlUnavailableError):
                return self._start_on(free_port())
        return self._start_on(free_port())

    def _start_on(self, port: int) -> int:
        options = [f"-p {port}", f"-k {self._directory}", f"-c listen_addresses={self._address}"]
        options += [f"-c {option}" for option in self._options]
        log = self._directory / "log"
        self._run("pg_ctl", "-D", self._data, "-l", log, "-o", " ".join(options), "-w", "-t", "60", "start")
        return port

    def _run(self, program: str, *arguments: object) -> None:
        command = [str(self._binaries / program), *map(str, arguments)]
        if os.geteuid() == 0:
            # The server refuses to run as root.
            command = ["runuser", "-u", "postgres", "--", *command]
        command = [*self._command, *command]
        # No pipe: the server would inherit it, and waiting for its end would never return.
        with tempfile.TemporaryFile() as output:
            finished = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd="/", check=False
            )
            output.seek(0)
            text = output.read().decode(errors="replace")
        if finished.returncode:
            log = self._directory / "log"
            text += log.read_text(errors="replace") if log.exists() else ""
            raise PostgresqlUnavailableError(f"{' '.join(command)} failed:\n{text}")


class PostgresqlUnavailableError(RuntimeError):
    """The tests have no PostgreSQL to run against."""


def free_port() -> int:
    """A TCP port of 127.0.0.1 that no process listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_postgresql() -> PostgresqlServer:
    """The server named by HIVEX_TEST_POSTGRES_URL, else a temporary one.

    Raises:
        PostgresqlUnavailableError: there is neither. The tests fail then rather than
            being skipped: half of the promises of the store are about PostgreSQL.
    """
    if url := os.environ.get(URL_VARIABLE):
        return PostgresqlServer(url)
    return TemporaryPostgresqlServer(_binaries())


def start_durable_postgresql(
    options: Sequence[str] = DURABLE_OPTIONS, host: Host | None = None
) -> TemporaryPostgresqlServer:
    """A temporary server that keeps its promises through a crash, on this machine or on a host.

    Raises:
        PostgresqlUnavailableError: the server's programs are not installed.
    """
    return TemporaryPostgresqlServer(_binaries(), options, host)


def _binaries() -> Path:
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if installed:
        return installed[-1].parent
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    raise PostgresqlUnavailableError(
        f"No PostgreSQL server binaries were found and {URL_VARIABLE} is not set. "
        "Run scripts/install-system-packages.sh, or set it to a URL whose user may create databases."
    )
