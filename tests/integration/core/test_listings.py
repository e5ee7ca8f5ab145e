"""The lists of the page Hivex on a large metastore: paged by the database, and fast."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import insert, select, text

from airflow_hivex.core import Metastore
from airflow_hivex.core.errors import InvalidObjectError
from airflow_hivex.core.model.compaction import CompactionState
from airflow_hivex.core.store.paging import PageRequest
from airflow_hivex.core.store.schema import (
    compaction_queue,
    directories,
    directory_copies,
    locks,
    partitions,
    tables,
    txns,
)
from tests import evidence

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Connection

SLOWEST_S = 0.3
NOW = 1_800_000_000_000


@pytest.mark.evidence
def test_lists_of_a_large_metastore_are_fast(metastore_url: str, tmp_path: Path, counts: dict[str, Any]) -> None:
    partition_count = evidence.amount("HIVEX_LISTED_PARTITIONS", 1_000, 100_000)
    txn_count = evidence.amount("HIVEX_LISTED_TRANSACTIONS", 500, 10_000)
    clusters = {"c1": {"filesystem": tmp_path.as_uri(), "jobtracker": "local[1]"}}
    with Metastore.open(metastore_url, clusters=clusters) as metastore:
        with metastore.session() as session:
            session.sql("CREATE TABLE t (a INT) PARTITIONED BY (p STRING)")
        store = metastore.services.store
        store.write(lambda connection: _fill(connection, partition_count, txn_count))
        if store.is_postgresql:
            store.write(lambda connection: connection.execute(text("ANALYZE")))
        listed, compactions, catalog = (
            metastore.transaction_listing,
            metastore.compaction_listing,
            metastore.catalog_listing,
        )
        last = PageRequest(offset=partition_count - 50, order_by="name", descending=True)
        questions: dict[str, Callable[[], Any]] = {
            "transactions": lambda: listed.transactions(PageRequest(order_by="started")),
            "transactions by user": lambda: listed.transactions(PageRequest(order_by="user", offset=txn_count - 50)),
            "searched transactions": lambda: listed.transactions(PageRequest(search=f"user {txn_count - 1}")),
            "locks": lambda: listed.locks(PageRequest(order_by="requested")),
            "waits": lambda: listed.waits(),
            "counts of transactions": lambda: listed.counts(),
            "compactions": lambda: compactions.compactions(PageRequest(order_by="table"), [CompactionState.INITIATED]),
            "counts of compactions": lambda: compactions.counts(),
            "tables": lambda: catalog.tables(PageRequest(order_by="name")),
            "partitions": lambda: catalog.partitions("default", "t", PageRequest(order_by="name")),
            "last partitions": lambda: catalog.partitions("default", "t", last),
            "searched partitions": lambda: catalog.partitions("default", "t", PageRequest(search="=77")),
            "directories": lambda: catalog.directories("default", "t", PageRequest(order_by="write_id")),
            "copies": lambda: catalog.copies("default", "t"),
            "commits": lambda: catalog.commits("default", "t", 86_400_000, NOW - 30 * 86_400_000),
            "deltas": lambda: catalog.deltas(),
            "bytes of clusters": lambda: catalog.clusters(),
            "capacity": lambda: metastore.capacity.show(),
            "links": lambda: metastore.links.show_all(),
            "closure": lambda: metastore.namespaces.check("default"),
            "growth": lambda: metastore.capacity.history("default"),
        }
        took = {name: _fastest(question) for name, question in questions.items()}
        assert questions["transactions"]().total == txn_count
        assert questions["last partitions"]().total == partition_count
        assert len(questions["last partitions"]().rows) == 50
        assert questions["searched transactions"]().rows[0].transaction.user == f"user {txn_count - 1}"
        assert questions["compactions"]().total == 1000
        assert questions["copies"]()[0].directories == partition_count
        assert [(each.commits, each.rows) for each in questions["commits"]()] == [
            (partition_count, 10 * partition_count)
        ]
    slowest = sorted(took.items(), key=lambda each: -each[1])[:8]
    database = metastore_url.partition(":")[0].partition("+")[0]
    shown = ", ".join(f"{name} {seconds * 1000:.0f} ms" for name, seconds in slowest)
    counts[f"Lists of the page Hivex, {partition_count:,} partitions, {database}"] = f"slowest: {shown}"
    assert slowest[0][1] < SLOWEST_S, shown


def _fastest(question: Callable[[], Any]) -> float:
    """Return the shortest time of some, as other processes of the machine cost time, too."""
    times = []
    for _ in range(5):
        began = time.perf_counter()
        question()
        times.append(time.perf_counter() - began)
    return min(times)


def _fill(connection: Connection, partition_count: int, txn_count: int) -> None:
    table_id = connection.execute(select(tables.c.id).where(tables.c.name == "t")).scalar_one()
    numbers = range(1, partition_count + 1)
    connection.execute(
        insert(partitions),
        [
            {"id": n, "table_id": table_id, "name": f"p={n}", "location": f"t/p={n}", "parameters": {}, "created_ms": n}
            for n in numbers
        ],
    )
    connection.execute(
        insert(directories),
        [
            {
                "id": n,
                "table_id": table_id,
                "partition_id": n,
                "name": f"delta_{n:07}_{n:07}_0000",
                "kind": "delta",
                "min_write_id": n,
                "max_write_id": n,
                "statement_id": 0,
                "visibility_txn_id": 0,
                "row_layout": "flat",
                "files": 1,
                "rows": 10,
                "size_bytes": 1000,
                "txn_id": n,
            }
            for n in numbers
        ],
    )
    connection.execute(
        insert(directory_copies), [{"directory_id": n, "cluster": "c1", "registered_ms": NOW} for n in numbers]
    )
    first = 1_000_000
    connection.execute(
        insert(txns),
        [
            {
                "id": first + n,
                "state": "o",
                "type": 0,
                "started_ms": NOW + n % 77,
                "heartbeat_ms": NOW,
                "timeout_s": 300,
                "user": f"user {n}",
                "host": "h",
                "agent_info": f"dag_{n % 20}.task run_{n} 1",
            }
            for n in range(txn_count)
        ],
    )
    connection.execute(
        insert(locks),
        [
            {
                "lock_id": first + n,
                "internal_id": 1,
                "txn_id": first + n,
                "database": "default",
                "table": "t",
                "partition": "",
                "full_table": "default/t",
                "resource": "default/t",
                "type": "e",
                "strictness": 1,
                "operation": 4,
                "state": "w" if n else "a",
                "requested_ms": NOW + n,
                "heartbeat_ms": NOW,
                "user": f"user {n}",
                "host": "h",
                "agent_info": None,
                "blocked_by_lock_id": first + n - 1 if n else None,
                "blocked_by_internal_id": 1 if n else None,
            }
            for n in range(txn_count)
        ],
    )
    connection.execute(
        insert(compaction_queue),
        [
            {
                "id": n,
                "table_id": table_id,
                "database": "default",
                "table": "t",
                "partition": f"p={n}",
                "state": "i",
                "type": "i",
                "properties": {},
                "enqueued_ms": NOW,
            }
            for n in range(1, 1001)
        ],
    )


def test_page_that_is_not_valid_is_refused() -> None:
    for wrong in ({"limit": 0}, {"limit": 501}, {"offset": -1}):
        with pytest.raises(InvalidObjectError, match="limit from 1 to 500"):
            PageRequest(**wrong)
