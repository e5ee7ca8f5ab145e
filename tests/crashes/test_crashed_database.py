"""PostgreSQL is stopped as by a loss of power and restarted, while client processes work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_hivex.core.errors import StoreUnavailableError
from airflow_hivex.core.model.transactions import TxnState
from airflow_hivex.core.model.write_ids import ValidTxnList
from tests import evidence
from tests.conftest import Counts
from tests.crashes.client import LOCKS
from tests.histories.client import open_warehouse
from tests.histories.history import Status
from tests.histories.workload import Workload, create_tables, run
from tests.postgresql import TemporaryPostgresqlServer, start_durable_postgresql

CLIENTS = 6
CRASHES = evidence.amount("HIVEX_DATABASE_CRASHES", share=1, whole=10)
TRANSACTIONS = 200 * CRASHES


@pytest.fixture
def server() -> Iterator[TemporaryPostgresqlServer]:
    server = start_durable_postgresql()
    yield server
    server.stop()


def test_users_of_the_database_learn_that_it_is_not_there(server: TemporaryPostgresqlServer, tmp_path: Path) -> None:
    with open_warehouse(server.create_database(), tmp_path) as metastore:
        create_tables(metastore)
        transactions = metastore.transactions
        (txn_id,) = transactions.open()
        server.crash()
        needs: list[Callable[[], object]] = [
            transactions.open,
            lambda: transactions.valid_txns(txn_id),
            lambda: transactions.heartbeat(txn_id),
            lambda: transactions.allocate_write_ids([txn_id], "default", "list_a"),
            lambda: transactions.valid_write_ids(["default.list_a"], ValidTxnList(1)),
            lambda: metastore.locks.acquire(LOCKS, txn_id),
            lambda: transactions.commit(txn_id),
            lambda: transactions.abort(txn_id),
            metastore.housekeeper.run,
        ]
        # Whether the connection was in use when the server went, or is to be made.
        for need in needs * 2:
            with pytest.raises(StoreUnavailableError):
                need()
        server.restart()
        transactions.commit(txn_id)
        assert transactions.get(txn_id).state is TxnState.COMMITTED


@pytest.mark.evidence
@pytest.mark.timeout(900)
def test_clients_go_on_after_the_database_has_crashed(
    server: TemporaryPostgresqlServer, tmp_path: Path, counts: Counts
) -> None:
    def crash() -> None:
        server.crash()
        server.restart()

    outcome = run(
        Workload(
            server.create_database(),
            tmp_path / "warehouse",
            TRANSACTIONS,
            clients=CLIENTS,
            disturb=crash,
            disturbances=CRASHES,
            deadline_s=70 * CRASHES,
        )
    )
    counts["PostgreSQL crashed under load"] = outcome.describe()
    # Nothing acknowledged is lost, and no client got "aborted" for a committed transaction.
    assert outcome.report.findings == [], outcome.report.describe()
    assert outcome.report.unknown == 0
    assert outcome.errors["STORE_UNAVAILABLE"], "no client has noticed a crash"
    assert len(outcome.disturbances) == CRASHES
    last_crash = outcome.disturbances[-1]
    # One whose share of the work was done before the last crash has nothing to go on with.
    assert any(each.status is Status.COMMITTED and each.began_ns > last_crash for each in outcome.history), (
        "no client has gone on"
    )
