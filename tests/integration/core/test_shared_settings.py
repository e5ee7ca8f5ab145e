from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from airflow_hivex.core import Metastore
from airflow_hivex.core.errors import InvalidSettingError


def timeout_of(url: str, root: Path, **settings: object) -> int:
    clusters = {"c1": {"filesystem": root.as_uri(), "jobtracker": "local[1]"}}
    given = {name.replace("_", "."): value for name, value in settings.items()}
    with Metastore.open(url, clusters=clusters, settings=given) as metastore:
        return int(metastore.settings["hive.txn.timeout"])


def test_clients_share_the_time_out(metastore_url: str, tmp_path: Path) -> None:
    assert timeout_of(metastore_url, tmp_path) == 300
    # Another value does no harm as long as nothing is open; a client without a value takes the last.
    assert timeout_of(metastore_url, tmp_path, hive_txn_timeout=60) == 60
    assert timeout_of(metastore_url, tmp_path) == 60
    assert timeout_of(metastore_url, tmp_path, metastore_txn_timeout="2min") == 120
    assert timeout_of(metastore_url, tmp_path) == 120


def test_another_time_out_is_refused_while_a_transaction_is_open(metastore_url: str, tmp_path: Path) -> None:
    clusters = {"c1": {"filesystem": tmp_path.as_uri(), "jobtracker": "local[1]"}}
    with Metastore.open(metastore_url, clusters=clusters, settings={"hive.txn.timeout": 60}) as metastore:
        (txn_id,) = metastore.transactions.open()
        with pytest.raises(InvalidSettingError, match=r"hive\.txn\.timeout.*60 s"):
            timeout_of(metastore_url, tmp_path, hive_txn_timeout=300)
        assert timeout_of(metastore_url, tmp_path) == 60
        assert timeout_of(metastore_url, tmp_path, hive_txn_timeout=60) == 60
        metastore.transactions.abort(txn_id)
    assert timeout_of(metastore_url, tmp_path, hive_txn_timeout=300) == 300


def test_clients_that_open_at_once_agree(metastore_url: str, tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: timeout_of(metastore_url, tmp_path, hive_txn_timeout=45), range(8)))
    assert found == {45}
