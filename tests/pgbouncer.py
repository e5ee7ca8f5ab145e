"""A pgbouncer before a PostgreSQL server, in transaction mode, with few connections to the server."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.ports import free_ports
from tests.processes import end_with_parent
from tests.waiting import wait_until

CONNECTIONS = 2
"""The connections to the server, which all clients share."""


class Pgbouncer:
    """A running pgbouncer for the server of a database's URL."""

    def __init__(self, url: str, folder: Path) -> None:
        program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        if program is None:
            pytest.skip("pgbouncer is not installed; scripts/install-system-packages.sh pgbouncer installs it")
        server = urlsplit(url)
        (port,) = free_ports(1)
        self.url = server._replace(netloc=f"{server.username}@127.0.0.1:{port}").geturl()
        (folder / "users").write_text(f'"{server.username}" ""\n')
        (folder / "pgbouncer.ini").write_text(
            f"[databases]\n* = host={server.hostname} port={server.port} user={server.username}\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
            f"auth_type = trust\nauth_file = {folder}/users\npool_mode = transaction\n"
            f"default_pool_size = {CONNECTIONS}\nmax_client_conn = 200\n"
        )
        user = None
        if os.geteuid() == 0:
            # It refuses to run as root.
            user = "postgres"
            for path in (folder, *folder.iterdir()):
                os.chown(path, pwd.getpwnam(user).pw_uid, -1)
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [program, str(folder / "pgbouncer.ini")], stdout=log, stderr=log, user=user, preexec_fn=end_with_parent
            )
        wait_until(lambda: self._answers() or self._process.poll() is not None, limit_s=30)
        assert self._process.poll() is None, (folder / "log").read_text()

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url.replace("+psycopg", ""), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self) -> None:
        """End it, with all connections."""
        self._process.kill()
        self._process.wait()
