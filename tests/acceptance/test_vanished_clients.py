"""A client whose host vanishes within a database transaction: others write, and clean up, within the time limits."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_hivex.core import Metastore
from tests.postgresql_proxy import PostgresqlProxy

LIMIT_S = 2
SETTINGS = {
    "hivex.database.timeout": LIMIT_S,
    "hive.txn.timeout": 2 * LIMIT_S,
    "metastore.rawstore.impl": "ObjectStore",
}
INSERT = "INSERT INTO t VALUES (1)"


@pytest.mark.parametrize("statement", [INSERT, "ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')"])
def test_writers_and_the_cleaner_go_on_after_a_client_has_vanished(
    postgresql_url: str, clusters: dict[str, dict[str, str]], statement: str
) -> None:
    def opened(url: str) -> Metastore:
        return Metastore.open(url, clusters=clusters, default_cluster="c1", settings=SETTINGS)

    with ThreadPoolExecutor(1) as threads, opened(postgresql_url) as other, other.session() as session:
        session.sql("CREATE TABLE t (a int)")
        session.sql(INSERT)
        with PostgresqlProxy(postgresql_url) as proxy, opened(proxy.url) as vanishing:
            lost = vanishing.session()
            lost.sql(statement)
            before = proxy.commits
            lost.sql(statement)
            kept = session.to_arrow("t").num_rows
            # The last one ends the statement, with all its rows locked.
            proxy.vanish_before_commit(proxy.commits - before)
            threads.submit(lost.sql, statement)
            assert proxy.vanished.wait(30)
            began = time.monotonic()
            session.sql(INSERT)
            other.compactor.clean()
            other.housekeeper.run()
            took_s = time.monotonic() - began
            assert session.to_arrow("t").num_rows == kept + 1
            assert took_s < 30
