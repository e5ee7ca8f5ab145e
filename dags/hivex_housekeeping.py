"""What dead clients left behind, settled every minute.

Transactions and locks whose owners have sent no heartbeat for `hive.txn.timeout` are ended, the files
of their writes are deleted, and records that nobody needs any more are removed. Whoever waits for a
lock does the same, so that nothing is stuck where this DAG does not run; it keeps the metastore small.

Uses the connection `hivex_default`.
"""

from __future__ import annotations

import logging
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from airflow.sdk import dag, task

from airflow_hivex.hooks.hivex import HivexHook

log = logging.getLogger(__name__)

CONNECTION = "hivex_default"


@dag(
    dag_id="hivex_housekeeping",
    schedule=timedelta(minutes=1),
    catchup=False,
    max_active_runs=1,
    tags=["hivex", "housekeeping"],
    default_args={"owner": "hivex", "retries": 1, "retry_delay": timedelta(seconds=10)},
    doc_md=__doc__,
)
def hivex_housekeeping() -> None:
    """One task."""

    @task(execution_timeout=timedelta(minutes=10))
    def housekeep() -> dict[str, Any]:
        """One round: which transactions and locks were ended, and how many records were removed."""
        result = asdict(HivexHook(CONNECTION).get_metastore().housekeeper.run())
        log.info("Housekeeping: %s", result)
        return result

    housekeep()


hivex_housekeeping()
