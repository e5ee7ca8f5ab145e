"""Two readers that disagree on the order of two commits: what Hive's snapshots allow, and what they do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hivex.core.errors import WriteConflictError
from airflow_hivex.core.model.locks import DataOperation, LockComponent, LockType
from tests.histories.client import open_warehouse
from tests.histories.workload import create_tables


def test_late_snapshot_misses_younger_commits_and_sees_older_ones(metastore_url: str, tmp_path: Path) -> None:
    with open_warehouse(metastore_url, tmp_path) as metastore:
        create_tables(metastore)
        transactions = metastore.transactions
        (older,), (reader,), (younger,) = (transactions.open() for _ in range(3))
        transactions.commit(younger)
        (other_reader,) = transactions.open()
        first = transactions.valid_txns(other_reader)
        transactions.commit(older)
        late = transactions.valid_txns(reader)
        assert (first.is_valid(younger), first.is_valid(older)) == (True, False)
        assert (late.is_valid(younger), late.is_valid(older)) == (False, True)


def test_update_on_a_late_snapshot_loses_to_what_it_missed(metastore_url: str, tmp_path: Path) -> None:
    with open_warehouse(metastore_url, tmp_path) as metastore:
        create_tables(metastore)
        transactions = metastore.transactions
        (late,), (younger,) = transactions.open(), transactions.open()
        component = LockComponent("default", "list_a", "k=1", LockType.SHARED_WRITE, DataOperation.UPDATE)
        metastore.locks.acquire([component], younger)
        transactions.allocate_write_ids([younger], "default", "list_a")
        transactions.commit(younger)
        metastore.locks.acquire([component], late)
        transactions.allocate_write_ids([late], "default", "list_a")
        with pytest.raises(WriteConflictError):
            transactions.commit(late)
