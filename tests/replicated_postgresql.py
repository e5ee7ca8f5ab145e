"""A PostgreSQL server with a standby, which takes over the server's address when the server is lost."""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from pathlib import Path

import psycopg

from tests.postgresql import DURABLE_OPTIONS, TemporaryPostgresqlServer, _binaries
from tests.waiting import wait_until

_OPTIONS = (*DURABLE_OPTIONS, "wal_level=replica", "max_wal_senders=4", "hot_standby=on")


class ReplicatedPostgresqlServer(TemporaryPostgresqlServer):
    """The server and its standby, by streaming replication; ``synchronous`` commits wait for both."""

    def __init__(self, *, synchronous: bool) -> None:
        super().__init__(_binaries(), _OPTIONS)
        self._standby = Path(tempfile.mkdtemp(prefix="hivex-pg-standby-"))
        if os.geteuid() == 0:
            os.chown(self._standby, pwd.getpwnam("postgres").pw_uid, -1)
        self._standby_data = self._standby / "data"
        self._run(
            "pg_basebackup", "-D", self._standby_data, "-R", "-X", "stream", "-c", "fast", "--no-sync", "-d", self.url
        )
        self._start_standby()
        wait_until(lambda: self._state() is not None)
        if synchronous:
            with psycopg.connect(self.url, autocommit=True) as connection:
                connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
                connection.execute("SELECT pg_reload_conf()")
            wait_until(lambda: self._state() == "sync")

    def _start_standby(self) -> None:
        log, options = self._standby / "log", f"-k {self._standby} -c listen_addresses="
        self._run("pg_ctl", "-D", self._standby_data, "-l", log, "-o", options, "-w", "-t", "60", "start")

    def _state(self) -> str | None:
        with psycopg.connect(self.url) as connection:
            found = connection.execute("SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'")
            row = found.fetchone()
        return None if row is None else str(row[0])

    def wait_until_applied(self) -> None:
        """Wait until the standby has all that was committed until now."""

        def is_applied() -> bool:
            with psycopg.connect(self.url) as connection:
                query = "SELECT replay_lsn >= pg_current_wal_lsn() FROM pg_stat_replication"
                return connection.execute(query).fetchone() == (True,)

        wait_until(is_applied)

    def stop_standby(self) -> None:
        """Stop the standby: later commits do not reach it."""
        self._run("pg_ctl", "-D", self._standby_data, "-m", "fast", "-w", "stop")

    def fail_over(self) -> None:
        """Lose the server, and let the standby take over its address; it is ready when this returns."""
        self.crash()
        if not (self._standby_data / "postmaster.pid").exists():
            self._start_standby()
        # Until it is promoted it may lack what it has not applied yet, so that no client may reach it.
        self._run("pg_ctl", "-D", self._standby_data, "-w", "promote")
        self.stop_standby()
        shutil.rmtree(self._data)
        self._data.symlink_to(self._standby_data)
        self._start_on(self._port)

    def stop(self) -> None:
        """Stop both, and remove their directories."""
        if not self._data.is_symlink() and (self._standby_data / "postmaster.pid").exists():
            self._run("pg_ctl", "-D", self._standby_data, "-m", "immediate", "-w", "stop")
        super().stop()
        shutil.rmtree(self._standby, ignore_errors=True)
