"""A client of a warehouse that runs one request after the other, each a line of JSON, and answers with lines of JSON.

A request has a ``statement``, or the name of a table that the client itself ``reads`` or ``compacts``, and perhaps a
named ``point`` at which the client says so and waits for another line.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import signal
import sys
import threading
from typing import Any

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import HivexError
from airflow_hivex.core.model.progress import Progress


class Client:
    """The requests of a client, which come from the standard input."""

    def __init__(self) -> None:
        self.point = ""
        self._lines: queue.Queue[str] = queue.Queue()

    def receive(self) -> None:
        """Take the lines of the standard input, and end with it. A line interrupts the request, also one that hangs."""
        for line in sys.stdin:
            if line == "interrupt\n":
                os.kill(os.getpid(), signal.SIGINT)
            else:
                self._lines.put(line)
        os.kill(os.getpid(), signal.SIGKILL)

    def say(self, **event: Any) -> None:
        sys.stdout.write(f"{json.dumps(event)}\n")
        sys.stdout.flush()

    def reach(self, point: str) -> None:
        """Wait at the point of the request, once."""
        if point == self.point:
            self.point = ""
            self.say(at=point)
            self._lines.get()

    def show(self, progress: Progress) -> None:
        self.say(running=progress.tasks_running)

    def serve(self, url: str, clusters: Any, settings: Any) -> None:
        with (
            Metastore.open(url, clusters=clusters, settings=settings, fault=self.reach) as metastore,
            metastore.session(progress=self.show) as session,
        ):
            threading.Thread(target=self.receive, daemon=True).start()
            self.say(ready=True)
            while True:
                request = json.loads(self._lines.get())
                self.point = request.get("point", "")
                try:
                    self.say(rows=self.rows(metastore, session, request))
                except HivexError as error:
                    self.say(error=str(error), type=type(error).__name__, outcome=error.outcome.name)
                except KeyboardInterrupt:
                    self.say(error="interrupted", type="KeyboardInterrupt", outcome="NOT_APPLIED")
                self.point = ""

    def rows(self, metastore: Metastore, session: Session, request: dict[str, str]) -> list[Any]:
        """Return the rows of a request."""
        if "reads" in request:
            self.reach("read")
            return [[session.to_arrow(request["reads"]).num_rows]]
        if "compacts" in request:
            assert metastore.compactor.request("default", request["compacts"], None, "major").is_accepted
            done = metastore.compactor.work()
            metastore.compactor.clean()
            return [] if done is None else [done.state.name]
        return list(session.sql(request["statement"]).rows)


if __name__ == "__main__":
    # A shell may have started the tests with this signal ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    url, clusters, settings = sys.argv[1:]
    Client().serve(url, json.loads(clusters), json.loads(settings))
