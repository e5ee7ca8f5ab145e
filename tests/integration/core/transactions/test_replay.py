from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from airflow_hivex.core import Metastore
from airflow_hivex.core.errors import (
    InvalidTransactionRequestError,
    NoSuchTableError,
    TransactionAbortedError,
    TransactionNotOpenError,
)
from airflow_hivex.core.model.transactions import TxnState, TxnType


@pytest.fixture
def metastore(metastore_url: str, tmp_path: Path) -> Iterator[Metastore]:
    clusters = {"c1": {"filesystem": tmp_path.as_uri(), "jobtracker": "local[1]"}}
    with Metastore.open(metastore_url, clusters=clusters) as metastore:
        with metastore.session() as session:
            session.sql("CREATE TABLE t (a int)")
        yield metastore


def test_events_that_are_replayed_again_give_the_same_transactions(metastore: Metastore) -> None:
    replayed = metastore.replayed_transactions
    first = replayed.open("policy", [101, 103])
    again = replayed.open("policy", [103, 102, 101])
    assert {source: again[source] for source in first} == first
    assert sorted(again) == [101, 102, 103]
    assert len(set(again.values())) == 3
    assert replayed.open("another", [101])[101] not in again.values()
    found = metastore.transactions.get(first[101])
    assert (found.type, found.timeout_s) == (TxnType.REPL_CREATED, 11 * 86_400)


def test_concurrent_replays_open_each_transaction_once(metastore: Metastore) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: metastore.replayed_transactions.open("policy", range(1, 20)), range(8)))
    assert all(each == found[0] for each in found)
    assert len(metastore.transactions.show()) == 19


def test_write_ids_are_those_of_the_source(metastore: Metastore) -> None:
    replayed = metastore.replayed_transactions
    opened = replayed.open("policy", [7, 8, 9])
    expected = {opened[7]: 20, opened[8]: 21}
    assert replayed.allocate_write_ids("policy", {7: 20, 8: 21}, "default", "t") == expected
    assert replayed.allocate_write_ids("policy", {7: 20, 8: 21}, "default", "t") == expected
    # The next one follows, so what was replayed so far stays.
    assert replayed.allocate_write_ids("policy", {9: 22}, "default", "t") == {opened[9]: 22}
    assert replayed.commit("policy", 7) == opened[7]
    assert replayed.commit("policy", 7) is None
    assert replayed.abort("policy", [8, 9, 10]) == [opened[8], opened[9]]
    assert replayed.abort("policy", [8]) == []
    states = [metastore.transactions.get(opened[source]).state for source in (7, 8, 9)]
    assert states == [TxnState.COMMITTED, TxnState.ABORTED, TxnState.ABORTED]
    valid_txns = metastore.transactions.valid_txns()
    write_ids = metastore.transactions.valid_write_ids(["default.t"], valid_txns)["default.t"]
    assert [write_ids.is_valid(number) for number in (20, 21, 22)] == [True, False, False]


def test_write_ids_can_be_given_one_after_the_other(metastore: Metastore) -> None:
    replayed = metastore.replayed_transactions
    opened = replayed.open("policy", [6, 7, 8])
    (other,) = metastore.transactions.open()
    replayed.allocate_write_ids("policy", {6: 20}, "default", "t")
    assert metastore.transactions.allocate_write_ids([other], "default", "t") == {other: 21}
    replayed.allocate_write_ids("policy", {7: 22}, "default", "t")
    # The events are replayed from the beginning, and there is one more; the write id of another transaction stays.
    expected = {opened[7]: 22, opened[8]: 23}
    assert replayed.allocate_write_ids("policy", {7: 22, 8: 23}, "default", "t") == expected
    assert metastore.transactions.allocate_write_ids([other], "default", "t") == {other: 21}
    (late,) = metastore.transactions.open()
    assert metastore.transactions.allocate_write_ids([late], "default", "t") == {late: 24}


def test_other_write_ids_than_before_are_refused(metastore: Metastore) -> None:
    replayed = metastore.replayed_transactions
    opened = replayed.open("policy", [7, 8])
    replayed.allocate_write_ids("policy", {7: 1}, "default", "t")
    with pytest.raises(InvalidTransactionRequestError, match=r"\[7\] other write ids"):
        replayed.allocate_write_ids("policy", {7: 2, 8: 3}, "default", "t")
    assert replayed.allocate_write_ids("policy", {7: 1}, "default", "t") == {opened[7]: 1}


def test_requests_that_make_no_sense_change_nothing(metastore: Metastore) -> None:
    replayed = metastore.replayed_transactions
    replayed.open("policy", [1, 2])
    for policy, sources in (("", [1]), ("p" * 300, [1]), ("policy", []), ("policy", [0]), ("policy", [-4, 2**70])):
        with pytest.raises(InvalidTransactionRequestError):
            replayed.open(policy, sources)
    for write_ids in ({1: 5, 2: 7}, {1: 0}, {1: 5, 2: 4}, {3: 5}):
        with pytest.raises(InvalidTransactionRequestError):
            replayed.allocate_write_ids("policy", write_ids, "default", "t")
    with pytest.raises(NoSuchTableError):
        replayed.allocate_write_ids("policy", {1: 5}, "default", "nothing")
    assert len(metastore.transactions.show()) == 2


def test_transaction_that_was_aborted_here_cannot_go_on(metastore: Metastore) -> None:
    replayed = metastore.replayed_transactions
    opened = replayed.open("policy", [1])
    metastore.transactions.abort(opened[1], "an operator ended it")
    with pytest.raises(TransactionNotOpenError):
        replayed.allocate_write_ids("policy", {1: 5}, "default", "t")
    with pytest.raises(TransactionAbortedError, match="an operator ended it"):
        replayed.commit("policy", 1)


def test_commit_sets_one_meta_property_of_a_table(metastore: Metastore) -> None:
    with metastore.session() as session:
        session.sql("ALTER TABLE t SET TBLPROPERTIES ('_metaoffset' = '1')")
    (txn_id,) = metastore.transactions.open()
    for table, key, reason in (
        ("t", "offset", "_meta"),
        ("t", "_metaother", "_metaother"),
        ("nothing", "_metaoffset", "nothing"),
    ):
        with pytest.raises((InvalidTransactionRequestError, NoSuchTableError), match=reason):
            metastore.commits.commit_with_property(txn_id, "default", table, key, "2")
        assert metastore.transactions.get(txn_id).state is TxnState.OPEN
    metastore.commits.commit_with_property(txn_id, "default", "t", "_metaoffset", "2")
    assert metastore.transactions.get(txn_id).state is TxnState.COMMITTED
    assert metastore.catalog.get_table("default", "t").parameters["_metaoffset"] == "2"
