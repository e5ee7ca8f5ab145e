"""Plain tables that become transactional: their files stay, as original files."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc, parquet
from pyspark.sql import SparkSession

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import HivexError, InvalidObjectError, InvalidOperationError, JobError
from tests import evidence
from tests.acceptance.conftest import CopyTable

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)]

ACID = "('EXTERNAL' = 'FALSE', 'transactional' = 'true')"
INSERT_ONLY = "('EXTERNAL'='FALSE', 'transactional'='true', 'transactional_properties'='insert_only')"

Rows = list[tuple[object, ...]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "c1" / "t"


def rows(session: Session, sql: str = "SELECT * FROM t ORDER BY ALL") -> Rows:
    return session.sql(sql).rows


def write(path: Path, ids: Sequence[int], stripe: int = 64 * 1024 * 1024) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"id": pa.array(ids, pa.int32()), "v": pa.array([f"v{i}" for i in ids], pa.string())})
    orc.write_table(table, str(path), stripe_size=stripe)


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def create(session: Session, more: str = "", stored: str = "STORED AS ORC") -> None:
    session.sql(f"CREATE EXTERNAL TABLE t (id int, v string) {more} {stored} LOCATION 't'")


def convert(session: Session, properties: str = ACID) -> None:
    session.sql(f"ALTER TABLE t SET TBLPROPERTIES {properties}")


def test_a_converted_table_is_read_and_changed_without_a_file_being_rewritten(session: Session, root: Path) -> None:
    create(session)
    write(root / "000000_0", range(10))
    write(root / "000000_0_copy_1", range(10, 15))
    write(root / "000001_0", range(20, 30))
    write(root / "HIVE_UNION_SUBDIR_1" / "000001_0", range(30, 33))
    write(root / "part-00000-1b-c000.snappy.orc", range(40, 45))
    (root / "000002_0").touch()
    (root / "_SUCCESS").touch()
    before = contents(root)
    everything = rows(session)
    assert len(everything) == 30
    convert(session)
    # As in Hive, sub-directories count in a transactional table only.
    assert rows(session) == sorted([*everything, (30, "v30"), (31, "v31"), (32, "v32")])
    assert contents(root) == before
    assert session.sql("DELETE FROM t WHERE id IN (0, 12, 30, 44)").rows_deleted == 4
    assert session.sql("UPDATE t SET v = 'new' WHERE id % 10 = 1").rows_written == 5
    ids = [i for i in (*range(15), *range(20, 33), *range(40, 45)) if i not in (0, 12, 30, 44)]
    expected = [(i, "new" if i % 10 == 1 else f"v{i}") for i in ids]
    assert rows(session) == expected
    # Hidden are exactly the rows that a condition on a column finds, although it is not asked of the files.
    assert rows(session, "SELECT count(*) FROM t WHERE id IN (0, 1, 2, 12, 13, 30, 31)") == [(4,)]
    session.sql("INSERT INTO t VALUES (100, 'a')")
    session.sql(
        "MERGE INTO t USING (SELECT id FROM VALUES (2), (23), (100), (101) s(id)) s ON t.id = s.id "
        "WHEN MATCHED AND t.id = 23 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 'merged' "
        "WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'added')"
    )
    merged = {**dict(expected), 2: "merged", 100: "merged", 101: "added"}
    del merged[23]
    assert rows(session) == sorted(merged.items())
    after = contents(root)
    assert {name: after[name] for name in before} == before
    session.sql("INSERT OVERWRITE t SELECT * FROM t WHERE id < 5")
    assert rows(session) == [(1, "new"), (2, "merged"), (3, "v3"), (4, "v4")]
    session.sql("TRUNCATE TABLE t")
    assert rows(session) == []
    session.sql("DROP TABLE t")
    assert not root.exists()


def test_rows_of_partitions_are_distinguished_although_their_ids_are_alike(session: Session, root: Path) -> None:
    create(session, "PARTITIONED BY (p string)")
    for number, name in enumerate(("a", "b c%2Fd", "ü")):
        write(root / f"p={name}" / "000000_0", range(number * 10, number * 10 + 5))
        write(root / f"p={name}" / "000001_0", range(number * 10 + 5, number * 10 + 10))
    session.sql("ALTER TABLE t ADD PARTITION (p = 'a') PARTITION (p = 'b c/d') PARTITION (p = 'ü')")
    convert(session)
    session.sql("DELETE FROM t WHERE id IN (3, 17)")
    expected = [i for i in range(30) if i not in (3, 17)]
    assert rows(session, "SELECT id FROM t ORDER BY id") == [(i,) for i in expected]
    session.sql("UPDATE t SET v = p WHERE id IN (4, 14, 24)")
    assert rows(session, "SELECT id, v, p FROM t WHERE v = p ORDER BY id") == [
        (4, "a", "a"),
        (14, "b c/d", "b c/d"),
        (24, "ü", "ü"),
    ]
    assert rows(session, "SELECT count(*), count(DISTINCT id) FROM t") == [(28, 28)]
    # Rows 5, 15 and 25 have one id.
    session.sql(
        "MERGE INTO t USING range(0, 20) s (n) ON t.id = s.n WHEN MATCHED AND n % 10 = 5 THEN UPDATE SET v = 'merged' "
        "WHEN NOT MATCHED BY SOURCE AND id % 10 = 5 THEN UPDATE SET v = 'alone'"
    )
    assert rows(session, "SELECT id, v FROM t WHERE id % 10 = 5 ORDER BY id") == [
        (5, "merged"),
        (15, "merged"),
        (25, "alone"),
    ]
    # A DataFrame is computed later, and its session may run other jobs before.
    spark = SparkSession.builder.getOrCreate().newSession()
    frame = session.warehouse(spark).table("t")
    assert sorted(row.id for row in frame.where("p <> 'a'").collect()) == [i for i in expected if i >= 10]
    session.sql("INSERT OVERWRITE t PARTITION (p = 'a') VALUES (0, 'x')")
    assert rows(session, "SELECT id FROM t WHERE p = 'a'") == [(0,)]
    session.sql("ALTER TABLE t PARTITION (p = 'b c/d') RENAME TO PARTITION (p = 'z')")
    assert rows(session, "SELECT count(*), sum(id) FROM t WHERE p = 'z'") == [(9, sum(range(10, 20)) - 17)]
    session.sql("ALTER TABLE t DROP PARTITION (p = 'ü')")
    assert rows(session, "SELECT p, count(*) FROM t GROUP BY p ORDER BY p") == [("a", 1), ("z", 9)]
    assert not (root / "p=ü").exists()


def test_a_snapshot_from_before_still_sees_the_files(session: Session, metastore: Metastore, root: Path) -> None:
    create(session)
    write(root / "000000_0", range(3))
    with metastore.session(user="reader") as reader:
        reader.sql("CREATE TABLE other (id int)")
        reader.sql("START TRANSACTION")
        assert rows(reader, "SELECT * FROM other") == []
        convert(session)
        session.sql("INSERT INTO t VALUES (9, 'later')")
        assert rows(reader, "SELECT id FROM t ORDER BY id") == [(0,), (1,), (2,)]
        reader.sql("COMMIT")
        assert rows(reader, "SELECT id FROM t ORDER BY id") == [(0,), (1,), (2,), (9,)]


@pytest.mark.evidence(cases=1, among="long scenarios")
def test_random_statements_on_many_files_do_what_a_model_does(session: Session, root: Path) -> None:
    choice = random.Random(evidence.SEED)
    model: dict[int, str] = {}
    create(session)
    for number in range(24):
        # Four stripes in the larger ones.
        size = choice.choice([1, 5, 40]) if number % 12 else 4_000
        ids = range(number * 100_000, number * 100_000 + size)
        name = choice.choice([f"{number % 7:06d}_0_copy_{number}", f"part-{number:05d}", f"x/{number:06d}_0"])
        write(root / name, ids, stripe=4096)
        model.update((i, f"v{i}") for i in ids)
    convert(session)
    for step in range(evidence.amount("HIVEX_CONVERTED_STATEMENTS", share=2, whole=20)):
        modulus = choice.choice([3, 7, 11])
        picked = [i for i in model if i % modulus == step % modulus]
        if step % 2:
            session.sql(f"DELETE FROM t WHERE id % {modulus} = {step % modulus}")
            for i in picked:
                del model[i]
        else:
            session.sql(f"UPDATE t SET v = concat(v, '{step}') WHERE id % {modulus} = {step % modulus}")
            model.update((i, f"{model[i]}{step}") for i in picked)
        found = rows(session, "SELECT count(*), count(DISTINCT id), sum(id), sum(hash(id, v)) FROM t")
        values = ", ".join(f"({i}, '{v}')" for i, v in list(model.items())[:1])
        assert found[0][:3] == (len(model), len(model), sum(model)), values
        assert rows(session, "SELECT * FROM t WHERE id % 1009 = 5 ORDER BY id") == sorted(
            (i, v) for i, v in model.items() if i % 1009 == 5
        )


def test_a_file_that_changed_or_went_away_is_an_error(session: Session, root: Path) -> None:
    create(session)
    write(root / "000000_0", range(10))
    write(root / "000001_0", range(10, 20))
    convert(session)
    session.sql("DELETE FROM t WHERE id = 3")
    write(root / "000000_0", range(100, 120))
    with pytest.raises(JobError, match=r"000000_0.*more rows"):
        session.sql("SELECT max(v) FROM t")
    (root / "000001_0").unlink()
    with pytest.raises(HivexError, match=r"000001_0|data files"):
        session.sql("SELECT max(v) FROM t")


@pytest.mark.parametrize("format", ["orc", "parquet", "json", "csv"])
def test_files_of_any_format_become_an_insert_only_table(
    session: Session, root: Path, metastore: Metastore, format: str
) -> None:
    create(session, stored=f"USING {format}")
    root.mkdir(parents=True)
    table = pa.table({"id": pa.array([1, 2], pa.int32()), "v": ["a", "b"]})
    match format:
        case "orc":
            orc.write_table(table, str(root / "x.orc"))
        case "parquet":
            parquet.write_table(table, root / "x.parquet")
        case "json":
            (root / "x.json").write_text('{"id": 1, "v": "a"}\n{"id": 2, "v": "b"}\n')
        case _:
            (root / "x.csv").write_text("1,a\n2,b\n")
    convert(session, INSERT_ONLY)
    assert rows(session) == [(1, "a"), (2, "b")]
    session.sql("INSERT INTO t VALUES (3, 'c')")
    assert rows(session) == [(1, "a"), (2, "b"), (3, "c")]
    (listed,) = [file for file in session.snapshot_files("t").files if "delta_" not in file.uri]
    assert listed.uri.endswith(f"/t/x.{format}")
    assert listed.size_bytes == (root / f"x.{format}").stat().st_size
    with pytest.raises(InvalidOperationError, match="insert-only"):
        session.sql("DELETE FROM t")
    session.sql("INSERT OVERWRITE t SELECT id + 1, v FROM t WHERE id > 1")
    assert rows(session) == [(3, "b"), (4, "c")]


def test_a_copy_of_a_converted_table_serves_with_its_deletes(
    session: Session, root: Path, copy_table: CopyTable
) -> None:
    create(session)
    write(root / "000000_0", range(10))
    convert(session)
    session.sql("DELETE FROM t WHERE id > 6")
    copy_table("t", "c2")
    session.sql("USE CLUSTER c2")
    assert session.explain("SELECT * FROM t").cluster == "c2"
    assert rows(session, "SELECT id FROM t ORDER BY id") == [(i,) for i in range(7)]


Prepare = Callable[[Session, Path], object]


def _partition_elsewhere(session: Session, root: Path) -> None:
    session.sql("ALTER TABLE t ADD PARTITION (p = 'x') LOCATION 'elsewhere'")


def _unknown_partition(session: Session, root: Path) -> None:
    write(root / "p=x" / "000000_0", [1])


@pytest.mark.parametrize(
    ("more", "stored", "properties", "prepare", "reason"),
    [
        ("", "STORED AS ORC", "('transactional' = 'true')", None, "EXTERNAL.*FALSE"),
        ("", "STORED AS ORC", "('EXTERNAL' = 'TRUE', 'transactional' = 'true')", None, "EXTERNAL.*FALSE"),
        ("", "STORED AS ORC", "('EXTERNAL' = 'FALSE')", None, "'transactional' = 'true'"),
        ("", "STORED AS PARQUET", ACID, None, "stored as ORC.*insert_only"),
        ("", "STORED AS ORC", f"{ACID[:-1]}, 'transactional_properties' = 'x')", None, "neither default"),
        ("PARTITIONED BY (p string)", "STORED AS ORC", ACID, _partition_elsewhere, "lies in elsewhere"),
        ("PARTITIONED BY (p string)", "STORED AS ORC", ACID, _unknown_partition, "p=x/000000_0 lies in none"),
        ("", "STORED AS ORC", ACID, lambda _, root: write(root / "p=1" / "a", [1]), "looks like a partition"),
        ("", "STORED AS ORC", ACID, lambda _, root: write(root / "delta_1_1" / "a", [1]), "delta_1_1/a lies in"),
        ("", "STORED AS ORC", ACID, lambda _, root: (root / "x").write_text("no ORC"), "x.*cannot be read as orc"),
        ("", "USING orc OPTIONS (pathGlobFilter '*.orc')", ACID, None, "pathGlobFilter leaves files out"),
        (
            "",
            "STORED AS ORC",
            ACID,
            lambda session, _: session.sql("CREATE EXTERNAL TABLE u (id int) STORED AS ORC LOCATION 't'"),
            "not apart from that of table default.u",
        ),
    ],
)
def test_what_cannot_be_converted_is_refused_and_stays_as_it_is(
    session: Session, root: Path, more: str, stored: str, properties: str, prepare: Prepare | None, reason: str
) -> None:
    create(session, more, stored)
    write(root / ("p=y/000000_0" if more else "000000_0"), [7])
    if more:
        session.sql("ALTER TABLE t ADD PARTITION (p = 'y')")
    if prepare is not None:
        prepare(session, root)
    with pytest.raises((InvalidObjectError, InvalidOperationError), match=reason):
        convert(session, properties)
    if stored == "STORED AS ORC" and not {"x", "p=1"} & {path.name for path in root.iterdir()}:
        assert (7,) in rows(session, "SELECT id FROM t")
    with pytest.raises(InvalidOperationError, match="external"):
        session.sql("DELETE FROM t")


def test_views_copies_and_the_way_back_are_refused(
    session: Session, root: Path, copy_table: CopyTable, tmp_path: Path
) -> None:
    create(session)
    write(root / "000000_0", [1])
    session.sql("CREATE VIEW w AS SELECT * FROM t")
    with pytest.raises(HivexError):
        session.sql(f"ALTER TABLE w SET TBLPROPERTIES {ACID}")
    copy_table("t", "c2")
    with pytest.raises(InvalidOperationError, match="copies"):
        convert(session)
    shutil.rmtree(tmp_path / "c2" / "t")
    session.sql("DROP VIEW w")
    session.sql("DROP TABLE t")
    create(session)
    convert(session)
    for back in ("('transactional' = 'false')", "('EXTERNAL' = 'TRUE')"):
        with pytest.raises(InvalidObjectError, match="cannot be changed"):
            convert(session, back)
    with pytest.raises(InvalidObjectError, match="cannot be changed"):
        session.sql("ALTER TABLE t UNSET TBLPROPERTIES ('transactional')")


def test_changes_of_a_converted_table_have_the_deletes_of_each_partition(session: Session, root: Path) -> None:
    session.sql(
        "CREATE EXTERNAL TABLE t (id int, v string) PARTITIONED BY (p string, q int) STORED AS ORC LOCATION 't'"
    )
    places = ("p=a/q=1", "p=b/q=1", "p=__HIVE_DEFAULT_PARTITION__/q=2")
    for number, place in enumerate(places):
        write(root / place / "000000_0", range(10 * number, 10 * number + 3))
    session.sql("MSCK REPAIR TABLE t")
    convert(session)
    session.sql("ALTER TABLE t SET TBLPROPERTIES ('hivex.history.retention' = '1h')")
    first = int(str(session.sql("DESCRIBE HISTORY t LIMIT 1").rows[0][0]))
    session.sql("DELETE FROM t WHERE id = 10")
    session.sql("UPDATE t SET v = 'new' WHERE id = 20")
    changed = [("delete", 10, "v10", "b", 1), ("delete", 20, "v20", None, 2), ("insert", 20, "new", None, 2)]
    assert sorted((row[4], *row[:4]) for row in session.changes("t", since=first).rows) == changed
    found = rows(session, f"SELECT _change_type, id, v, p, q FROM t CHANGES FROM VERSION {first} EXCLUSIVE")
    assert sorted(found, key=str) == sorted(changed, key=str)


def test_versions_of_a_converted_table_stay_when_two_compactions_are_cleaned_together(
    session: Session, metastore: Metastore, root: Path
) -> None:
    create(session)
    write(root / "000000_0", range(3))
    convert(session)
    session.sql("ALTER TABLE t SET TBLPROPERTIES ('hivex.history.retention' = '1d')")
    version = session.sql("DESCRIBE HISTORY t LIMIT 1").rows[0][0]
    with metastore.session(user="slow") as slow:
        slow.sql("START TRANSACTION")
        slow.sql("INSERT INTO t VALUES (7, 'slow')")
        for _ in range(2):
            assert metastore.compactor.request("default", "t", None, "major").is_accepted
            assert metastore.compactor.work("host-1") is not None
            session.sql("INSERT INTO t VALUES (8, 'new')")
            if slow.txn_id is not None:
                slow.sql("COMMIT")
    metastore.compactor.clean()
    assert not (root / "000000_0").exists()
    assert rows(session, f"SELECT id FROM t VERSION AS OF {version} ORDER BY ALL") == [(0,), (1,), (2,)]
    assert session.to_arrow("t", version=int(str(version))).num_rows == 3
