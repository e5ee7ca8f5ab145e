"""Processes that compact and clean until they are killed; the parent test decides when. Not a test itself."""

from __future__ import annotations

import sys
from pathlib import Path

from airflow_hivex.core import Metastore


def report(step: str) -> None:
    """Let the parent know."""
    sys.stdout.write(step + "\n")
    sys.stdout.flush()


def work(url: str, clusters: str) -> None:
    """Open the warehouse, start Spark, then do all compactions that wait whenever a line comes."""
    with Metastore.open(url, clusters=clusters) as metastore, metastore.session() as session:
        session.sql("SELECT 1")
        report("ready")
        while sys.stdin.readline():
            while (done := metastore.compactor.work()) is not None:
                report(f"{done.id} {done.state.shown}")
            report("idle")


def clean_until_killed(url: str, clusters: dict[str, dict[str, str]], ready: Path) -> None:
    """Clean, again and again, once ``ready`` is there."""
    with Metastore.open(url, clusters=clusters) as metastore:
        ready.touch()
        while True:
            metastore.compactor.clean()


if __name__ == "__main__":
    work(*sys.argv[1:])
