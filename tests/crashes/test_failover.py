"""PostgreSQL is lost, and a standby takes over its address, while client processes work."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hivex.core import Metastore
from airflow_hivex.core.errors import InvalidOperationError
from tests import evidence
from tests.conftest import Counts
from tests.histories.history import Status
from tests.histories.workload import Workload, run
from tests.replicated_postgresql import ReplicatedPostgresqlServer

TRANSACTIONS = evidence.amount("HIVEX_FAILOVER_TRANSACTIONS", share=100, whole=600)


@pytest.mark.timeout(600)
def test_nothing_acknowledged_is_lost_with_a_synchronous_standby(tmp_path: Path, counts: Counts) -> None:
    server = ReplicatedPostgresqlServer(synchronous=True)
    try:
        outcome = run(
            Workload(
                server.create_database(),
                tmp_path / "warehouse",
                TRANSACTIONS,
                clients=3,
                disturb=server.fail_over,
                disturbances=1,
                deadline_s=200,
            )
        )
    finally:
        server.stop()
    counts["PostgreSQL failed over under load"] = outcome.describe()
    assert outcome.report.findings == [], outcome.report.describe()
    assert outcome.report.unknown == 0
    (failed_over,) = outcome.disturbances
    assert any(each.status is Status.COMMITTED and each.began_ns > failed_over for each in outcome.history)


def test_what_an_asynchronous_standby_loses_is_noticed(tmp_path: Path) -> None:
    server = ReplicatedPostgresqlServer(synchronous=False)
    clusters = {"c1": {"filesystem": (tmp_path / "c1").as_uri(), "jobtracker": "local[1]"}}
    try:
        with Metastore.open(server.create_database(), clusters=clusters) as metastore, metastore.session() as session:
            session.sql("CREATE TABLE t (id int)")
            session.sql("INSERT INTO t VALUES (1)")
            server.wait_until_applied()
            server.stop_standby()
            session.sql("INSERT INTO t VALUES (2)")
            session.sql("CREATE TABLE lost (id int)")
            assert sorted(session.to_arrow("t")["id"].to_pylist()) == [1, 2]
            server.fail_over()
            # The same process goes on: its memory has what the standby never had.
            assert session.to_arrow("t")["id"].to_pylist() == [1]
            assert session.sql("SHOW TABLES").rows == [("t",)]
            # The rows that were lost are still on the disk, and are not written over.
            assert "ahead" in {finding.kind.value for finding in metastore.doctor.examine()}
            with pytest.raises(InvalidOperationError, match="hivex metastore doctor"):
                session.sql("INSERT INTO t VALUES (3)")
            session.sql("INSERT INTO t VALUES (3)")
            assert sorted(session.to_arrow("t")["id"].to_pylist()) == [1, 3]
    finally:
        server.stop()
