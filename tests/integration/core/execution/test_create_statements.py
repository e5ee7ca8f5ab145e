"""SHOW CREATE TABLE AS SERDE: Hive's clauses, which make the same table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_hivex.core import Metastore
from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.core.model.objects import StoredTable

TABLES = {
    "CREATE TABLE t (id int, v string) PARTITIONED BY (p int)": "STORED AS ORC",
    "CREATE TABLE t (id int, v string) CLUSTERED BY (id) SORTED BY (v) INTO 2 BUCKETS": "STORED AS ORC",
    "CREATE TABLE t (id int) USING parquet": "STORED AS PARQUET",
    "CREATE EXTERNAL TABLE t (id int) USING orc LOCATION 'files/t'": "STORED AS ORC",
    "CREATE TABLE t (id int) STORED AS JSONFILE": "org.apache.hive.hcatalog.data.JsonSerDe",
    "CREATE TABLE t (id int) ROW FORMAT DELIMITED FIELDS TERMINATED BY ','": "LazySimpleSerDe",
}


@pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)
def test_statement_with_clauses_of_hive_makes_the_same_table(metastore_url: str, tmp_path: Path) -> None:
    clusters = {"c1": {"filesystem": tmp_path.as_uri(), "jobtracker": "local[1]"}}
    with Metastore.open(metastore_url, clusters=clusters) as metastore, metastore.session() as session:

        def made() -> StoredTable:
            found = metastore.catalog.get_table("default", "t")
            storage = replace(found.storage, serde=replace(found.storage.serde, library=None))
            return replace(found, id=0, created_at=None, version=0, storage=storage)

        for statement, clause in TABLES.items():
            session.sql(statement)
            before = made()
            ((shown,),) = session.sql("SHOW CREATE TABLE t AS SERDE").rows
            assert clause in str(shown)
            assert "USING" not in str(shown)
            session.sql("DROP TABLE t")
            session.sql(str(shown))
            assert made() == before, shown
            session.sql("DROP TABLE t")
        session.sql("CREATE TABLE t (id int) USING csv")
        with pytest.raises(InvalidOperationError, match="Hive has no clauses for its format csv"):
            session.sql("SHOW CREATE TABLE t AS SERDE")


@pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)
def test_statement_of_a_managed_table_has_the_location_that_was_given(metastore_url: str, tmp_path: Path) -> None:
    clusters = {"c1": {"filesystem": tmp_path.as_uri(), "jobtracker": "local[1]"}}
    properties = "TBLPROPERTIES ('transactional' = 'true')"
    with Metastore.open(metastore_url, clusters=clusters) as metastore, metastore.session() as session:
        session.sql("CREATE DATABASE d LOCATION 'elsewhere'")
        for name in ("t", "d.t"):
            session.sql(f"CREATE TABLE {name} (id int)")
            for words in ("", " AS SERDE"):
                assert "LOCATION" not in str(session.sql(f"SHOW CREATE TABLE {name}{words}").rows)
        for clause in ("STORED AS ORC", "USING parquet"):
            session.sql(f"CREATE TABLE own (id int) {clause} LOCATION 'files/own' {properties}")
            ((shown,),) = session.sql("SHOW CREATE TABLE own").rows
            session.sql("DROP TABLE own")
            session.sql(str(shown))
            found = metastore.catalog.get_table("default", "own")
            assert (found.is_external, found.location) == (False, f"{tmp_path.as_uri()}/files/own")
            session.sql("DROP TABLE own")
