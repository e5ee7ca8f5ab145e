"""Operators that request a compaction, and run the initiator, the cleaner and the housekeeper."""

from __future__ import annotations

import time
from dataclasses import asdict
from datetime import timedelta
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator, conf
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_hivex.hooks.compactions import (
    as_whole_number,
    describe_cleaning,
    describe_compaction,
    table_to_compact,
)
from airflow_hivex.hooks.tasks import NamedInMap, failing_for_good
from airflow_hivex.hooks.warehouse import WarehouseHook
from airflow_hivex.operators.page_links import HivexCompactionsLink, HivexTableLink
from airflow_hivex.triggers.compaction import HivexCompactionTrigger, look_at_compaction

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context

    from airflow_hivex.core.compaction.compactor import Compactor
    from airflow_hivex.core.model.compaction import Compaction, CompactionResponse
    from airflow_hivex.core.model.objects import SortColumn


class HivexCompactOperator(NamedInMap, BaseOperator):
    """Request a compaction of one table or partition, and optionally wait for its end.

    The request ignores thresholds, ``NO_AUTO_COMPACTION`` and previous failures. If a compaction of the same type
    waits, runs, or has covered the same writes, the task uses it, so that a retry requests no second one. If one of
    another type is in the queue, the task fails and is retried.

    The operator returns ``{"compaction_id", "table", "partition", "type", "state", "message", "txn_id"}``.

    :param table: ``table`` or ``database.table`` (templated)
    :param partition: ``key=value/...``; required for a table with partitions (templated)
    :param compaction_type: ``major``, ``minor`` or ``rebalance`` (templated)
    :param compaction_pool: the compaction pool, not an Airflow ``pool``; None: that of table or database (templated)
    :param properties: ``compactor.*`` and ``tblprops.*`` properties, which override those of the table (templated)
    :param buckets: the number of files that a rebalance writes; None for the current number (templated)
    :param order_by: the columns by which a rebalance sorts the rows, with ``DESC`` for descending order (templated)
    :param wait_for_completion: wait until the rows are merged. If this fails, the task fails without a retry
    :param until_cleaned: with ``wait_for_completion``, wait until the replaced files are deleted, too
    :param poll_interval: seconds between two checks of the compaction
    :param timeout: the longest wait. After it the task fails, and the compaction continues
    :param hivex_conn_id: the connection of type ``hivex`` (templated)
    :param deferrable: whether to wait in the triggerer
    """

    template_fields: Sequence[str] = (
        "table",
        "partition",
        "compaction_type",
        "compaction_pool",
        "properties",
        "buckets",
        "order_by",
        "hivex_conn_id",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"properties": "json"}
    operator_extra_links = (HivexCompactionsLink(), HivexTableLink())
    ui_color = "#fdee21"

    def __init__(
        self,
        *,
        table: str,
        partition: str | None = None,
        compaction_type: str = "major",
        compaction_pool: str | None = None,
        properties: Mapping[str, str] | None = None,
        buckets: int | str | None = None,
        order_by: str | Sequence[str] | None = None,
        wait_for_completion: bool = False,
        until_cleaned: bool = False,
        poll_interval: float = 10.0,
        timeout: timedelta = timedelta(hours=24),
        hivex_conn_id: str = WarehouseHook.default_conn_name,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if poll_interval <= 0:
            raise ValueError(f"poll_interval is {poll_interval!r}; it must be more than 0 seconds")
        if until_cleaned and not wait_for_completion:
            raise ValueError("until_cleaned=True says how long to wait; wait_for_completion=True is missing")
        self.table = table
        self.partition = partition
        self.compaction_type = compaction_type
        self.compaction_pool = compaction_pool
        self.properties = properties
        self.buckets = buckets
        self.order_by = order_by
        self.wait_for_completion = wait_for_completion
        self.until_cleaned = until_cleaned
        self.poll_interval = poll_interval
        self.timeout = timeout
        self.hivex_conn_id = hivex_conn_id
        self.deferrable = deferrable
        # A signal handler may put into a SimpleQueue while the same thread waits for it; an Event does not allow that.
        # Airflow copies operators that do not run, and a queue cannot be copied: so execute() makes it.
        self._killed: SimpleQueue[None] | None = None

    @property
    def map_name(self) -> str:
        """Return the name of a mapped task in Airflow's web interface: the table and partition."""
        return self._place()

    def execute(self, context: Context) -> dict[str, Any]:  # noqa: ARG002 - Airflow gives it by this name
        """Request the compaction, and wait for its end if ``wait_for_completion`` is set.

        :raises AirflowFailException: the table cannot be compacted, or the compaction has failed, and a retry would
            fail again
        :raises AirflowException: a compaction of another type is in the queue, or ``timeout`` is over
        :raises HivexError: a retry can succeed
        """
        self._killed = SimpleQueue()
        with failing_for_good():
            hook = WarehouseHook(self.hivex_conn_id)
            compactor = hook.get_metastore().compactor
            database, name = table_to_compact(hook, self.table)
            response = compactor.request(
                database,
                name,
                self.partition or None,
                self.compaction_type,
                pool=self.compaction_pool or None,
                properties=self.properties,
                buckets=as_whole_number("buckets", self.buckets) if self.buckets not in (None, "") else None,
                order_by=self._order(),
            )
            if response.is_accepted:
                self.log.info("Compaction %s of %s is in the queue.", response.id, self._place())
            entry = self._own(compactor, response)
            if not self.wait_for_completion:
                return self._end(describe_compaction(entry))
            if not self.deferrable:
                return self._end(self._wait(entry.id, self._killed))
            answer = self._look(entry.id)
        if answer is not None:
            return self._end(answer)
        self.log.info("Waiting for compaction %s in the triggerer, for at most %s.", entry.id, self.timeout)
        trigger = HivexCompactionTrigger(
            compaction_id=entry.id,
            until_cleaned=self.until_cleaned,
            hivex_conn_id=self.hivex_conn_id,
            poll_interval=self.poll_interval,
        )
        return self.defer(trigger=trigger, method_name="execute_complete", timeout=self.timeout)

    def execute_complete(
        self,
        context: Context,  # noqa: ARG002 - Airflow gives it by this name
        event: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the outcome of the compaction.

        :raises AirflowFailException: the compaction has failed
        """
        if event is None or "answer" not in event:
            raise AirflowFailException((event or {}).get("error", "The trigger has ended without an answer."))
        answer: dict[str, Any] = event["answer"]
        self.log.info("Compaction %s is %s.", answer["compaction_id"], answer["state"])
        return self._end(answer)

    def on_kill(self) -> None:
        """Stop waiting. The compaction stays in the queue, or continues. ABORT COMPACTIONS removes the compaction."""
        if self._killed is not None:
            self._killed.put(None)
        self.log.info("The task is ended; its compaction stays as it is.")

    def _order(self) -> list[SortColumn]:
        from airflow_hivex.core.model.objects import SortColumn

        given = self.order_by.split(",") if isinstance(self.order_by, str) else self.order_by or ()
        return [SortColumn.read(each) for each in given if each.strip()]

    def _place(self) -> str:
        return self.table + (f" ({self.partition})" if self.partition else "")

    def _own(self, compactor: Compactor, response: CompactionResponse) -> Compaction:
        """Return the queue entry of the requested compaction, or of the existing compaction that is used instead."""
        from airflow_hivex.core.model.compaction import CompactionType

        if response.is_accepted:
            return compactor.history.get(response.id)
        if response.in_the_way is None:
            raise AirflowFailException(f"The compaction was refused: {response.message}")
        entry = compactor.history.get(response.in_the_way)
        if entry.type is not CompactionType.read(self.compaction_type):
            raise AirflowException(
                f"{response.message} It is a {entry.type.name.lower()} one. Try again when it is done and cleaned, "
                "or take it out of the queue with ABORT COMPACTIONS."
            )
        self.log.info("%s It does what this task asks for.", response.message)
        return entry

    def _end(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Declare the table as an inlet, and return ``answer``. The table is not an outlet, because no rows change."""
        from airflow_hivex.operators.asset_events import declare_tables

        declare_tables(self, self.hivex_conn_id, [answer["table"]])
        return answer

    def _look(self, compaction_id: int) -> dict[str, Any] | None:
        return look_at_compaction(self.hivex_conn_id, compaction_id, until_cleaned=self.until_cleaned)

    def _wait(self, compaction_id: int, killed: SimpleQueue[None]) -> dict[str, Any]:
        deadline = time.monotonic() + self.timeout.total_seconds()
        while (answer := self._look(compaction_id)) is None:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise AirflowException(
                    f"Compaction {compaction_id} of {self._place()} has not ended within {self.timeout}; it goes on. "
                    "timeout= says how long to wait."
                )
            try:
                killed.get(timeout=min(self.poll_interval, left_s))
            except Empty:
                continue
            raise AirflowException(f"The task was killed while it waited for compaction {compaction_id}.")
        self.log.info("Compaction %s is %s.", compaction_id, answer["state"])
        return answer


class HivexInitiateCompactionsOperator(BaseOperator):
    """Run one round of the initiator, which requests compactions of tables that have passed a threshold.

    The operator returns ``{"candidates", "initiated", "did_not_initiate", "requeued", "is_complete"}``: the number of
    checked tables and partitions, and the ids of new compactions, of records why none was requested, and of compactions
    whose worker was lost. ``is_complete`` is false if the round has reached ``metastore.compactor.fetch.size``: the
    next one continues. A retry is harmless.

    :param hivex_conn_id: the connection of type ``hivex`` (templated)
    """

    template_fields: Sequence[str] = ("hivex_conn_id",)
    operator_extra_links = (HivexCompactionsLink(),)
    ui_color = "#fdee21"

    def __init__(self, *, hivex_conn_id: str = WarehouseHook.default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.hivex_conn_id = hivex_conn_id

    def execute(self, context: Context) -> dict[str, Any]:  # noqa: ARG002 - Airflow gives it by this name
        """Run one round of the initiator."""
        with failing_for_good():
            result = WarehouseHook(self.hivex_conn_id).get_metastore().compactor.initiate()
        self.log.info("Looked at %s tables and partitions; initiated: %s.", result.candidates, list(result.initiated))
        return _in_json(asdict(result))


class HivexCleanOperator(BaseOperator):
    """Delete files that compactions have replaced, and files of aborted transactions, on every cluster.

    Files that an open transaction can read stay. If a directory cannot be deleted, the task fails without a retry, and
    another round tries again after a pause. The task may be killed at any moment.

    The operator returns a list with ``{"compaction_id", "table", "partition", "outcome", "deleted", "waiting",
    "blockers", "message"}`` for each compaction, or each table or partition with files of aborted transactions.
    ``deleted`` and ``waiting`` are the numbers of deleted and of remaining directories and files, and ``blockers`` the
    transactions that need these. The log names each of them.

    :param plan_only: whether to list the directories that would be deleted now, and delete nothing
    :param hivex_conn_id: the connection of type ``hivex`` (templated)
    """

    template_fields: Sequence[str] = ("hivex_conn_id",)
    operator_extra_links = (HivexCompactionsLink(),)
    ui_color = "#fdee21"

    def __init__(
        self, *, plan_only: bool = False, hivex_conn_id: str = WarehouseHook.default_conn_name, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.plan_only = plan_only
        self.hivex_conn_id = hivex_conn_id

    def execute(self, context: Context) -> list[dict[str, Any]]:  # noqa: ARG002 - Airflow gives it by this name
        """Run one round of the cleaner.

        :raises AirflowFailException: a directory or file could not be deleted. The other files were deleted
        """
        from airflow_hivex.core.model.cleaning import CleaningOutcome

        with failing_for_good():
            compactor = WarehouseHook(self.hivex_conn_id).get_metastore().compactor
            tasks = compactor.plan_clean() if self.plan_only else compactor.clean()
        for task in tasks:
            place = f"{task.database}.{task.table} {task.partition or ''}".rstrip()
            of = f" (compaction {task.compaction_id})" if task.compaction_id is not None else ""
            self.log.info("%s%s: %s. %s", place, of, task.outcome.value, task.message or "")
            for deletion in task.deleted:
                self.log.info("  %s: %s on %s", deletion.why, deletion.uri, deletion.cluster)
            for name in task.waiting:
                self.log.info("  stays: %s", name)
            for blocker in task.blockers:
                self.log.info("  in the way: %s", blocker)
        answers = [describe_cleaning(task) for task in tasks]
        failed = [task for task in tasks if task.outcome is CleaningOutcome.FAILED]
        if failed:
            reasons = "; ".join(f"{task.database}.{task.table}: {task.message}" for task in failed)
            raise AirflowFailException(f"{len(failed)} of {len(tasks)} could not be cleaned: {reasons}")
        return answers


class HivexHousekeepingOperator(BaseOperator):
    """Run one round of the housekeeper, which ends the transactions of dead clients, and removes old records.

    It drops lock requests without a heartbeat, too, and returns compactions of lost workers to the queue. The task also
    sends the gauges of the metastore to Airflow's metrics (``[hivex] metrics``). A retry is harmless.

    The operator returns the ids of aborted transactions and of dropped lock requests, and the numbers of removed
    records.

    :param hivex_conn_id: the connection of type ``hivex`` (templated)
    """

    template_fields: Sequence[str] = ("hivex_conn_id",)
    ui_color = "#fdee21"

    def __init__(self, *, hivex_conn_id: str = WarehouseHook.default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.hivex_conn_id = hivex_conn_id

    def execute(self, context: Context) -> dict[str, Any]:  # noqa: ARG002 - Airflow gives it by this name
        """Run one round of the housekeeper."""
        from airflow_hivex.hooks.metrics import send_metrics

        with failing_for_good():
            metastore = WarehouseHook(self.hivex_conn_id).get_metastore()
            result = _in_json(asdict(metastore.housekeeper.run()))
        self.log.info("Housekeeping: %s", result)
        send_metrics(metastore)
        return result


def _in_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a dict whose tuples are converted to lists, because JSON has no tuples."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
