from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import text

from airflow_hivex.core.errors import (
    InvalidSettingError,
    NotAMetastoreError,
    StoreDriverMissingError,
    StoreRefusedError,
    StoreTooNewError,
    StoreTooOldError,
    StoreUnavailableError,
)
from airflow_hivex.core.store import migrating
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.schema import metadata


def _set_revision(store: Store, revision: str) -> None:
    store.write(
        lambda connection: connection.execute(
            text(f"UPDATE {migrating.VERSION_TABLE} SET version_num = :revision"), {"revision": revision}
        )
    )


def test_new_database_gets_exactly_the_declared_schema(store: Store) -> None:
    with store.read() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": migrating.VERSION_TABLE})
        assert compare_metadata(context, metadata) == []
    assert migrating.status(store).state == "current"


def test_newer_database_is_refused(store: Store) -> None:
    _set_revision(store, "9999")
    with pytest.raises(StoreTooNewError, match=r"9999.*Upgrade airflow-provider-hivex"):
        migrating.prepare(store)
    with pytest.raises(StoreTooNewError):
        migrating.upgrade(store)


_NEXT_RELEASE = """
import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade():
    recreate = "always" if op.get_bind().dialect.name == "sqlite" else "never"
    for table in ("tables", "partitions"):
        with op.batch_alter_table(table, recreate=recreate, table_kwargs={"sqlite_autoincrement": True}) as batch:
            batch.add_column(sa.Column("added", sa.Text(), server_default="new"))
"""


@pytest.fixture
def store_of_this_release(empty_metastore_url: str) -> Iterator[Store]:
    store = Store(empty_metastore_url)
    migrating.prepare(store)
    yield store
    store.close()


@pytest.fixture
def next_release(store_of_this_release: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A database of this release, in a release whose schema has a column more."""
    shutil.copytree(migrating.MIGRATIONS, tmp_path / "migrations")
    (tmp_path / "migrations" / "versions" / "0002_next.py").write_text(_NEXT_RELEASE)
    monkeypatch.setattr(migrating, "MIGRATIONS", tmp_path / "migrations")
    return store_of_this_release


def test_database_of_an_earlier_release_names_the_command_that_upgrades_it(next_release: Store) -> None:
    with pytest.raises(StoreTooOldError, match=r"0001.*hivex --metastore '.*' metastore upgrade"):
        migrating.prepare(next_release)
    assert migrating.upgrade(next_release).found == "0001"
    migrating.prepare(next_release)
    assert migrating.upgrade(next_release).found == migrating.status(next_release).head == "0002"


def test_upgrade_keeps_tables_that_are_made_anew(next_release: Store) -> None:
    store = next_release

    def change(*statements: str) -> None:
        store.write(lambda connection: [connection.execute(text(each)) for each in statements])

    table = (
        "INSERT INTO tables (id, database_id, name, type, storage_descriptor_id, primary_cluster, location, "
        "partition_keys, parameters, created_ms, dropped) VALUES ({}, 1, 't', 'MANAGED_TABLE', 1, 'c1', 'd/t', '[]', "
        "'{{}}', 1, {})"
    )
    partition = (
        "INSERT INTO partitions (id, table_id, name, location, parameters, created_ms, dropped) "
        "VALUES (8, 7, 'p=1', 'd/t/p=1', '{}', 1, false)"
    )
    change(
        "INSERT INTO storage_descriptors (id, columns, format, serde_parameters, num_buckets, bucket_columns, "
        "sort_columns) VALUES (1, '[]', 'orc', '{}', -1, '[]', '[]')",
        table.format(7, "false"),
        partition,
        "INSERT INTO partition_key_values (partition_id, position, table_id, value) VALUES (8, 0, 7, '1')",
    )
    assert migrating.upgrade(store).found == "0001"
    with store.read() as connection:
        query = "SELECT t.name, p.name, p.added FROM tables t JOIN partitions p ON p.table_id = t.id WHERE p.id = 8"
        assert [tuple(row) for row in connection.execute(text(query))] == [("t", "p=1", "new")]
    # Names are given once among what is not dropped, and nothing is deleted that others name.
    with pytest.raises(StoreRefusedError):
        change(table.format(9, "false"))
    change(table.format(9, "true"))
    with pytest.raises(StoreRefusedError):
        change("DELETE FROM partitions WHERE id = 8")


def test_foreign_tables_of_our_names_are_left_alone(empty_metastore_url: str) -> None:
    store = Store(empty_metastore_url)
    store.write(lambda connection: connection.execute(text("CREATE TABLE partitions (id INTEGER)")))
    with pytest.raises(NotAMetastoreError):
        migrating.prepare(store)
    store.close()


def test_many_processes_may_open_a_new_database_at_once(empty_metastore_url: str) -> None:
    def open_and_prepare(_: int) -> str:
        store = Store(empty_metastore_url)
        try:
            migrating.prepare(store)
            return migrating.status(store).state
        finally:
            store.close()

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(open_and_prepare, range(8))) == {"current"}


@pytest.mark.parametrize("url", ["mysql://localhost/x", "nonsense", "sqlite://", ""])
def test_url_of_no_usable_database_is_refused(url: str) -> None:
    with pytest.raises(InvalidSettingError):
        Store(url)


def test_postgresql_without_its_driver_says_which_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreDriverMissingError, match=r"pip install 'airflow-provider-hivex\[postgresql\]'"):
        Store("postgresql://someone:secret@127.0.0.1:1/nothing")


def test_unreachable_database_is_said_so_without_the_password() -> None:
    store = Store("postgresql://someone:secret@127.0.0.1:1/nothing")
    with pytest.raises(StoreUnavailableError) as caught:
        migrating.prepare(store)
    assert "127.0.0.1:1" in str(caught.value)
    assert "secret" not in str(caught.value)
