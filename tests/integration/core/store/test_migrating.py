from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import text

from airflow_hivex.core.errors import (
    InvalidSettingError,
    NotAMetastoreError,
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


def test_older_database_names_the_command_that_upgrades_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    older = migrating.SchemaStatus("0001", "0002", known=True)
    monkeypatch.setattr(migrating, "status", lambda _store: older)
    with pytest.raises(StoreTooOldError, match=r"hivex --metastore '.*' metastore upgrade"):
        migrating.prepare(store)


def test_foreign_tables_of_our_names_are_left_alone(metastore_url: str) -> None:
    store = Store(metastore_url)
    store.write(lambda connection: connection.execute(text("CREATE TABLE partitions (id INTEGER)")))
    with pytest.raises(NotAMetastoreError):
        migrating.prepare(store)
    store.close()


def test_many_processes_may_open_a_new_database_at_once(metastore_url: str) -> None:
    def open_and_prepare(_: int) -> str:
        store = Store(metastore_url)
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


def test_unreachable_database_is_said_so_without_the_password() -> None:
    store = Store("postgresql://someone:secret@127.0.0.1:1/nothing")
    with pytest.raises(StoreUnavailableError) as caught:
        migrating.prepare(store)
    assert "127.0.0.1:1" in str(caught.value)
    assert "secret" not in str(caught.value)
