"""What happens to DAG runs: tasks are cleared, runs are marked, workers die. By Airflow's own functions."""

from __future__ import annotations

import os
import signal
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from airflow_hivex.assets.hivex import create_asset

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow.models.dagrun import DagRun
    from airflow.sdk import DAG, BaseOperator
    from sqlalchemy.orm import Session


def states(run: DagRun) -> dict[str, str]:
    """The state of each task, mapped ones with ``[map_index]``."""
    return {
        ti.task_id if ti.map_index < 0 else f"{ti.task_id}[{ti.map_index}]": str(ti.state)
        for ti in run.get_task_instances()
    }


def tries(run: DagRun) -> dict[str, int]:
    return {ti.task_id: ti.try_number for ti in run.get_task_instances()}


def clear(dag: DAG, run: DagRun, *task_ids: str, downstream: bool = True) -> set[str]:
    """Clear tasks as the web interface does; return the ids of those that were."""
    from airflow.models.taskinstance import find_relevant_relatives
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState

    with create_session() as session:
        chosen: set[Any] = set(task_ids)
        if downstream:
            chosen |= set(
                find_relevant_relatives(
                    task_ids,
                    [],
                    direction="downstream",
                    dag=_scheduled(dag),
                    run_id=run.run_id,
                    session=session,
                )
            )
        _scheduled(dag).clear(
            task_ids=list(chosen), run_id=run.run_id, dag_run_state=DagRunState.RUNNING, session=session
        )
    return {task if isinstance(task, str) else task[0] for task in chosen}


def create_run(dag: DAG) -> DagRun:
    """A run that has not begun, for :func:`go_on`; the DAG is in Airflow's database."""
    from airflow.models.dagrun import get_or_create_dagrun
    from airflow.sdk import timezone
    from airflow.utils.session import create_session
    from airflow.utils.types import DagRunTriggeredByType

    now = timezone.utcnow()
    with create_session() as session:
        run = get_or_create_dagrun(
            dag=_scheduled(dag),
            run_id=f"manual__{now.isoformat()}",
            logical_date=now,
            data_interval=(now, now),
            run_after=now,
            conf=None,
            triggered_by=DagRunTriggeredByType.TEST,
            triggering_user_name="test",
            start_date=now,
            session=session,
        )
        return _committed(session, run)


def create_run_without_date(dag: DAG) -> DagRun:
    """A run as an asset or the API starts it: without a logical date, with others of this kind."""
    from airflow.sdk import timezone
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    now = timezone.utcnow()
    with create_session() as session:
        run = _scheduled(dag).create_dagrun(
            run_id=f"manual__{now.isoformat()}",
            logical_date=None,
            data_interval=None,
            run_after=now,
            run_type=DagRunType.MANUAL,
            triggered_by=DagRunTriggeredByType.TEST,
            state=DagRunState.RUNNING,
            start_date=now,
            session=session,
        )
        return _committed(session, run)


def _committed(session: Session, run: DagRun) -> DagRun:
    session.commit()
    session.refresh(run)
    session.expunge_all()
    return run


def mark(dag: DAG, run: DagRun, state: str, running: str | None = None) -> None:
    """Mark a run as ``failed`` or ``success`` as the web interface does, perhaps while a task of it runs."""
    from airflow.api.common.mark_tasks import set_dag_run_state_to_failed, set_dag_run_state_to_success
    from airflow.utils.session import create_session

    set_state = {"failed": set_dag_run_state_to_failed, "success": set_dag_run_state_to_success}[state]

    for ti in run.get_task_instances():
        if ti.task_id == running:
            ti.set_state("running")
    with create_session() as session:
        set_state(dag=_scheduled(dag), run_id=run.run_id, commit=True, session=session)


def go_on(dag: DAG, run: DagRun, *, but_first: Sequence[tuple[str, Callable[[], None]]] = ()) -> DagRun:
    """Run what is left of a run, as ``dag.test()`` does; of ``but_first`` each is done once before a task."""
    from airflow.models.dagrun import DagRun as StoredRun
    from airflow.sdk.definitions.dag import _run_task
    from airflow.utils.session import create_session
    from airflow.utils.state import State, TaskInstanceState

    actions = dict(but_first)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with create_session() as session:
            current = session.get_one(StoredRun, run.id)
            current.dag = _scheduled(dag)
            ready, _ = current.update_state(session=session)
            for ti in ready:
                if ti.state != TaskInstanceState.UP_FOR_RESCHEDULE:
                    ti.try_number += 1
                ti.state = TaskInstanceState.SCHEDULED
        with create_session() as session:
            current = session.get_one(StoredRun, run.id)
            tis = current.get_task_instances(session=session)
            scheduled = next((ti for ti in tis if ti.state == TaskInstanceState.SCHEDULED), None)
            if scheduled is None and all(ti.state in State.finished for ti in tis):
                return current
            session.expunge_all()
        if scheduled is None:
            # No event reports when a retry or a deferred task is ready; the test's own time-out ends it.
            time.sleep(0.05)
        elif action := actions.pop(scheduled.task_id, None):
            action()
        else:
            _run_task(ti=scheduled, task=dag.task_dict[scheduled.task_id], run_triggerer=True)
    raise AssertionError(f"the run did not end: {states(run)}")


def context(**fields: Any) -> Any:
    """What an operator sees of a task."""
    defaults = {"dag_id": "d", "task_id": "t", "run_id": "r", "try_number": 1, "map_index": -1, "id": "first"}
    ti = SimpleNamespace(**defaults | fields)
    ti.get_task_states = lambda **_: {ti.run_id: {}}
    ti.xcom_pull = lambda **_: None
    return {"ti": ti}


def kill_at(point: str, operator: BaseOperator, count: int = 1, **fields: Any) -> None:
    """Run an operator in a process of its own, made as Airflow makes those of tasks, which is killed at a point.

    It is one of those that ``Metastore.open(fault=...)`` reports, the ``count``-th time that it is reached.
    """
    pid = os.fork()
    if not pid:
        # Should it hang, it dies of another signal.
        signal.alarm(60)
        try:
            _die_at(point, count)
            operator.execute(context(**fields))
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL


def _die_at(point: str, count: int) -> None:
    from airflow_hivex.core.metastore import Metastore
    from airflow_hivex.hooks import hivex

    left = count

    def fault(reached: str) -> None:
        nonlocal left
        left -= reached == point
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    configuration = hivex.HivexHook().get_configuration()
    metastore = Metastore.open(
        configuration.url,
        clusters=configuration.clusters,
        default_cluster=configuration.default_cluster,
        settings=configuration.settings,
        fault=fault,
    )
    hivex.share_metastore(configuration, metastore)


def _scheduled(dag: DAG) -> Any:
    from airflow.serialization.serialized_objects import DagSerialization

    return DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        # Between two looks at what another thread brings about.
        time.sleep(0.02)


def events_of(table: str) -> list[tuple[Any, Any]]:
    """The partition key and the extra of each event of the asset of a table or link, oldest first."""
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    name = create_asset(table=table).name
    with create_session() as session:
        query = select(AssetEvent).join(AssetModel, AssetModel.id == AssetEvent.asset_id).where(AssetModel.name == name)
        return [(event.partition_key, event.extra) for event in session.scalars(query.order_by(AssetEvent.id))]


def producers_of(table: str) -> set[str]:
    """The tasks that Airflow's Assets page counts as producers of a table, as ``dag_id.task_id``."""
    from airflow.models.asset import AssetModel, TaskOutletAssetReference
    from airflow.utils.session import create_session

    with create_session() as session:
        found = (
            session.query(TaskOutletAssetReference)
            .join(AssetModel)
            .filter(AssetModel.uri == create_asset(table=table).uri)
        )
        return {f"{each.dag_id}.{each.task_id}" for each in found}
