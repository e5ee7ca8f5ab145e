"""The metastore database goes away in the middle of calls, and comes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import psycopg
import pytest

from airflow_hivex.core.metastore import Metastore
from airflow_hivex.core.model.findings import FindingKind
from airflow_hivex.core.thrift.serving import pages
from tests.hive_endpoint import partition, serving, table
from tests.postgresql_proxy import PostgresqlProxy


def test_page_of_readiness_does_not_name_the_database(
    postgresql_url: str, properties: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with (
        PostgresqlProxy(postgresql_url) as proxy,
        Metastore.open(proxy.url, clusters=properties, default_cluster="c1") as metastore,
        serving(metastore) as running,
        pages(running.server, "127.0.0.1", 0) as port,
    ):
        proxy.cut()
        for _ in range(2):
            with pytest.raises(HTTPError) as refused:
                urlopen(f"http://127.0.0.1:{port}/ready", timeout=30)
            with refused.value:
                assert (refused.value.code, refused.value.read()) == (503, b"not ready: STORE_UNAVAILABLE\n")
        proxy.mend()
        with urlopen(f"http://127.0.0.1:{port}/ready", timeout=30) as ready:
            assert ready.status == 200
    # Monitoring asks every few seconds: the log has the beginning and the end.
    logged = [each for each in caplog.messages if each.startswith("The page /ready")]
    assert logged[0].startswith("The page /ready fails, and is repeated: Metastore database")
    assert len(logged) == 2
    assert "succeeds again" in logged[1]


LOST_AT_DELETES = """
CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'the server stops' USING ERRCODE = 'admin_shutdown'; END $$;
CREATE TRIGGER lost BEFORE DELETE ON tables EXECUTE FUNCTION lose();
CREATE TRIGGER lost BEFORE DELETE ON partitions EXECUTE FUNCTION lose();
"""
"""Rows of dropped objects are deleted after the commit."""


def test_drop_that_has_committed_is_reported_as_such(
    hive: Any, metastore: Metastore, metastore_url: str, tmp_path: Path
) -> None:
    hive.create_table(table("default", "t", keys={"n": "int"}))
    hive.add_partitions([partition("default", "t", each) for each in ("1", "2")])
    view = table("default", "v", tableType="VIRTUAL_VIEW", viewOriginalText="x", viewExpandedText="select id from t")
    view.sd.cols = view.sd.cols[:1]
    hive.create_table(view)
    with psycopg.connect(metastore_url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(LOST_AT_DELETES)
        hive.drop_partition("default", "t", ["1"], True)
        hive.drop_table("default", "v", True)
        hive.drop_table("default", "t", True)
        assert hive.get_all_tables("default") == []
        folder = tmp_path / "c1/default.db/t"
        assert not folder.exists()
        connection.execute("DROP FUNCTION lose CASCADE")
    # The doctor finds the files of a server that died before it deleted them.
    folder.mkdir()
    (folder / "part-0").write_text("x")
    (found,) = metastore.doctor.examine()
    assert (found.kind, found.table, found.path) == (FindingKind.DROPPED, "t", folder.as_uri())
