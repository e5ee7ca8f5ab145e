"""Commits start DAGs: a real triggerer stores one event for each, also when it is killed."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG

from airflow_hivex.hooks.hivex import HivexHook
from airflow_hivex.operators.query import HivexQueryOperator
from airflow_hivex.triggers.commits import DELIVERED, POSITION, HivexCommitTrigger, watched_table
from tests import evidence
from tests.airflow.runs import events_of, producers_of, states
from tests.integration.test_documentation import blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow.models.dagrun import DagRun

pytestmark = pytest.mark.airflow


@contextmanager
def triggerer(log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "airflow", "triggerer", "--skip-serve-logs"],
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            kill(process, signal.SIGKILL)


def kill(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
    process.wait()


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait as long as a triggerer may take on a machine that has other work."""
    deadline = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.1)


def payloads_of(uri: str) -> list[dict[str, Any]]:
    """The payloads of the events that Airflow has stored for an asset, in their order."""
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        query = select(AssetEvent.extra).join(AssetModel, AssetModel.id == AssetEvent.asset_id)
        found = session.scalars(query.where(AssetModel.uri == uri).order_by(AssetEvent.id)).all()
    return [extra["payload"] for extra in found]


def unrequested(uri: str) -> int:
    """How many events of an asset are later than the request for a run, which gets the events up to it."""
    from airflow.models.asset import AssetDagRunQueue, AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import func, select

    with create_session() as session:
        requested = select(func.max(AssetDagRunQueue.created_at)).join(AssetModel).where(AssetModel.uri == uri)
        query = select(func.count()).select_from(AssetEvent).join(AssetModel, AssetModel.id == AssetEvent.asset_id)
        later = query.where(AssetModel.uri == uri, AssetEvent.timestamp > requested.scalar_subquery())
        return session.scalar(later) or 0


def watching() -> int:
    """How many watchers have noted where they begin."""
    from airflow.models.asset_state_store import AssetStateStoreModel
    from airflow.utils.session import create_session
    from sqlalchemy import func, select

    with create_session() as session:
        return session.scalar(select(func.count()).select_from(AssetStateStoreModel)) or 0


@pytest.mark.evidence
@pytest.mark.timeout(3600)
@pytest.mark.skipif(
    not evidence.does_all("HIVEX_KILLED_TRIGGERERS"), reason="each start of a triggerer takes seconds; make evidence"
)
def test_each_commit_is_reported_once_though_the_triggerer_is_killed(
    warehouse: dict[str, Any],
    store_dag: Callable[[DAG], None],
    tmp_path: Path,
    counts: Any,
) -> None:
    hook = HivexHook()
    hook.run(
        "CREATE DATABASE shop; CREATE TABLE shop.a (id INT) PARTITIONED BY (ds STRING); CREATE TABLE shop.b (id INT); "
        "CREATE TABLE shop.c (id INT)"
    )
    with DAG("on_a", schedule=watched_table("shop.a", poll_interval=0.2), is_paused_upon_creation=False) as on_a:
        pass
    with DAG("on_b", schedule=watched_table("shop.b", poll_interval=0.2), is_paused_upon_creation=False) as on_b:
        pass
    store_dag(on_a)
    store_dag(on_b)
    commits, kills = evidence.amount("HIVEX_WATCHED_COMMITS", 24, 300), evidence.amount("HIVEX_WATCHER_KILLS", 1, 5)
    kill_after = sorted(random.Random(evidence.SEED).sample(range(2, commits - 2), kills))
    log = tmp_path / "triggerer.log"
    committed: dict[str, list[int]] = {"a": [], "b": [], "c": []}

    def commit(number: int) -> None:
        table = "abc"[number % 3]
        values = f"({number}, 'day={number % 2}')" if table == "a" else f"({number})"
        committed[table].append(hook.run(f"INSERT INTO shop.{table} VALUES {values}").txn_id)

    number = 0
    for stop in [*kill_after, commits]:
        with triggerer(log) as process:
            wait_for(lambda: watching() >= 2)
            before = len(payloads_of("hivex://hivex_default/shop/a"))
            while number < stop:
                commit(number)
                number += 1
            if stop == commits:
                wait_for(lambda: len(payloads_of("hivex://hivex_default/shop/a")) >= len(committed["a"]))
                wait_for(lambda: len(payloads_of("hivex://hivex_default/shop/b")) >= len(committed["b"]))
            else:
                # In the middle of its reports.
                wait_for(lambda before=before: len(payloads_of("hivex://hivex_default/shop/a")) > before)
                kill(process, signal.SIGKILL)
        commit(number)
        number += 1
    with triggerer(log):
        wait_for(lambda: len(payloads_of("hivex://hivex_default/shop/a")) >= len(committed["a"]))
        wait_for(lambda: len(payloads_of("hivex://hivex_default/shop/b")) >= len(committed["b"]))
    for table in ("a", "b"):
        payloads = payloads_of(f"hivex://hivex_default/shop/{table}")
        assert [payload["txn_id"] for payload in payloads] == committed[table]
        assert {tuple(payload["tables"]) for payload in payloads} == {(f"shop.{table}",)}
    first = payloads_of("hivex://hivex_default/shop/a")[0]
    assert first["partitions"] == {"shop.a": ["ds=day%3D0"]}
    assert first["write_ids"] == {"shop.a": 2}
    received = len(committed["a"] + committed["b"])
    counts["commits to watched tables, each reported once"] = {"commits": received, "kills of the triggerer": kills}


class StateInDatabase:
    """The state of an asset, as the triggerer reads and writes it for its triggers."""

    def __init__(self, asset_id: int) -> None:
        from airflow._shared.state import AssetScope

        self._scope = AssetScope(asset_id=asset_id)

    async def aget(self, key: str, default: Any = None) -> Any:
        from airflow.state.metastore import MetastoreBackend

        found = MetastoreBackend().get(self._scope, key)
        return default if found is None else json.loads(found)

    async def aset(self, key: str, value: Any) -> None:
        from airflow.state.metastore import MetastoreBackend

        MetastoreBackend().set(self._scope, key, json.dumps(value))


def watcher_of(uri: str) -> tuple[int, int]:
    """The ids of the one trigger of an asset, and of the asset."""
    from airflow.models.asset import AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        asset = session.scalars(select(AssetModel).where(AssetModel.uri == uri)).one()
        (watcher,) = asset.watchers
        return watcher.trigger_id, asset.id


async def watch(uri: str, tables: str, store: int, lose: int) -> None:
    """Run a watcher: Airflow stores a number of its events, and the process ends before the next ones are stored."""
    from airflow.models.trigger import Trigger

    trigger_id, asset_id = watcher_of(uri)
    trigger = HivexCommitTrigger(tables=tables, poll_interval=0.01)
    trigger.asset_state_store = StateInDatabase(asset_id)  # type: ignore[assignment]
    stream = HivexCommitTrigger.open_shared_stream(trigger.serialize()[1])
    events = trigger.filter_shared_stream(stream)
    try:
        for number in range(store + lose):
            event = await asyncio.wait_for(anext(events), 20)
            if number < store:
                Trigger.submit_event(trigger_id, event)
        if not store:
            first = asyncio.ensure_future(anext(events))
            while await trigger.asset_state_store.aget(POSITION) is None:
                # Until it has noted where it begins, and waits for the first commit.
                await asyncio.sleep(0.01)
            first.cancel()
            with suppress(asyncio.CancelledError):
                await first
    finally:
        await events.aclose()
        await stream.aclose()


def test_watcher_goes_on_after_the_last_event_that_airflow_has_stored(
    warehouse: dict[str, Any], store_dag: Callable[[DAG], None]
) -> None:
    hook = HivexHook()
    hook.run("CREATE DATABASE club; CREATE TABLE club.a (id INT); CREATE TABLE club.b (id INT)")
    with DAG("on_club", schedule=watched_table("club.a"), is_paused_upon_creation=False) as dag:
        pass
    store_dag(dag)
    uri = "hivex://hivex_default/club/a"
    asyncio.run(watch(uri, "club.a", store=0, lose=0))
    committed = []

    def commit(count: int) -> None:
        for number in range(count):
            committed.append(hook.run(f"INSERT INTO club.a VALUES ({number})").txn_id)
            hook.run(f"INSERT INTO club.b VALUES ({number})")

    commit(5)
    asyncio.run(watch(uri, "club.a", store=3, lose=2))
    commit(2)
    asyncio.run(watch(uri, "club.a", store=1, lose=3))
    asyncio.run(watch(uri, "club.a", store=3, lose=0))
    assert [payload["txn_id"] for payload in payloads_of(uri)] == committed
    assert unrequested(uri) == 0
    # One transaction with several tables is one event.
    hook.run(["INSERT INTO club.a VALUES (9)", "INSERT INTO club.b VALUES (9)"], autocommit=False)
    hook.get_metastore().notification_log.current_event_id()
    asyncio.run(watch(uri, "club.a", store=1, lose=0))
    assert payloads_of(uri)[-1]["tables"] == ["club.a", "club.b"]
    # The log was cut while no triggerer ran.
    commit(2)
    log = hook.get_metastore().notification_log
    log.current_event_id()
    log.purge(2**60)
    asyncio.run(watch(uri, "club.a", store=1, lose=0))
    assert payloads_of(uri)[-1]["missed"] is True
    commit(1)
    asyncio.run(watch(uri, "club.a", store=1, lose=0))
    assert payloads_of(uri)[-1]["txn_id"] == committed[-1]


def test_commit_of_a_task_to_a_watched_table_is_one_event_of_its_asset(
    warehouse: dict[str, Any], store_dag: Callable[[DAG], None], run_dag: Callable[..., DagRun]
) -> None:
    HivexHook().run("CREATE DATABASE seen; CREATE TABLE seen.a (id INT); CREATE TABLE seen.b (id INT)")
    watched, not_yet = watched_table("seen.a"), watched_table("seen.b")
    with DAG("on_seen", schedule=[watched, not_yet], is_paused_upon_creation=False) as consumer:
        pass
    store_dag(consumer)
    asyncio.run(watch(watched.uri, "seen.a", store=0, lose=0))
    insert = "INSERT INTO seen.a VALUES (1); INSERT INTO seen.b VALUES (1)"
    with DAG("seen_producer", schedule=None) as dag:
        # Airflow itself would send an event for this outlet.
        HivexQueryOperator(task_id="named", sql=insert, outlets=[watched]) >> HivexQueryOperator(
            task_id="automatic", sql=insert
        )
    assert set(states(run_dag(dag)).values()) == {"success"}
    assert events_of("seen.a") == []
    # A watcher that has not begun yields no event for these commits.
    assert [extra["write_ids"] for _, extra in events_of("seen.b")] == [[2], [3]]
    store_dag(consumer)
    asyncio.run(watch(watched.uri, "seen.a", store=2, lose=0))
    assert [each["write_ids"]["seen.a"] for each in payloads_of(watched.uri)] == [2, 3]
    # The tasks are shown as producers, although the events come from the watcher.
    assert producers_of("seen.a") == {"seen_producer.named", "seen_producer.automatic"}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"tables": "a b"}, "not a valid name of a table"),
        ({"tables": ["shop.a", "x.y.z"]}, "not a valid name"),
        ({"tables": "a", "poll_interval": 0}, "poll_interval"),
        ({"tables": "a", "poll_interval": True}, "poll_interval"),
    ],
)
def test_watcher_with_arguments_that_are_wrong_is_refused_when_it_is_made(arguments: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        HivexCommitTrigger(**arguments)


def test_watched_table_has_the_uri_of_the_table_and_one_watcher() -> None:
    asset = watched_table("Shop.Sales", hivex_conn_id="wh")
    assert (asset.name, asset.uri, DELIVERED in asset.extra) == (asset.uri, "hivex://wh/shop/sales", False)
    (watcher,) = asset.watchers
    path, arguments = watcher.trigger.serialize()
    assert path == "airflow_hivex.triggers.commits.HivexCommitTrigger"
    assert (
        HivexCommitTrigger(**arguments).shared_stream_key()
        == watched_table("other", hivex_conn_id="wh").watchers[0].trigger.shared_stream_key()
    )


def test_examples_of_the_page_are_dags_with_one_watcher() -> None:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "events.md"
    names: dict[str, Any] = {}
    for block in blocks(page, "python"):
        exec(block, names)
    assert [watcher.name for watcher in names["dag"].schedule.watchers] == ["commits"]
    assert names["after_fill"].schedule.watchers == []


def test_example_dag_is_scheduled_by_the_commits_of_a_table() -> None:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(str(Path(__file__).parents[2] / "dags"))
    assert bag.import_errors == {}
    dag = bag.dags["hivex_on_commit"]
    assert sorted(dag.task_ids) == ["count", "log_commits"]
    assert dag.schedule.uri == "hivex://hivex_default/shop/orders"
