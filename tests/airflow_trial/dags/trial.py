"""The DAGs of the trial: statements that last long enough to be killed, a group, a sensor, compactions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import chain, dag

from airflow_hivex.operators.compaction import HivexCompactOperator
from airflow_hivex.operators.query import HivexQueryOperator
from airflow_hivex.operators.transaction import HivexTransaction
from airflow_hivex.sensors.transactions import HivexTableCommitSensor

ARGUMENTS = {"owner": "trial", "retries": 2, "retry_delay": timedelta(seconds=2), "retry_exponential_backoff": False}
OPTIONS: dict[str, Any] = {"schedule": None, "catchup": False, "default_args": ARGUMENTS, "max_active_runs": 8}
# The size says for how long Spark works: minutes where the statement is to be killed.
LONG = (
    "SELECT CAST(count(*) AS int) AS n FROM range({{ params.size }}) a CROSS JOIN range(20000) b "
    "WHERE hash(a.id, b.id) <> 0"
)


@dag(dag_id="trial_long", params={"size": 150_000}, **OPTIONS)
def long_dag() -> None:
    """One task whose statement lasts."""
    HivexQueryOperator(task_id="write", sql=f"INSERT INTO trial.long SELECT '{{{{ run_id }}}}', n FROM ({LONG})")


@dag(dag_id="trial_group", **OPTIONS)
def group_dag() -> None:
    """Three tasks that write in one transaction, and one that reads what they have committed."""
    with HivexTransaction("load", task_arguments={"retries": 2, "retry_delay": timedelta(seconds=2)}) as transaction:
        tasks = [
            HivexQueryOperator(
                task_id=f"write_{number}",
                sql="INSERT INTO trial.parts VALUES (:run, :part)",
                parameters={"run": "{{ run_id }}", "part": number},
                transaction=transaction,
            )
            for number in range(3)
        ]
        chain(*tasks)
    chain(transaction, HivexQueryOperator(task_id="count", sql="SELECT count(*) FROM trial.parts"))


@dag(dag_id="trial_group_long", params={"size": 150_000}, **OPTIONS)
def group_long_dag() -> None:
    """A group with a task that lasts, which people mark as failed."""
    with HivexTransaction("load", task_arguments={"retries": 2, "retry_delay": timedelta(seconds=2)}) as transaction:
        first = HivexQueryOperator(
            task_id="first", sql="INSERT INTO trial.parts VALUES ('{{ run_id }}', 0)", transaction=transaction
        )
        last = HivexQueryOperator(
            task_id="last",
            sql=f"INSERT INTO trial.parts SELECT '{{{{ run_id }}}}', n FROM ({LONG})",
            transaction=transaction,
            retries=0,
        )
        chain(first, last)


@dag(dag_id="trial_sensor", **OPTIONS)
def sensor_dag() -> None:
    """A deferred sensor, and a task behind it."""
    wait = HivexTableCommitSensor(task_id="wait", table="trial.signal", deferrable=True, poke_interval=2)
    chain(wait, HivexQueryOperator(task_id="after", sql="INSERT INTO trial.seen VALUES ('{{ run_id }}')"))


@dag(dag_id="trial_deferred", params={"size": 100_000}, **OPTIONS)
def deferred_dag() -> None:
    """A statement whose job runs on a Spark Connect server, while the task waits in the triggerer."""
    sql = f"INSERT INTO trial.deferred SELECT '{{{{ run_id }}}}', n FROM ({LONG})"
    HivexQueryOperator(task_id="write", sql=sql, deferrable=True)


@dag(dag_id="trial_compaction", **OPTIONS)
def compaction_dag() -> None:
    """A compaction."""
    HivexCompactOperator(task_id="compact", table="trial.parts")


long_dag()
group_dag()
group_long_dag()
sensor_dag()
deferred_dag()
compaction_dag()
