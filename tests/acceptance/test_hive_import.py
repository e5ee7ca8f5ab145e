"""The import from a real Hive Metastore 2.3."""

from __future__ import annotations

import json
import random
import re
import select
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_hivex.cli.main import main
from airflow_hivex.core import Metastore
from airflow_hivex.core.errors import (
    HiveProtocolError,
    HiveUnavailableError,
    InvalidHiveAddressError,
    InvalidObjectError,
    InvalidSettingError,
    UnknownClusterError,
)
from airflow_hivex.core.imports.hive_client import HiveTransport
from airflow_hivex.core.imports.writing import ImportedObject, ImportOutcome
from airflow_hivex.core.model.compaction import CompactionState
from airflow_hivex.core.model.objects import Column, SortColumn, StorageDescriptor, Table, TableType
from tests import evidence
from tests.acceptance.changed_table import ChangedTable, Row, Rows
from tests.acceptance.hive_objects import HiveObjects
from tests.acceptance.hive_spark_process import as_json
from tests.acceptance.hive_writers import HiveWriter
from tests.acceptance.test_hive_layout import read_by_hive
from tests.conftest import Counts
from tests.hive_metastore import HiveServer, hive_client, hive_metastore

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiveServer]:
    with hive_metastore(tmp_path_factory.mktemp("hive") / "warehouse") as server:
        yield server


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The root of the cluster; Hive's tables lie below it."""
    return tmp_path / "c1"


@pytest.fixture
def hive(server: HiveServer, root: Path) -> Iterator[HiveObjects]:
    """An empty Hive metastore, but for the database ``default``."""
    with hive_client(server) as client:
        yield HiveObjects(client, root / "hive")
        for database in client.get_all_databases():
            if database != "default":
                client.drop_database(database, True, True)


@pytest.fixture
def target(sqlite_url: str, root: Path) -> Iterator[Metastore]:
    clusters = {name: {"filesystem": (root.parent / name).as_uri(), "jobtracker": "local[2]"} for name in ("c1", "c2")}
    with Metastore.open(sqlite_url, clusters=clusters, default_cluster="c2") as metastore:
        yield metastore


Import = Callable[..., dict[str, ImportedObject]]


@pytest.fixture
def run(server: HiveServer, target: Metastore) -> Import:
    """Imports, and returns the results by the names of objects."""

    def run(**given: Any) -> dict[str, ImportedObject]:
        address = given.pop("address", server.address)
        return {each.name: each for each in target.import_from_hive(address, **{"cluster": "c1", **given})}

    return run


ID = [("id", "int")]


def test_a_table_keeps_all_that_hive_has_of_it(hive: HiveObjects, run: Import, target: Metastore) -> None:
    from hive_metastore import ttypes

    hive.database("shop", description="what is sold", parameters={"quality": "raw"}, ownerName="bob", ownerType=1)
    hive.table(
        "shop",
        "sales",
        [("Id", "bigint", "the number"), ("item", "struct<name:string,sizes:array<decimal(5,2)>>")],
        keys=[("ds", "string", "the day"), ("hr", "int")],
        parameters={"comment": "all of them", "orc.compress": "ZLIB", "numRows": "6", "totalSize": "600"},
        storage={
            "numBuckets": 4,
            "bucketCols": ["Id"],
            "sortCols": [ttypes.Order("Id", 0)],
            "parameters": {"of": "storage"},
            "compressed": True,
            "serde": {"serialization.format": "1", "odd": "kept"},
        },
        createTime=1_600_000_000,
        lastAccessTime=1_600_000_001,
        retention=7,
    )
    hive.partitions("shop", "sales", [("2024-01-01", "1"), ("2024-01-02", "2")], {"made.by": "x", "totalSize": "9"})
    found = run()
    assert found["shop"].outcome is ImportOutcome.IMPORTED
    assert (found["shop.sales"].outcome, found["shop.sales"].partitions) == (ImportOutcome.IMPORTED, 2)

    database = target.catalog.get_database("shop")
    assert (database.description, database.owner, database.parameters) == ("what is sold", "bob", {"quality": "raw"})
    assert database.location == "hive/shop.db"
    given = hive.client.get_table("shop", "sales")
    table = target.catalog.get_table("shop", "sales")
    assert table.columns == (
        Column("id", "bigint", "the number"),
        Column("item", "struct<name:string,sizes:array<decimal(5,2)>>"),
    )
    assert table.partition_keys == (Column("ds", "string", "the day"), Column("hr", "int"))
    assert table.type is TableType.EXTERNAL_TABLE
    assert table.parameters == {
        "EXTERNAL": "TRUE",
        "orc.compress": "ZLIB",
        "transient_lastDdlTime": given.parameters["transient_lastDdlTime"],
    }
    assert (table.comment, table.owner, table.retention) == ("all of them", "ann", 7)
    assert table.created_at is not None
    assert table.last_accessed_at is not None
    assert (table.created_at.timestamp(), table.last_accessed_at.timestamp()) == (given.createTime, 1_600_000_001)
    storage = table.storage
    assert (storage.primary.cluster, storage.primary.location) == ("c1", "hive/shop.db/sales")
    assert (storage.num_buckets, storage.bucket_columns) == (4, ("id",))
    assert storage.sort_columns == (SortColumn("id", ascending=False),)
    assert (storage.parameters, storage.compressed) == ({"of": "storage"}, True)
    assert storage.serde_parameters == {"serialization.format": "1", "odd": "kept"}
    assert (storage.input_format, storage.output_format) == (given.sd.inputFormat, given.sd.outputFormat)
    assert storage.serde.library == given.sd.serdeInfo.serializationLib
    (first, second) = next(target.catalog.get_partitions("shop", "sales"))
    assert (first.name, first.values) == ("ds=2024-01-01/hr=1", ("2024-01-01", "1"))
    assert first.parameters["made.by"] == "x"
    assert first.location == f"{(hive.folder / 'shop.db').as_uri()}/sales/ds=2024-01-01/hr=1"
    assert (first.storage, second.name) == (None, "ds=2024-01-02/hr=2")
    with target.session() as session:
        facts = {row[0]: row[1] for row in session.sql("DESCRIBE EXTENDED shop.sales").rows}
    assert facts["Statistics"] == "600 bytes, 6 rows"


def test_files_of_every_format_are_read_as_before(hive: HiveObjects, run: Import, target: Metastore) -> None:
    import pyarrow as pa
    from pyarrow import orc, parquet

    hive.database("files")
    rows = pa.table({"id": pa.array([1, 2], pa.int32()), "name": ["a", "b"]})
    columns = [("id", "int"), ("name", "string")]
    parts = {"field.delim": "|", "serialization.format": "|"}
    folders = {
        "orc": hive.table("files", "of_orc", columns, type="MANAGED_TABLE"),
        "parquet": hive.table("files", "of_parquet", columns, format="parquet"),
        "text": hive.table("files", "of_text", columns, format="text", storage={"serde": parts}),
        "csv": hive.table(
            "files",
            "of_csv",
            columns,
            format="csv",
            parameters={"skip.header.line.count": "1"},
            storage={"serde": {"separatorChar": ";"}},
        ),
        "json": hive.table("files", "of_json", columns, format="json"),
    }
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    orc.write_table(rows, folders["orc"] / "000000_0")
    parquet.write_table(rows, folders["parquet"] / "000000_0")
    (folders["text"] / "000000_0").write_text("1|a\n2|b\n")
    (folders["csv"] / "000000_0").write_text('id;name\n1;"a"\n2;b\n')
    (folders["json"] / "000000_0").write_text('{"id": 1, "name": "a"}\n{"id": 2, "name": "b"}\n')
    hive.table(
        "files",
        "seen",
        [("n", "int"), ("_c1", "string")],
        type="VIRTUAL_VIEW",
        viewOriginalText="select id, upper(name) from of_orc",
        viewExpandedText="select `of_orc`.`id`, upper(`of_orc`.`name`) from `files`.`of_orc`",
    )
    found = run()
    assert {each.outcome for each in found.values()} <= {ImportOutcome.IMPORTED, ImportOutcome.PRESENT}
    assert found["files.of_orc"].kind == "external table"
    assert "external" in found["files.of_orc"].notes[0]
    with target.session() as session:
        for name in folders:
            read = session.sql(f"SELECT id, name FROM files.of_{name} ORDER BY id").rows
            assert read == [(1, "a"), (2, "b")], name
        assert session.sql("SELECT n, _c1 FROM files.seen ORDER BY n").rows == [(1, "A"), (2, "B")]


def test_closed_namespace_takes_nothing_of_another_one(hive: HiveObjects, run: Import, target: Metastore) -> None:
    for name in ("shut", "other"):
        hive.database(name)
    folder = hive.table("other", "t", ID)
    (folder / "in").mkdir(parents=True)
    hive.table("shut", "own", ID)
    for name, reads in (("seen", "own"), ("foreign", "other`.`t")):
        database = "" if "." in reads else "shut`.`"
        text = f"SELECT id FROM `{database}{reads}`"
        hive.table("shut", name, ID, type="VIRTUAL_VIEW", viewOriginalText=text, viewExpandedText=text)
    hive.table("shut", "over", ID, location=folder.as_uri())
    hive.table("shut", "above", ID, location=folder.parent.as_uri())
    hive.table("shut", "within", ID, location=(folder / "in").as_uri())
    with target.session() as session:
        session.sql("CREATE DATABASE shut WITH DBPROPERTIES ('hivex.namespace.mode' = 'true')")
    run(databases="other")
    found = run(databases="shut")
    refused = {name: each.notes[0] for name, each in found.items() if each.outcome is ImportOutcome.REFUSED}
    assert sorted(refused) == ["shut.above", "shut.foreign", "shut.over", "shut.within"]
    assert "other.t" in refused["shut.foreign"]
    assert all("not apart from that of" in refused[f"shut.{name}"] for name in ("above", "over", "within"))
    assert sorted(target.catalog.list_tables("shut")) == ["own", "seen"]
    assert not target.namespaces.check("shut").dependencies


@pytest.mark.evidence(cases=1, among="rows of imported tables")
def test_tables_and_views_that_spark_has_made_are_read_as_before(
    server: HiveServer, hive: HiveObjects, run: Import, target: Metastore
) -> None:
    program = Path(__file__).with_name("hive_spark_process.py")
    command = [sys.executable, str(program), server.address, str(hive.folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    in_spark = json.loads(done.stdout)
    found = run(databases="made_by_spark")
    assert {name: each.notes for name, each in found.items() if each.outcome is not ImportOutcome.IMPORTED} == {}
    assert found["made_by_spark.parted"].partitions == 3
    with target.session() as session:
        for name, rows in in_spark["rows"].items():
            table = target.catalog.get_table("made_by_spark", name)
            columns = [column.name for column in (*table.columns, *table.partition_keys)]
            assert columns == [column.lower() for column in in_spark["columns"][name]]
            read = session.sql(as_json(f"made_by_spark.{name}", columns)).rows
            assert sorted(row[0] for row in read) == rows, name
        facts = {row[0]: row[1] for row in session.sql("DESCRIBE EXTENDED made_by_spark.of_hive").rows}
    assert facts["Statistics"].endswith("2 rows")


def test_an_object_that_cannot_be_taken_over_is_reported_and_stops_nothing(
    hive: HiveObjects, run: Import, target: Metastore, tmp_path: Path
) -> None:
    hive.database("odd")
    hive.table("odd", "first", ID)
    hive.table("odd", "union_typed", [("u", "uniontype<int,string>")])
    hive.table("odd", "elsewhere", ID, location=(tmp_path / "outside").as_uri())
    hive.table("odd", "sequence", ID, format="sequence")
    hive.table(
        "odd", "of_hbase", ID, parameters={"storage_handler": "org.apache.hadoop.hive.hbase.HBaseStorageHandler"}
    )
    hive.table("odd", "nested", ID, keys=[("p", "int")])
    hive.partitions("odd", "nested", [("1",), ("01",)])
    hive.table("odd", "reserved", [("__row_id", "int")])
    hive.table(
        "odd",
        "scripted",
        ID,
        type="VIRTUAL_VIEW",
        viewOriginalText="x",
        viewExpandedText="SELECT TRANSFORM (id) USING 'cat' FROM `odd`.`first`",
    )
    below = hive.folder / "odd.db" / "first" / "below"
    acid_table(hive, "odd", "within", location=below.as_uri())
    hive.table("odd", "last_one", ID)
    found = run()
    refused = {name.partition(".")[2]: each.notes[0] for name, each in found.items() if each.is_missing}
    assert {name: each.outcome for name, each in found.items() if not each.is_missing} == {
        "odd": ImportOutcome.IMPORTED,
        "default": ImportOutcome.PRESENT,
        "odd.first": ImportOutcome.IMPORTED,
        "odd.last_one": ImportOutcome.IMPORTED,
    }
    assert "type uniontype<int,string>" in refused["union_typed"]
    assert "outside" in refused["elsewhere"]
    assert "SequenceFileInputFormat" in refused["sequence"]
    assert "storage_handler" in refused["of_hbase"]
    assert "two of its partitions are p=1 here" in refused["nested"]
    assert "reserved" in refused["reserved"]
    assert "cannot be read" in refused["scripted"]
    assert "is not apart from that of table odd.first" in refused["within"]
    assert target.catalog.list_tables("odd") == ["first", "last_one"]


def test_a_repeated_import_adds_what_is_new_and_leaves_what_differs(
    hive: HiveObjects, run: Import, target: Metastore
) -> None:
    hive.database("again")
    hive.table("again", "same", ID, keys=[("p", "int")])
    hive.partitions("again", "same", [("1",)])
    hive.table("again", "changed", ID)
    run()
    hive.partitions("again", "same", [("2",)])
    hive.table("again", "new", ID)
    changed = hive.client.get_table("again", "changed")
    changed.sd.cols = [*changed.sd.cols, type(changed.sd.cols[0])("more", "string", None)]
    hive.client.alter_table("again", "changed", changed)
    found = run()
    assert (found["again.same"].outcome, found["again.same"].partitions) == (ImportOutcome.IMPORTED, 1)
    assert target.catalog.list_partition_names("again", "same") == ["p=1", "p=2"]
    assert found["again.new"].outcome is ImportOutcome.IMPORTED
    assert found["again.changed"].outcome is ImportOutcome.DIFFERS
    assert "its columns differs from Hive's" in found["again.changed"].notes
    assert [column.name for column in target.catalog.get_table("again", "changed").columns] == ["id"]
    assert {each.outcome for name, each in run().items() if name != "again.changed"} == {ImportOutcome.PRESENT}


def test_a_dry_run_writes_nothing(hive: HiveObjects, run: Import, target: Metastore) -> None:
    hive.database("planned")
    hive.table("planned", "t", ID, keys=[("p", "int")])
    hive.partitions("planned", "t", [("1",), ("2",)])
    found = run(dry_run=True)
    assert (found["planned.t"].outcome, found["planned.t"].partitions) == (ImportOutcome.PLANNED, 2)
    assert target.catalog.list_databases() == ["default"]


def test_patterns_choose_databases_and_tables(hive: HiveObjects, run: Import) -> None:
    for database in ("sales_eu", "sales_us", "stock"):
        hive.database(database)
        hive.table(database, "orders", ID)
        hive.table(database, "items", ID)
    assert set(run(databases="sales*", tables="ord*|nothing")) == {
        "sales_eu",
        "sales_eu.orders",
        "sales_us",
        "sales_us.orders",
    }


# -- transactional tables -------------------------------------------------------------------

ROWS = [("id", "int"), ("name", "string")]
BUCKETS = {"numBuckets": 1, "bucketCols": ["id"]}
ACID = {"transactional": "true", "transactional_properties": "default"}


def acid_table(hive: HiveObjects, database: str, name: str, **given: Any) -> Path:
    """Hive 2 has buckets in all of them."""
    return hive.table(database, name, ROWS, type="MANAGED_TABLE", parameters=ACID, storage=BUCKETS, **given)


def write_plain(path: Path, rows: Sequence[tuple[int, str]]) -> None:
    """Write a file from before its table was transactional."""
    import pyarrow as pa
    from pyarrow import orc

    path.parent.mkdir(parents=True, exist_ok=True)
    numbers, names = zip(*rows, strict=True)
    orc.write_table(pa.table({"id": pa.array(numbers, pa.int32()), "name": list(names)}), path)


def in_hive(folder: Path) -> list[int]:
    """The ids that Hive 2.3 reads in a folder."""
    return sorted(row["id"] for row in read_by_hive(folder, dict(ROWS)))


@pytest.fixture
def writer(server: HiveServer) -> HiveWriter:
    return HiveWriter(server.jvm)


def test_rows_that_hive_sees_in_acid_tables_are_seen_here_and_can_be_changed(
    hive: HiveObjects, writer: HiveWriter, run: Import, target: Metastore
) -> None:
    hive.database("acid")
    whole = acid_table(hive, "acid", "whole")
    parted = acid_table(hive, "acid", "parted", keys=[("ds", "string")])
    hive.partitions("acid", "parted", [("1",), ("2",)])
    first, second, third, fourth = hive.transactions(4)
    writer.insert(whole, first, [(1, "a"), (2, "b"), (3, "c")])
    writer.delete(whole, second, [(first, 0, 1)])
    writer.insert(parted / "ds=1", second, [(1, "a"), (2, "b")])
    writer.insert(parted / "ds=2", third, [(3, "c"), (4, "d")])
    writer.insert(whole, fourth, [(9, "never")])
    hive.commit([first, second, third])
    hive.abort(fourth)
    found = run()
    assert (found["acid.whole"].kind, found["acid.whole"].directories) == ("transactional table", 2)
    assert "buckets of version 1" in found["acid.whole"].notes[0]
    assert (found["acid.parted"].partitions, found["acid.parted"].directories) == (2, 2)
    with target.session() as session:
        assert session.sql("SELECT id, name FROM acid.whole ORDER BY id").rows == [(1, "a"), (3, "c")]
        assert session.sql("SELECT ds, id FROM acid.parted ORDER BY id").rows == [
            ("1", 1),
            ("1", 2),
            ("2", 3),
            ("2", 4),
        ]
        session.sql("UPDATE acid.parted SET name = 'new' WHERE id IN (2, 3)")
        session.sql("DELETE FROM acid.whole WHERE id = 3")
        session.sql("INSERT INTO acid.whole VALUES (4, 'd')")
        assert session.sql("SELECT id, name FROM acid.whole ORDER BY id").rows == [(1, "a"), (4, "d")]
        assert session.sql("SELECT name FROM acid.parted ORDER BY id").rows == [("a",), ("new",), ("new",), ("d",)]
    # The import itself takes the first write id behind Hive's last transaction, as CREATE TABLE takes one.
    assert (whole / f"delete_delta_{fourth + 2:07d}_{fourth + 2:07d}_0000").is_dir()


def test_files_from_before_an_acid_table_and_of_replaced_directories_count_as_in_hive(
    hive: HiveObjects, writer: HiveWriter, run: Import, target: Metastore
) -> None:
    hive.database("old")
    kept, replaced = (acid_table(hive, "old", name) for name in ("kept", "replaced"))
    (first,) = hive.transactions(1)
    for folder in (kept, replaced):
        write_plain(folder / "000000_0", [(7, "plain")])
        writer.insert(folder, first, [(1, "a")])
    # What a major compaction of Hive 2 leaves until its cleaner has run.
    (replaced / f"delta_{first:07d}_{first:07d}_0000").rename(replaced / f"base_{first:07d}")
    writer.insert(replaced, first, [(5, "replaced")])
    hive.commit([first])
    found = run()
    assert (found["old.kept"].directories, found["old.replaced"].directories) == (2, 1)
    with target.session() as session:
        assert session.sql("SELECT id FROM old.kept ORDER BY id").rows == [(1,), (7,)]
        session.sql("DELETE FROM old.kept WHERE id = 7")
        assert session.sql("SELECT id FROM old.kept").rows == [(1,)]
        assert session.sql("SELECT id FROM old.replaced").rows == [(1,)]


@pytest.mark.evidence(cases=1, among="rows of imported tables")
@pytest.mark.parametrize("layout", ["flat", "hive"])
def test_rows_that_hive_has_given_the_same_ids_in_several_partitions_stay_apart(
    hive: HiveObjects, writer: HiveWriter, run: Import, target: Metastore, tmp_path: Path, layout: str
) -> None:
    hive.database("dyn")
    folder = acid_table(hive, "dyn", "t", keys=[("ds", "string")])
    hive.partitions("dyn", "t", [("1",), ("2",), ("3",)])
    first, second = hive.transactions(2)
    # So do Hive's INSERTs into dynamic partitions: in each of them the ids start at 0.
    for ds in (1, 2, 3):
        writer.insert(folder / f"ds={ds}", first, [(10 * ds + row, "hive") for row in range(5)])
        writer.insert(folder / f"ds={ds}", first, [(10 * ds + row, "hive") for row in range(5, 8)], bucket=1)
    writer.delete(folder / "ds=1", second, [(first, 0, 1)])
    writer.delete(folder / "ds=2", second, [(first, 1, 2)])
    hive.commit([first, second])
    names = {10 * ds + row: "hive" for ds in (1, 2, 3) for row in range(8)}
    del names[11], names[27]
    assert [in_hive(folder / f"ds={ds}") for ds in (1, 2, 3)] == [
        [n for n in names if n // 10 == ds] for ds in (1, 2, 3)
    ]
    assert run()["dyn.t"].outcome is ImportOutcome.IMPORTED
    assert run()["dyn.t"].outcome is ImportOutcome.PRESENT
    with target.session() as session:

        def check(sql: str) -> None:
            session.sql(sql)
            found = session.sql("SELECT ds, id, name FROM dyn.t").rows
            assert sorted(found) == [(str(number // 10), number, name) for number, name in sorted(names.items())], sql

        check(f"ALTER TABLE dyn.t SET TBLPROPERTIES ('hivex.row.layout' = '{layout}')")
        del names[30]
        session.sql("DELETE FROM dyn.t WHERE id = 30")
        names |= {13: "new", 20: "new", 36: "new"}
        check("UPDATE dyn.t SET name = 'new' WHERE id IN (13, 20, 36)")
        names |= {18: "ours", 28: "ours", 38: "ours"}
        session.sql("INSERT INTO dyn.t VALUES (18, 'ours', '1'), (28, 'ours', '2'), (38, 'ours', '3')")
        del names[28]
        check("DELETE FROM dyn.t WHERE id = 28")
        if layout == "hive":
            # Hive looks for the deletes of a row in the file of its bucket.
            for ds in (1, 2, 3):
                assert in_hive(folder / f"ds={ds}") == sorted(number for number in names if number // 10 == ds)
        del names[12], names[35]
        names |= {10: "merged", 25: "merged", 19: "added"}
        check(
            "MERGE INTO dyn.t AS t USING (SELECT id, ds FROM dyn.t WHERE id NOT IN (12, 35) UNION ALL "
            "SELECT 19, '1') AS s ON t.id = s.id AND t.ds = s.ds "
            "WHEN MATCHED AND t.id IN (10, 25) THEN UPDATE SET name = 'merged' "
            "WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'added', s.ds) WHEN NOT MATCHED BY SOURCE THEN DELETE"
        )
        for kind, ds in (("minor", 1), ("major", 2)):
            assert target.compactor.request("dyn", "t", f"ds={ds}", kind).is_accepted
            done = target.compactor.work("host-1")
            assert done is not None
            assert done.state is not CompactionState.FAILED, done
        del names[14], names[24], names[34]
        check("DELETE FROM dyn.t WHERE id IN (14, 24, 34)")
        session.export_for_hive("dyn.t", tmp_path / "exported")
        for ds in (1, 2, 3):
            assert in_hive(tmp_path / "exported" / f"ds={ds}") == sorted(
                number for number in names if number // 10 == ds
            )
        with pytest.raises(InvalidObjectError, match=r"hivex\.partition\.row\.ids cannot be changed"):
            session.sql("ALTER TABLE dyn.t UNSET TBLPROPERTIES ('hivex.partition.row.ids')")
        with pytest.raises(InvalidObjectError, match="set by an import"):
            session.sql("CREATE TABLE dyn.u (id int) TBLPROPERTIES ('hivex.partition.row.ids' = '1')")
        assert "hivex.partition" not in session.sql("SHOW CREATE TABLE dyn.t").rows[0][0]


@pytest.mark.evidence(cases=1, among="rows of imported tables")
def test_changes_of_imported_tables_make_the_later_version_of_the_earlier_one(
    hive: HiveObjects, writer: HiveWriter, run: Import, target: Metastore, counts: Counts
) -> None:
    hive.database("changed")
    chances = {
        f"t{number}": random.Random(f"{evidence.SEED} imported {number}")
        for number in range(evidence.amount("HIVEX_CHANGED_IMPORTS", share=1, whole=400))
    }
    rows: dict[str, Rows] = {}
    (first,) = hive.transactions(1)
    for table, chance in chances.items():
        is_parted = chance.random() < 0.7
        folder = acid_table(hive, "changed", table, keys=[("ds", "string")] if is_parted else [])
        places: dict[str, Row] = {"ds=a": ("a",), "ds=b": ("b",)} if is_parted else {"": ()}
        if is_parted:
            hive.partitions("changed", table, [("a",), ("b",)])
        rows[table] = Counter()
        for place, partition in places.items():
            written = [(chance.randrange(12), "hive") for _ in range(chance.randint(2, 5))]
            writer.insert(folder / place, first, written)
            rows[table].update((*row, *partition) for row in written)
    hive.commit([first])
    run(databases="changed")
    found = Counter[str]()
    with target.session() as session:
        for table, chance in chances.items():
            parted = len(next(iter(rows[table]))) - 2
            found += ChangedTable(target, session, f"changed.{table}", parted, rows[table], chance).play()
    counts["Changes applied to versions of imported tables"] = found


def test_rows_of_files_from_before_an_acid_table_that_hive_2_has_deleted_stay_deleted(
    hive: HiveObjects, writer: HiveWriter, run: Import, target: Metastore
) -> None:
    hive.database("plain")
    folder = acid_table(hive, "plain", "t", keys=[("ds", "string")])
    hive.partitions("plain", "t", [("1",), ("2",)])
    (first,) = hive.transactions(1)
    for ds in (1, 2):
        for bucket in (0, 1):
            rows = [(100 * ds + 10 * bucket + row, "plain") for row in range(4)]
            write_plain(folder / f"ds={ds}" / f"00000{bucket}_0", rows)
    writer.delete(folder / "ds=1", first, [(0, 0, 1)])
    writer.delete(folder / "ds=1", first, [(0, 1, 2), (0, 1, 3)])
    writer.delete(folder / "ds=2", first, [(0, 1, 0)])
    hive.commit([first])
    left = {n for ds in (100, 200) for n in (*range(ds, ds + 4), *range(ds + 10, ds + 14))} - {101, 112, 113, 210}
    assert in_hive(folder / "ds=1") + in_hive(folder / "ds=2") == sorted(left)
    assert run()["plain.t"].outcome is ImportOutcome.IMPORTED
    with target.session() as session:

        def check() -> None:
            assert session.sql("SELECT id FROM plain.t ORDER BY id").rows == [(each,) for each in sorted(left)]

        check()
        left -= {100, 213}
        session.sql("DELETE FROM plain.t WHERE id IN (100, 213)")
        check()
        for kind, ds in (("minor", 1), ("major", 2)):
            assert target.compactor.request("plain", "t", f"ds={ds}", kind).is_accepted
            assert target.compactor.work("host-1") is not None
            check()


def test_rows_from_before_an_acid_table_that_hive_2_has_compacted_can_be_deleted(
    hive: HiveObjects, writer: HiveWriter, run: Import, target: Metastore
) -> None:
    hive.database("merged")
    folder = acid_table(hive, "merged", "t")
    first, second = hive.transactions(2)
    written = folder.parent / "written"
    writer.insert(written, 0, [(row, "plain") for row in range(5)])
    (folder / f"base_{first:07d}").mkdir(parents=True)
    (written / "delta_0000000_0000000_0000" / "bucket_00000").rename(folder / f"base_{first:07d}" / "bucket_00000")
    writer.delete(folder, second, [(0, 0, 3)])
    hive.commit([first, second])
    assert in_hive(folder) == [0, 1, 2, 4]
    assert run()["merged.t"].outcome is ImportOutcome.IMPORTED
    with target.session() as session:
        assert session.sql("SELECT id FROM merged.t ORDER BY id").rows == [(0,), (1,), (2,), (4,)]
        session.sql("DELETE FROM merged.t WHERE id = 1")
        assert target.compactor.request("merged", "t", None, "major").is_accepted
        assert session.sql("SELECT id FROM merged.t ORDER BY id").rows == [(0,), (2,), (4,)]
        assert target.compactor.work("host-1") is not None
        assert session.sql("SELECT id FROM merged.t ORDER BY id").rows == [(0,), (2,), (4,)]


def test_acid_tables_whose_rows_would_not_be_those_of_hive_are_refused(
    hive: HiveObjects, writer: HiveWriter, run: Import, target: Metastore
) -> None:
    hive.database("refused")
    opened, mixed, renamed, originals, moved = (
        acid_table(hive, "refused", name, keys=[("ds", "string")] if name == "moved" else ())
        for name in ("opened", "mixed", "renamed", "originals", "moved")
    )
    hive.partitions("refused", "moved", [("01 ",)])
    partition = hive.client.get_partition("refused", "moved", ["01 "])
    partition.sd.location = (moved / "elsewhere").as_uri()
    hive.client.alter_partition("refused", "moved", partition)
    first, second, third = hive.transactions(3)
    writer.insert(opened, second, [(1, "a")])
    writer.insert(mixed, first, [(1, "a")])
    (mixed / f"delta_{first:07d}_{first:07d}_0000").rename(mixed / f"delta_{first:07d}_{third:07d}")
    writer.insert(renamed, first, [(1, "a")])
    changed = hive.client.get_table("refused", "renamed")
    changed.sd.cols[1].name = "title"
    hive.client.alter_table("refused", "renamed", changed)
    # Hive 2 has no rule for the ids of rows in a copy (HIVE-16177).
    for name in ("000000_0", "000000_0_copy_1"):
        write_plain(originals / name, [(7, "plain")])
    writer.delete(originals, first, [(0, 0, 0)])
    hive.commit([first])
    hive.abort(third)
    reasons = {name.partition(".")[2]: each.notes[0] for name, each in run().items() if each.is_missing}
    assert "open in Hive has written" in reasons["opened"]
    assert "run a major compaction in Hive" in reasons["mixed"]
    assert "has a column name that the table does not have" in reasons["renamed"]
    assert "rows of bucket 0 in it, which has 2 files" in reasons["originals"]
    assert "partitions of a transactional table lie below it" in reasons["moved"]
    assert target.catalog.list_tables("refused") == []
    hive.commit([second])
    assert run()["refused.opened"].outcome is ImportOutcome.IMPORTED
    with target.session() as session:
        assert session.sql("SELECT name FROM refused.opened").rows == [("a",)]


# -- a metastore that stops, or a server that is not one ---------------------------------------------------


@contextmanager
def served(handle: Callable[[socket.socket], None]) -> Iterator[str]:
    """The address of a server that does this with each connection, in a thread of its own."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                handle(self.request)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"thrift://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def cut_after(port: int, size: int) -> Iterator[str]:
    """The address of a way to a port that ends for ever once this number of bytes has come back over it."""
    left = [size]

    def copy(near: socket.socket) -> None:
        if left[0] < 0:
            return
        with socket.create_connection(("127.0.0.1", port)) as far:
            while True:
                for source in select.select([near, far], [], [])[0]:
                    data = source.recv(4096)
                    left[0] -= len(data) if source is far else 0
                    if not data or left[0] < 0:
                        return
                    (near if source is far else far).sendall(data)

    with served(copy) as address:
        yield address


def test_a_metastore_that_dies_leaves_no_half_table_and_a_repeated_import_completes(
    hive: HiveObjects, server: HiveServer, run: Import, target: Metastore
) -> None:
    hive.database("large")
    for name in ("a", "b", "c"):
        hive.table("large", name, ID, keys=[("p", "int")])
        hive.partitions("large", name, [(str(number),) for number in range(100)])
    size, there = 500, []
    while not there:
        done: list[ImportedObject] = []
        with cut_after(server.port, size) as address:
            results = target.import_from_hive(address, cluster="c1", timeout_s=20)
            with pytest.raises(HiveUnavailableError, match="Repeat the import"):
                done.extend(results)
        there = target.catalog.list_tables("large") if "large" in target.catalog.list_databases() else []
        for name in there:
            assert len(target.catalog.list_partition_names("large", name)) == 100
        assert {each.name for each in done if each.partitions} <= {f"large.{name}" for name in there}
        size *= 2
    assert len(there) < 3
    found = run()
    assert {each.outcome for each in found.values()} == {ImportOutcome.IMPORTED, ImportOutcome.PRESENT}
    assert target.catalog.list_tables("large") == ["a", "b", "c"]


def test_a_server_of_another_protocol_is_recognised(run: Import) -> None:
    def answer(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with served(answer) as address, pytest.raises(HiveProtocolError, match="Thrift port"):
        run(address=address)


def test_a_server_that_does_not_answer_is_given_up(run: Import) -> None:
    # The client closes the connection when it has waited long enough.
    def be_silent(connection: socket.socket) -> None:
        while connection.recv(4096):
            pass

    with served(be_silent) as address, pytest.raises(HiveUnavailableError, match="does not answer"):
        run(address=address, timeout_s=0.2)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    listener.close()
    with pytest.raises(HiveUnavailableError, match=f"127.0.0.1:{port}"):
        run(address=f"thrift://127.0.0.1:{port}")


def test_the_first_server_that_answers_is_used(hive: HiveObjects, server: HiveServer, run: Import) -> None:
    hive.database("reached")
    listener = socket.create_server(("127.0.0.1", 0))
    gone = f"thrift://127.0.0.1:{listener.getsockname()[1]}"
    listener.close()
    assert "reached" in run(address=f"{gone},{server.address}")


def test_a_metastore_with_framed_transport_is_imported(hive: HiveObjects, server: HiveServer, run: Import) -> None:
    hive.database("framed")
    with server.listening(framed=True) as address:
        with pytest.raises(HiveUnavailableError, match="--framed"):
            run(address=address, timeout_s=20)
        assert "framed" in run(address=address, transport=HiveTransport(framed=True))


def test_a_metastore_with_tls_is_imported_if_its_certificate_is_trusted(
    hive: HiveObjects, server: HiveServer, run: Import, tmp_path: Path
) -> None:
    hive.database("secured")
    keystore, certificate = tmp_path / "keys.jks", tmp_path / "ca.pem"
    keytool = ["keytool", "-keystore", str(keystore), "-storepass", "changeit", "-alias", "hive"]
    made = ["-genkeypair", "-keyalg", "EC", "-dname", "CN=hive", "-ext", "san=ip:127.0.0.1", "-storetype", "JKS"]
    subprocess.run([*keytool, *made, "-keypass", "changeit"], check=True, capture_output=True)
    subprocess.run([*keytool, "-exportcert", "-rfc", "-file", str(certificate)], check=True, capture_output=True)
    with server.listening(keystore=keystore) as address:
        with pytest.raises((HiveUnavailableError, HiveProtocolError), match="--tls"):
            run(address=address, timeout_s=20)
        with pytest.raises(HiveProtocolError, match="certificate verify failed"):
            run(address=address, transport=HiveTransport(tls=True))
        assert "secured" in run(address=address, transport=HiveTransport(tls=True, ca_file=str(certificate)))
    certificate.write_text("nothing")
    with pytest.raises(InvalidSettingError, match="certificates"):
        run(transport=HiveTransport(tls=True, ca_file=str(certificate)))


@pytest.mark.parametrize("address", ["", "host:9083", "thrift://host", "http://host:9083", "thrift://host:99999"])
def test_an_address_of_another_form_is_refused(run: Import, address: str) -> None:
    with pytest.raises(InvalidHiveAddressError):
        run(address=address)


def test_a_cluster_that_is_not_configured_is_refused(run: Import) -> None:
    with pytest.raises(UnknownClusterError):
        run(cluster="c9")


def test_the_command_prints_a_report(
    hive: HiveObjects,
    server: HiveServer,
    root: Path,
    sqlite_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    hive.database("mixed")
    hive.table("mixed", "good", ID)
    hive.table("mixed", "odd", [("u", "uniontype<int,string>")])
    monkeypatch.setenv("HIVEX_METASTORE_URL", sqlite_url)
    properties = {"c1": {"filesystem": root.as_uri(), "jobtracker": "local[2]"}}
    monkeypatch.setenv("HIVEX_CLUSTER_PROPERTIES", json.dumps(properties))
    assert main(["metastore", "import", server.address, "--output", "json"]) == 1
    captured = capsys.readouterr()
    printed = json.loads(captured.out)
    outcomes = {row[2]: row[0] for row in printed["rows"]}
    assert outcomes == {"default": "present", "mixed": "imported", "mixed.good": "imported", "mixed.odd": "refused"}
    assert "2 imported, 1 present, 1 refused" in captured.err
    assert main(["metastore", "import", server.address, "--table", "good"]) == 0
    assert main(["metastore", "import", "thrift://127.0.0.1"]) == 1
    assert "HIVE_ADDRESS" in capsys.readouterr().err


# -- everything that both sides have ------------------------------------------------------

TYPES = (
    *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(12,3)", "string", "varchar(9)"),
    *(
        "char(4)",
        "binary",
        "date",
        "timestamp",
        "array<int>",
        "map<string,decimal(5,2)>",
        "struct<a:int,b:array<date>>",
    ),
)
KEY_TYPES = ("string", "int", "date", "bigint", "varchar(20)")
STATISTICS = ("numRows", "totalSize", "numFiles", "rawDataSize", "COLUMN_STATS_ACCURATE", "comment")


@pytest.mark.timeout(900)  # Hive adds 5,000 partitions in minutes
@pytest.mark.evidence
def test_everything_that_both_sides_have_is_equal(
    hive: HiveObjects, run: Import, target: Metastore, counts: Counts
) -> None:
    chosen = random.Random(f"{evidence.SEED} hive import")
    number_of_tables = evidence.amount("HIVEX_IMPORTED_TABLES", 6, 50)
    number_of_partitions = evidence.amount("HIVEX_IMPORTED_PARTITIONS", 120, 5_000)
    hive.database("all")
    names = [f"t{number:02d}" for number in range(number_of_tables)]
    partitioned = names[::2]
    for number, name in enumerate(names):
        make_any_table(hive, chosen, name, number, partitioned=name in partitioned)
    for name in partitioned:
        keys = hive.client.get_table("all", name).partitionKeys
        each = number_of_partitions // len(partitioned)
        values = [tuple(key_value(key.type, number) for key in keys) for number in range(each)]
        hive.partitions("all", name, values, {"made.by": name, "totalSize": "7", "numFiles": "1"})
    start = time.monotonic()
    found = run(databases="all")
    seconds = round(time.monotonic() - start)
    assert {name: each.notes for name, each in found.items() if each.is_missing} == {}
    compared = 0
    for name in names:
        given, table = hive.client.get_table("all", name), target.catalog.get_table("all", name)
        assert fields_here(table, table.storage, table.location) == fields_of_hive(given, given.sd), name
        assert [(key.name, key.type) for key in table.partition_keys] == [
            (key.name, key.type) for key in given.partitionKeys
        ]
        if name not in partitioned:
            continue
        here = {each.values: each for batch in target.catalog.get_partitions("all", name) for each in batch}
        there = hive.client.get_partitions("all", name, -1)
        assert len(here) == len(there)
        for each in there:
            partition = here[tuple(each.values)]
            storage = partition.storage or table.storage
            assert fields_here(partition, storage, partition.location) == fields_of_hive(each, each.sd), (
                name,
                each.values,
            )
            compared += 1
    counts["Imported from Hive Metastore 2.3, and equal"] = {
        "tables": len(names),
        "partitions": compared,
        "seconds of import": seconds,
    }


def make_any_table(hive: HiveObjects, chosen: random.Random, name: str, number: int, *, partitioned: bool) -> None:
    """Make a table with a format, types and properties that no other has."""
    from hive_metastore import ttypes

    stored_as = ("orc", "parquet", "text", "json")[number % 4]
    types = chosen.sample(TYPES, 6)
    columns = [(f"c{at}", each, f"column {at}" if at % 2 else None) for at, each in enumerate(types)]
    keys = [(f"k{at}", each, None) for at, each in enumerate(chosen.sample(KEY_TYPES, 2))] if partitioned else []
    storage: dict[str, Any] = {"parameters": {"of": name}, "compressed": bool(number % 3)}
    if number % 5 == 0:
        storage |= {"numBuckets": 3, "bucketCols": ["c1"], "sortCols": [ttypes.Order("c0", 1), ttypes.Order("c1", 0)]}
    if number % 7 == 0:
        storage["skewedInfo"] = ttypes.SkewedInfo(["c0"], [["1"], ["2"]], {})
    if stored_as == "text":
        storage["serde"] = {"field.delim": "|", "serialization.format": "|"}
    hive.table(
        "all",
        name,
        columns,
        keys=keys,
        type=("EXTERNAL_TABLE", "MANAGED_TABLE")[number % 2],
        format=stored_as,
        parameters={"comment": f"number {number}", "p": "v" * number, "numRows": "5", "totalSize": "50"},
        owner=f"user{number}",
        retention=number,
        storage=storage,
    )


def key_value(type: str, number: int) -> str:
    return (date(2024, 1, 1) + timedelta(days=number)).isoformat() if type == "date" else str(number)


def fields_of_hive(given: Any, sd: Any) -> dict[str, object]:
    serde = sd.serdeInfo
    is_table = hasattr(given, "tableType")
    parameters = {key: value for key, value in given.parameters.items() if key not in STATISTICS}
    if is_table and given.tableType == "MANAGED_TABLE":
        parameters |= {"EXTERNAL": "TRUE", "external.table.purge": "true"}
    skew = sd.skewedInfo
    return {
        "columns": [(each.name, each.type, each.comment) for each in sd.cols],
        "location": re.sub("^file:/+", "file:///", sd.location),
        "formats": (sd.inputFormat, sd.outputFormat, serde.serializationLib, serde.name),
        "serde parameters": serde.parameters,
        "parameters": parameters,
        "storage parameters": sd.parameters,
        "buckets": (sd.numBuckets, sd.bucketCols, [(each.col, each.order) for each in sd.sortCols]),
        "skew": (skew.skewedColNames, skew.skewedColValues) if skew.skewedColNames else None,
        "compressed": (sd.compressed, sd.storedAsSubDirectories),
        "created": given.createTime,
        "owner": (given.owner, given.retention, given.parameters.get("comment")) if is_table else None,
    }


def fields_here(given: Any, storage: StorageDescriptor, location: str) -> dict[str, object]:
    skew = storage.skew
    is_table = isinstance(given, Table)
    return {
        "columns": [(each.name, each.type, each.comment) for each in storage.columns],
        "location": location,
        "formats": (storage.input_format, storage.output_format, storage.serde.library, storage.serde.name),
        "serde parameters": storage.serde_parameters,
        "parameters": given.parameters,
        "storage parameters": storage.parameters,
        "buckets": (
            storage.num_buckets,
            list(storage.bucket_columns),
            [(each.name, int(each.ascending)) for each in storage.sort_columns],
        ),
        "skew": (list(skew.columns), [list(each) for each in skew.values]) if skew else None,
        "compressed": (storage.compressed, storage.stored_as_sub_directories),
        "created": int(given.created_at.timestamp()),
        "owner": (given.owner, given.retention, given.comment) if is_table else None,
    }
