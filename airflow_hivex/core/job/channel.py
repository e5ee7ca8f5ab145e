"""Messages between a client and its driver: JSON objects, one for each line of a stream.

The stream ends with the process on its other side, however that ends.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any


class Channel:
    """Sends and receives messages over a connection; any thread may send, one receives."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lines = connection.makefile("rb")
        self._sending = threading.Lock()

    def send(self, kind: str, **content: Any) -> None:
        """Send a message.

        Raises:
            OSError: the other side has gone.
        """
        data = json.dumps({"kind": kind, **content}).encode() + b"\n"
        with self._sending:
            self._connection.sendall(data)

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield the messages of the other side, until that has gone; a message that was cut off is left out."""
        try:
            for line in self._lines:
                if line.endswith(b"\n"):
                    yield json.loads(line)
        except OSError:
            return

    def close(self) -> None:
        """End the stream: the other side receives what was sent, and nothing more."""
        with suppress(OSError):
            # The other side may have been faster.
            self._connection.shutdown(socket.SHUT_RDWR)

    def leave(self) -> None:
        """Close the connection in a fork of the process that uses it, which goes on to do so.

        No lock is taken: a thread of that process may have held it when this one was forked.
        """
        os.close(self._connection.detach())

    def free(self) -> None:
        """Close the rest of a stream that has ended; for the thread that has received its messages."""
        self._lines.close()
        self._connection.close()
