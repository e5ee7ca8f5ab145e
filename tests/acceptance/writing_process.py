"""A process that runs statements until it is killed; the parent test decides when. Not a test itself."""

from __future__ import annotations

import signal
import sys

from airflow_hivex.core import Metastore
from airflow_hivex.core.errors import JobCancelledError, TransactionAbortedError


def report(step: str) -> None:
    """Let the parent know."""
    sys.stdout.write(step + "\n")
    sys.stdout.flush()


def main(url: str, clusters: str) -> None:
    """Open the warehouse, start Spark, then run the statement of each line that comes.

    SIGTERM cancels the statement, as Airflow's on_kill does in a task.
    """
    with Metastore.open(url, clusters=clusters) as metastore, metastore.session(user="killed") as session:
        signal.signal(signal.SIGTERM, lambda _signal, _frame: session.cancel())
        session.sql("SELECT 1")
        report("ready")
        while statement := sys.stdin.readline().strip():
            report("begin")
            try:
                session.sql(statement)
            except (JobCancelledError, TransactionAbortedError):
                report("cancelled")
            else:
                report("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
