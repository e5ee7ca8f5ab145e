"""Exchanges: several statements in one round trip, done as a whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from sqlalchemy import BigInteger, Connection, String, bindparam, func, insert, select, text, update

from airflow_hivex.core.errors import InvalidTextError, StoreRefusedError
from airflow_hivex.core.store import migrating
from airflow_hivex.core.store.engine import OutcomeUnknownError, Store
from airflow_hivex.core.store.exchange import Exchange, Prepared, joined
from airflow_hivex.core.store.schema import counters
from tests.postgresql_proxy import COMMITTED, PostgresqlProxy

_INSERT = Prepared(
    insert(counters).values(name=bindparam("name", type_=String), value=bindparam("value", type_=BigInteger)).inline()
)
_ADD = Prepared(
    update(counters).where(counters.c.name == bindparam("of", type_=String)).values(value=counters.c.value + 1)
)
_FIND = Prepared(select(counters.c.name, counters.c.value).where(counters.c.name == bindparam("name", type_=String)))
_PID = Prepared(select(func.pg_backend_pid()))
_SETTING = Prepared(select(func.current_setting(bindparam("name", type_=String))))


@pytest.fixture
def store(metastore_url: str) -> Iterator[Store]:
    store = Store(metastore_url)
    migrating.prepare(store)
    yield store
    store.close()


def find(store: Store, name: str) -> list[tuple[object, ...]]:
    return store.exchange(lambda exchange: exchange.send(_FIND(name=name))[0])


def test_statements_see_those_before_them_and_are_committed_together(store: Store) -> None:
    def work(exchange: Exchange) -> list[tuple[object, ...]]:
        *_, found = exchange.finish(_INSERT(name="grün", value=2**40), _ADD(of="grün"), _FIND(name="grün"))
        return found

    assert store.exchange(work) == [("grün", 2**40 + 1)] == find(store, "grün")


def test_work_that_does_not_finish_its_exchange_is_committed_too(store: Store) -> None:
    store.exchange(lambda exchange: exchange.send(_INSERT(name="own", value=1)))
    assert find(store, "own") == [("own", 1)]


def test_failing_statement_undoes_those_before_it(store: Store) -> None:
    for _ in range(2):
        with pytest.raises(StoreRefusedError):
            store.exchange(lambda exchange: exchange.finish(_INSERT(name="a", value=1), _INSERT(name="a", value=2)))
    assert find(store, "a") == []
    store.exchange(lambda exchange: exchange.finish(_INSERT(name="a", value=3)))
    assert find(store, "a") == [("a", 3)]


def test_exception_between_two_round_trips_undoes_the_first(store: Store) -> None:
    def work(exchange: Exchange) -> None:
        exchange.send(_INSERT(name="a", value=1))
        raise KeyError

    with pytest.raises(KeyError):
        store.exchange(work)
    assert find(store, "a") == []


def test_joined_exchange_is_part_of_its_transaction(store: Store) -> None:
    def work(connection: Connection) -> None:
        joined(connection).finish(_INSERT(name="a", value=1))
        assert connection.execute(select(counters.c.value).where(counters.c.name == "a")).scalar_one() == 1
        raise KeyError

    with pytest.raises(KeyError):
        store.write(work)
    assert find(store, "a") == []


def test_more_statements_than_buffers_hold_go_in_one_exchange(store: Store) -> None:
    names = [f"{number:032}" for number in range(5_000)]
    store.exchange(lambda exchange: exchange.finish(*(_INSERT(name=name, value=1) for name in names)))
    found = store.exchange(lambda exchange: exchange.send(*(_FIND(name=name) for name in names)))
    assert found == [[(name, 1)] for name in names]


def test_threads_that_wait_for_one_row_do_not_keep_each_other_from_running(store: Store) -> None:
    store.exchange(lambda exchange: exchange.finish(_INSERT(name="a", value=0)))

    def work(exchange: Exchange) -> None:
        exchange.send(_ADD(of="a"))
        exchange.finish(_ADD(of="a"))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: store.exchange(work), range(40)))
    assert find(store, "a") == [("a", 80)]


def test_connection_that_was_lost_while_idle_is_replaced(postgresql_url: str) -> None:
    store, other = Store(postgresql_url), Store(postgresql_url)
    migrating.prepare(store)
    (((pid,),),) = store.exchange(lambda exchange: exchange.send(_PID()))
    with other.read() as connection:
        # Waits until the server process has ended.
        assert connection.execute(text(f"SELECT pg_terminate_backend({pid}, 10000)")).scalar_one()
    (((new,),),) = store.exchange(lambda exchange: exchange.send(_PID()))
    assert new != pid
    store.close()
    other.close()


def test_work_is_repeated_when_its_connection_is_lost_before_the_commit(postgresql_url: str) -> None:
    store, other = Store(postgresql_url), Store(postgresql_url)
    migrating.prepare(store)
    lost: list[int] = []

    def work(exchange: Exchange) -> None:
        _, ((pid,),) = exchange.send(_INSERT(name="a", value=1), _PID())
        if not lost:
            lost.append(pid)
            with other.read() as connection:
                assert connection.execute(text(f"SELECT pg_terminate_backend({pid}, 10000)")).scalar_one()
            exchange.send(_ADD(of="a"))
        exchange.finish(_ADD(of="a"))

    store.exchange(work)
    assert find(store, "a") == [("a", 2)]
    store.close()
    other.close()


def test_connection_that_is_lost_right_after_the_commit_is_not_used_again(
    postgresql_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with PostgresqlProxy(postgresql_url) as proxy:
        store = Store(proxy.url)
        migrating.prepare(store)
        store.exchange(lambda exchange: exchange.finish(_PID()))
        proxy.cut_after(COMMITTED)
        store.exchange(lambda exchange: exchange.finish(_INSERT(name="a", value=1)))
        assert proxy.cuts == 1
        assert find(store, "a") == [("a", 1)]
        # The pool reports a failure, with a traceback, of a connection that it cannot make ready for others.
        assert caplog.records == []
        store.close()


def test_commit_whose_answer_is_lost_has_an_unknown_outcome(postgresql_url: str) -> None:
    with PostgresqlProxy(postgresql_url) as proxy:
        store = Store(proxy.url)
        migrating.prepare(store)
        proxy.cut_before(COMMITTED)
        with pytest.raises(OutcomeUnknownError):
            store.exchange(lambda exchange: exchange.finish(_INSERT(name="a", value=1)))
        assert proxy.cuts == 1
        # Here it was applied. A repeated attempt would insert it twice.
        assert find(store, "a") == [("a", 1)]
        store.close()


def test_prepared_statements_that_a_pooler_forgot_are_prepared_again(postgresql_url: str) -> None:
    store = Store(postgresql_url)
    migrating.prepare(store)
    store.exchange(lambda exchange: exchange.finish(_INSERT(name="a", value=1)))
    with store.read() as connection:
        connection.execute(text("DEALLOCATE ALL"))
    store.exchange(lambda exchange: exchange.finish(_INSERT(name="b", value=1)))
    assert find(store, "b") == [("b", 1)]
    store.close()


def test_statement_without_an_index_is_not_compiled(postgresql_url: str) -> None:
    store = Store(postgresql_url)
    settings = ("enable_seqscan", "jit")
    found = store.exchange(lambda exchange: exchange.send(*(_SETTING(name=name) for name in settings)))
    assert found == [[("off",)], [("off",)]]
    with store.read() as connection:
        kept = [connection.execute(text(f"SHOW {name}")).scalar_one() for name in settings]
    assert kept == ["on", "on"]
    store.close()


def test_threads_keep_their_connections(postgresql_url: str) -> None:
    store = Store(postgresql_url)
    meet = Barrier(12)

    def ask(_: int) -> object:
        def both(exchange: Exchange) -> object:
            meet.wait(30)
            return exchange.send(_PID())[0][0][0]

        return store.exchange(both)

    with ThreadPoolExecutor(12) as threads:
        first, second = (set(threads.map(ask, range(12))) for _ in range(2))
    store.close()
    assert len(first) == 12
    assert second == first


def test_text_that_postgresql_cannot_hold_is_refused(postgresql_url: str) -> None:
    store = Store(postgresql_url)
    migrating.prepare(store)
    with pytest.raises(InvalidTextError, match="NUL"):
        store.exchange(lambda exchange: exchange.finish(_INSERT(name="c", value=1), _INSERT(name="a\0b", value=1)))
    assert find(store, "c") == []
    store.close()
