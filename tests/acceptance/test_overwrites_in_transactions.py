"""All base directories that a transaction makes in a table have one name: what fails deletes its own only."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import (
    InvalidOperationError,
    TransactionAbortedError,
    TransactionCommittedError,
    WriteConflictError,
    WriteTakenBackError,
)
from airflow_hivex.core.execution.write_outcomes import take_back
from airflow_hivex.core.model.writes import TableWrite
from airflow_hivex.core.transactions import pending_writes
from airflow_hivex.core.transactions.shared_state import next_statement_id


@pytest.fixture
def table(session: Session) -> Session:
    session.sql("CREATE TABLE p (a int) PARTITIONED BY (k int)")
    session.sql("INSERT INTO p VALUES (1, 1), (2, 2)")
    session.sql("CREATE TABLE t (a int)")
    return session


def base_directories(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root / "c1/default.db")) for path in root.glob("c1/**/base_*"))


def killed(metastore: Metastore, session: Session, table: str, partition: str | None, root: Path) -> None:
    """What an INSERT OVERWRITE of the session's transaction leaves that is killed before its end."""
    services = metastore.services
    found = services.catalog.get_table("default", table)
    txn_id = session.txn_id
    assert txn_id is not None
    write_id = services.transactions.allocate_write_ids([txn_id], "default", table)[txn_id]
    services.store.write(
        lambda connection: pending_writes.begin(
            connection,
            found,
            TableWrite(txn_id, write_id, "c1", next_statement_id(connection, txn_id), overwrite=True),
            writer="killed",
        )
    )
    folder = root / "c1" / found.storage.primary.location / (partition or "") / f"base_{write_id:07}"
    folder.mkdir(parents=True)


def test_dynamic_overwrite_that_fails_leaves_the_one_before_it(
    metastore: Metastore, table: Session, tmp_path: Path
) -> None:
    table.sql("START TRANSACTION")
    table.sql("INSERT OVERWRITE p PARTITION (k = 1) VALUES (10)")
    before = base_directories(tmp_path)
    assert len(before) == 1
    with pytest.raises(InvalidOperationError):
        table.sql("INSERT OVERWRITE p VALUES (11, 1), (22, 2)")
    assert base_directories(tmp_path) == before
    table.sql("COMMIT")
    metastore.housekeeper.run()
    assert base_directories(tmp_path) == before


def test_killed_overwrite_does_not_take_a_committed_one_with_it(
    metastore: Metastore, table: Session, tmp_path: Path
) -> None:
    table.sql("START TRANSACTION")
    table.sql("INSERT OVERWRITE p PARTITION (k = 1) VALUES (10)")
    before = base_directories(tmp_path)
    killed(metastore, table, "p", "k=2", tmp_path)
    assert len(base_directories(tmp_path)) == 2
    table.sql("COMMIT")
    assert base_directories(tmp_path) == before
    metastore.housekeeper.run()
    assert base_directories(tmp_path) == before


@pytest.mark.parametrize(
    ("name", "partition", "sql"),
    [
        ("p", "k=1", "INSERT OVERWRITE p PARTITION (k = 1) VALUES (10)"),
        ("p", "k=1", "INSERT OVERWRITE p VALUES (10, 1)"),
        ("t", None, "INSERT OVERWRITE t VALUES (10)"),
    ],
)
def test_overwrite_is_refused_while_another_one_may_write_there(
    metastore: Metastore, table: Session, tmp_path: Path, name: str, partition: str | None, sql: str
) -> None:
    table.sql("START TRANSACTION")
    killed(metastore, table, name, partition, tmp_path)
    before = base_directories(tmp_path)
    with (
        metastore.session(txn_id=table.txn_id, writer="second") as second,
        pytest.raises(InvalidOperationError, match="runs there, or was killed"),
    ):
        second.sql(sql)
    assert base_directories(tmp_path) == before
    # The killed writer is repeated, and the other one can.
    with (
        metastore.session(txn_id=table.txn_id, writer="killed"),
        metastore.session(txn_id=table.txn_id, writer="second") as second,
    ):
        assert base_directories(tmp_path) == []
        assert second.sql(sql).rows_written == 1
    table.sql("COMMIT")
    assert [Path(each).parent for each in base_directories(tmp_path)] == [Path(each).parent for each in before]


def test_overwrite_that_is_begun_again_makes_another_directory(
    metastore: Metastore, table: Session, tmp_path: Path
) -> None:
    (txn_id,) = metastore.transactions.open(timeout=3600)
    tries = []
    for _ in range(2):
        with metastore.session(txn_id=txn_id, writer="load") as session:
            session.sql("INSERT OVERWRITE p VALUES (10, 1)")
        tries.append(base_directories(tmp_path))
    # Whatever still runs of the first try, it cannot delete what the second one has written.
    assert [len(each) for each in tries] == [1, 1]
    assert tries[0] != tries[1]
    metastore.commit(txn_id)
    assert base_directories(tmp_path) == tries[1]


def test_statement_that_was_taken_back_cannot_count_any_more(metastore: Metastore, table: Session) -> None:
    (txn_id,) = metastore.transactions.open(timeout=3600)
    services = metastore.services
    found = services.catalog.get_table("default", "t")
    write = services.store.write(
        lambda connection: pending_writes.begin(
            connection,
            found,
            TableWrite(txn_id, 1, "c1", next_statement_id(connection, txn_id), overwrite=False),
            writer="load",
        )
    )
    # The writer is repeated, and has not deleted all files yet.
    services.store.write(lambda connection: pending_writes.mark_taken_back(connection, [write.id]))
    with pytest.raises(WriteTakenBackError, match="'load' runs again"):
        services.store.write(lambda connection: pending_writes.record(connection, found, write, []))


@pytest.mark.parametrize("sql", ["INSERT INTO t VALUES (10)", "INSERT OVERWRITE t VALUES (10)"])
def test_what_a_commit_was_first_with_is_not_taken_back(
    metastore: Metastore, table: Session, tmp_path: Path, sql: str
) -> None:
    (txn_id,) = metastore.transactions.open(timeout=3600)
    services = metastore.services
    with metastore.session(txn_id=txn_id, writer="load") as session:
        session.sql(sql)
    with services.store.read() as connection:
        seen = pending_writes.of_transaction(connection, txn_id, writer="load")
    metastore.commit(txn_id)
    before = sorted(tmp_path.glob("c1/default.db/t/*/bucket_*"))
    assert len(before) == 1
    # A session of the same writer that has looked before the commit, and comes too late.
    take_back(services, seen)
    assert sorted(tmp_path.glob("c1/default.db/t/*/bucket_*")) == before


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_overwrite_that_runs_longer_than_its_transaction_leaves_no_files(
    metastore: Metastore, metastore_url: str, table: Session, tmp_path: Path, end: str
) -> None:
    (txn_id,) = metastore.transactions.open(timeout=3600)

    def end_it(point: str) -> None:
        if point == "after allocate":
            getattr(metastore, end)(txn_id)

    clusters = {"c1": {"filesystem": (tmp_path / "c1").as_uri(), "jobtracker": "local[2]"}}
    with (
        Metastore.open(metastore_url, clusters=clusters, fault=end_it) as slow,
        slow.session(txn_id=txn_id, writer="load") as session,
        pytest.raises((TransactionAbortedError, TransactionCommittedError)),
    ):
        session.sql("INSERT OVERWRITE t VALUES (10)")
    assert base_directories(tmp_path) == []


@pytest.mark.parametrize("name", ["t", "p"])
def test_shared_overwrite_does_not_hide_what_is_inserted_beside_it(
    metastore: Metastore, metastore_url: str, table: Session, tmp_path: Path, name: str
) -> None:
    """Its base hides all of lower write ids, also of transactions that commit after it."""
    partition = " PARTITION (k = 1)" if name == "p" else ""
    begun: list[str] = []

    def overwrite_beside(point: str) -> None:
        if point == "while writing" and not begun:
            begun.append(point)
            with shared.session() as overwriting:
                overwriting.sql(f"INSERT OVERWRITE {name}{partition} VALUES (20)")

    clusters = {"c1": {"filesystem": (tmp_path / "c1").as_uri(), "jobtracker": "local[2]"}}
    settings = {"hive.txn.xlock.iow": False}
    with (
        Metastore.open(metastore_url, clusters=clusters, settings=settings) as shared,
        Metastore.open(metastore_url, clusters=clusters, fault=overwrite_beside) as inserting,
        inserting.session() as session,
    ):
        session.sql(f"INSERT INTO {name}{partition} VALUES (10)")
    written = {path.parent.name for path in tmp_path.glob(f"c1/default.db/{name}/**/bucket_*")}
    base = max(each for each in written if each.startswith("base"))
    assert max(each.split("_")[1] for each in written if each.startswith("delta")) > base.split("_")[1]


@pytest.mark.parametrize("name", ["t", "p"])
def test_transaction_whose_insert_was_overwritten_beside_it_conflicts(
    metastore: Metastore, metastore_url: str, table: Session, tmp_path: Path, name: str
) -> None:
    partition = " PARTITION (k = 1)" if name == "p" else ""
    clusters = {"c1": {"filesystem": (tmp_path / "c1").as_uri(), "jobtracker": "local[2]"}}
    table.sql("START TRANSACTION")
    table.sql(f"INSERT INTO {name}{partition} VALUES (10)")
    with (
        Metastore.open(metastore_url, clusters=clusters, settings={"hive.txn.xlock.iow": False}) as shared,
        shared.session() as overwriting,
    ):
        overwriting.sql(f"INSERT OVERWRITE {name}{partition} VALUES (20)")
    with pytest.raises(WriteConflictError, match="overwritten"):
        table.sql("COMMIT")
    assert metastore.locks.show() == []
