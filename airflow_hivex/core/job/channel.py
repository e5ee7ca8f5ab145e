"""Messages between a client and its driver, as lines of JSON, and the check that both have the same files.

The stream ends if the process on its other side ends for any reason. A driver compares the files that it runs with the
files that its client has sent, so a job never runs with another release of this package.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import airflow_hivex


class Channel:
    """A connection for messages. Any thread can send messages. A single thread receives messages."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lines = connection.makefile("rb")
        self._sending = threading.Lock()

    def send(self, kind: str, **content: Any) -> None:
        """Send a message.

        Raises:
            OSError: the other side has ended.
        """
        data = json.dumps({"kind": kind, **content}).encode() + b"\n"
        with self._sending:
            self._connection.sendall(data)

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield the messages of the other side until it ends. An incomplete message is skipped."""
        try:
            for line in self._lines:
                if line.endswith(b"\n"):
                    yield json.loads(line)
        except OSError:
            return

    def close(self) -> None:
        """End the stream. The other side still receives the messages that were sent before."""
        with suppress(OSError):
            # The other side may have closed it first.
            self._connection.shutdown(socket.SHUT_RDWR)

    def leave(self) -> None:
        """Close the connection in a forked process. The parent process continues to use it.

        The call takes no lock, because a thread of the parent process has possibly held the lock at the fork.
        """
        os.close(self._connection.detach())

    def free(self) -> None:
        """Release the connection after its end. Call this method in the thread that has received messages."""
        self._lines.close()
        self._connection.close()


def fingerprint(files: Mapping[str, bytes]) -> str:
    """Return a text that identifies files by their names and contents."""
    digest = hashlib.sha256()
    for name, content in sorted(files.items()):
        digest.update(f"{name}\n{len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def problem_with(expected: str) -> str | None:
    """Return the problem if this process does not run the files with the fingerprint ``expected``, otherwise None."""
    package = Path(airflow_hivex.__file__).parent
    archive = package.parent
    if not zipfile.is_zipfile(archive):
        return f"its driver runs the package airflow_hivex of {package}, not the files that its client has sent"
    with zipfile.ZipFile(archive) as files:
        found = fingerprint({name: files.read(name) for name in files.namelist()})
    if found != expected:
        return f"its driver has other files of airflow_hivex than its client has sent ({found[:12]}, {expected[:12]})"
    return None
