"""An operator that runs the compactions that wait in the queue."""

from __future__ import annotations

import contextvars
import os
import socket
import uuid
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_hivex.core.errors import CompactionLostError, HivexError, JobCancelledError
from airflow_hivex.hooks.compactions import as_whole_number, describe_compaction
from airflow_hivex.hooks.tasks import NamedInMap, failing_for_good
from airflow_hivex.hooks.warehouse import WarehouseHook
from airflow_hivex.operators.page_links import HivexCompactionsLink

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context, XComArg

    from airflow_hivex.core.compaction.compactor import Compactor
    from airflow_hivex.core.metastore import Metastore
    from airflow_hivex.core.model.compaction import Compaction

# How long a task that timed out waits for its job to end.
CANCEL_LIMIT_S = 60


class HivexCompactionWorkerOperator(NamedInMap, BaseOperator):
    """Run compactions that wait in the queue, on the primary cluster of each table.

    Readers and writers continue meanwhile. The operator returns a list with ``{"compaction_id", "table", "partition",
    "type", "state", "message", "txn_id"}`` for each compaction. If one fails, the task still runs the others, and then
    fails without a retry. The initiator requests the failed one again.

    A retry does not repeat finished compactions. An unfinished one returns to the queue at once if the task was ended
    or timed out, and after the time-out of its transaction if the process was killed.

    :param compaction_id: the only compaction to run; if it does not wait any more, the task returns its state. None:
        the oldest ones of ``compaction_pool`` (templated)
    :param compaction_pool: the compaction pool; None for compactions without a pool, and those of any pool that have
        waited longer than ``metastore.compactor.worker.pool.timeout``. It is not an Airflow ``pool`` (templated)
    :param max_compactions: the most compactions, one after the other; None: until none waits (templated)
    :param hivex_conn_id: the connection of type ``hivex`` (templated)
    """

    template_fields: Sequence[str] = ("compaction_id", "compaction_pool", "max_compactions", "hivex_conn_id")
    operator_extra_links = (HivexCompactionsLink(),)
    ui_color = "#fdee21"

    def __init__(
        self,
        *,
        compaction_id: int | str | XComArg | None = None,
        compaction_pool: str | None = None,
        max_compactions: int | str | None = 1,
        hivex_conn_id: str = WarehouseHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.compaction_id = compaction_id
        self.compaction_pool = compaction_pool
        self.max_compactions = max_compactions
        self.hivex_conn_id = hivex_conn_id
        self._working: tuple[Compactor, str] | None = None
        self._killed = False

    @property
    def map_name(self) -> str:
        """Return the name of a mapped task in Airflow's web interface: the table, the partition and the id."""
        if self.compaction_id is None:
            return f"pool {self.compaction_pool}" if self.compaction_pool else "no pool"
        try:
            entry = (
                WarehouseHook(self.hivex_conn_id).get_metastore().compactor.history.get(int(str(self.compaction_id)))
            )
        except (HivexError, ValueError) as error:
            # The execution of the task reports this error.
            self.log.debug("Compaction %s has no name: %s", self.compaction_id, error)
            return f"compaction {self.compaction_id}"
        return f"{entry.name}, compaction {entry.id}"

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Run the compactions.

        :raises AirflowFailException: a compaction has failed, or no compaction has the id
        :raises AirflowException: the task was killed, or another worker still runs the compaction
        :raises HivexError: a retry can succeed, or the compaction is in the queue again
        """
        from airflow_hivex.operators.asset_events import declare_tables

        self._killed = False
        with failing_for_good(self._waits_again):
            metastore = WarehouseHook(self.hivex_conn_id).get_metastore()
            if self.compaction_id is None:
                done = self._do_oldest(metastore.compactor)
            else:
                number = as_whole_number("compaction_id", self.compaction_id)
                done = [self._do(metastore, number, is_retry=context["ti"].try_number > 1)]
        declare_tables(self, self.hivex_conn_id, [each["table"] for each in done])
        failed = [each for each in done if each["state"] == "failed"]
        if failed:
            reasons = "; ".join(f"{each['compaction_id']} of {each['table']}: {each['message']}" for each in failed)
            raise AirflowFailException(f"{len(failed)} of {len(done)} compactions failed: {reasons}")
        return done

    def _waits_again(self, error: HivexError) -> bool:
        """Return whether a retry can run the compaction: it is in the queue again, or the task was killed."""
        return self._killed or isinstance(error, CompactionLostError | JobCancelledError)

    def on_kill(self) -> None:
        """Stop the Spark job. The compaction returns to the queue, and queries return the same rows as before."""
        self._killed = True
        working = self._working
        if working is not None:
            self.log.info("Stopping the running compaction.")
            compactor, worker_id = working
            compactor.cancel(worker_id)

    def _do_oldest(self, compactor: Compactor) -> list[dict[str, Any]]:
        limit = None
        if self.max_compactions is not None:
            limit = as_whole_number("max_compactions", self.max_compactions)
        done: list[dict[str, Any]] = []
        while limit is None or len(done) < limit:
            entry = self._work(compactor, pool=self.compaction_pool or None)
            if entry is None:
                self.log.info("No compaction waits.")
                break
            done.append(describe_compaction(entry))
        return done

    def _do(self, metastore: Metastore, compaction_id: int, *, is_retry: bool) -> dict[str, Any]:
        """Run the compaction with this id if it still waits, and return the compaction as the result of the task."""
        from airflow_hivex.core.model.compaction import CompactionState

        compactor = metastore.compactor
        entry = self._work(compactor, compaction_id=compaction_id)
        if entry is None and is_retry:
            # A worker of the try before may have been killed. The housekeeper finds that by the missing heartbeat of
            # its transaction.
            metastore.housekeeper.run()
            entry = self._work(compactor, compaction_id=compaction_id)
        if entry is not None:
            return describe_compaction(entry)
        entry = compactor.history.get(compaction_id)
        if entry.state is CompactionState.WORKING and is_retry:
            raise AirflowException(
                f"Compaction {entry.id} of {entry.name} is with worker {entry.worker_id}, perhaps of an earlier try of "
                "this task. If that is gone, it goes back to the queue when its heartbeat has been missed for "
                "hive.txn.timeout; try again then."
            )
        self.log.info(
            "Compaction %s of %s is %s: there is nothing to do here.", entry.id, entry.name, entry.state.shown
        )
        return describe_compaction(entry)

    def _work(
        self, compactor: Compactor, *, pool: str | None = None, compaction_id: int | None = None
    ) -> Compaction | None:
        """Run one compaction in a thread, and return its queue entry, or None if no compaction waits.

        The main thread only waits. So an error that Airflow's time-out or ``on_kill`` raises in the main thread
        interrupts no query.
        """
        worker_id = f"{socket.gethostname()}-{os.getpid()}.{uuid.uuid4().hex[:8]}"
        self._working = (compactor, worker_id)
        executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="hivex-compaction")
        try:
            if self._killed:
                raise AirflowException("The task was killed before its next compaction.")
            variables = contextvars.copy_context()
            future = executor.submit(variables.run, compactor.work, worker_id, pool, compaction_id=compaction_id)
            try:
                entry = future.result()
            except BaseException:
                if not future.done():
                    compactor.cancel(worker_id)
                    wait([future], timeout=CANCEL_LIMIT_S)
                raise
        finally:
            self._working = None
            executor.shutdown(wait=False)
        if entry is not None:
            because = f": {entry.error_message}" if entry.error_message else ""
            what = entry.type.name.lower()
            self.log.info("Compaction %s, %s of %s, is %s%s", entry.id, what, entry.name, entry.state.shown, because)
        return entry
