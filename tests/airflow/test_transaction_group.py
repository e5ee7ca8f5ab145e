"""All that the tasks of a group write becomes visible at once, or nothing ever does.

The outcomes are those of ``docs/how-to/transactions-over-tasks.md``.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG, TaskGroup, task, task_group
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_hivex.core.errors import TransactionAbortedError
from airflow_hivex.core.model.transactions import Operation, TxnState
from airflow_hivex.hooks.hivex import HivexHook
from airflow_hivex.operators.query import HivexQueryOperator
from airflow_hivex.operators.transaction import (
    HivexAbortOperator,
    HivexBeginOperator,
    HivexCommitOperator,
    HivexTransaction,
)
from tests.airflow.runs import clear, context, create_run, events_of, go_on, kill_at, mark, states, tries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow.models.dagrun import DagRun

    from airflow_hivex.core.metastore import Metastore

pytestmark = [pytest.mark.airflow, pytest.mark.spark]

GROUP = ("load.begin", "load.one", "load.two", "load.commit", "load.abort")
QUICK = {"retries": 2, "retry_delay": timedelta(0)}


@pytest.fixture
def metastore(warehouse: dict[str, Any]) -> Metastore:
    """The tables orders on c1 and lines on c2."""
    metastore = HivexHook().get_metastore()
    for table, cluster in (("orders", "c1"), ("lines", "c2")):
        with metastore.session(cluster=cluster) as session:
            session.sql(f"CREATE TABLE {table} (id INT) TBLPROPERTIES ('transactional' = 'true')")
    return metastore


def ids(metastore: Metastore, table: str) -> list[int]:
    """The visible rows of a table, sorted."""
    with metastore.session() as session:
        return sorted(row[0] for row in session.sql(f"SELECT id FROM {table}").rows)


def write(
    transaction: HivexTransaction, task_id: str, table: str, *values: int, **arguments: Any
) -> HivexQueryOperator:
    rows = ", ".join(f"({value})" for value in values)
    return HivexQueryOperator(
        task_id=task_id, sql=f"INSERT INTO {table} VALUES {rows}", transaction=transaction, **arguments
    )


def data_files(warehouse: dict[str, Any]) -> list[str]:
    roots = [Path(each["filesystem"].removeprefix("file://")) for each in warehouse["cluster_properties"].values()]
    return [str(file) for root in roots for file in root.rglob("*") if file.is_file() and "delta_" in str(file)]


def assert_nothing_is_left(metastore: Metastore, warehouse: dict[str, Any]) -> None:
    """No transaction, no lock, no row of a directory, no file."""
    metastore.housekeeper.run()
    assert metastore.transactions.valid_txns().open_ids == ()
    assert metastore.locks.show() == []
    assert (ids(metastore, "orders"), ids(metastore, "lines")) == ([], [])
    for table in ("directories", "pending_writes"):
        assert count(warehouse, table) == 0, table
    assert data_files(warehouse) == []


def count(warehouse: dict[str, Any], table: str) -> int:
    """The rows of a table of the metastore's database."""
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(warehouse["metastore_url"].removeprefix("sqlite:///"))) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


class Reader:
    """A reader that looks at both tables again and again, each time in one snapshot."""

    def __init__(self, metastore: Metastore) -> None:
        self._metastore = metastore
        self._stopped = threading.Event()
        self.seen: list[tuple[int, int]] = []
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            with self._metastore.session() as session:
                while not self._stopped.is_set():
                    session.sql("START TRANSACTION READ ONLY")
                    found = [session.sql(f"SELECT count(*) FROM {table}").rows[0][0] for table in ("orders", "lines")]
                    session.sql("COMMIT")
                    self.seen.append((found[0], found[1]))
        except BaseException as error:
            self.failure = error

    def look_once_more(self) -> None:
        """Wait until it has looked at what is there now."""
        # The look that is under way may have begun before.
        enough = len(self.seen) + 2
        deadline = time.monotonic() + 120
        while len(self.seen) < enough and self.failure is None:
            assert time.monotonic() < deadline
            # Between two looks at how far the other thread is.
            time.sleep(0.02)

    @contextmanager
    def looking(self) -> Iterator[None]:
        thread = threading.Thread(target=self.run)
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            thread.join()
        assert self.failure is None


@pytest.mark.parametrize("fails", [False, True], ids=["all succeed", "one fails"])
def test_reader_of_two_clusters_sees_all_of_it_or_nothing(
    metastore: Metastore, warehouse: dict[str, Any], run_dag: Callable[..., DagRun], fails: bool
) -> None:
    reader = Reader(metastore)
    with (
        DAG(f"hivex_shows_{fails}", schedule=None) as dag,
        HivexTransaction("load", task_arguments=QUICK) as transaction,
    ):

        @task
        def let_the_reader_look() -> None:
            reader.look_once_more()

        one = write(transaction, "one", "orders", 1, 2)
        two = write(transaction, "two", "lines", 3)
        three = write(transaction, "three", "nowhere" if fails else "orders", 4)
        one >> let_the_reader_look.override(task_id="look_after_one")() >> two
        two >> let_the_reader_look.override(task_id="look_after_two")() >> three
    with reader.looking():
        run = run_dag(dag)
        reader.look_once_more()
    if fails:
        assert (run.state, states(run)["load.abort"]) == ("failed", "failed")
        assert states(run)["load.commit"] == "upstream_failed"
        assert set(reader.seen) == {(0, 0)}
        assert_nothing_is_left(metastore, warehouse)
    else:
        assert run.state == "success"
        assert set(reader.seen) == {(0, 0), (3, 1)}
        assert (ids(metastore, "orders"), ids(metastore, "lines")) == ([1, 2, 4], [3])
        assert count(warehouse, "pending_writes") == 0


def test_tasks_read_what_earlier_tasks_of_the_group_wrote(metastore: Metastore, run_dag: Callable[..., DagRun]) -> None:
    with DAG("hivex_reads_own", schedule=None) as dag, HivexTransaction("load") as transaction:

        @task
        def copy(txn_id: int) -> None:
            with HivexHook().session(txn_id=txn_id) as session:
                assert session.sql("SELECT id FROM orders").rows == [(1,)]
                session.sql("INSERT INTO lines VALUES (7)")

        many = HivexQueryOperator.partial(task_id="many", transaction=transaction.txn_id).expand(
            sql=["INSERT INTO lines VALUES (8)", "INSERT INTO lines VALUES (9)"]
        )
        write(transaction, "one", "orders", 1) >> copy(transaction.txn_id) >> many
    assert set(states(run_dag(dag)).values()) == {"success"}
    assert (ids(metastore, "orders"), ids(metastore, "lines")) == ([1], [7, 8, 9])


def test_group_that_is_mapped_has_a_transaction_for_each_part(
    metastore: Metastore, warehouse: dict[str, Any], run_dag: Callable[..., DagRun]
) -> None:
    with DAG("hivex_mapped", schedule=None) as dag:

        @task_group
        def part(sql: str) -> None:
            with HivexTransaction("load") as transaction:
                one = write(transaction, "one", "orders", 1)
                one >> HivexQueryOperator(task_id="two", sql=sql, transaction=transaction)

        part.expand(sql=["INSERT INTO lines VALUES (7)", "INSERT INTO nowhere VALUES (8)"])
    run = run_dag(dag)
    assert states(run)["part.load.commit[0]"] == "success"
    assert states(run)["part.load.commit[1]"] == "upstream_failed"
    assert (ids(metastore, "orders"), ids(metastore, "lines")) == ([1], [7])
    assert metastore.transactions.valid_txns().open_ids == ()


def test_task_that_is_retried_halfway_replaces_what_it_wrote(
    metastore: Metastore, warehouse: dict[str, Any], run_dag: Callable[..., DagRun]
) -> None:
    with DAG("hivex_retried", schedule=None) as dag, HivexTransaction("load") as transaction:
        one = write(transaction, "one", "orders", 1)

        @task(retries=1, retry_delay=timedelta(0))
        def two(txn_id: int, ti: Any = None) -> None:
            with HivexHook().session(txn_id=txn_id) as session:
                session.sql("INSERT INTO orders VALUES (2)")
                session.sql("INSERT INTO lines VALUES (2)")
                if ti.try_number == 1:
                    raise RuntimeError("halfway")
                session.sql("INSERT INTO lines VALUES (3)")

        one >> two(transaction.txn_id)
    run = run_dag(dag)
    assert states(run) == dict.fromkeys(GROUP, "success")
    assert tries(run)["load.two"] == 2
    assert (ids(metastore, "orders"), ids(metastore, "lines")) == ([1, 2], [2, 3])
    assert count(warehouse, "pending_writes") == 0


def test_skipped_task_lets_nothing_be_committed(
    metastore: Metastore, warehouse: dict[str, Any], run_dag: Callable[..., DagRun]
) -> None:
    with DAG("hivex_skipped", schedule=None) as dag, HivexTransaction("load") as transaction:
        one = write(transaction, "one", "orders", 1)

        @task
        def two() -> None:
            raise AirflowSkipException("nothing came in")

        one >> two()
    run = run_dag(dag)
    expected = dict.fromkeys(GROUP, "success") | {"load.two": "skipped", "load.commit": "skipped"}
    assert states(run) == expected
    assert run.state == "success"
    assert_nothing_is_left(metastore, warehouse)


def test_task_that_skips_all_after_it_lets_nothing_be_committed(
    metastore: Metastore, warehouse: dict[str, Any], run_dag: Callable[..., DagRun]
) -> None:
    with DAG("hivex_short_circuit", schedule=None) as dag, HivexTransaction("load") as transaction:

        @task.short_circuit
        def one() -> bool:
            return False

        write(transaction, "zero", "orders", 1) >> one() >> write(transaction, "two", "lines", 1)
    run = run_dag(dag)
    expected = dict.fromkeys((*GROUP, "load.zero"), "success") | {"load.two": "skipped", "load.commit": "skipped"}
    assert states(run) == expected
    assert run.state == "success"
    assert_nothing_is_left(metastore, warehouse)


def test_group_that_is_skipped_as_a_whole_is_no_failure(metastore: Metastore, run_dag: Callable[..., DagRun]) -> None:
    with DAG("hivex_not_chosen", schedule=None) as dag:

        @task
        def choose() -> None:
            raise AirflowSkipException("not today")

        with HivexTransaction("load") as transaction:
            write(transaction, "one", "orders", 1)
            write(transaction, "two", "lines", 1)
        choose() >> transaction
    run = run_dag(dag)
    assert set(states(run).values()) == {"skipped"}
    assert run.state == "success"


def test_nothing_runs_when_the_transaction_cannot_begin(
    metastore: Metastore, warehouse: dict[str, Any], run_dag: Callable[..., DagRun]
) -> None:
    with (
        DAG("hivex_no_begin", schedule=None) as dag,
        HivexTransaction("load", hivex_conn_id="nowhere", task_arguments={"retries": 0}) as transaction,
    ):
        write(transaction, "one", "orders", 1) >> write(transaction, "two", "lines", 1)
    assert states(run_dag(dag)) == dict.fromkeys(GROUP, "upstream_failed") | {"load.begin": "failed"}
    assert count(warehouse, "txns") == count(warehouse, "txns WHERE state <> 'o'")


def test_commit_that_lost_fails_for_good_and_leaves_nothing(
    metastore: Metastore, warehouse: dict[str, Any], run_dag: Callable[..., DagRun]
) -> None:
    with DAG("hivex_conflict", schedule=None) as dag, HivexTransaction("load", task_arguments=QUICK) as transaction:
        one = HivexQueryOperator(task_id="one", sql="INSERT OVERWRITE TABLE orders VALUES (1)", transaction=transaction)

        @task
        def two() -> None:
            # A client that takes no locks, as Hive's streaming does.
            (txn_id,) = metastore.transactions.open()
            metastore.transactions.allocate_write_ids([txn_id], "default", "orders", operation=Operation.UPDATE)
            metastore.transactions.commit(txn_id)

        one >> two()
    run = run_dag(dag)
    assert states(run) == dict.fromkeys(GROUP, "success") | {"load.commit": "failed", "load.abort": "failed"}
    assert (run.state, tries(run)["load.commit"]) == ("failed", 1)
    assert_nothing_is_left(metastore, warehouse)
    (lost,) = metastore.transactions.show()
    again = HivexCommitOperator(task_id="t", txn_id=lost.id, begin_task_id="load.begin")
    with pytest.raises(AirflowFailException, match=r"write conflict.*clear load\.begin together with"):
        again.execute(context())


def loading(dag_id: str, *, two: Any = None, **arguments: Any) -> DAG:
    """A DAG with a group of two parallel tasks; ``two`` is called before the second writes."""
    with DAG(dag_id, schedule=None) as dag, HivexTransaction("load", task_arguments=QUICK, **arguments) as transaction:
        write(transaction, "one", "orders", 1)

        @task(task_id="two")
        def second(txn_id: int) -> None:
            if two is not None:
                two()
            with HivexHook().session(txn_id=txn_id) as session:
                session.sql("INSERT INTO lines VALUES (2)")

        second(transaction.txn_id)
    return dag


def test_task_of_a_committed_run_works_again_in_a_transaction_of_its_own(
    metastore: Metastore, run_dag: Callable[..., DagRun]
) -> None:
    dag = loading("hivex_cleared_after_commit")
    run = run_dag(dag)
    assert clear(dag, run, "load.two") == set(GROUP) - {"load.one"}
    assert states(go_on(dag, run)) == dict.fromkeys(GROUP, "success")
    assert (ids(metastore, "orders"), ids(metastore, "lines")) == ([1], [2, 2])


def test_commit_that_is_cleared_alone_changes_nothing(metastore: Metastore, run_dag: Callable[..., DagRun]) -> None:
    dag = loading("hivex_cleared_commit")
    run = run_dag(dag)
    before = metastore.transactions.valid_txns().high_watermark
    assert clear(dag, run, "load.commit") == {"load.begin", "load.commit", "load.abort"}
    assert states(go_on(dag, run)) == dict.fromkeys(GROUP, "success")
    assert (ids(metastore, "orders"), ids(metastore, "lines")) == ([1], [2])
    assert metastore.transactions.valid_txns().open_ids == ()
    assert before + 2 == metastore.transactions.valid_txns().high_watermark


def test_part_of_an_aborted_run_cannot_be_committed_alone(
    metastore: Metastore, warehouse: dict[str, Any], run_dag: Callable[..., DagRun]
) -> None:
    failures = ["once"]

    def fail_once() -> None:
        if failures:
            raise RuntimeError(failures.pop())

    dag = loading("hivex_cleared_after_abort", two=fail_once)
    run = run_dag(dag)
    assert states(run)["load.two"] == "failed"
    clear(dag, run, "load.two")
    run = go_on(dag, run)
    assert states(run)["load.begin"] == "failed"
    assert states(run)["load.commit"] == "upstream_failed"
    assert_nothing_is_left(metastore, warehouse)
    clear(dag, run, "load.begin")
    assert states(go_on(dag, run)) == dict.fromkeys(GROUP, "success")
    assert (ids(metastore, "orders"), ids(metastore, "lines")) == ([1], [2])


def test_task_that_is_cleared_while_others_still_work_goes_on_in_their_transaction(
    metastore: Metastore, store_dag: Callable[[DAG], None]
) -> None:
    with DAG("hivex_cleared_within", schedule=None) as dag, HivexTransaction("load") as transaction:
        two = write(transaction, "two", "lines", 2)
        one = write(transaction, "one", "orders", 1)
        write(transaction, "three", "orders", 3)
        one >> two
    store_dag(dag)
    run = create_run(dag)
    finished = go_on(dag, run, but_first=[("load.two", lambda: clear(dag, run, "load.one"))])
    assert set(states(finished).values()) == {"success"}
    assert tries(finished)["load.begin"] == 2
    assert (ids(metastore, "orders"), ids(metastore, "lines")) == ([1, 3], [2])
    assert count_of_groups_transactions(metastore, finished) == 1


def test_commit_that_was_applied_before_its_task_has_run_sends_one_event_of_each_table(
    metastore: Metastore, store_dag: Callable[[DAG], None]
) -> None:
    with DAG("hivex_committed_before", schedule=None) as dag, HivexTransaction("load") as transaction:
        write(transaction, "one", "orders", 1) >> write(transaction, "two", "lines", 2)
    store_dag(dag)
    run = create_run(dag)
    committed: list[int] = []

    def commit() -> None:
        (found,) = metastore.transactions.show()
        committed.append(found.id)
        assert events_of("orders") == before
        metastore.commit(found.id)

    before = events_of("orders")
    finished = go_on(dag, run, but_first=[("load.commit", commit)])
    assert set(states(finished).values()) == {"success"}
    for table in ("orders", "lines"):
        assert [extra["txn_ids"] for _, extra in events_of(table)][-1] == committed
    assert len(events_of("orders")) == len(before) + 1


def test_task_cannot_be_cleared_without_the_commit_after_it(
    metastore: Metastore, run_dag: Callable[..., DagRun]
) -> None:
    dag = loading("hivex_cleared_alone")
    run = run_dag(dag)
    clear(dag, run, "load.one", downstream=False)
    run = go_on(dag, run)
    assert (states(run)["load.begin"], states(run)["load.one"]) == ("failed", "upstream_failed")
    assert (ids(metastore, "orders"), ids(metastore, "lines")) == ([1], [2])


def count_of_groups_transactions(metastore: Metastore, run: DagRun) -> int:
    found = (
        metastore.transactions.find(f"{run.dag_id}/{run.run_id}/load.begin/-1/{number}") for number in range(1, 10)
    )
    return sum(transaction is not None for transaction in found)


@pytest.mark.parametrize(
    ("state", "running"),
    [("failed", None), ("failed", "load.two"), ("success", None), ("success", "load.two")],
    ids=["failed between tasks", "failed while one runs", "succeeded between tasks", "succeeded while one runs"],
)
def test_run_that_is_marked_fails_when_its_rows_are_missing(
    metastore: Metastore,
    warehouse: dict[str, Any],
    store_dag: Callable[[DAG], None],
    state: str,
    running: str | None,
) -> None:
    with DAG(f"hivex_marked_{state}_{running}", schedule=None) as dag, HivexTransaction("load") as transaction:
        write(transaction, "one", "orders", 1) >> write(transaction, "two", "lines", 2)
    store_dag(dag)
    run = create_run(dag)
    finished = go_on(dag, run, but_first=[("load.two", lambda: mark(dag, run, state, running))])
    # Airflow skips what has not begun, the commit with it.
    expected = {"load.two": state if running else "skipped", "load.commit": "skipped", "load.abort": "failed"}
    assert states(finished) == dict.fromkeys(GROUP, "success") | expected
    assert finished.state == "failed"
    assert_nothing_is_left(metastore, warehouse)


def test_work_after_a_time_out_fails_at_once_and_says_what_to_clear(
    metastore: Metastore, warehouse: dict[str, Any], run_dag: Callable[..., DagRun]
) -> None:
    aborted: list[int] = []
    with (
        DAG("hivex_timed_out", schedule=None) as dag,
        HivexTransaction("load", timeout=timedelta(seconds=1)) as transaction,
    ):

        @task
        def rest() -> None:
            while not aborted:
                aborted.extend(metastore.housekeeper.run().aborted)
                # The transaction's time-out is what is waited for.
                time.sleep(0.05)

        two = write(transaction, "two", "lines", 2, retries=3, retry_delay=timedelta(hours=1))
        write(transaction, "one", "orders", 1) >> rest() >> two
    run = run_dag(dag)
    assert (states(run)["load.two"], tries(run)["load.two"]) == ("failed", 1)
    assert (states(run)["load.commit"], states(run)["load.abort"]) == ("upstream_failed", "failed")
    assert_nothing_is_left(metastore, warehouse)
    two.transaction = aborted[0]
    with pytest.raises(AirflowFailException, match=r"timed out.*clear load\.begin together with"):
        two.execute(context())


# -- killed workers -------------------------------------------------------------


BEGIN = HivexBeginOperator(task_id="t", timeout=timedelta(hours=1))


def begin(try_number: int = 1) -> int:
    return BEGIN.execute(context(try_number=try_number))


def test_worker_killed_after_the_transaction_was_opened_leaks_nothing(metastore: Metastore) -> None:
    kill_at("after open", BEGIN)
    (first,) = metastore.transactions.valid_txns().open_ids
    second = begin(try_number=2)
    assert second != first
    assert metastore.transactions.get(first).state is TxnState.ABORTED
    assert metastore.transactions.valid_txns().open_ids == (second,)


def test_begin_that_is_sent_twice_opens_one_transaction(metastore: Metastore) -> None:
    assert begin() == begin()


@pytest.mark.parametrize(
    ("first", "point", "number"),
    [
        ("INSERT INTO orders", "after allocate", 1),
        ("INSERT INTO orders", "after write", 2),
        ("INSERT INTO orders", "after allocate", 2),
        ("INSERT OVERWRITE TABLE orders", "after allocate", 1),
        ("INSERT OVERWRITE TABLE orders", "before allocate", 2),
    ],
)
def test_worker_killed_while_it_wrote_is_replaced_by_its_next_try(
    metastore: Metastore, warehouse: dict[str, Any], first: str, point: str, number: int
) -> None:
    txn_id = begin()
    sql = f"{first} VALUES (1); INSERT INTO lines VALUES (2)"
    operator = HivexQueryOperator(task_id="t", sql=sql, transaction=txn_id)
    kill_at(point, operator, number)
    operator.execute(context(try_number=2))
    HivexCommitOperator(task_id="commit", txn_id=txn_id).execute(context(task_id="commit"))
    assert (ids(metastore, "orders"), ids(metastore, "lines")) == ([1], [2])
    assert count(warehouse, "pending_writes") == 0
    assert count(warehouse, "directories") == 2


@pytest.mark.parametrize("point", ["before commit", "after commit"])
def test_worker_killed_while_it_committed_is_followed_by_a_try_that_succeeds(metastore: Metastore, point: str) -> None:
    txn_id = begin()
    HivexQueryOperator(task_id="t", sql="INSERT INTO orders VALUES (1)", transaction=txn_id).execute(context())
    commit = HivexCommitOperator(task_id="commit", txn_id=txn_id)
    kill_at(point, commit)
    assert commit.execute(context(task_id="commit", try_number=2)) == txn_id
    assert ids(metastore, "orders") == [1]
    assert HivexAbortOperator(task_id="abort", txn_id=txn_id).execute(context()) == "committed"
    assert ids(metastore, "orders") == [1]


def test_worker_killed_in_the_teardown_is_followed_by_a_try_that_cleans_up(
    metastore: Metastore, warehouse: dict[str, Any]
) -> None:
    txn_id = begin()
    HivexQueryOperator(task_id="t", sql="INSERT INTO orders VALUES (1)", transaction=txn_id).execute(context())
    abort = HivexAbortOperator(task_id="abort", txn_id=txn_id)
    kill_at("after abort", abort)
    with pytest.raises(AirflowFailException, match=r"was aborted .*it was not committed"):
        abort.execute(context(try_number=2))
    assert_nothing_is_left(metastore, warehouse)


# -- how a group is put together ------------------------------------------------


def test_commit_waits_for_all_and_is_what_comes_before_the_rest() -> None:
    with DAG("hivex_wired", schedule=None) as dag:
        with HivexTransaction("load") as transaction:
            one = write(transaction, "one", "orders", 1)
            with TaskGroup("inner"):
                two = write(transaction, "two", "lines", 2)

            @task
            def three() -> None: ...

            one >> [two, three()]

        @task
        def after() -> None: ...

        transaction >> after()
    begin, commit, abort = (dag.get_task(f"load.{name}") for name in ("begin", "commit", "abort"))
    assert (begin.is_setup, abort.is_teardown, abort.on_failure_fail_dagrun) == (True, True, True)
    assert commit.upstream_task_ids == {"load.inner.two", "load.three"}
    assert abort.upstream_task_ids == {"load.begin", "load.one", "load.inner.two", "load.three", "load.commit"}
    assert dag.get_task("after").upstream_task_ids == {"load.commit"}
    assert {task.task_id for task in dag.roots} == {"load.begin"}


def test_task_that_runs_whatever_fails_hides_no_failure(
    metastore: Metastore, warehouse: dict[str, Any], run_dag: Callable[..., DagRun]
) -> None:
    with DAG("hivex_all_done", schedule=None) as dag, HivexTransaction("load") as transaction:
        first = write(transaction, "first", "lines", 1)
        wrong = write(transaction, "one", "nowhere", 1)
        first >> wrong >> write(transaction, "two", "orders", 2, trigger_rule="all_done")
    run = run_dag(dag)
    assert (states(run)["load.two"], states(run)["load.commit"]) == ("success", "upstream_failed")
    assert_nothing_is_left(metastore, warehouse)


def test_task_can_join_inside_of_the_group_only() -> None:
    with DAG("hivex_misplaced", schedule=None):
        with HivexTransaction("load") as transaction:
            pass
        with pytest.raises(ValueError, match="inside of that group's with block"):
            write(transaction, "late", "orders", 1)
        with HivexTransaction("other") as other, TaskGroup("inner"):
            write(other, "fine", "orders", 1)
        with pytest.raises(RuntimeError, match="one with block"), transaction:
            pass
    with (
        DAG("hivex_partial", schedule=None),
        pytest.raises(TypeError, match=r"transaction=transaction\.txn_id"),
        HivexTransaction("load") as group,
    ):
        HivexQueryOperator.partial(task_id="mapped", transaction=group).expand(sql=["SELECT 1"])
    with DAG("hivex_too_early", schedule=None):
        early = HivexTransaction("early")
        with pytest.raises(RuntimeError, match="inside of its with block"):
            _ = early.txn_id


@pytest.mark.parametrize("timeout", [timedelta(0), timedelta(seconds=-1)])
def test_time_out_must_be_a_time(timeout: timedelta) -> None:
    with DAG("hivex_timeout", schedule=None), pytest.raises(ValueError, match="timeout"):
        HivexTransaction("load", timeout=timeout)


@pytest.mark.parametrize("txn_id", ["seven", None, "", True, "1; 2"])
def test_what_is_no_transaction_is_refused(metastore: Metastore, txn_id: Any) -> None:
    with pytest.raises(AirflowFailException, match="not the id of a transaction"):
        HivexCommitOperator(task_id="t", txn_id=txn_id).execute(context())


def test_unknown_transaction_is_refused(metastore: Metastore) -> None:
    with pytest.raises(AirflowFailException, match=r"no transaction 99\..*clear the task that has begun it"):
        HivexCommitOperator(task_id="t", txn_id=99).execute(context())
    with pytest.raises(AirflowFailException, match="no transaction 99"):
        HivexQueryOperator(task_id="t", sql="SELECT 1", transaction="99").execute(context())
    with pytest.raises(AirflowFailException, match="Transaction 99 has ended, and its record was purged"):
        HivexAbortOperator(task_id="t", txn_id=99).execute(context())


def test_killed_statement_leaves_the_groups_transaction_open(metastore: Metastore) -> None:
    txn_id = begin()
    operator = HivexQueryOperator(
        task_id="t", sql="INSERT INTO orders VALUES (1); INSERT INTO lines VALUES (2)", transaction=txn_id
    )
    operator.on_kill()
    with pytest.raises(Exception, match="killed between two statements"):
        operator.execute(context())
    assert metastore.transactions.get(txn_id).state is TxnState.OPEN


def test_second_session_of_a_task_would_discard_its_work(metastore: Metastore, run_dag: Callable[..., DagRun]) -> None:
    with DAG("hivex_two_sessions", schedule=None) as dag, HivexTransaction("load") as transaction:

        @task
        def twice(txn_id: int) -> None:
            with HivexHook().session(txn_id=txn_id) as session:
                session.sql("INSERT INTO orders VALUES (1)")
            with pytest.raises(Exception, match="discard what the first has written"):
                HivexHook().session(txn_id=txn_id)
            with HivexHook().session(txn_id=txn_id, writer="another part") as session:
                session.sql("INSERT INTO orders VALUES (2)")

        twice(transaction.txn_id)
    assert set(states(run_dag(dag)).values()) == {"success"}
    assert ids(metastore, "orders") == [1, 2]


def test_begin_says_what_became_of_an_unfinished_transaction(metastore: Metastore) -> None:
    txn_id = begin()
    metastore.abort(txn_id, "a colleague stumbled")
    with pytest.raises(TransactionAbortedError, match="a colleague stumbled"):
        metastore.session(txn_id=txn_id)
    assert begin(try_number=2) != txn_id
