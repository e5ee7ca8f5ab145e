"""A DAG that compacts tables.

`housekeep` returns compactions of lost workers to the queue. `initiate` requests compactions by thresholds.
`find_waiting` lists at most `entries` compactions that wait in the queue, the oldest first. One task `compact` runs
each listed compaction. The other compactions wait for the next run of the DAG. After the compactions, `clean` deletes
replaced files and files of aborted transactions, even if a compaction has failed. `report` ends the run, and fails if
another task has failed.

Each task can be killed, retried and run in parallel with other tasks. Compactions never change the rows that queries
return.

The tasks `compact` run in the Airflow pool `airflow_pool`. Its default is the pool that the environment variable
`HIVEX_COMPACTION_AIRFLOW_POOL` names, or else `default_pool`. Make a pool of few slots, so that compactions do not take
the slots of other tasks: `airflow pools set hivex_compaction 2 "Compactions"`.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param, TriggerRule, chain, get_current_context, task

from airflow_hivex.hooks.warehouse import WarehouseHook
from airflow_hivex.operators.compaction import (
    HivexCleanOperator,
    HivexHousekeepingOperator,
    HivexInitiateCompactionsOperator,
)
from airflow_hivex.operators.compaction_worker import HivexCompactionWorkerOperator

log = logging.getLogger(__name__)

POOL_VARIABLE = "HIVEX_COMPACTION_AIRFLOW_POOL"
CONNECTION = "{{ params.hivex_conn_id }}"


@task
def find_waiting() -> list[int]:
    """Return the ids of up to ``entries`` compactions that wait for workers of the pool, the oldest first."""
    params = get_current_context()["params"]
    queue = WarehouseHook(params["hivex_conn_id"]).get_metastore().compactor.queue
    found = queue.waiting(params["pool"], limit=params["entries"])
    for entry in found:
        log.info("Compaction %s waits: %s of %s", entry.id, entry.type.name.lower(), entry.name)
    return [entry.id for entry in found]


@task(trigger_rule=TriggerRule.NONE_FAILED, multiple_outputs=False)
def report(compacted: Any, cleaned: Any) -> dict[str, int]:
    """Return the number of compactions in each state, and the number of deleted directories and files."""
    # A slice reads all results of the mapped task at once, not one by one.
    states = Counter(each["state"] for entries in (compacted or ())[:] for each in entries)
    deleted = sum(each["deleted"] for each in cleaned)
    log.info("Compactions: %s. Deleted: %s directories and files.", dict(states), deleted)
    return {**states, "deleted": deleted}


def compaction_dag(
    dag_id: str = "hivex_compaction",
    *,
    hivex_conn_id: str = "hivex_default",
    pool: str | None = None,
    entries: int = 100,
    airflow_pool: str | None = None,
    **options: Any,
) -> DAG:
    """Return the DAG. Make one DAG for each warehouse, or for each compaction pool of a warehouse.

    :param dag_id: the DAG's id
    :param hivex_conn_id: the connection whose warehouse is compacted; a param of the DAG
    :param pool: the compaction pool whose compactions are run; a param of the DAG
    :param entries: the largest number of compactions of a run; a param of the DAG
    :param airflow_pool: the pool of Airflow in which the tasks `compact` run
    :param options: other arguments of :class:`~airflow.sdk.DAG`, such as ``schedule``
    """
    settings: dict[str, Any] = {
        "schedule": timedelta(minutes=5),
        "catchup": False,
        "max_active_runs": 1,
        "tags": ["hivex", "compaction"],
        "params": _params(hivex_conn_id, pool, entries),
        "default_args": {"owner": "hivex", "retries": 1, "retry_delay": timedelta(seconds=10)},
        "doc_md": __doc__,
    }
    with DAG(dag_id, **(settings | options)) as dag:
        housekeep = HivexHousekeepingOperator(task_id="housekeep", hivex_conn_id=CONNECTION)
        initiate = HivexInitiateCompactionsOperator(task_id="initiate", hivex_conn_id=CONNECTION)
        waiting = find_waiting()
        compact = HivexCompactionWorkerOperator.partial(
            task_id="compact",
            hivex_conn_id=CONNECTION,
            pool=airflow_pool or os.environ.get(POOL_VARIABLE) or "default_pool",
            retries=2,
            # Longer than hive.txn.timeout, after which the housekeeper finds the loss of a killed worker.
            retry_delay=timedelta(minutes=6),
            map_index_template="{{ task.map_name }}",
        ).expand(compaction_id=waiting)
        clean = HivexCleanOperator(task_id="clean", hivex_conn_id=CONNECTION, trigger_rule=TriggerRule.ALL_DONE)
        chain(housekeep, initiate, waiting)
        chain(compact, clean)
        report(compact.output, clean.output)
    return dag


def _params(hivex_conn_id: str, pool: str | None, entries: int) -> dict[str, Param]:
    return {
        "hivex_conn_id": Param(
            hivex_conn_id,
            type="string",
            title="Connection",
            description="The connection of type hivex whose warehouse is compacted.",
        ),
        "pool": Param(
            pool,
            type=["null", "string"],
            title="Pool of the queue",
            description=(
                "Whose compactions are done: those of tables with the property hive.compactor.worker.pool of that "
                "name, or requested with POOL. Empty: those without a pool, and those that have waited for long in "
                "another one. It is not the pool of Airflow that the tasks run in."
            ),
        ),
        "entries": Param(
            entries,
            type="integer",
            minimum=1,
            maximum=1000,
            title="Entries of a run",
            description="How many compactions a run does at most, each as one task. The others wait for the next run.",
        ),
    }
