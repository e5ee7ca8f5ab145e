"""Processes that replicate a table, change its primary cluster, or move a namespace, until killed. Not a test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow_hivex.core import Metastore


def replicate(url: str, options: dict[str, Any], bytes_per_second: int | None) -> None:
    """Replicate the table ``t`` to c2."""
    with Metastore.open(url, **options) as metastore:
        metastore.replicator.replicate("t", "c2", threads=2, bytes_per_second=bytes_per_second)


def replicate_by_job(url: str, options: dict[str, Any], table: str, cluster: str, bytes_per_second: int | None) -> None:
    """Replicate a table by a Spark job on the target."""
    with Metastore.open(url, **options) as metastore:
        metastore.replicator.replicate(
            table, cluster, copy_cluster=cluster, threads=2, bytes_per_second=bytes_per_second
        )


def change_primary(url: str, options: dict[str, Any], cluster: str, begun: Path) -> None:
    """Make a cluster the primary one of the table ``t``; the file ``begun`` is there when the change begins."""
    with Metastore.open(url, **options) as metastore:
        begun.touch()
        metastore.primaries.change("t", cluster, threads=2)


def move_namespace(url: str, options: dict[str, Any], cluster: str, bytes_per_second: int | None, begun: Path) -> None:
    """Move the namespace ``nycflights`` to a cluster; the file ``begun`` is there when the move begins."""
    with Metastore.open(url, **options) as metastore:
        begun.touch()
        metastore.moves.move("nycflights", cluster, threads=2, bytes_per_second=bytes_per_second)
