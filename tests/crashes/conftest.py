"""A warehouse in which clients die."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_hivex.core.clock import system_clock
from airflow_hivex.core.metastore import Metastore
from tests.histories.client import Reader, open_warehouse
from tests.histories.workload import create_tables


class Survivor:
    """A client that lives on, and whose time a test moves."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.ahead_s = 0.0
        self.metastore: Metastore = open_warehouse(url, folder, clock=self._clock)

    def _clock(self) -> int:
        return system_clock() + int(self.ahead_s * 1000)

    def read(self, *tables: str) -> list[tuple[int, ...]]:
        """What a new reader sees of one key in each of the tables."""
        reader = Reader(self.metastore, self.folder)
        (txn_id,) = self.metastore.transactions.open(user="reader")
        snapshot = self.metastore.transactions.valid_txns(txn_id)
        write_ids = reader.write_ids(tables, snapshot)
        found = [reader.read(name, ["1"], write_ids, snapshot)[name, "1"] for name in tables]
        self.metastore.transactions.commit(txn_id)
        return found

    @staticmethod
    def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 30) -> None:
        """Wait for a condition.

        Raises:
            AssertionError: it never came.
        """
        end = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < end, f"{what} never came"
            # Between two looks at what another process does.
            time.sleep(0.01)


@pytest.fixture
def survivor(metastore_url: str, tmp_path: Path) -> Iterator[Survivor]:
    folder = tmp_path / "warehouse"
    folder.mkdir()
    survivor = Survivor(metastore_url, folder)
    with survivor.metastore:
        create_tables(survivor.metastore)
        yield survivor
