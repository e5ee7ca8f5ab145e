"""No room for the files of a statement that writes, or of a compaction: in Spark's tasks, and in this process.

A limit on the length of files stands for the full disk: for the writer it is as real an error, and setting it
asks for no rights.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import StorageError
from airflow_hivex.core.model.compaction import Compaction, CompactionState
from tests.acceptance.middle_of_writes import (
    LAYOUTS,
    STATEMENTS,
    TRIED,
    Rows,
    create,
    held,
    in_other,
    limit_files,
    many,
    stopped_while_writing,
)

pytestmark = pytest.mark.spark

# Files that the driver completes are this long in one of the partitions, and not in the other.
_MOST_BYTES = {"DELETE": 100, "MERGE": 100}
_TEXT = "".join(f"{number * 2654435761 % 2**32:08x}" for number in range(3000))
VALUES = f"INSERT INTO {{t}} VALUES (1, 'small', 'first'), (2, '{_TEXT}', 'second')"


@dataclass
class Opened:
    """A warehouse whose metastore is another process's, so that this one's limits are not for it."""

    metastore: Metastore
    session: Session
    root: Path

    def folder(self, table: str) -> Path:
        return self.root / "default.db" / table

    def held(self) -> list[Any]:
        return held(self.metastore, self.session, self.root)

    def compact(self, layout: str) -> Compaction:
        """What becomes of a major compaction of the larger partition, whose files get this row layout."""
        properties = {"tblprops.hivex.row.layout": layout}
        self.metastore.compactor.request("default", "t", "k=1", properties=properties)
        done = self.metastore.compactor.work()
        assert done is not None
        return done

    def compaction_fails(self, layout: str) -> None:
        """It ends with an error that names the table and the reason, and leaves all as it was."""
        before = self.held()
        failed = self.compact(layout)
        assert failed.state is CompactionState.FAILED
        assert re.search(r"File too large.*Nothing was written to .*default\.t", str(failed.error_message))
        assert self.held() == before

    def rows(self, table: str) -> Rows:
        return sorted(self.session.sql(f"SELECT id, v, k FROM {table}").rows)  # type: ignore[arg-type]

    def fails(self, statement: str, table: str) -> None:
        """The statement ends with one error that names its table and the reason, and leaves all as it was."""
        before = self.held()
        with pytest.raises(StorageError, match=rf"File too large.*Nothing was written to .*default\.{table}") as caught:
            self.session.sql(statement)
        assert str(self.root) in str(caught.value)
        assert self.held() == before


@pytest.fixture
def warehouse(postgresql_url: str, tmp_path: Path) -> Iterator[Opened]:
    clusters = {"c1": {"filesystem": (tmp_path / "c1").as_uri(), "jobtracker": "local[2]"}}
    with Metastore.open(postgresql_url, clusters=clusters) as metastore, metastore.session() as session:
        # Spark is there then.
        session.sql("SELECT 1")
        yield Opened(metastore, session, tmp_path / "c1")


@contextmanager
def most_bytes(process: int, size_bytes: int) -> Iterator[None]:
    """While a process can write no longer files."""
    limit_files(process, size_bytes)
    try:
        yield
    finally:
        limit_files(process, -1)


@contextmanager
def no_room_for_tasks(folder: Path) -> Iterator[None]:
    """While Spark's JVM can write nothing more, from the moment on when a task has a file for that table open."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    assert context is not None
    process: int = context._gateway.proc.pid
    ended, filled = threading.Event(), threading.Event()

    def watch() -> None:
        while not ended.wait(0.001) and not filled.is_set():
            with stopped_while_writing(process, folder) as is_writing:
                if is_writing:
                    limit_files(process, 0)
                    filled.set()

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join()
        limit_files(process, -1)
    assert filled.is_set()


@pytest.mark.evidence(cases=2, among="writers that die")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_full_disk_changes_nothing_and_the_statement_works_once_there_is_room(warehouse: Opened, layout: str) -> None:
    rows: Rows = []
    for table in ("t", "other"):
        warehouse.session.sql(create(table, layout))
    # At its first use the library for snappy, the compression of layout hive, finds no room to be unpacked either.
    warehouse.session.sql(create("first", "hive"))
    warehouse.session.sql("INSERT INTO first SELECT 1, 'first', '0'")
    for name, (text, change) in TRIED.items():
        statement = text.format(t="t", other="other")
        with no_room_for_tasks(warehouse.folder("t")):
            warehouse.fails(statement, "t")
        # Of files of layout flat the driver writes none itself but the one with the layout's version.
        with most_bytes(os.getpid(), _MOST_BYTES.get(name, 10_000) if layout == "hive" else 0):
            warehouse.fails(statement, "t")
        warehouse.session.sql(statement)
        rows = sorted(change(rows))
        assert warehouse.rows("t") == rows, name
    before = in_other(rows)
    assert warehouse.rows("other") == before
    warehouse.session.sql("DELETE FROM t WHERE id % 7 = 0")
    rows = [row for row in rows if row[0] % 7]
    # Into the other layout Spark writes all rows.
    other = next(each for each in ("flat", "hive") if each != layout)
    with no_room_for_tasks(warehouse.folder("t") / "k=1"):
        warehouse.compaction_fails(other)
    with most_bytes(os.getpid(), 10_000 if layout == "hive" else 0):
        warehouse.compaction_fails(layout)
    assert warehouse.rows("t") == rows
    assert warehouse.compact(layout).state is CompactionState.READY_FOR_CLEANING
    assert warehouse.rows("t") == rows
    with most_bytes(os.getpid(), 4000):
        warehouse.fails(VALUES.format(t="other"), "other")
    warehouse.session.sql(VALUES.format(t="other"))
    assert warehouse.rows("other") == sorted([*before, (1, "small", "first"), (2, _TEXT, "second")])


@pytest.mark.evidence(cases=2, among="writers that die")
@pytest.mark.timeout(600)
def test_a_full_disk_changes_nothing_of_restores_loads_and_external_tables(warehouse: Opened) -> None:
    session, root = warehouse.session, warehouse.root
    session.sql(create("t", "flat"))
    session.sql("ALTER TABLE t SET TBLPROPERTIES ('hivex.history.retention' = '1h')")
    session.sql(
        "CREATE EXTERNAL TABLE e (id bigint, v string) PARTITIONED BY (k string) STORED AS ORC LOCATION 'default.db/e'"
    )
    # With the library for snappy, as above.
    session.sql("INSERT INTO e SELECT 1, 'first', '0'")
    insert = STATEMENTS["INSERT"][0]
    session.sql(insert.format(t="t"))
    version = session.sql("DESCRIBE HISTORY t LIMIT 1").rows[0][0]
    session.sql("INSERT INTO t VALUES (-1, 'later', 'later')")
    before = warehouse.rows("t")
    restore = f"RESTORE TABLE t TO VERSION AS OF {version}"
    with no_room_for_tasks(warehouse.folder("t")):
        warehouse.fails(restore, "t")
    # Room for the layout's version, and not for the base that empties the later partition.
    with most_bytes(os.getpid(), 10):
        warehouse.fails(restore, "t")
    assert warehouse.rows("t") == before
    for statement in (insert, insert.replace("INSERT INTO", "INSERT OVERWRITE TABLE")):
        with no_room_for_tasks(warehouse.folder("e")):
            warehouse.fails(statement.format(t="e"), "e")
        session.sql(statement.format(t="e"))
    session.sql(restore)
    assert warehouse.rows("t") == warehouse.rows("e") == before[1:]
    (root / "in").mkdir()
    orc.write_table(pa.table(dict(zip("ivk", zip(*many(), strict=True), strict=True))), str(root / "in" / "f"))
    load = "LOAD DATA INPATH 'in' OVERWRITE INTO TABLE t"
    with no_room_for_tasks(warehouse.folder("t")):
        warehouse.fails(load, "t")
    assert any((root / "in").iterdir())
    session.sql(load)
    assert not any((root / "in").iterdir())
    assert warehouse.rows("t") == before[1:]
