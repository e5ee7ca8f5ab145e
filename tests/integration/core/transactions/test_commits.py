"""What waits for commits must miss none, whatever the order of commits and whatever housekeeping removes."""

from __future__ import annotations

import json

import pytest

from airflow_hivex.core.catalog.commits import CommitMark, Commits
from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.clock import Clock
from airflow_hivex.core.errors import InvalidObjectError, InvalidOperationError, NoSuchTableError
from airflow_hivex.core.model.objects import ClusterStorageDescriptor, Column, StorageDescriptor, Table
from airflow_hivex.core.model.transactions import Operation
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.transactions.housekeeper import Housekeeper
from airflow_hivex.core.transactions.manager import TransactionManager

pytestmark = pytest.mark.usefixtures("warehouse")


@pytest.fixture
def commits(store: Store, clock: Clock, transactions: TransactionManager) -> Commits:
    return Commits(store, clock, transactions)


def begin(transactions: TransactionManager, table: str = "tab3", partition: str | None = None) -> int:
    """A transaction that has begun to write."""
    (txn_id,) = transactions.open()
    transactions.allocate_write_ids([txn_id], "default", table, operation=Operation.INSERT, partition=partition)
    return txn_id


def written(commits: Commits, table: str = "tab3", partition: str | None = None, since: object = None) -> int | None:
    """The write id of the commit that was found."""
    found = commits.after("default", table, partition, since=since)  # type: ignore[arg-type]
    return None if found is None else found.write_id


def test_commit_is_found_with_its_transaction(commits: Commits, transactions: TransactionManager) -> None:
    assert commits.after("default", "tab3") is None
    txn_id = begin(transactions)
    assert commits.after("default", "tab3") is None
    transactions.commit(txn_id)
    found = commits.after("DEFAULT", "Tab3")
    assert found is not None
    assert (found.table, found.partition, found.write_id, found.txn_id) == ("default.tab3", None, 1, txn_id)
    assert found.committed_at == transactions.get(txn_id).started_at


def test_aborted_writes_and_other_tables_do_not_count(commits: Commits, transactions: TransactionManager) -> None:
    transactions.abort(begin(transactions))
    transactions.commit(begin(transactions, "tab1", "p=1"))
    assert written(commits) is None


def test_nothing_is_after_a_mark_until_the_next_commit(commits: Commits, transactions: TransactionManager) -> None:
    transactions.commit(begin(transactions))
    mark = commits.mark("default", "tab3")
    assert written(commits, since=mark) is None
    transactions.commit(begin(transactions))
    assert written(commits, since=mark) == 2


def test_lower_write_id_that_commits_later_is_after_the_mark(
    commits: Commits, transactions: TransactionManager
) -> None:
    early, late = begin(transactions), begin(transactions)
    transactions.commit(late)
    mark = commits.mark("default", "tab3")
    assert mark.open_ids == (1,)
    assert written(commits, since=mark) is None
    transactions.commit(early)
    assert written(commits, since=mark) == 1
    assert written(commits, since=2) is None


def test_write_id_that_was_open_at_the_mark_and_aborts_is_not_after_it(
    commits: Commits, transactions: TransactionManager
) -> None:
    early, late = begin(transactions), begin(transactions)
    transactions.commit(late)
    mark = commits.mark("default", "tab3")
    transactions.abort(early)
    assert written(commits, since=mark) is None


@pytest.mark.parametrize("early_first", [True, False])
def test_housekeeping_loses_no_commit_after_a_point(
    commits: Commits, transactions: TransactionManager, housekeeper: Housekeeper, early_first: bool
) -> None:
    transactions.commit(begin(transactions))
    mark = commits.mark("default", "tab3")
    early, late = begin(transactions), begin(transactions)
    for txn_id in (early, late) if early_first else (late, early):
        transactions.commit(txn_id)
    between = commits.mark("default", "tab3")
    transactions.commit(begin(transactions, "tab1", "p=1"))
    housekeeper.run()
    assert written(commits, since=mark) is not None
    assert written(commits, since=2) == 3
    assert written(commits, since=between) is None


def test_only_commits_to_the_partition_count(commits: Commits, transactions: TransactionManager) -> None:
    transactions.commit(begin(transactions, "tab1", "p=1"))
    transactions.commit(begin(transactions, "tab1", "p=2"))
    assert written(commits, "tab1", "P=1") == 1
    assert written(commits, "tab1", "p=1", since=1) is None
    assert written(commits, "tab1", "p=3") is None
    assert written(commits, "tab1") == 2
    transactions.commit(begin(transactions, "tab1"))
    assert written(commits, "tab1", "p=3") == 3


def test_partition_is_found_however_it_is_written(
    catalog: ObjectStore, commits: Commits, transactions: TransactionManager
) -> None:
    storage = StorageDescriptor((Column("a", "int"),), ClusterStorageDescriptor("c1", ""))
    keys = (Column("year", "int"), Column("name", "string"))
    catalog.create_table(Table("default", "tab9", storage, keys, parameters={"transactional": "true"}))
    transactions.commit(begin(transactions, "tab9", "year=7/name=a%3Ab"))
    # The table itself has taken the first.
    assert written(commits, "tab9", "year=7/name=a:b") == 2
    assert written(commits, "tab9", "NAME=a%3Ab/year=07") == 2
    for wrong in ("year=7", "year=x/name=a", "year=7/name=a/p=1", "year", ""):
        with pytest.raises(InvalidObjectError):
            commits.after("default", "tab9", wrong)


def test_mark_of_a_dropped_table_says_nothing_of_the_next(
    catalog: ObjectStore, commits: Commits, transactions: TransactionManager
) -> None:
    transactions.commit(begin(transactions))
    mark = commits.mark("default", "tab3")
    catalog.drop_table("default", "tab3")
    with pytest.raises(NoSuchTableError):
        commits.after("default", "tab3", since=mark)
    storage = StorageDescriptor((Column("a", "int"),), ClusterStorageDescriptor("c1", ""))
    catalog.create_table(Table("default", "tab3", storage, parameters={"transactional": "true"}))
    assert written(commits, since=mark) is None
    transactions.commit(begin(transactions))
    # The write ids of the name go on: the end of the earlier table has taken one, and the creation of this one.
    assert written(commits, since=mark) == 4


def test_table_without_transactions_is_refused(commits: Commits) -> None:
    with pytest.raises(InvalidOperationError, match="not transactional"):
        commits.after("default", "ext")
    with pytest.raises(InvalidObjectError, match="no partition keys"):
        commits.after("default", "tab3", "p=1")


def test_mark_of_very_many_open_writes_is_short_and_misses_none(
    commits: Commits, transactions: TransactionManager
) -> None:
    ids = transactions.open(1000) + transactions.open(2)
    transactions.allocate_write_ids(ids, "default", "tab3", operation=Operation.INSERT)
    transactions.commit(ids[-1])
    mark = commits.mark("default", "tab3")
    assert (mark.write_id, mark.open_ids) == (0, ())
    transactions.commit(ids[500])
    assert written(commits, since=mark) == 501


def test_mark_survives_json(commits: Commits) -> None:
    mark = CommitMark(1, 7, (3, 5))
    assert CommitMark.from_json(json.loads(json.dumps(mark.to_json()))) == mark
    for broken in ({}, {"table_id": 1}, {"table_id": 1, "write_id": "x", "open_ids": []}, None, 7):
        with pytest.raises(InvalidObjectError, match="Mark"):
            CommitMark.from_json(broken)  # type: ignore[arg-type]
