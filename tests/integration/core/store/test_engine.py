"""The metastore's database as it is opened."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import socket
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from sqlalchemy import Connection, delete, event, insert, select, text

from airflow_hivex.core.errors import InvalidSettingError, StoreRefusedError, StoreUnavailableError
from airflow_hivex.core.store import migrating
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.schema import counters


def test_a_new_file_is_its_owners_alone(empty_sqlite_url: str, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = Store(empty_sqlite_url)
        migrating.prepare(store)
        with store.read() as connection:
            connection.execute(select(counters)).all()
            files = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.glob("empty.db*")}
        store.close()
    finally:
        os.umask(before)
    assert files == {"empty.db": 0o600, "empty.db-wal": 0o600, "empty.db-shm": 0o600}


def test_the_mode_of_a_file_that_is_there_is_left_alone(sqlite_url: str) -> None:
    file = Path(sqlite_url.removeprefix("sqlite:///"))
    file.chmod(0o640)
    Store(sqlite_url).close()
    assert file.stat().st_mode & 0o777 == 0o640


def test_a_commit_is_on_disk_when_it_is_acknowledged(sqlite_url: str) -> None:
    found = []

    def look(connection: sqlite3.Connection, _record: object) -> None:
        found.append(connection.execute("PRAGMA synchronous").fetchone())

    store = Store(sqlite_url)
    # The store has made the connection ready then; the tests set it to another way when it is used.
    event.listen(store.engine, "connect", look)
    with store.read():
        pass
    store.close()
    # Source: https://www.sqlite.org/pragma.html#pragma_synchronous: 2 is FULL.
    assert found == [(2,)]


def test_a_file_that_is_deleted_or_replaced_takes_no_commit(empty_sqlite_url: str) -> None:
    file = Path(empty_sqlite_url.removeprefix("sqlite:///"))
    store = Store(empty_sqlite_url)
    migrating.prepare(store)
    try:
        add_counter(store, "one")
        aside = file.rename(file.with_name("aside.db"))
        with pytest.raises(StoreUnavailableError, match=r"empty\.db.*deleted while it was in use"):
            add_counter(store, "two")
        assert not file.exists()
        # A copy that was put back has another inode.
        shutil.copy(aside, file)
        add_counter(store, "three")
    finally:
        store.close()
    with closing(sqlite3.connect(file)) as connection:
        names = {name for (name,) in connection.execute("SELECT name FROM counters")}
    assert {"one", "three"} <= names
    assert "two" not in names


def test_server_that_does_not_answer_holds_no_thread_for_long(postgresql_url: str) -> None:
    def limits(url: str) -> list[str | None]:
        store = Store(url)
        try:
            with store.read() as connection:
                raw: Any = connection.connection.dbapi_connection
                found = raw.info.get_parameters()
        finally:
            store.close()
        return [found.get(name) for name in ("connect_timeout", "tcp_user_timeout", "keepalives_idle")]

    assert limits(postgresql_url) == ["10", "30000", "10"]
    joined = "&" if "?" in postgresql_url else "?"
    assert limits(f"{postgresql_url}{joined}connect_timeout=3") == ["3", "30000", "10"]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        store = Store(f"postgresql://hivex:secret@127.0.0.1:{port}/hivex?connect_timeout=1")
        with pytest.raises(StoreUnavailableError, match="timeout"), store.read():
            pass
        store.close()


@pytest.mark.parametrize("password", ["Xq@Zw", "@XqZw", "XqZw@", "X@q@Zw", "Xq/@Zw"])
def test_password_that_is_not_quoted_is_not_quoted_as_a_host(password: str) -> None:
    with pytest.raises(InvalidSettingError) as caught:
        Store(f"postgresql://hivex:{password}@127.0.0.1:1/hivex")
    assert not any(part in str(caught.value) for part in ("Xq", "Zw"))


def test_forked_process_has_a_connection_of_its_own(postgresql_url: str) -> None:
    def server_process() -> int:
        with store.read() as connection:
            return connection.execute(text("SELECT pg_backend_pid()")).scalar_one()

    context = multiprocessing.get_context("fork")
    store = Store(postgresql_url)
    try:
        own = server_process()
        answers = context.SimpleQueue()
        child = context.Process(target=lambda: answers.put((server_process(), store.close())))
        child.start()
        child.join()
        assert child.exitcode == 0
        (of_child, _) = answers.get()
        assert of_child != own
        # The child has not ended it either.
        assert server_process() == own
    finally:
        store.close()


@pytest.mark.parametrize("moment", ["after_cursor_execute", "commit"])
def test_interrupted_write_leaves_no_transaction(metastore_url: str, moment: str) -> None:
    def interrupt(*_: object) -> None:
        event.remove(store.engine, moment, interrupt)
        raise KeyboardInterrupt

    store, other = Store(metastore_url), Store(metastore_url)
    try:
        event.listen(store.engine, moment, interrupt)
        with pytest.raises(KeyboardInterrupt) as raised:
            add_counter(store, "one")
        # Neither is the file, or a row, locked, nor does the next commit take that of the other one along.
        add_counter(other, "one")
        add_counter(store, "two")
        with other.read() as connection:
            names = set(connection.execute(select(counters.c.name)).scalars())
    finally:
        store.close()
        other.close()
    assert {"one", "two"} <= names
    # Until here its traceback keeps what was open.
    assert raised.value.__traceback__ is not None


def add_counter(store: Store, name: str) -> None:
    added = insert(counters).values(name=name, value=1).returning(counters.c.name)
    store.write(lambda connection: connection.execute(added).all())


def test_clients_that_look_and_insert_at_once_see_each_others_rows(postgresql_url: str) -> None:
    clients = 4
    looked = Barrier(clients)

    def take(store: Store) -> tuple[int, int]:
        attempts = 0

        def work(connection: Connection) -> int:
            nonlocal attempts
            attempts += 1
            value = connection.execute(select(counters.c.value).where(counters.c.name == "shared")).scalar_one_or_none()
            if attempts == 1:
                looked.wait(60)
            # Deleted first, so that also those that look again may be overtaken.
            connection.execute(delete(counters).where(counters.c.name == "shared"))
            connection.execute(insert(counters).values(name="shared", value=(value or 0) + 1))
            return (value or 0) + 1

        return store.write(work), attempts

    stores = [Store(postgresql_url) for _ in range(clients)]
    try:
        with ThreadPoolExecutor(clients) as threads:
            found = list(threads.map(take, stores))
    finally:
        for store in stores:
            store.close()
    assert max(attempts for _, attempts in found) > 1


def test_a_row_that_is_there_already_is_refused(postgresql_url: str) -> None:
    store = Store(postgresql_url)
    try:
        add_counter(store, "one")
        with pytest.raises(StoreRefusedError, match="duplicate key"):
            add_counter(store, "one")
    finally:
        store.close()
