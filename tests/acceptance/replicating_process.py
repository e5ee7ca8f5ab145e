"""A process that replicates a table, slowly, until it is killed. Not a test itself."""

from __future__ import annotations

from typing import Any

from airflow_hivex.core import Metastore


def replicate(url: str, options: dict[str, Any], bytes_per_second: int | None) -> None:
    """Replicate the table ``t`` to c2."""
    with Metastore.open(url, **options) as metastore:
        metastore.replicator.replicate("t", "c2", threads=2, bytes_per_second=bytes_per_second)
