"""LOAD DATA: whose files, what becomes of them, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import (
    ColumnCountMismatchError,
    InvalidOperationError,
    LocationOutsideClusterError,
    NoSuchTableError,
    StatementSyntaxError,
    TypeMismatchError,
)

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)]


def rows(session: Session, sql: str) -> list[tuple[object, ...]]:
    return session.sql(sql).rows


def write(path: Path, **columns: list[object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {name: pa.array(values, pa.string() if values == [None] else None) for name, values in columns.items()}
    orc.write_table(pa.table(arrays), str(path))


@pytest.fixture
def t(session: Session) -> Session:
    session.sql("CREATE TABLE t (id bigint, v string)")
    session.sql("INSERT INTO t VALUES (0, 'old')")
    return session


def test_files_of_the_cluster_are_moved(t: Session, tmp_path: Path) -> None:
    folder = tmp_path / "c1" / "in, {coming}"
    write(folder / "a[1].orc", _col0=[1, 2], _col1=["a", "b"])
    write(folder / "b.orc", _col0=[3], _col1=[None])
    write(folder / "_hidden", _col0=[9], _col1=["hidden"])
    done = t.sql("LOAD DATA INPATH 'in, {coming}' INTO TABLE t")
    assert (done.rows_written, done.cluster) == (3, "c1")
    assert rows(t, "SELECT * FROM t ORDER BY id") == [(0, "old"), (1, "a"), (2, "b"), (3, None)]
    assert [path.name for path in folder.iterdir()] == ["_hidden"]
    t.sql("UPDATE t SET v = 'loaded' WHERE id = 3")
    assert rows(t, "SELECT v FROM t WHERE id = 3") == [("loaded",)]


def test_files_of_this_machine_are_copied(t: Session, tmp_path: Path) -> None:
    file = tmp_path / "elsewhere" / "x.orc"
    write(file, k=[7], w=["seven"])
    t.sql(f"LOAD DATA LOCAL INPATH '{file}' OVERWRITE INTO TABLE t")
    assert rows(t, "SELECT * FROM t") == [(7, "seven")]
    t.sql(f"LOAD DATA LOCAL INPATH '{file.parent}' INTO TABLE t")
    assert rows(t, "SELECT * FROM t") == [(7, "seven"), (7, "seven")]


def test_files_are_chosen_by_a_pattern(t: Session, tmp_path: Path) -> None:
    for name in ("a1", "a2", "b1", "c*"):
        write(tmp_path / "c1" / "in" / name, id=[len(name)], v=[name])
    t.sql("LOAD DATA INPATH 'in/a*' OVERWRITE INTO TABLE t")
    assert rows(t, "SELECT v FROM t ORDER BY v") == [("a1",), ("a2",)]
    with pytest.raises(InvalidOperationError, match=r"there are no files in in/a\?"):
        t.sql("LOAD DATA INPATH 'in/a?' INTO TABLE t")
    # A file of that very name comes first.
    t.sql("LOAD DATA INPATH 'in/c*' OVERWRITE INTO TABLE t")
    t.sql("LOAD DATA INPATH 'in/{b,d}[0-9]' INTO TABLE t")
    assert rows(t, "SELECT v FROM t ORDER BY v") == [("b1",), ("c*",)]


def test_partitions_are_named_or_stand_in_the_rows(t: Session, tmp_path: Path) -> None:
    t.sql("CREATE TABLE p (id bigint) PARTITIONED BY (ds string, hr int) CLUSTERED BY (id) INTO 2 BUCKETS")
    write(tmp_path / "c1" / "one" / "f", id=[1, 2])
    write(tmp_path / "c1" / "two" / "f", id=[3, 4], hr=[5, 6])
    write(tmp_path / "c1" / "three" / "f", id=[7], ds=["y"], hr=[8])
    t.sql("LOAD DATA INPATH 'one' INTO TABLE p PARTITION (ds = 'x', hr = 1)")
    t.sql("LOAD DATA INPATH 'two' INTO TABLE p PARTITION (ds = 'x')")
    t.sql("LOAD DATA INPATH 'three' INTO TABLE p")
    assert rows(t, "SELECT ds, hr, id FROM p ORDER BY ALL") == [
        ("x", 1, 1),
        ("x", 1, 2),
        ("x", 5, 3),
        ("x", 6, 4),
        ("y", 8, 7),
    ]


_TEXT = "INPUTFORMAT 'org.apache.hadoop.mapred.TextInputFormat' SERDE '{}'"
LAZY_SIMPLE = _TEXT.format("org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe")
JSON = _TEXT.format("org.apache.hive.hcatalog.data.JsonSerDe")
FILES = {
    "STORED AS TEXTFILE": ("a.txt", b"1\x01a\n2\x01\\N\n"),
    "ROW FORMAT DELIMITED FIELDS TERMINATED BY '|'": ("a.txt", b"1|a\n2|\\N\n"),
    "USING csv OPTIONS (header 'true')": ("a.csv", b'id,v\n1,"a"\n2,\\N\n'),
    "STORED AS JSONFILE": ("a.json", b'{"v": "a", "id": 1}\n{"id": 2}\n'),
}


@pytest.mark.evidence(cases=2)
@pytest.mark.parametrize("clause", FILES)
def test_files_of_each_format_are_loaded_from_anywhere(session: Session, tmp_path: Path, clause: str) -> None:
    name, content = FILES[clause]
    for folder in ("c1/in", "c2/in", "elsewhere"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / name).write_bytes(content)
    session.sql(f"CREATE TABLE t (id bigint, v string) {clause}")
    for source in ("INPATH 'in'", f"LOCAL INPATH '{tmp_path}/elsewhere/{name}'", f"INPATH 'file://{tmp_path}/c2/in'"):
        assert session.sql(f"LOAD DATA {source} OVERWRITE INTO TABLE t").rows_written == 2
        assert rows(session, "SELECT * FROM t ORDER BY id") == [(1, "a"), (2, None)]
    # Only those of the table's cluster are moved.
    assert [(tmp_path / folder / name).exists() for folder in ("c1/in", "c2/in", "elsewhere")] == [False, True, True]


def test_files_of_another_format_than_the_table_are_named(session: Session, tmp_path: Path) -> None:
    session.sql("CREATE TABLE p (id int, v string) PARTITIONED BY (ds string, hr int)")
    for name, content in {"one": b"1\x01a\n", "two": b"2\x01b\x015\n", "three": b"3\x01c\x01y\x016\n"}.items():
        (tmp_path / name).write_bytes(content)
    session.sql(f"LOAD DATA LOCAL INPATH '{tmp_path}/one' INTO TABLE p PARTITION (ds = 'x', hr = 1) {LAZY_SIMPLE}")
    session.sql(f"LOAD DATA LOCAL INPATH '{tmp_path}/two' INTO TABLE p PARTITION (ds = 'x', hr) {LAZY_SIMPLE}")
    session.sql(f"LOAD DATA LOCAL INPATH '{tmp_path}/three' INTO TABLE p {LAZY_SIMPLE}")
    (tmp_path / "four").write_bytes(b'{"v": "d", "id": 4, "hr": 7}\n')
    session.sql(f"LOAD DATA LOCAL INPATH '{tmp_path}/four' INTO TABLE p PARTITION (ds = 'x') {JSON}")
    assert rows(session, "SELECT id, v, ds, hr FROM p ORDER BY id") == [
        (1, "a", "x", 1),
        (2, "b", "x", 5),
        (3, "c", "y", 6),
        (4, "d", "x", 7),
    ]


def test_columns_of_parquet_files_are_found_by_name_or_else_by_place(session: Session, tmp_path: Path) -> None:
    session.sql("CREATE TABLE t (id bigint, v string) STORED AS PARQUET")
    parquet.write_table(pa.table({"V": ["a"], "ID": [1]}), tmp_path / "named")
    parquet.write_table(pa.table({"x": [2], "y": ["b"]}), tmp_path / "placed")
    for name in ("named", "placed"):
        session.sql(f"LOAD DATA LOCAL INPATH '{tmp_path}/{name}' INTO TABLE t")
    (tmp_path / "more").mkdir()
    parquet.write_table(pa.table({"id": [3], "v": ["c"]}), tmp_path / "more" / "a")
    parquet.write_table(pa.table({"id": [4], "v": ["d"], "w": ["not lost"]}), tmp_path / "more" / "b")
    with pytest.raises(ColumnCountMismatchError, match="not 3"):
        session.sql(f"LOAD DATA LOCAL INPATH '{tmp_path}/more' INTO TABLE t")
    assert rows(session, "SELECT * FROM t ORDER BY id") == [(1, "a"), (2, "b")]


@pytest.mark.parametrize("in_transaction", [False, True])
def test_file_that_is_written_meanwhile_is_refused(
    metastore_url: str, clusters: dict[str, dict[str, str]], tmp_path: Path, in_transaction: bool
) -> None:
    file = tmp_path / "c1" / "in" / "f.json"

    def write_on(point: str) -> None:
        if point == "while writing" and file.exists():
            with file.open("ab") as data:
                data.write(b'{"id": 2}\n')

    with (
        Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", fault=write_on) as metastore,
        metastore.session() as session,
    ):
        session.sql("CREATE TABLE t (id bigint) STORED AS JSONFILE")
        file.parent.mkdir(parents=True)
        file.write_bytes(b'{"id": 1}\n')
        if in_transaction:
            session.sql("START TRANSACTION")
        with pytest.raises(InvalidOperationError, match=r"file f\.json of in was changed while it was read"):
            session.sql("LOAD DATA INPATH 'in' INTO TABLE t")
        if in_transaction:
            session.sql("COMMIT")
        assert rows(session, "SELECT * FROM t") == []
        assert file.exists()
        assert not [path for path in (tmp_path / "c1" / "default.db").rglob("*") if path.name.endswith("_0")]


def test_folders_beyond_the_clusters_may_be_closed(
    metastore_url: str, clusters: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    for folder in ("open", "closed"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "f").write_text("a\n")
    (tmp_path / "open" / "link").symlink_to(tmp_path / "closed" / "f")
    settings = {"hivex.load.paths": str(tmp_path / "open")}
    with (
        Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", settings=settings) as metastore,
        metastore.session() as session,
    ):
        session.sql("CREATE TABLE t (v string) USING text")
        for path in (f"LOCAL INPATH '{tmp_path}/closed/f'", f"INPATH 'file://{tmp_path}/closed'", "LOCAL INPATH '/'"):
            with pytest.raises(InvalidOperationError, match=r"hivex\.load\.paths"):
                session.sql(f"LOAD DATA {path} INTO TABLE t")
        with pytest.raises(InvalidOperationError, match=r"hivex\.load\.paths"):
            session.sql(f"LOAD DATA LOCAL INPATH '{tmp_path}/open/link' INTO TABLE t")
        session.sql(f"LOAD DATA LOCAL INPATH '{tmp_path}/open/f' INTO TABLE t")
        assert rows(session, "SELECT * FROM t") == [("a",)]


def test_links_lead_neither_to_tables_nor_out_of_the_cluster(t: Session, tmp_path: Path) -> None:
    """Files below the root of the cluster are deleted when they are loaded, which must never be those of a table."""
    t.sql("CREATE TABLE other (id bigint, v string)")
    t.sql("INSERT INTO other VALUES (1, 'kept')")
    (file,) = (tmp_path / "c1" / "default.db" / "other").rglob("bucket_*")
    write(tmp_path / "outside" / "f", id=[9], v=["secret"])
    landing = tmp_path / "c1" / "in"
    for folder in ("file", "beyond"):
        (landing / folder).mkdir(parents=True)
    (landing / "folder").symlink_to(file.parent)
    (landing / "file" / "f").symlink_to(file)
    (landing / "beyond" / "f").symlink_to(tmp_path / "outside" / "f")
    for path in ("in/folder", "in/file", "in/file/f"):
        with pytest.raises(InvalidOperationError, match=r"leads to .* belongs to table default\.other"):
            t.sql(f"LOAD DATA INPATH '{path}' INTO TABLE t")
        with pytest.raises(InvalidOperationError, match=r"belongs to table default\.other"):
            t.sql(f"LOAD DATA LOCAL INPATH '{tmp_path}/c1/{path}' INTO TABLE t")
    with pytest.raises(InvalidOperationError, match="out of the root of its cluster"):
        t.sql("LOAD DATA INPATH 'in/beyond' INTO TABLE t")
    assert t.to_arrow("t").num_rows == t.to_arrow("other").num_rows == 1


def test_a_file_that_changes_after_the_commit_stays(
    metastore_url: str, clusters: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    landing = tmp_path / "c1" / "in"

    def replace_file(point: str) -> None:
        if point == "after commit" and (landing / "a").exists():
            (landing / "a").write_text("second\n")

    with (
        Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", fault=replace_file) as metastore,
        metastore.session() as session,
    ):
        session.sql("CREATE TABLE t (v string) STORED AS TEXTFILE")
        landing.mkdir(parents=True)
        for name in ("a", ".a.crc", "b", ".b.crc"):
            (landing / name).write_text("first\n")
        session.sql("LOAD DATA INPATH 'in' INTO TABLE t")
        assert rows(session, "SELECT * FROM t") == [("first",), ("first",)]
        assert sorted(path.name for path in landing.iterdir()) == [".a.crc", "a"]
        session.sql("LOAD DATA INPATH 'in' INTO TABLE t")
        assert ("second",) in rows(session, "SELECT * FROM t")


class KilledError(BaseException):
    """Stands for the death of a process: nothing of the statement goes on."""


def test_a_file_is_loaded_once_even_if_processes_come_or_die(
    metastore: Metastore, metastore_url: str, clusters: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    file = tmp_path / "c1" / "in" / "f"
    refused: list[str] = []

    def at(point: str) -> None:
        if not file.exists() or len(refused) > 1:
            return
        if point == "after take files" and not refused:
            # Another client loads the same file meanwhile.
            with pytest.raises(InvalidOperationError) as error, metastore.session() as other:
                other.sql("LOAD DATA INPATH 'in/f' INTO TABLE t")
            refused.append(str(error.value))
        if point == "after commit":
            raise KilledError

    with metastore.session() as session:
        session.sql("CREATE TABLE t (id bigint)")
        write(file, id=[1])
        with (
            Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", fault=at) as dying,
            dying.session() as killed,
            pytest.raises(KilledError),
        ):
            killed.sql("LOAD DATA INPATH 'in' INTO TABLE t")
        assert file.exists()
        with pytest.raises(InvalidOperationError) as error:
            session.sql("LOAD DATA INPATH 'in' INTO TABLE t")
        refused.append(str(error.value))
        for text, reason in zip(refused, ("loads in/f at the same time", "has loaded in/f"), strict=True):
            assert reason in text
        assert not file.exists()
        assert rows(session, "SELECT * FROM t") == [(1,)]


def test_a_transaction_may_be_rolled_back(t: Session, tmp_path: Path) -> None:
    file = tmp_path / "c1" / "in" / "f"
    write(file, id=[1], v=["a"])
    t.sql("START TRANSACTION")
    t.sql("LOAD DATA INPATH 'in' INTO TABLE t")
    assert len(rows(t, "SELECT * FROM t")) == 2
    t.sql("ROLLBACK")
    assert rows(t, "SELECT * FROM t") == [(0, "old")]
    assert file.exists()


@pytest.mark.parametrize(
    ("statement", "error", "reason"),
    [
        ("LOAD DATA INPATH 'nothing' INTO TABLE t", InvalidOperationError, "no files in nothing"),
        ("LOAD DATA INPATH 'deep' INTO TABLE t", InvalidOperationError, "subdirectories"),
        ("LOAD DATA INPATH 'default.db/t' INTO TABLE t", InvalidOperationError, r"belongs to table default\.t"),
        ("LOAD DATA INPATH 'default.db' INTO TABLE t", InvalidOperationError, r"belongs to table default\.t"),
        ("LOAD DATA INPATH '/etc' INTO TABLE t", LocationOutsideClusterError, "c1"),
        ("LOAD DATA INPATH '../x' INTO TABLE t", LocationOutsideClusterError, "c1"),
        ("LOAD DATA INPATH 'deep/er' INTO TABLE t", ColumnCountMismatchError, "2"),
        ("LOAD DATA INPATH 'types' INTO TABLE t", TypeMismatchError, "id"),
        ("LOAD DATA INPATH 'text' INTO TABLE t", InvalidOperationError, "text holds files that are not ORC"),
        ("LOAD DATA INPATH 'types' INTO TABLE nowhere", NoSuchTableError, "nowhere"),
        ("LOAD DATA INPATH 'types' INTO TABLE w", InvalidOperationError, "it is a view"),
        ("LOAD DATA INTO TABLE t", StatementSyntaxError, "INPATH"),
        (
            "LOAD DATA LOCAL INPATH '{c1}/default.db/t' INTO TABLE t",
            InvalidOperationError,
            r"belongs to table default\.t",
        ),
        ("LOAD DATA INPATH 'file:///../x' INTO TABLE t", LocationOutsideClusterError, "c1"),
        ("LOAD DATA INPATH 'types' INTO TABLE t PARTITION (p)", InvalidOperationError, "no partition keys"),
    ],
)
def test_what_cannot_be_loaded_is_refused(
    t: Session, tmp_path: Path, statement: str, error: type[Exception], reason: str
) -> None:
    t.sql("CREATE VIEW w AS SELECT * FROM t")
    write(tmp_path / "c1" / "deep" / "er" / "f", id=[1])
    write(tmp_path / "c1" / "types" / "f", id=["text"], v=["text"])
    text = tmp_path / "c1" / "text" / "f"
    text.parent.mkdir()
    text.write_text("id,v\n1,a\n")
    with pytest.raises(error, match=reason):
        t.sql(statement.replace("{c1}", str(tmp_path / "c1")))
    assert rows(t, "SELECT * FROM t") == [(0, "old")]
    assert text.exists()
    assert rows(t, "SHOW LOCKS") == []
