"""A DAG that replicates chosen tables to a cluster, with one task for each table.

Each run copies the files that the cluster lacks. The tables and the cluster are params of the DAG.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import DAG, Param, get_current_context, task

from airflow_hivex.operators.replication import HivexReplicateOperator


def replication_dag(
    dag_id: str = "hivex_replication",
    *,
    tables: Sequence[str] = (),
    cluster: str = "c2",
    bytes_per_second: int | None = None,
    hivex_conn_id: str = "hivex_default",
    **options: Any,
) -> DAG:
    """Return the DAG.

    :param dag_id: the DAG's id
    :param tables: the tables to copy, as ``database.table``; a param of the DAG
    :param cluster: the cluster that gets the copies; a param of the DAG
    :param bytes_per_second: the maximum speed of copying of each task; None means no limit
    :param hivex_conn_id: the connection whose warehouse is replicated
    :param options: other arguments of :class:`~airflow.sdk.DAG`, such as ``schedule``
    """
    settings: dict[str, Any] = {
        "schedule": None,
        "catchup": False,
        "max_active_runs": 1,
        "tags": ["hivex", "replication"],
        "default_args": {"owner": "hivex", "retries": 2},
        "params": {
            "tables": Param(list(tables), type="array", items={"type": "string"}),
            "cluster": Param(cluster, type="string"),
        },
        "doc_md": __doc__,
    }
    with DAG(dag_id, **(settings | options)) as dag:

        @task
        def choose_tables() -> list[str]:
            return list(get_current_context()["params"]["tables"])

        HivexReplicateOperator.partial(
            task_id="replicate",
            cluster="{{ params.cluster }}",
            bytes_per_second=bytes_per_second,
            hivex_conn_id=hivex_conn_id,
        ).expand(tables=choose_tables())
    return dag
