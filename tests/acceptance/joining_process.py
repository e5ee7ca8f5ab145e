"""A process that joins a transaction and is killed when its statement has written its files, before it says so."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from airflow_hivex.core import Metastore


def join_and_die(url: str, root: Path, txn_id: int, statement: str) -> None:
    """Run a statement of the transaction, up to that point."""
    clusters = {name: {"filesystem": (root / name).as_uri(), "jobtracker": "local[2]"} for name in ("c1", "c2", "c3")}

    def die(point: str) -> None:
        if point == "before write" and any(root.glob("c?/default.db/*/**/*_0000003_0000003_*/bucket_*")):
            os.kill(os.getpid(), signal.SIGKILL)

    with (
        Metastore.open(url, clusters=clusters, default_cluster="c1", fault=die) as metastore,
        metastore.session(txn_id=txn_id, writer="load") as session,
    ):
        session.sql(statement)
