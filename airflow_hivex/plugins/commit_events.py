"""A listener for the events of tables: events of watchers, and events of tasks.

It records the last stored event of a watched table in the database transaction that stores the event. The triggerer
stores the events of watchers in Airflow's database, and calls listeners before it commits.

Airflow keeps a request, with a time, for a run of each DAG that the asset schedules. The run gets the events up to this
time. The listener sets this time to the time of the event.

It also records the task of an event as a producer of the asset. The API server calls listeners after it has committed
the event of a task. Airflow itself only knows the outlets in DAG files, and not the assets of an alias: when the DAG
processor stores a DAG, it deletes the producers that are not in the file. The listener restores them before the flush.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import TYPE_CHECKING, Any

from airflow.listeners import hookimpl
from airflow.plugins_manager import AirflowPlugin

from airflow_hivex.assets.hivex import SCHEME, alias_of_task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.listeners.types import AssetEvent
    from airflow.models.asset import AssetModel, TaskOutletAssetReference
    from sqlalchemy.orm import Session

log = logging.getLogger(__name__)


@hookimpl
def on_asset_event_emitted(asset_event: AssetEvent) -> None:
    """Record an event of a HivexCommitTrigger in the state of its asset, and renew requests for DAG runs.

    Record the task of any other event of a table as a producer of the table.
    """
    event_id = _event_id(asset_event.extra)
    if event_id is None and not (asset_event.source_task_id and asset_event.asset.uri.startswith(f"{SCHEME}://")):
        return
    from airflow import settings
    from airflow._shared.state import AssetScope, AssetStateStoreWriterKind
    from airflow._shared.timezones import timezone
    from airflow.models.asset import AssetDagRunQueue, AssetModel
    from airflow.models.asset_state_store import AssetStateStoreModel
    from airflow.state.metastore import MetastoreBackend
    from airflow.utils.session import create_session

    from airflow_hivex.triggers.commits import DELIVERED, PRODUCER

    def asset_of(session: Session) -> AssetModel | None:
        wanted = {"name": asset_event.asset.name, "uri": asset_event.asset.uri}
        return session.query(AssetModel).filter_by(**wanted).one_or_none()

    if event_id is None:
        with create_session(scoped=False) as session:
            asset = asset_of(session)
            if asset is not None:
                _record_producer(session, asset, str(asset_event.source_dag_id), str(asset_event.source_task_id))
        return
    assert settings.Session is not None
    session = settings.Session()
    asset = asset_of(session)
    if asset is not None:
        # The tasks that have left their event to the watcher.
        noted = session.query(AssetStateStoreModel).filter_by(asset_id=asset.id)
        for each in noted.filter(AssetStateStoreModel.key.startswith(PRODUCER)):
            if not _record_producer(session, asset, **json.loads(each.value)):
                session.delete(each)
        MetastoreBackend().set_asset_state_store(
            AssetScope(asset_id=asset.id),
            DELIVERED,
            json.dumps(event_id),
            kind=AssetStateStoreWriterKind.WATCHER,
            session=session,
        )
        # The update waits for a scheduler that creates the run at this moment. Airflow then adds a new request.
        requests = session.query(AssetDagRunQueue).filter_by(asset_id=asset.id)
        requests.update({AssetDagRunQueue.created_at: timezone.utcnow()})


@hookimpl
def on_starting(component: object) -> None:
    """Keep the producers of assets in a DAG processor, which would delete them."""
    # A job does not know yet whether it is a DAG processor. The process of a task starts another component.
    if hasattr(component, "job_type"):
        from sqlalchemy import event
        from sqlalchemy.orm import Session

        event.listen(Session, "before_flush", keep_producers)


def keep_producers(session: Session, *_: object) -> None:
    """Restore the producers that a flush would delete, and that events of aliases have recorded."""
    from airflow.models.asset import TaskOutletAssetReference
    from airflow.models.dag import DagModel
    from sqlalchemy import inspect

    for reference in list(session.deleted):
        if isinstance(reference, TaskOutletAssetReference) and _is_of_alias(reference):
            session.add(reference)
    for dag in session.dirty:
        if isinstance(dag, DagModel):
            kept: Sequence[TaskOutletAssetReference] = inspect(dag).attrs.task_outlet_asset_references.history.deleted
            dag.task_outlet_asset_references.extend(filter(_is_of_alias, kept))


def _is_of_alias(reference: TaskOutletAssetReference) -> bool:
    """Return whether a producer has sent an event of the asset through the alias of the task."""
    alias = alias_of_task(reference.dag_id, reference.task_id)
    return any(each.name == alias.name for each in reference.asset.aliases)


def _record_producer(session: Session, asset: AssetModel, dag_id: str, task_id: str) -> bool:
    """Record a task as a producer of an asset, and forget the producers that the DAG no longer has.

    Return whether the DAG has the task.
    """
    from airflow.models.asset import AssetAliasModel, TaskOutletAssetReference
    from airflow.models.serialized_dag import SerializedDagModel
    from sqlalchemy.exc import IntegrityError

    key = {"asset_id": asset.id, "dag_id": dag_id, "task_id": task_id}
    if session.get(TaskOutletAssetReference, key) is not None:
        return True
    dag = SerializedDagModel.get_dag(dag_id, session=session)
    if dag is None or task_id not in dag.task_ids:
        return False
    of_dag = session.query(TaskOutletAssetReference).filter_by(dag_id=dag_id)
    of_dag.filter(TaskOutletAssetReference.task_id.not_in(dag.task_ids)).delete()
    name = alias_of_task(dag_id, task_id).name
    try:
        with session.begin_nested():
            session.add(TaskOutletAssetReference(**key))
            if name not in (each.name for each in asset.aliases):
                alias = session.query(AssetAliasModel).filter_by(name=name).one_or_none()
                asset.aliases.append(alias or AssetAliasModel(name=name, group="asset"))
    except IntegrityError as error:
        log.info("Another process has recorded %s.%s as a producer: %s", dag_id, task_id, error)
    return True


def _event_id(extra: Any) -> int | None:
    payload = extra.get("payload") if isinstance(extra, dict) and extra.get("from_trigger") else None
    if not isinstance(payload, dict) or payload.get("source") != "hivex":
        return None
    event_id = payload.get("event_id")
    return event_id if isinstance(event_id, int) else None


class HivexCommitEventsPlugin(AirflowPlugin):
    """The plugin that registers this module as a listener."""

    name = "hivex_commit_events"
    listeners = [sys.modules[__name__]]  # noqa: RUF012 - Airflow's form
