from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from airflow_hivex.core import Metastore
from airflow_hivex.core.errors import (
    HivexError,
    InvalidClusterPropertiesError,
    InvalidSettingError,
    NotAMetastoreError,
    StorePermissionError,
    StoreUnavailableError,
)

CLUSTERS = {"c1": {"filesystem": "file:///nowhere/c1", "jobtracker": "local[1]"}}


def sqlalchemy_url(url: str) -> str:
    return url.replace("postgresql://", "postgresql+psycopg://")


def tables_of(url: str) -> list[str]:
    engine = create_engine(sqlalchemy_url(url))
    query = (
        "SELECT name FROM sqlite_master"
        if engine.dialect.name == "sqlite"
        else "SELECT table_schema || '.' || table_name FROM information_schema.tables "
        "WHERE table_schema NOT IN ('pg_catalog', 'information_schema')"
    )
    with engine.connect() as connection:
        found = sorted(connection.execute(text(query)).scalars())
    engine.dispose()
    return found


def make_foreign(url: str) -> list[str]:
    engine = create_engine(sqlalchemy_url(url))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE dag_run (id INTEGER)"))
    engine.dispose()
    return tables_of(url)


def test_database_of_another_program_is_left_as_it_is(empty_metastore_url: str) -> None:
    before = make_foreign(empty_metastore_url)
    for open_it in (
        lambda: Metastore.open(empty_metastore_url, clusters=CLUSTERS),
        lambda: Metastore.upgrade(empty_metastore_url),
        lambda: Metastore.status(empty_metastore_url),
    ):
        with pytest.raises(NotAMetastoreError, match=r"tables of something else \(dag_run\).*empty"):
            open_it()
    assert tables_of(empty_metastore_url) == before


def test_file_of_another_program_keeps_its_journal(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'app.db'}"
    make_foreign(url)
    before = (tmp_path / "app.db").read_bytes()
    with pytest.raises(NotAMetastoreError):
        Metastore.open(url, clusters=CLUSTERS)
    assert (tmp_path / "app.db").read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["app.db"]


def test_a_schema_of_its_own_beside_other_tables_is_enough(empty_postgresql_url: str) -> None:
    make_foreign(empty_postgresql_url)
    url = f"{empty_postgresql_url}?options=-csearch_path%3Dhivex"
    with pytest.raises(StorePermissionError, match="CREATE SCHEMA"):
        Metastore.open(url, clusters=CLUSTERS)
    engine = create_engine(sqlalchemy_url(empty_postgresql_url))
    with engine.begin() as connection:
        connection.execute(text("CREATE SCHEMA hivex"))
    engine.dispose()
    with Metastore.open(url, clusters=CLUSTERS) as metastore:
        assert metastore.catalog.list_databases() == ["default"]
    assert [name for name in tables_of(empty_postgresql_url) if name.startswith("public.")] == ["public.dag_run"]


def test_a_check_creates_no_metastore(empty_metastore_url: str, tmp_path: Path) -> None:
    clusters = {"c1": {"filesystem": (tmp_path / "c1").as_uri(), "jobtracker": "local[1]"}}
    before = sorted(tmp_path.rglob("*"))
    database, cluster = Metastore.check(empty_metastore_url, clusters=clusters)
    assert database.passed
    assert "created when it is first used" in database.sentence
    assert cluster.passed
    assert sorted(tmp_path.rglob("*")) == before
    if empty_metastore_url.startswith("postgresql"):
        assert tables_of(empty_metastore_url) == []


def test_a_check_says_what_is_wrong_with_each_cluster(metastore_url: str, tmp_path: Path) -> None:
    (tmp_path / "good").mkdir()
    (tmp_path / "file").write_text("")
    clusters = {
        "good": {"filesystem": (tmp_path / "good").as_uri(), "jobtracker": "local[1]"},
        "remote": {"filesystem": (tmp_path / "r").as_uri(), "jobtracker": "spark://host:7077"},
        "file": {"filesystem": (tmp_path / "file").as_uri(), "jobtracker": "local[1]"},
        "unknown": {"filesystem": "nosuchscheme://bucket/x", "jobtracker": "local[1]"},
    }
    found = Metastore.check(metastore_url, clusters=clusters, default_cluster="good")
    assert [each.passed for each in found] == [True, True, False, False, False]
    assert "reachable and writable" in found[1].sentence
    for each, word in zip(found[2:], ("host:7077", "not a folder", "nosuchscheme"), strict=True):
        assert word in each.sentence
    assert list((tmp_path / "good").iterdir()) == []


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg", "postgresql+psycopg2"])
def test_postgresql_is_known_by_all_of_its_schemes(postgresql_url: str, scheme: str) -> None:
    url = f"{scheme}://{postgresql_url.partition('://')[2]}"
    with Metastore.open(url, clusters=CLUSTERS) as metastore:
        assert metastore.catalog.list_databases() == ["default"]


DEEP = '{"a":' * 100_000
HUGE_NUMBER = '{"c1": ' + "9" * 10_000 + "}"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("sqlite:///metastore.db", "relative"),
        ("sqlite:///./metastore.db", "relative"),
        ("sqlite:///:memory:", "give a file"),
        ("postgresql://user@host:notaport/db", "not a database URL"),
        ("postgresql://user@[::1/db", "not a database URL"),
        ("oracle://scott:tiger@host/db", "SQLite or PostgreSQL"),
        ("jdbc:postgresql://host/db", "not a database URL|SQLite or PostgreSQL"),
        ("\x00", "not a database URL"),
        ("sqlite:////tmp/a\x00b.db", "control"),
        ("", "not a database URL"),
    ],
)
def test_unusable_url_is_an_error_that_says_so(url: str, reason: str) -> None:
    with pytest.raises(InvalidSettingError, match=reason) as raised:
        Metastore.open(url, clusters=CLUSTERS)
    assert "tiger" not in str(raised.value)


@pytest.mark.parametrize("url", [None, b"sqlite:////x.db", 3, Path("/x.db")])
def test_url_that_is_no_text_is_refused(url: object) -> None:
    with pytest.raises(InvalidSettingError, match="text is expected"):
        Metastore.open(url, clusters=CLUSTERS)  # type: ignore[arg-type]


def test_unusable_files_are_errors_of_ours(tmp_path: Path) -> None:
    (tmp_path / "noise.db").write_bytes(b"this is not a database, and long enough to look at " * 100)
    (tmp_path / "folder.db").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name, error in (
        ("noise.db", NotAMetastoreError),
        ("folder.db", StoreUnavailableError),
        ("file/metastore.db", StoreUnavailableError),
        ("x" * 300, StoreUnavailableError),
        ("loop/metastore.db", StoreUnavailableError),
    ):
        with pytest.raises(error, match=name[:20]):
            Metastore.open(f"sqlite:///{tmp_path / name}", clusters=CLUSTERS)
    assert (tmp_path / "noise.db").read_bytes().startswith(b"this is not a database")


def test_damaged_metastore_is_an_error_of_ours(sqlite_url: str) -> None:
    file = Path(sqlite_url.removeprefix("sqlite:///"))
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    with file.open("r+b") as stream:
        stream.seek(4096)
        stream.write(os.urandom(40_000))
    with pytest.raises(HivexError):
        Metastore.open(sqlite_url, clusters=CLUSTERS)


@pytest.mark.parametrize("clusters", [DEEP, HUGE_NUMBER, "[" * 100_000, '{"c1": {"filesystem": "\ud800"}}', "{"])
def test_unreadable_descriptions_of_clusters_are_errors_of_ours(sqlite_url: str, clusters: str) -> None:
    with pytest.raises(InvalidClusterPropertiesError):
        Metastore.open(sqlite_url, clusters=clusters)


def test_server_that_refuses_says_why_without_the_password(postgresql_url: str) -> None:
    rest = postgresql_url.partition("://")[2].rpartition("@")[2]
    for url in (
        "postgresql://etl:hunter2-s3cret@127.0.0.1:1/hivex",
        "postgresql://127.0.0.1:1/hivex?user=etl&password=hunter2-s3cret",
        f"postgresql://unknown_name:hunter2-s3cret@{rest}",
    ):
        with pytest.raises(StoreUnavailableError) as raised:
            Metastore.open(url, clusters=CLUSTERS)
        assert "hunter2" not in str(raised.value)
