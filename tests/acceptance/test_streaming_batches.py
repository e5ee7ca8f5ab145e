"""Batches of transactions that share one delta: each counts on its own, and readers see whole ones only."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from urllib.parse import unquote, urlsplit

import pytest
from pyarrow import orc
from pyspark.sql import SparkSession

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import (
    InvalidOperationError,
    InvalidParametersError,
    InvalidTransactionRequestError,
    NoSuchColumnError,
    RoutingError,
    TransactionAbortedError,
)
from airflow_hivex.core.model.write_ids import ValidWriteIdList
from tests import evidence

pytestmark = pytest.mark.spark

on_sqlite = pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)


@pytest.fixture
def other(metastore: Metastore) -> Iterator[Session]:
    with metastore.session(user="other") as session:
        yield session


def ids(session: Session, table: str = "events") -> list[int]:
    return sorted(row[0] for row in session.sql(f"SELECT id FROM {table}").rows)


def directories(tmp_path: Path, table: str = "events") -> dict[str, list[str]]:
    (root,) = (found for found in (tmp_path / "c1").rglob(f"{table}*") if found.is_dir() and "delta" not in found.name)
    return {
        str(found.relative_to(root)): sorted(file.name for file in found.iterdir() if file.name.startswith("bucket"))
        for found in root.rglob("delta_*")
    }


def test_each_write_of_a_batch_counts_when_it_returns(session: Session, other: Session, tmp_path: Path) -> None:
    session.sql("CREATE TABLE events (id int, name string)")
    with session.transaction_batch("events", 4) as batch:
        first = batch.write([(1, "a"), (2, None)])
        assert (first.rows_written, batch.remaining, ids(other)) == (2, 3, [1, 2])
        other.sql("START TRANSACTION")
        assert ids(other) == [1, 2]
        batch.write([{"id": 3}])
        # Its snapshot is older than the second file of the directory that it reads.
        assert ids(other) == [1, 2]
        other.sql("INSERT INTO events VALUES (100, 'other')")
        other.sql("COMMIT")
        batch.write([{"name": "d", "id": 4}, {"id": 5, "name": "e"}])
        assert ids(other) == [1, 2, 3, 4, 5, 100]
        with pytest.raises(NoSuchColumnError):
            batch.write([{"nothing": 1}])
        assert batch.remaining == 0
        with pytest.raises(InvalidOperationError, match="none of them is left"):
            batch.write([(6, "f")])
    assert ids(other) == [1, 2, 3, 4, 5, 100]
    assert session.sql("SELECT name FROM events WHERE id = 4").rows == [("d",)]
    shared = {name: files for name, files in directories(tmp_path).items() if name == "delta_0000002_0000005"}
    assert shared == {"delta_0000002_0000005": ["bucket_00000_0", "bucket_00000_1", "bucket_00000_2"]}
    assert [row for row in session.sql("SHOW TRANSACTIONS").rows if "open" in map(str, row)] == []
    # Rows of a shared delta are changed as any other.
    session.sql("UPDATE events SET name = 'x' WHERE id IN (1, 5)")
    session.sql("DELETE FROM events WHERE id = 3")
    assert sorted(session.sql("SELECT id FROM events WHERE name = 'x'").rows) == [(1,), (5,)]
    assert ids(other) == [1, 2, 4, 5, 100]


@on_sqlite
def test_rows_go_to_their_partitions_and_buckets(session: Session, other: Session, tmp_path: Path) -> None:
    session.sql("CREATE TABLE events (id int, v array<int>) PARTITIONED BY (p string) CLUSTERED BY (id) INTO 2 BUCKETS")
    with session.transaction_batch("events", 3) as batch:
        batch.write([{"id": 1, "p": "a/b"}, {"id": 2, "p": None}])
        assert ids(other) == [1, 2]
        batch.write([{"id": 3, "p": "a/b"}])
        spark = SparkSession.builder.getOrCreate().newSession()
        frame = spark.createDataFrame([(4, [1, 2], "new")], "id int, v array<int>, p string")
        with pytest.raises(InvalidParametersError, match="warehouse"):
            batch.write(frame)
    assert other.sql("SELECT p, count(*) FROM events GROUP BY p ORDER BY p").rows == [(None, 1), ("a/b", 2)]
    session.warehouse(spark)
    with session.transaction_batch("events", 2) as batch:
        batch.write(frame)
        batch.write([{"id": 5, "p": "new"}])
    assert other.sql("SELECT id, v FROM events WHERE p = 'new' ORDER BY id").rows == [(4, [1, 2]), (5, None)]
    found = {name: len(files) for name, files in directories(tmp_path).items() if "new" in name}
    assert found == {"p=new/delta_0000005_0000006": 2}


@on_sqlite
def test_what_fails_leaves_nothing_and_the_batch_goes_on(
    session: Session, other: Session, metastore: Metastore, tmp_path: Path
) -> None:
    session.sql("CREATE TABLE events (id int)")
    batch = session.transaction_batch("events", 7)
    batch.write([(1,)])
    second = min(transaction.id for transaction in metastore.transactions.show() if transaction.state.name == "OPEN")
    metastore.transactions.abort(second, "an administrator did")
    with pytest.raises(TransactionAbortedError, match="an administrator did"):
        batch.write([(2,)])
    with pytest.raises(InvalidParametersError, match="Row 2"):
        batch.write([(3,), {"id": 3}])
    with pytest.raises(InvalidParametersError, match="Row 1 is a int"):
        batch.write([4])  # type: ignore[list-item]
    with pytest.raises(InvalidParametersError, match="no rows"):
        batch.write([])
    assert ids(other) == [1]
    batch.write([(5,)])
    assert (ids(other), batch.remaining) == ([1, 5], 1)
    assert directories(tmp_path)["delta_0000002_0000008"] == ["bucket_00000_0", "bucket_00000_5"]
    # An overwrite hides what has lower write ids, so the rest of the batch writes with later ones.
    other.sql("INSERT OVERWRITE TABLE events VALUES (10)")
    batch.write([(6,)])
    assert ids(other) == [6, 10]
    batch.close()
    batch.close()
    assert [each for each in metastore.transactions.show() if each.state.name == "OPEN"] == []


@on_sqlite
def test_a_copy_lags_when_a_batch_adds_to_a_directory_that_it_holds(
    session: Session, copy_table: object, metastore: Metastore
) -> None:
    session.sql("CREATE TABLE events (id int)")
    with session.transaction_batch("events", 2) as batch:
        batch.write([(1,)])
        copy_table("events", "c2")  # type: ignore[operator]
        with metastore.session(cluster="c2") as elsewhere:
            assert ids(elsewhere) == [1]
            batch.write([(2,)])
            with pytest.raises(RoutingError):
                ids(elsewhere)
    assert ids(session) == [1, 2]


@on_sqlite
def test_a_write_is_never_part_of_the_sessions_transaction(session: Session) -> None:
    session.sql("CREATE TABLE events (id int)")
    with session.transaction_batch("events", 2) as batch:
        session.sql("START TRANSACTION")
        with pytest.raises(InvalidOperationError, match="COMMIT or ROLLBACK"):
            batch.write([[1]])
        assert batch.remaining == 2
        session.sql("ROLLBACK")
        batch.write([[2]])
        session.sql("START TRANSACTION")
        session.sql("ROLLBACK")
    assert session.sql("SELECT id FROM events").rows == [(2,)]


def test_batches_that_cannot_be_opened_are_refused(session: Session) -> None:
    session.sql("CREATE TABLE plain (id int) TBLPROPERTIES ('transactional_properties' = 'insert_only')")
    session.sql("CREATE TABLE events (id int)")
    session.sql("CREATE VIEW v AS SELECT * FROM events")
    for table, words in (("plain", "insert-only"), ("v", "view")):
        with pytest.raises(InvalidOperationError, match=words):
            session.transaction_batch(table)
    for count in (0, 100_000, 1.5, "3", None):
        with pytest.raises(InvalidTransactionRequestError):
            session.transaction_batch("events", count)  # type: ignore[arg-type]
    session.sql("START TRANSACTION")
    with pytest.raises(InvalidOperationError, match="COMMIT or ROLLBACK"):
        session.transaction_batch("events")
    session.sql("ROLLBACK")


@pytest.mark.parametrize("metastore_url", ["sqlite", "postgresql"], indirect=True)
def test_a_batch_that_is_written_again_counts_once(session: Session, other: Session, metastore: Metastore) -> None:
    session.sql("CREATE TABLE events (id int, name string)")
    with session.transaction_batch("events", 8, app_id="orders") as batch:
        assert batch.write([(1, "a")], batch_id=0).rows_written == 1
        assert batch.write([(1, "a")], batch_id=0).rows_written == 0
        assert batch.write([(2, "b")], batch_id=7).rows_written == 1
        # As in Delta Lake, numbers rise: an earlier one is of a stream that was restarted.
        assert batch.write([(3, "c")], batch_id=6).rows_written == 0
        with pytest.raises(InvalidParametersError, match="belong together"):
            batch.write([(4, "d")])
        for wrong in (-1, True, "8", 2**63):
            with pytest.raises(InvalidParametersError, match="batch_id"):
                batch.write([(4, "d")], batch_id=wrong)  # type: ignore[arg-type]
        with pytest.raises(NoSuchColumnError):
            batch.write([{"nothing": 1}], batch_id=8)
        assert batch.write([(8, "h")], batch_id=8).rows_written == 1
    with other.transaction_batch("events", 2, app_id="clicks") as batch:
        assert batch.write([(9, "i")], batch_id=0).rows_written == 1
    assert ids(session) == [1, 2, 8, 9]
    session.sql("DROP TABLE events")
    session.sql("CREATE TABLE events (id int, name string)")
    with session.transaction_batch("events", 1, app_id="orders") as batch:
        assert batch.write([(1, "a")], batch_id=0).rows_written == 1


def test_of_two_writers_of_one_batch_one_counts(metastore: Metastore, session: Session) -> None:
    session.sql("CREATE TABLE events (id int, name string)")
    at_once = Barrier(4)

    def write(_: int) -> int | None:
        with metastore.session() as own, own.transaction_batch("events", 1, app_id="orders") as batch:
            at_once.wait(60)
            return batch.write([(1, "a")], batch_id=3).rows_written

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(write, range(4))) == [0, 0, 0, 1]  # type: ignore[type-var]
    assert ids(session) == [1]


@pytest.mark.evidence
@on_sqlite
def test_a_killed_stream_loses_and_doubles_nothing(
    metastore: Metastore, metastore_url: str, clusters: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    """``make evidence`` kills a hundred times; ``HIVEX_STREAM_KILLS`` sets another number."""
    kills = evidence.amount("HIVEX_STREAM_KILLS", share=2, whole=100)
    batches = max(12, kills)
    chance = random.Random(evidence.SEED)
    script = Path(__file__).with_name("streaming_process.py")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    described = json.dumps({"c1": clusters["c1"]})

    def stream(point: str, times: int) -> int:
        arguments = [metastore_url, described, str(tmp_path / "checkpoint"), str(batches), point, str(times)]
        return subprocess.run([sys.executable, str(script), *arguments], env=environment, check=False).returncode

    with metastore.session() as session:
        session.sql("CREATE TABLE events (id int, name string)")
        # The first kill lies between a commit and its checkpoint, where a batch without a key would double.
        points = ("after commit", "before commit", "after allocate")
        moments = [("after commit", 2), *((chance.choice(points), chance.randint(1, 4)) for _ in range(kills - 1))]
        assert stream(*moments[0]) == -signal.SIGKILL
        for point, times in moments[1:]:
            assert stream(point, times) in (0, -signal.SIGKILL)
        assert stream("nowhere", 1) == 0
        found = session.snapshot_files("events")
        valid = ValidWriteIdList.parse(str(found.valid_write_ids))
        read = [orc.read_table(unquote(urlsplit(file.uri).path)).to_pylist() for file in found.files]
        seen = [row["id"] for rows in read for row in rows if valid.is_valid(row["__write_id"])]
        assert sorted(seen) == list(range(4 * batches))
