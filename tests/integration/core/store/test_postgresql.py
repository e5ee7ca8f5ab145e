"""Connections to PostgreSQL: BEGIN and postponed statements cost no round trip, and no promise."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from sqlalchemy import (
    JSON,
    BigInteger,
    Connection,
    String,
    bindparam,
    delete,
    func,
    insert,
    literal,
    null,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from airflow_hivex.core.errors import StoreRefusedError
from airflow_hivex.core.store.engine import OutcomeUnknownError, Store
from airflow_hivex.core.store.exchange import Prepared, joined, later
from airflow_hivex.core.store.schema import counters
from tests.postgresql_proxy import COMMITTED, CountingProxy, PostgresqlProxy, described

_VALUE = select(counters.c.value).where(counters.c.name == "a")
_INSERT = insert(counters).values(name="a", value=1)
_ADD = update(counters).where(counters.c.name == "a").values(value=counters.c.value + 1)
_FIND = Prepared(select(counters.c.value).where(counters.c.name == bindparam("name", type_=String)))
_PUT = Prepared(
    insert(counters).values(name=bindparam("name", type_=String), value=bindparam("value", type_=BigInteger)).inline()
)

_OF_MANY_TYPES = select(
    func.sum(counters.c.value).label("total"),
    literal({"a": [1]}, JSON).label("document"),
    null().label("nothing"),
    literal(True).label("flag"),
    literal("grün").label("text"),
)


@pytest.fixture
def proxy(postgresql_url: str) -> Iterator[CountingProxy]:
    with CountingProxy(postgresql_url) as proxy:
        yield proxy


@pytest.fixture
def store(proxy: CountingProxy) -> Iterator[Store]:
    store = Store(proxy.url)
    read(store)
    yield store
    store.close()


def read(store: Store) -> int | None:
    with store.read() as connection:
        return connection.execute(_VALUE).scalar_one_or_none()


def test_new_connection_sets_its_limits_and_asks_nothing(proxy: CountingProxy) -> None:
    store = Store(proxy.url)
    with proxy.counted() as trips:
        read(store)
    store.close()
    # The connection, its limits, and the reading.
    assert len(trips) == 3, described(trips)


def test_begin_goes_with_the_first_statement(store: Store, proxy: CountingProxy) -> None:
    def work(connection: Connection) -> int:
        connection.execute(_INSERT)
        return int(connection.execute(_VALUE).scalar_one())

    with proxy.counted() as trips:
        assert store.write(work) == 1
    assert len(trips) == 3, described(trips)
    assert trips[0][0].startswith("BEGIN ISOLATION LEVEL READ COMMITTED; ")
    assert "INSERT INTO counters" in trips[0][0]


def test_write_of_one_statement_takes_one_round_trip(store: Store, proxy: CountingProxy) -> None:
    with proxy.counted() as trips:
        assert store.write_one(lambda connection: connection.execute(_INSERT).rowcount) == 1
        assert store.write_one(lambda connection: connection.execute(_ADD.returning(counters.c.value)).scalar()) == 2
    assert len(trips) == 2, described(trips)
    assert read(store) == 2


def test_write_of_no_statement_commits_no_later_one(store: Store) -> None:
    def fail(connection: Connection) -> None:
        connection.execute(_INSERT)
        raise KeyError

    store.write_one(lambda _: None)
    with pytest.raises(KeyError):
        store.write(fail)
    assert read(store) is None


def test_transaction_of_many_rows_begins_too(store: Store) -> None:
    def work(connection: Connection) -> None:
        connection.execute(insert(counters), [{"name": name, "value": 1} for name in "abc"])
        raise KeyError

    with pytest.raises(KeyError):
        store.write(work)
    assert read(store) is None


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ"])
def test_transaction_has_its_isolation_level(store: Store, level: str) -> None:
    found = select(func.current_setting("transaction_isolation"))
    if level == "READ COMMITTED":
        assert store.write(lambda connection: connection.execute(found).scalar_one()) == level.lower()
        return
    with store.read_together() as connection:
        (rows,) = joined(connection).send(_FIND(name="a"))
        store.write(lambda own: own.execute(_INSERT))
        assert rows == []
        assert connection.execute(_VALUE).all() == []
        assert connection.execute(found).scalar_one() == level.lower()


def test_postponed_changes_travel_with_commit_in_their_order(store: Store, proxy: CountingProxy) -> None:
    def work(connection: Connection) -> None:
        later(connection, _INSERT)
        later(connection, _ADD)
        joined(connection).later(_PUT(name="b", value=5))
        later(connection, delete(counters).where(counters.c.name == "b"))

    with proxy.counted() as trips:
        store.write(work)
    assert len(trips) == 1, described(trips)
    assert read(store) == 2
    with store.read() as connection:
        assert connection.execute(select(counters.c.name).where(counters.c.name == "b")).all() == []


def test_next_statement_sees_postponed_changes(store: Store, proxy: CountingProxy) -> None:
    def work(connection: Connection) -> list[object]:
        later(connection, insert(counters), [{"name": name, "value": 7} for name in "ab"])
        found = connection.execute(_VALUE).scalar_one()
        later(connection, _ADD)
        (rows,) = joined(connection).send(_FIND(name="a"))
        return [found, rows]

    with proxy.counted() as trips:
        assert store.write(work) == [7, [(8,)]]
    assert len(trips) == 3, described(trips)


def test_error_of_a_postponed_change_undoes_all(store: Store) -> None:
    def work(connection: Connection) -> None:
        later(connection, _INSERT)
        later(connection, _INSERT)

    with pytest.raises(StoreRefusedError, match="duplicate key"):
        store.write(work)
    assert read(store) is None


def test_exception_forgets_postponed_changes(store: Store) -> None:
    def work(connection: Connection) -> None:
        later(connection, _INSERT)
        raise KeyError

    with pytest.raises(KeyError):
        store.write(work)
    store.write(lambda connection: later(connection, delete(counters).where(counters.c.name == "unknown")))
    assert read(store) is None


def test_failing_check_of_a_postponed_question_undoes_all(store: Store) -> None:
    def refuse(rows: list[tuple[object, ...]]) -> None:
        raise LookupError(rows)

    def work(connection: Connection) -> None:
        later(connection, _INSERT)
        joined(connection).later(_FIND(name="a"), check=refuse)
        # This error comes after that of the check.
        later(connection, _INSERT)

    with pytest.raises(LookupError, match="1"):
        store.write(work)
    assert read(store) is None


def fail_within_savepoint(connection: Connection) -> None:
    with connection.begin_nested():
        connection.execute(_ADD)
        connection.execute(_INSERT)


def test_next_statement_takes_a_check_with_it(store: Store, proxy: CountingProxy) -> None:
    checked = []

    def work(connection: Connection) -> list[object]:
        later(connection, _INSERT)
        joined(connection).later(_FIND(name="a"), check=checked.append)
        found = connection.execute(_OF_MANY_TYPES).one()
        joined(connection).later(_FIND(name="a"), check=checked.append)
        return [found, connection.execute(_ADD).rowcount]

    with proxy.counted() as trips:
        found, count = store.write(work)
    assert len(trips) == 3, described(trips)
    assert checked == [[(1,)], [(1,)]]
    assert count == 1
    with store.read() as connection:
        total, *others = connection.execute(_OF_MANY_TYPES).one()
    assert found == (total - 1, *others)


def test_savepoint_undoes_its_own_statements_only(store: Store, proxy: CountingProxy) -> None:
    def work(connection: Connection) -> None:
        connection.execute(_INSERT)
        with pytest.raises(IntegrityError):
            fail_within_savepoint(connection)
        with connection.begin_nested():
            connection.execute(_ADD)

    with proxy.counted() as trips:
        store.write(work)
    assert read(store) == 2
    # The savepoints themselves: one ROLLBACK.
    assert len(trips) == 4 + 1 + 1, described(trips)


def test_commit_with_postponed_changes_whose_answer_is_lost_has_an_unknown_outcome(postgresql_url: str) -> None:
    with PostgresqlProxy(postgresql_url) as proxy:
        store = Store(proxy.url)
        read(store)
        proxy.cut_before(COMMITTED)
        with pytest.raises(OutcomeUnknownError):
            store.write(lambda connection: later(connection, _INSERT))
        assert proxy.cuts == 1
        assert read(store) == 1
        store.close()


def test_many_connections_of_one_process_postpone_apart(store: Store) -> None:
    def work(connection: Connection) -> None:
        later(connection, _INSERT)
        assert read(store) is None
        with psycopg.connect(store.url.set(drivername="postgresql").render_as_string(hide_password=False)) as other:
            assert other.execute("SELECT count(*) FROM counters WHERE name = 'a'").fetchone() == (0,)

    store.write(work)
    assert read(store) == 1
