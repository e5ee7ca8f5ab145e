"""A warehouse whose folders are out of sight of some processes of its Spark, and what each statement does then."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs as pafs
from pyarrow import orc, parquet

from airflow_hivex.core import Metastore
from airflow_hivex.core.errors import RootUnseenError
from airflow_hivex.core.files.object_stores import open_object_store
from airflow_hivex.core.session import Session

MARKER = "_hivex_root.json"
READS = {
    "select": "SELECT count(*) FROM {}.t",
    "external": "SELECT count(*) FROM {}.e",
    "text": "SELECT count(*) FROM {}.c",
    "partitions": "SELECT k, count(*) FROM {}.p WHERE k > 0 GROUP BY k",
    "insert-only": "SELECT count(*) FROM {}.o",
    "join": "SELECT count(*) FROM {0}.t JOIN {0}.e USING (id)",
    "originals": "SELECT count(*) FROM {}.g",
    "row-ids": "SELECT max(ROW__ID.rowid) FROM {}.t",
    "version": "SELECT count(*) FROM {}.t VERSION AS OF 2",
    "changes": "SELECT count(*) FROM table_changes('{}.t', 2)",
    "variable": "DECLARE VARIABLE seen bigint; SET VAR seen = (SELECT count(*) FROM {}.t)",
}
WRITES = {
    "insert": "INSERT INTO {0}.t SELECT id, 'lost' FROM range(1000)",
    "overwrite": "INSERT OVERWRITE {0}.t SELECT id, 'lost' FROM range(1000)",
    "partitions": "INSERT INTO {0}.p SELECT id, id % 3 FROM range(1000)",
    "update": "UPDATE {0}.t SET v = 'lost' WHERE id < 10",
    "delete": "DELETE FROM {0}.t WHERE id < 10",
    "merge": "MERGE INTO {0}.t t USING (SELECT id FROM range(5000)) s ON t.id = s.id WHEN MATCHED THEN DELETE "
    "WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'lost')",
    "several": "FROM range(1000) INSERT INTO {0}.t SELECT id, 'lost' INSERT INTO {0}.p SELECT id, 1",
    "table": "CREATE TABLE {0}.made AS SELECT id FROM range(1000)",
    "insert-only": "INSERT INTO {0}.i SELECT id, 'lost' FROM range(1000)",
    "external": "INSERT INTO {0}.e SELECT id, 'lost' FROM range(1000)",
    "external-overwrite": "INSERT OVERWRITE {0}.e SELECT id, 'lost' FROM range(1000)",
    "text": "INSERT INTO {0}.c SELECT id, 'lost' FROM range(1000)",
    "directory": "INSERT OVERWRITE DIRECTORY '{1}/exported' STORED AS PARQUET SELECT id FROM range(1000)",
    "overwritten-partition": "INSERT OVERWRITE {0}.p PARTITION (k = 1) SELECT id FROM range(1000)",
    "external-partitions": "INSERT INTO {0}.x SELECT id, id % 3 FROM range(1000)",
    "external-several": "FROM range(1000) INSERT INTO {0}.e SELECT id, 'lost' INSERT OVERWRITE {0}.t SELECT id, 'x'",
    "external-table": "CREATE EXTERNAL TABLE {0}.made STORED AS PARQUET LOCATION '{1}/exported' "
    "AS SELECT id FROM range(1000)",
    "temporary-table": "CREATE TEMPORARY TABLE made AS SELECT id FROM range(1000)",
    "replaced-table": "CREATE OR REPLACE TABLE {0}.t TBLPROPERTIES ('hivex.cluster'='{2}') "
    "AS SELECT id FROM range(1000)",
    "more-columns": "INSERT WITH SCHEMA EVOLUTION INTO {0}.t BY NAME SELECT id, 'lost' AS v, 1 AS w FROM range(10)",
    "load": "LOAD DATA INPATH '{1}/load/rows.parquet' INTO TABLE {0}.i",
    "load-overwrite": "LOAD DATA INPATH '{1}/load/rows.parquet' OVERWRITE INTO TABLE {0}.e",
    "load-format": "LOAD DATA INPATH '{1}/load/rows.parquet' INTO TABLE {0}.t "
    "INPUTFORMAT 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat' "
    "SERDE 'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe'",
    "load-serde": "LOAD DATA INPATH '{1}/load/rows.csv' INTO TABLE {0}.t "
    "INPUTFORMAT 'org.apache.hadoop.mapred.TextInputFormat' SERDE 'org.apache.hadoop.hive.serde2.OpenCSVSerde'",
    "exchange": "ALTER TABLE {0}.p EXCHANGE PARTITION (k = 7) WITH TABLE {0}.q",
    "restore": "RESTORE TABLE {0}.t TO VERSION AS OF 2",
    "upgrade": "ALTER TABLE {0}.o SET TBLPROPERTIES ('transactional_properties'='default')",
    "originals": "DELETE FROM {0}.g WHERE id = 1",
    "originals-overwrite": "INSERT OVERWRITE {0}.g SELECT id, 'lost' FROM range(1000)",
    "analyze": "ANALYZE TABLE {0}.t COMPUTE STATISTICS FOR ALL COLUMNS",
    "analyze-external": "ANALYZE TABLE {0}.e COMPUTE STATISTICS",
    "check": "ALTER TABLE {0}.t ADD CONSTRAINT positive CHECK (id >= 0)",
}


@dataclass
class Hosts:
    """A warehouse; each case has a cluster with its root in a folder of that name."""

    metastore: Metastore
    folder: Path
    clusters: Mapping[str, Any]
    url: str

    def session(self, case: str) -> Session:
        session = self.metastore.session()
        session.sql(f"USE CLUSTER {case}")
        return session

    def root(self, case: str) -> Path:
        return self.folder / case

    def uri(self, case: str) -> str:
        """The root of a case, as its cluster names it."""
        return str(self.clusters[case]["filesystem"])

    def files(self, case: str) -> pafs.FileSystem:
        """The file system of a case, which begins at its root."""
        scheme, _, path = self.uri(case).partition("://")
        if scheme == "file":
            return pafs.SubTreeFileSystem(path, pafs.LocalFileSystem())
        return pafs.SubTreeFileSystem(path, open_object_store(self.uri(case), self.clusters[case]["storage_options"]))

    def contents(self, case: str) -> dict[str, list[tuple[object, ...]]]:
        """Return the tables of a case, whose rows this process reads without Spark, and the files of other programs."""
        with self.metastore.session() as session:
            names = [str(row[0]) for row in session.sql(f"SHOW TABLES IN on_{case}").rows]
            found = {
                name: sorted(tuple(row.values()) for row in session.to_arrow(f"on_{case}.{name}").to_pylist())
                for name in names
                if name != "c"
            }
            for name in names:
                found[f"{name}'s properties"] = session.sql(f"DESCRIBE EXTENDED on_{case}.{name}").rows
        files, outside = self.files(case), ("load", "outside")
        selected = (pafs.FileSelector(folder, recursive=True, allow_not_found=True) for folder in outside)
        there = [each for selector in selected for each in files.get_file_info(selector) if each.is_file]
        found["files"] = sorted((each.path, each.size) for each in there if "." in each.base_name)
        return found


def run_all(session: Session, text: str) -> None:
    """Run the statements of a text, of which the last one reads or writes."""
    for each in text.split("; "):
        session.sql(each)


def fill(hosts: Hosts, case: str) -> None:
    """Make the tables of a case with rows that this process writes without Spark."""
    rows_of = "(id bigint, v string)"
    rows = ", ".join(f"({number}, 'kept')" for number in range(20))
    with hosts.metastore.session() as session:
        session.sql(f"CREATE DATABASE on_{case}")
        at = f"'hivex.cluster'='{case}'"
        versions = f"{at}, 'hivex.history.retention'='7d'"
        session.sql(f"CREATE TABLE on_{case}.t {rows_of} TBLPROPERTIES ({versions})")
        for name in "pq":
            session.sql(f"CREATE TABLE on_{case}.{name} (id bigint) PARTITIONED BY (k bigint) TBLPROPERTIES ({at})")
        only = f"{at}, 'transactional_properties'='insert_only'"
        session.sql(f"CREATE TABLE on_{case}.i {rows_of} STORED AS PARQUET TBLPROPERTIES ({only})")
        for name, columns in (
            ("e", f"{rows_of} STORED AS PARQUET"),
            ("c", f"{rows_of} STORED AS TEXTFILE"),
            ("g", f"{rows_of} STORED AS ORC"),
            ("o", f"{rows_of} STORED AS ORC"),
            ("x", "(id bigint) PARTITIONED BY (k bigint) STORED AS PARQUET"),
        ):
            place = f"{hosts.uri(case)}/outside/{name}"
            session.sql(f"CREATE EXTERNAL TABLE on_{case}.{name} {columns} LOCATION '{place}' TBLPROPERTIES ({at})")
        session.sql(f"INSERT INTO on_{case}.t VALUES {rows}")
        session.sql(f"INSERT INTO on_{case}.t VALUES {rows}")
        for name, key in (("p", 1), ("p", 2), ("q", 7)):
            session.sql(f"INSERT INTO on_{case}.{name} PARTITION (k = {key}) VALUES (1)")
        _add_files(hosts.files(case))
        managed = "'EXTERNAL'='FALSE', 'transactional'='true'"
        session.sql(f"ALTER TABLE on_{case}.g SET TBLPROPERTIES ({managed})")
        session.sql(f"ALTER TABLE on_{case}.o SET TBLPROPERTIES ({managed}, 'transactional_properties'='insert_only')")


def _add_files(files: pafs.FileSystem) -> None:
    """Write the files of other programs."""
    for folder in (*(f"outside/{name}" for name in "cego"), "load"):
        files.create_dir(folder)
    kept = pa.table({"id": pa.array([1, 2], pa.int64()), "v": ["kept", "kept"]})
    for name in "go":
        with files.open_output_stream(f"outside/{name}/kept.orc") as file:
            orc.write_table(kept, file)
    for path in ("outside/e/kept.parquet", "load/rows.parquet"):
        parquet.write_table(kept, path, filesystem=files)
    for path, text in (("load/rows.csv", b"1,lost\n2,lost\n"), ("outside/c/kept.txt", b"1\x01kept\n2\x01kept\n")):
        with files.open_output_stream(path) as file:
            file.write(text)


def check_refused(hosts: Hosts, case: str, blind: Collection[str] | None, run: Callable[[Session], object]) -> None:
    """Ensure that a statement names one of the blind hosts, if they are known, and changes nothing."""
    before = hosts.contents(case)
    with hosts.session(case) as session, pytest.raises(RootUnseenError) as raised:
        run(session)
    assert raised.value.cluster == case
    assert blind is None or raised.value.host in blind
    assert str(hosts.root(case)) in str(raised.value)
    assert hosts.contents(case) == before
    assert not (hosts.root(case) / "exported").exists()
