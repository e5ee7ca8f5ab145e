"""A process outside of Airflow that commits to tables of a warehouse."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow_hivex.core import Metastore


def commit(url: str, clusters: Mapping[str, Any], first: int, count: int, journal: Path) -> None:
    """Commit ``count`` transactions to shop.orders, and write the id of each into a file.

    Each third one writes shop.journal, too. A transaction that only writes shop.journal is between any two.
    """
    with (
        Metastore.open(url, clusters=clusters, default_cluster=next(iter(clusters))) as metastore,
        metastore.session(user="loader", database="shop") as session,
        journal.open("a") as ids,
    ):
        for number in range(first, first + count):
            if number % 3:
                txn_id = session.sql(f"INSERT INTO orders VALUES ({number})").txn_id
            else:
                session.sql("START TRANSACTION")
                session.sql(f"INSERT INTO journal VALUES ({number})")
                txn_id = session.sql(f"INSERT INTO orders VALUES ({number})").txn_id
                session.sql("COMMIT")
            ids.write(f"{txn_id}\n")
            ids.flush()
            session.sql(f"INSERT INTO journal VALUES (-{number})")
