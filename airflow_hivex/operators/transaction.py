"""A transaction over several tasks. All writes of the tasks become visible together, or no write."""

from __future__ import annotations

import getpass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, TaskGroup, TriggerRule, XComArg
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_hivex.hooks.tasks import (
    agent_info,
    as_txn_id,
    failing_for_good,
    lasting_failure,
    part_name,
    states_of_tasks,
    what_to_clear,
)
from airflow_hivex.hooks.warehouse import WarehouseHook
from airflow_hivex.operators.asset_events import WritingOperator, send_events
from airflow_hivex.operators.page_links import HivexTransactionsLink

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context
    from airflow.sdk.definitions._internal.abstractoperator import AbstractOperator

    from airflow_hivex.core.metastore import Metastore
    from airflow_hivex.core.model.transactions import Transaction

# A task with one of these trigger rules runs only if no upstream task has failed.
_RULES_THAT_PASS_FAILURES_ON = (
    TriggerRule.ALL_SUCCESS,
    TriggerRule.NONE_FAILED,
    TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS,
)
SKIPPED = "skipped"
"""The XCom key under which a skipped task ``commit`` lists the skipped tasks of the group."""
XCOM_SKIPMIXIN_KEY = "skipmixin_key"
"""The XCom key under which a task of Airflow, such as a branch, lists the tasks that it skips.

Source: airflow.providers.standard.utils.skipmixin.
"""
# The group's own tasks are short, and safe to repeat.
_OWN_TASKS = {"retries": 3, "retry_delay": timedelta(seconds=10), "retry_exponential_backoff": False}


class HivexTransaction(TaskGroup):
    """A task group whose tasks share one transaction.

    ::

        with HivexTransaction("load") as transaction:
            HivexQueryOperator(task_id="orders", sql="INSERT INTO orders ...", transaction=transaction)
            HivexQueryOperator(task_id="lines", sql="INSERT INTO lines ...", transaction=transaction)

    The group begins with the setup task ``begin``. The task ``commit`` commits if all tasks of the group have
    succeeded. The teardown ``abort`` aborts a transaction that is still open, and then fails, so that the DAG run
    fails, unless a task of the group has caused a skip (by AirflowSkipException or as a ShortCircuitOperator). Tasks
    downstream of the group are downstream of ``commit``. To join the transaction in a ``@task``, give it :attr:`txn_id`
    as an argument, and call ``HivexHook.session(txn_id=...)``.

    :param group_id: the group's id
    :param hivex_conn_id: the connection of type ``hivex``
    :param timeout: the time after which the transaction is aborted if none of its statements runs
    :param asset_events: whether to send an event for the asset of each changed table or link
    :param task_arguments: arguments of all three tasks ``begin``, ``commit`` and ``abort``, such as ``retries`` or
        ``queue``
    """

    def __init__(
        self,
        group_id: str,
        *,
        hivex_conn_id: str = WarehouseHook.default_conn_name,
        timeout: timedelta = timedelta(hours=24),
        asset_events: bool = True,
        task_arguments: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if timeout < timedelta(seconds=1):
            raise ValueError(f"timeout is {timeout}; it must be a second or more")
        super().__init__(group_id=group_id, **kwargs)
        self.hivex_conn_id = hivex_conn_id
        self.timeout = timeout
        self.asset_events = asset_events
        self._task_arguments = _OWN_TASKS | dict(task_arguments or {})
        self.begin: HivexBeginOperator | None = None
        self.commit: HivexCommitOperator | None = None
        self.abort: HivexAbortOperator | None = None

    @property
    def txn_id(self) -> XComArg:
        """Return the XComArg of the transaction's id, for tasks of the group."""
        return XComArg(self._begun())

    @property
    def txn_id_template(self) -> str:
        """Return a template of the transaction's id, for templated fields of tasks downstream of ``begin``.

        In contrast to an XComArg, the template does not make ``begin`` a direct upstream task. A direct downstream task
        of a setup task must have the trigger rule ``all_success``.
        """
        # Each map index of a mapped group has its own begin.
        is_mapped = next(iter(self.iter_mapped_task_groups()), None) is not None
        part = ", map_indexes=ti.map_index" if is_mapped else ""
        return f"{{{{ ti.xcom_pull(task_ids='{self.begin_task_id}'{part}) }}}}"

    @property
    def begin_task_id(self) -> str:
        """Return the id of the task that opens the transaction."""
        return str(self._begun().task_id)

    @property
    def is_building(self) -> bool:
        """Return whether the ``with`` block of the group is open, so that tasks can be added."""
        return self.begin is not None and self.commit is None

    def __enter__(self) -> HivexTransaction:
        """Add the task ``begin``. Tasks that are created in the block belong to the group."""
        if self.begin is not None:
            raise RuntimeError(
                f"The transaction of group {self.group_id} is complete; add its tasks in one with block."
            )
        super().__enter__()
        self.begin = HivexBeginOperator(
            task_id="begin",
            timeout=self.timeout,
            hivex_conn_id=self.hivex_conn_id,
            **self._task_arguments,
        )
        self.begin.as_setup()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, error_type: Any, error: Any, traceback: Any) -> None:
        """Add ``commit`` and ``abort``, and order all tasks of the group."""
        try:
            if error_type is None:
                self._complete()
        finally:
            super().__exit__(error_type, error, traceback)  # type: ignore[no-untyped-call]

    def _begun(self) -> HivexBeginOperator:
        if self.begin is None:
            raise RuntimeError(f"Use the transaction of group {self.group_id} inside of its with block.")
        return self.begin

    def _complete(self) -> None:
        begin = self._begun()
        tasks = {task.task_id: task for task in self.iter_tasks() if task.task_id != begin.task_id}
        for task_id, task in tasks.items():
            if isinstance(getattr(task, "partial_kwargs", {}).get("transaction"), HivexTransaction):
                raise TypeError(f"Task {task_id} is mapped: give partial() the id, transaction=transaction.txn_id.")
        begin.work_task_ids = tuple(sorted(tasks))
        begin.commit_task_id = self.child_id("commit")  # type: ignore[no-untyped-call]
        arguments: dict[str, Any] = {"hivex_conn_id": self.hivex_conn_id, **self._task_arguments}
        required = {task.task_id: task for task in _required(tasks)}
        self.commit = HivexCommitOperator(
            task_id="commit",
            txn_id=self.txn_id_template,
            begin_task_id=begin.task_id,
            work_task_ids=sorted(required),
            # A run that is marked as failed skips the commit. A commit that runs can distinguish this from a skipped
            # task.
            trigger_rule=TriggerRule.NONE_FAILED if required else TriggerRule.ALL_SUCCESS,
            asset_events=self.asset_events,
            **arguments,
        )
        self.abort = HivexAbortOperator(
            task_id="abort",
            txn_id=self.txn_id,
            work_task_ids=begin.work_task_ids,
            commit_task_id=begin.commit_task_id,
            **arguments,
        )
        for task in tasks.values():
            if task.upstream_task_ids.isdisjoint(tasks):
                begin >> task
            # An abort while a task still works would only make it fail in a less clear way.
            task >> self.abort
        for task in required.values():
            task >> self.commit
        if not required:
            # Directly below a setup, Airflow takes no other trigger rule than all_success.
            begin >> self.commit
        self.commit >> self.abort
        self.abort.as_teardown(setups=begin, on_failure_fail_dagrun=True)


def _required(tasks: Mapping[str, AbstractOperator]) -> Iterable[AbstractOperator]:
    """Yield the tasks that must succeed, so that all tasks have succeeded. As in Airflow, teardowns are ignored."""
    work = {task_id: task for task_id, task in tasks.items() if not task.is_teardown}
    for task_id, task in work.items():
        if task.downstream_task_ids.isdisjoint(work):
            yield task
        elif any(
            TriggerRule(work[below].trigger_rule) not in _RULES_THAT_PASS_FAILURES_ON
            for below in task.downstream_task_ids & work.keys()
        ):
            # A downstream task runs although this one has failed, and its success would hide the failure.
            yield work[task_id]


class HivexBeginOperator(BaseOperator):
    """Open the transaction of a group, and return its id.

    A retry aborts the transactions of previous tries. If only some tasks of the group were cleared, the task returns
    the last transaction if it is still open, or has committed and no task that writes will run again.

    :param timeout: the transaction's time-out
    :param hivex_conn_id: the connection of type ``hivex`` (templated)
    """

    template_fields: Sequence[str] = ("hivex_conn_id",)
    operator_extra_links = (HivexTransactionsLink(),)
    ui_color = "#fdee21"

    def __init__(
        self, *, timeout: timedelta, hivex_conn_id: str = WarehouseHook.default_conn_name, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.timeout = timeout
        self.hivex_conn_id = hivex_conn_id
        self.work_task_ids: tuple[str, ...] = ()
        self.commit_task_id: str | None = None
        self.txn_ids: list[int] = []

    def execute(self, context: Context) -> int:
        """Return the id of the transaction.

        :raises AirflowFailException: only a part of the group was cleared, and the writes of the other tasks are lost
        :raises HivexError: a retry can succeed
        """
        from airflow_hivex.core.model.transactions import TxnState

        metastore = WarehouseHook(self.hivex_conn_id).get_metastore()
        earlier = self._of_earlier_tries(metastore, context)
        going_on = self._to_go_on_with(earlier[0] if earlier else None, context)
        if going_on is not None:
            self.txn_ids = [going_on]
            return going_on
        for transaction in earlier:
            if transaction.state is TxnState.OPEN:
                self.log.warning("Aborting transaction %s, which an earlier try has opened.", transaction.id)
                metastore.abort(transaction.id, f"repeated by {agent_info(context)}")
        txn_id = self._open(metastore, context)
        self.txn_ids = [txn_id]
        self.log.info("Transaction %s is open; it may rest for %s.", txn_id, self.timeout)
        return txn_id

    def _of_earlier_tries(self, metastore: Metastore, context: Context) -> list[Transaction]:
        """Return the transactions that the previous tries of this task have opened, the last try first."""
        tries = range(context["ti"].try_number - 1, 0, -1)
        found = (metastore.transactions.find(f"{part_name(context)}/{number}") for number in tries)
        return [transaction for transaction in found if transaction is not None]

    def _to_go_on_with(self, latest: Transaction | None, context: Context) -> int | None:
        """Return the id of ``latest`` if this run continues in that transaction, or None to open a new transaction.

        The run continues in two cases. A task that writes was not cleared, and the transaction is open. No task that
        writes was cleared, and the transaction has committed.

        :raises AirflowFailException: the writes of tasks that were not cleared are lost, or ``commit`` was not cleared
            although another task of the group was cleared
        """
        from airflow_hivex.core.model.transactions import TxnState

        if context["ti"].try_number == 1:
            return None
        states = states_of_tasks(context, self.work_task_ids)
        kept = sorted(task_id for task_id, state in states.items() if state is not None)
        cleared = sorted(states.keys() - kept)
        if cleared and self.commit_task_id and any(states_of_tasks(context, [self.commit_task_id]).values()):
            raise AirflowFailException(
                f"{', '.join(cleared)} is to be repeated, but {self.commit_task_id} is not, so that it would be "
                "undone at the end. Clear it together with its downstream."
            )
        if not kept:
            return None
        if latest is not None and latest.state is TxnState.OPEN:
            self.log.info("Going on in transaction %s, in which %s worked.", latest.id, ", ".join(kept))
            return latest.id
        if latest is not None and latest.state is TxnState.COMMITTED:
            if not cleared:
                self.log.info("Transaction %s has committed already, and no task is to do its work again.", latest.id)
                return latest.id
            self.log.warning(
                "Transaction %s has committed already: the tasks that were cleared work again, in a transaction of "
                "their own; what %s did stays.",
                latest.id,
                ", ".join(kept),
            )
            return None
        what = "is not known any more" if latest is None else f"was aborted ({latest.reason or 'without a reason'})"
        raise AirflowFailException(
            f"The transaction of this run {what}, and with it what {', '.join(kept)} did. {what_to_clear(self.task_id)}"
        )

    def _open(self, metastore: Metastore, context: Context) -> int:
        from airflow_hivex.core.errors import TransactionAbortedError, TransactionCommittedError

        ti = context["ti"]
        key = f"{part_name(context)}/{ti.try_number}"

        def with_key(key: str) -> int:
            (txn_id,) = metastore.transactions.open(
                key=key,
                user=getpass.getuser(),
                agent_info=agent_info(context),
                timeout=int(self.timeout.total_seconds()),
            )
            return txn_id

        try:
            return with_key(key)
        except (TransactionAbortedError, TransactionCommittedError):
            # A deleted DAG run had the same run id and try number.
            return with_key(f"{key}/{ti.id}")


class HivexCommitOperator(WritingOperator):
    """Commit the transaction of a group. A second commit changes nothing.

    :param txn_id: the id of the transaction (templated)
    :param hivex_conn_id: the connection of type ``hivex`` (templated)
    :param begin_task_id: the id of the task that has opened the transaction
    :param work_task_ids: the tasks of the group that must succeed. If one was skipped, so is the commit
    :param asset_events: whether to send an event for the asset of each changed table or link
    """

    template_fields: Sequence[str] = ("txn_id", "hivex_conn_id")
    operator_extra_links = (HivexTransactionsLink(),)
    ui_color = "#fdee21"

    def __init__(
        self,
        *,
        txn_id: int | str | XComArg,
        hivex_conn_id: str = WarehouseHook.default_conn_name,
        begin_task_id: str | None = None,
        work_task_ids: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.txn_id = txn_id
        self.hivex_conn_id = hivex_conn_id
        self.begin_task_id = begin_task_id
        self.work_task_ids = tuple(work_task_ids)

    def execute(self, context: Context) -> int:
        """Return the id of the committed transaction.

        :raises AirflowSkipException: a task that must succeed was skipped
        :raises AirflowFailException: the transaction cannot be committed, for example because of a write conflict
        :raises HivexError: a retry can succeed. If the outcome of the error is unknown, the commit was perhaps applied
        """
        states = states_of_tasks(context, self.work_task_ids)
        skipped = sorted(task_id for task_id, state in states.items() if state == "skipped")
        if skipped:
            context["ti"].xcom_push(SKIPPED, skipped)
            raise AirflowSkipException(f"Nothing is committed, because {', '.join(skipped[:10])} was skipped.")
        txn_id = as_txn_id(self.txn_id)
        hook = WarehouseHook(self.hivex_conn_id)
        with failing_for_good(describe=lambda error: lasting_failure(error, self.begin_task_id)):
            hook.get_metastore().commit(txn_id)
        self.log.info("Transaction %s has committed.", txn_id)
        send_events(self, context, hook, [txn_id])
        return txn_id

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any] | None:  # noqa: ARG002
        """Return the tables that the transaction has written, with rows and bytes, for OpenLineage."""
        from airflow_hivex.hooks.openlineage import lineage_of_transaction

        return lineage_of_transaction(WarehouseHook(self.hivex_conn_id), as_txn_id(self.txn_id))


class HivexAbortOperator(BaseOperator):
    """Abort the transaction of a group if it is still open, and fail if it has not committed.

    If a task of the group has caused a skip, this task succeeds.

    :param txn_id: the id of the transaction (templated)
    :param hivex_conn_id: the connection of type ``hivex`` (templated)
    :param work_task_ids: the tasks of the group, for the reason of the abort
    :param commit_task_id: the id of the task that commits
    """

    template_fields: Sequence[str] = ("txn_id", "hivex_conn_id")
    operator_extra_links = (HivexTransactionsLink(),)
    ui_color = "#fdee21"

    def __init__(
        self,
        *,
        txn_id: int | XComArg,
        hivex_conn_id: str = WarehouseHook.default_conn_name,
        work_task_ids: Sequence[str] = (),
        commit_task_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.txn_id = txn_id
        self.hivex_conn_id = hivex_conn_id
        self.work_task_ids = tuple(work_task_ids)
        self.commit_task_id = commit_task_id

    def execute(self, context: Context) -> str:
        """Return the final state of the transaction: ``committed``, or ``aborted`` if a task has caused a skip.

        :raises AirflowFailException: the transaction was aborted, its record is deleted, or it has committed although
            the task ``commit`` has failed
        :raises HivexError: a retry can succeed
        """
        from airflow_hivex.core.errors import NoSuchTransactionError, TransactionCommittedError
        from airflow_hivex.core.model.transactions import TxnState

        txn_id = as_txn_id(self.txn_id)
        metastore = WarehouseHook(self.hivex_conn_id).get_metastore()
        not_succeeded = self._not_succeeded(context)
        try:
            found = metastore.transactions.get(txn_id)
            if found.state is not TxnState.COMMITTED:
                # An aborted transaction is aborted again, because the first abort may not have deleted its files.
                metastore.abort(txn_id, f"{agent_info(context)}: {not_succeeded}")
        except TransactionCommittedError:
            found = metastore.transactions.get(txn_id)
        except NoSuchTransactionError:
            raise AirflowFailException(
                f"Transaction {txn_id} has ended, and its record was purged; check whether its rows are there."
            ) from None
        if found.state is TxnState.COMMITTED:
            return self._committed(txn_id, context)
        reason = found.reason if found.state is TxnState.ABORTED else not_succeeded
        sentence = f"Transaction {txn_id} was aborted ({reason}). Nothing that its tasks wrote is visible."
        if self._is_chosen(context):
            self.log.info(sentence)
            return "aborted"
        raise AirflowFailException(sentence)

    def _committed(self, txn_id: int, context: Context) -> str:
        states = states_of_tasks(context, [self.commit_task_id] if self.commit_task_id else [])
        if "failed" in states.values():
            raise AirflowFailException(
                f"Transaction {txn_id} has committed, but {self.commit_task_id} failed before it knew that. Clear "
                f"{self.commit_task_id} with downstream; it will succeed and change nothing."
            )
        self.log.info("Transaction %s has committed; there is nothing to abort.", txn_id)
        return "committed"

    def _not_succeeded(self, context: Context) -> str:
        states = states_of_tasks(context, self.work_task_ids)
        causes = [f"{task_id} {state}" for task_id, state in sorted(states.items()) if state != "success"]
        return ", ".join(causes[:10]) or "it was not committed"

    def _is_chosen(self, context: Context) -> bool:
        """Return whether a task of the group has caused the skip of the commit, and not a user in Airflow's UI."""
        ti = context["ti"]
        place: dict[str, Any] = {"map_indexes": ti.map_index} if ti.map_index is not None and ti.map_index >= 0 else {}
        if self.commit_task_id and ti.xcom_pull(task_ids=self.commit_task_id, key=SKIPPED, **place):
            return True
        # A ShortCircuitOperator skips all tasks downstream of it: then the commit does not run, and has no XCom.
        skips = ti.xcom_pull(task_ids=list(self.work_task_ids), key=XCOM_SKIPMIXIN_KEY, **place) or []
        return any(isinstance(skip, dict) and self.commit_task_id in skip.get("skipped", ()) for skip in skips)
