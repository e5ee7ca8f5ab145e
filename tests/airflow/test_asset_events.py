"""Inlets, outlets and asset events of tasks."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from airflow.jobs.job import Job
from airflow.sdk import DAG, AssetAlias, task
from sqlalchemy import event
from sqlalchemy.orm import Session

from airflow_hivex.assets.hivex import create_asset
from airflow_hivex.hooks.hivex import HivexHook
from airflow_hivex.operators.compaction import HivexCompactOperator
from airflow_hivex.operators.links import HivexAlterLinkOperator, HivexCreateLinkOperator
from airflow_hivex.operators.namespaces import HivexImportNamespaceOperator, HivexMoveNamespaceOperator
from airflow_hivex.operators.query import HivexQueryOperator
from airflow_hivex.operators.replication import HivexReplicateOperator, HivexSetPrimaryClusterOperator
from airflow_hivex.plugins import commit_events
from tests.airflow.runs import context, events_of, producers_of, states

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow.models.dagrun import DagRun
    from airflow.sdk import BaseOperator

pytestmark = pytest.mark.airflow


@pytest.fixture(autouse=True)
def source(warehouse: dict[str, Any]) -> None:
    """The namespace b with a table with partitions and one without."""
    with HivexHook().get_metastore().session() as session:
        session.sql("CREATE DATABASE b")
        session.sql("CREATE TABLE b.t (id INT) PARTITIONED BY (ds INT)")
        session.sql("INSERT INTO b.t VALUES (1, 1), (2, 2)")
        session.sql("CREATE TABLE b.whole (id INT)")
        session.sql("INSERT INTO b.whole VALUES (1)")
        session.sql("CREATE DATABASE d")


LINKS = """
CREATE LINK TO whole@b;
CREATE LINK IF NOT EXISTS TO whole@b;
CREATE LINK IF NOT EXISTS TO t@b;
ALTER LINK t@b ADD PARTITION (ds=1);
ALTER LINK t@b ADD IF NOT EXISTS PARTITION (ds=1);
ALTER LINK t@b ADD PARTITION (ds=2)
"""


def test_only_tasks_that_make_rows_available_send_events(
    store_dag: Callable[[DAG], None], run_dag: Callable[..., DagRun]
) -> None:
    names = ("b.t", "b.whole", "default.t@b", "default.whole@b", "d.t@b", "d.whole@b", "c.whole")
    with DAG(
        "links_consumer",
        schedule=[create_asset(table=each) for each in names],
        is_paused_upon_creation=False,
    ) as consumer:
        pass
    store_dag(consumer)
    with DAG("links_producer", schedule=None) as dag:
        (
            HivexCreateLinkOperator(task_id="empty", link="t@b")
            >> HivexCreateLinkOperator(task_id="whole", link="whole@b")
            >> HivexCreateLinkOperator(task_id="again", link="whole@b")
            >> HivexAlterLinkOperator(task_id="add", link="t@b", add_partitions=["ds=01"])
            >> HivexQueryOperator(task_id="statements", sql=f"USE d; {LINKS}")
            >> HivexQueryOperator(
                task_id="drop", sql="ALTER LINK t@b DROP PARTITION (ds=1); DROP LINK t@b", database="d"
            )
            >> HivexImportNamespaceOperator(
                task_id="bring", namespace="b", into="c", tables="whole", source_conn_id="hivex_default"
            )
        )
    run = run_dag(dag)
    assert set(states(run).values()) == {"success"}, states(run)
    assert events_of("b.t") == events_of("b.whole") == []
    assert events_of("default.t@b") == [(None, {"source": "b.t", "partitions": ["ds=1"]})]
    assert events_of("default.whole@b") == [(None, {"source": "b.whole", "partitions": []})]
    assert events_of("d.t@b") == [(None, {"source": "b.t", "partitions": ["ds=1", "ds=2"]})]
    assert events_of("d.whole@b") == [(None, {"source": "b.whole", "partitions": []})]
    assert events_of("c.whole") == [(None, {"imported_from": "hivex_default", "partitions": []})]


def inlets(operator: BaseOperator) -> list[str]:
    """Run an operator; return the tables of its inlets."""
    operator.execute(context())
    # Without an event of theirs, tables are not outlets: Airflow stores an event for each.
    assert all(isinstance(each, AssetAlias) for each in operator.outlets)
    return [each.uri.removeprefix("hivex://hivex_default/") for each in operator.inlets]


def test_tasks_declare_their_tables_as_inlets() -> None:
    with DAG("inlets"):
        link = HivexCreateLinkOperator(task_id="link", link="t@b")
        alter = HivexQueryOperator(task_id="alter", sql="ALTER LINK t@b SET LINKPROPERTIES ('RETENTION' = '9')")
        compact = HivexCompactOperator(task_id="compact", table="b.t", partition="ds=1")
        planned = HivexReplicateOperator(task_id="plan", tables="b.t", cluster="c2", dry_run=True)
        copy = HivexReplicateOperator(task_id="copy", tables=["b.T", "b.whole"], cluster="c2")
        primary = HivexSetPrimaryClusterOperator(task_id="primary", table="b.whole", cluster="c2")
        move = HivexMoveNamespaceOperator(task_id="move", namespace="b", cluster="c2")
    assert inlets(link) == ["b/t"]
    assert inlets(alter) == ["b/t"]
    assert inlets(compact) == ["b/t"]
    assert inlets(planned) == []
    assert inlets(copy) == ["b/t", "b/whole"]
    assert inlets(primary) == ["b/whole"]
    assert inlets(move) == ["b/t"]


def requested_dags(table: str) -> list[str]:
    """The DAGs for which the events of a table have requested a run."""
    from airflow.models.asset import AssetDagRunQueue, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        query = select(AssetDagRunQueue.target_dag_id).join(AssetModel, AssetModel.id == AssetDagRunQueue.asset_id)
        return list(session.scalars(query.where(AssetModel.uri == uri_of(table))))


def uri_of(table: str) -> str:
    return str(create_asset(table=table).uri)


def write_ids_of(table: str) -> list[list[int]]:
    return [extra["write_ids"] for _, extra in events_of(table)]


def test_written_table_gets_an_asset_with_its_tasks_as_producers(
    store_dag: Callable[[DAG], None],
    run_dag: Callable[..., DagRun],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Airflow stores no second version of a DAG within 30 s.
    monkeypatch.setenv("AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL", "0")

    def produce(*task_ids: str) -> None:
        with DAG("rows_producer", schedule=None) as dag:
            tasks = [HivexQueryOperator(task_id=each, sql="INSERT INTO d.rows VALUES (1)") for each in task_ids]
            tasks[0] >> tasks[1:]
        assert set(states(run_dag(dag)).values()) == {"success"}

    HivexHook().run("CREATE TABLE d.rows (id INT)")
    produce("fill", "fill_again")
    assert write_ids_of("d.rows") == [[2], [3]]
    assert producers_of("d.rows") == {"rows_producer.fill", "rows_producer.fill_again"}
    with DAG("rows_consumer", schedule=create_asset(table="d.rows"), is_paused_upon_creation=False) as consumer:
        pass
    store_dag(consumer)
    with DAG("task_consumer", schedule=AssetAlias("hivex.rows_producer.fill"), is_paused_upon_creation=False) as other:
        pass
    store_dag(other)
    # The DAG does not have the task any more, and so the task is not counted as a producer.
    produce("fill", "renamed")
    assert producers_of("d.rows") == {"rows_producer.fill", "rows_producer.renamed"}
    assert sorted(requested_dags("d.rows")) == ["rows_consumer", "task_consumer"]
    shown = capfd.readouterr()
    assert "Asset not found" not in shown.out + shown.err


@pytest.fixture
def dag_processor() -> Iterator[None]:
    """The listeners of a DAG processor in this process."""
    Job()
    yield
    event.remove(Session, "before_flush", commit_events.keep_producers)


@pytest.mark.usefixtures("dag_processor")
def test_producers_are_kept_when_a_file_that_names_assets_is_parsed(
    store_dag: Callable[[DAG], None], run_dag: Callable[..., DagRun]
) -> None:
    HivexHook().run("CREATE TABLE d.source (id INT); CREATE TABLE d.target (id INT)")

    def chain(dag_id: str, **arguments: Any) -> DAG:
        with DAG(dag_id, schedule=create_asset(table="d.source")) as dag:
            first = HivexQueryOperator(task_id="first", sql="INSERT INTO d.target VALUES (1)")
            first >> HivexQueryOperator(task_id="second", sql="INSERT INTO d.target VALUES (1)", **arguments)
        return dag

    automatic, named = chain("automatic"), chain("named", outlets=[create_asset(table="d.target")])
    for dag in (automatic, named):
        assert set(states(run_dag(dag)).values()) == {"success"}
    expected = {"automatic.first", "automatic.second", "named.first", "named.second"}
    assert producers_of("d.target") == expected
    for dag in (automatic, named):
        store_dag(dag)
    assert producers_of("d.target") == expected


def test_outlet_that_the_dag_names_gets_one_event_with_the_write_ids(run_dag: Callable[..., DagRun]) -> None:
    HivexHook().run("CREATE TABLE d.named (id INT)")
    with DAG("named_producer", schedule=None) as dag:
        HivexQueryOperator(
            task_id="fill", sql="INSERT INTO d.named VALUES (1)", outlets=[create_asset(table="d.named")]
        )
    assert set(states(run_dag(dag)).values()) == {"success"}
    assert write_ids_of("d.named") == [[2]]


def test_each_mapped_task_and_the_last_try_send_one_event(run_dag: Callable[..., DagRun]) -> None:
    HivexHook().run("CREATE TABLE d.mapped (id INT); CREATE TABLE d.tried (id INT)")
    tries: list[Any] = []

    def fail_once(rows: Any) -> None:
        tries.append(rows)
        if len(tries) == 1:
            raise ConnectionError("the first try fails after its commit")

    with DAG("mapped_producer", schedule=None) as dag:
        HivexQueryOperator.partial(task_id="mapped").expand(sql=[f"INSERT INTO d.mapped VALUES ({n})" for n in (1, 2)])
        HivexQueryOperator(
            task_id="tried",
            sql="INSERT INTO d.tried VALUES (1)",
            handler=fail_once,
            retries=1,
            retry_delay=timedelta(0),
        )

        @task.hivex_sql
        def decorated() -> str:
            return "INSERT INTO d.mapped VALUES (3)"

        decorated()
    assert set(states(run_dag(dag)).values()) == {"success"}
    assert sorted(write_ids_of("d.mapped")) == [[2], [3], [4]]
    assert producers_of("d.mapped") == {"mapped_producer.mapped", "mapped_producer.decorated"}
    assert write_ids_of("d.tried") == [[3]]


def test_commits_of_rows_send_events_and_no_drop_or_renaming_does(run_dag: Callable[..., DagRun]) -> None:
    script = """
    CREATE TABLE d.kept (id INT);
    CREATE TABLE d.gone (id INT);
    CREATE TABLE d.before (id INT);
    INSERT INTO d.before VALUES (1);
    DROP TABLE d.gone;
    ALTER TABLE d.before RENAME TO d.after;
    START TRANSACTION; INSERT INTO d.kept VALUES (1); ROLLBACK;
    START TRANSACTION; INSERT INTO d.kept VALUES (1); INSERT INTO d.after VALUES (2); COMMIT
    """
    with DAG("definitions_producer", schedule=None) as dag:
        fill = HivexQueryOperator(task_id="fill", sql=script)
        fill >> HivexQueryOperator(task_id="drop", sql="DROP TABLE d.after; ALTER TABLE d.kept RENAME TO d.renamed")
    assert set(states(run_dag(dag)).values()) == {"success"}
    events = {each: write_ids_of(f"d.{each}") for each in ("kept", "gone", "before", "after", "renamed")}
    assert events == {"kept": [[3]], "gone": [], "before": [], "after": [[2, 4]], "renamed": []}
