"""Sensors that wait for the commit of a transaction, or for a commit to a table or partition."""

from __future__ import annotations

from abc import abstractmethod
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue, conf
from airflow.sdk.exceptions import AirflowFailException, AirflowSensorTimeout, AirflowSkipException

from airflow_hivex.hooks.tasks import NamedInMap, failing_for_good
from airflow_hivex.hooks.warehouse import WarehouseHook
from airflow_hivex.triggers.transactions import (
    HivexTableCommitTrigger,
    HivexTransactionTrigger,
    look_at_transaction,
    look_for_commit,
    look_once,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context

    from airflow_hivex.triggers.transactions import Answer, HivexTrigger

SINCE = "since"
"""The XCom key of a dict with the id of a DAG run, and with the mark from which the sensor has waited in this run."""


class HivexSensor(NamedInMap, BaseSensorOperator):
    """A sensor that polls the metastore in a worker or, with ``deferrable``, in the triggerer.

    :param hivex_conn_id: the connection of type ``hivex`` (templated)
    :param deferrable: whether to wait in the triggerer
    """

    def __init__(
        self,
        *,
        hivex_conn_id: str = WarehouseHook.default_conn_name,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.hivex_conn_id = hivex_conn_id
        self.deferrable = deferrable
        self.check_existence = True
        self.is_missing = False
        self._is_prepared = False

    @property
    def map_name(self) -> str:
        """Return the name of a mapped task in Airflow's web interface."""
        return self._awaited()

    def poke(self, context: Context) -> PokeReturnValue:
        """Check once, and return the answer if the awaited event has happened.

        :raises AirflowFailException: the awaited event cannot happen any more
        """
        if not self._is_prepared:
            self._prepare(context)
            self._is_prepared = True
        with failing_for_good():
            answer = look_once(self, self._look)
        return PokeReturnValue(answer is not None, answer)

    def execute(self, context: Context) -> Any:
        """Wait until the awaited event has happened. Return the value that the class of the sensor describes.

        :raises AirflowSensorTimeout: ``timeout`` has passed
        """
        self._is_prepared = False
        if not self.deferrable:
            try:
                return super().execute(context)
            except AirflowSensorTimeout:
                raise self._timed_out() from None
        try:
            found = self.poke(context)
        except AirflowFailException as error:
            if self.soft_fail or self.never_fail:
                raise AirflowSkipException(str(error)) from None
            raise
        if found:
            return found.xcom_value
        self.log.info("Waiting for %s in the triggerer, for at most %s s.", self._awaited(), self.timeout)
        return self.defer(
            trigger=self._trigger(), method_name="execute_complete", timeout=timedelta(seconds=self.timeout)
        )

    def execute_complete(
        self,
        context: Context,  # noqa: ARG002 - Airflow gives it by this name
        event: dict[str, Any] | None = None,
    ) -> Answer:
        """Return the result of the trigger.

        :raises AirflowFailException: the awaited event cannot happen any more
        """
        if event is None or "answer" not in event:
            raise AirflowFailException((event or {}).get("error", "The trigger has ended without an answer."))
        answer: Answer = event["answer"]
        return answer

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Continue after the deferral."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except AirflowSensorTimeout:
            raise self._timed_out() from None

    def on_kill(self) -> None:
        """Stop waiting."""
        self.log.info("Waiting for %s was ended; it continues undisturbed.", self._awaited())

    def _timed_out(self) -> AirflowSensorTimeout:
        return AirflowSensorTimeout(
            f"There was no {self._awaited()} within {self.timeout:g} s; timeout= says how long."
        )

    def _prepare(self, context: Context) -> None:
        """Set the fields that :meth:`_look` needs. This method is called once, before the first check."""

    @abstractmethod
    def _look(self) -> Answer | None:
        """Return the answer if the awaited event has happened, or else None."""

    @abstractmethod
    def _trigger(self) -> HivexTrigger:
        """Return the trigger that waits in the triggerer."""

    @abstractmethod
    def _awaited(self) -> str:
        """Return a short name of the awaited event."""


class HivexObjectSensor(HivexSensor):
    """A sensor that waits for a state of an object of the catalog, even if the object does not exist yet.

    :param check_existence: whether to fail without a retry, instead of waiting, if the object does not exist
    :param hivex_conn_id: the connection of type ``hivex`` (templated)
    :param deferrable: whether to wait in the triggerer
    """

    def __init__(self, *, check_existence: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.check_existence = check_existence


class HivexTransactionSensor(HivexSensor):
    """Wait until a transaction has committed, and return ``{"txn_id": ...}``.

    The sensor fails, without a retry, if the transaction was aborted, or if no transaction has the id.
    ``poke_interval`` must be shorter than the transaction's time-out, after which its record can be deleted.

    :param txn_id: the id of the transaction: a number, or ``HivexTransaction.txn_id`` (templated)
    :param hivex_conn_id: the connection of type ``hivex`` (templated)
    :param deferrable: whether to wait in the triggerer
    """

    template_fields: Sequence[str] = ("txn_id", "hivex_conn_id")

    def __init__(self, *, txn_id: int | str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.txn_id = txn_id

    def _look(self) -> Answer | None:
        return look_at_transaction(self.hivex_conn_id, _number("txn_id", self.txn_id))

    def _trigger(self) -> HivexTrigger:
        return HivexTransactionTrigger(
            txn_id=_number("txn_id", self.txn_id),
            hivex_conn_id=self.hivex_conn_id,
            poll_interval=self.poke_interval,
            check_existence=self.check_existence,
        )

    def _awaited(self) -> str:
        return f"commit of transaction {self.txn_id}"


class HivexTableCommitSensor(HivexObjectSensor):
    """Wait for a commit to a table or partition.

    By default the sensor waits for a commit after its end in the DAG's last successful run; in the first run any commit
    is enough. The sensor returns ``{"table", "partition", "write_id", "txn_id", "committed_at", "mark"}`` for the last
    commit. The next run waits from ``mark`` on.

    :param table: a transactional table, ``table`` or ``database.table`` (templated)
    :param partition: ``key=value/...``, which need not exist; None for the whole table (templated)
    :param after_write_id: wait for a commit with a higher write id than this (templated)
    :param hivex_conn_id: the connection of type ``hivex`` (templated)
    :param deferrable: whether to wait in the triggerer
    :param check_existence: whether to fail without a retry, instead of waiting, if the object does not exist
    """

    template_fields: Sequence[str] = ("table", "partition", "after_write_id", "hivex_conn_id")

    def __init__(
        self,
        *,
        table: str,
        partition: str | None = None,
        after_write_id: int | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.partition = partition
        self.after_write_id = after_write_id
        self._since: int | dict[str, Any] | None = None

    def _prepare(self, context: Context) -> None:
        if self.after_write_id is not None:
            self._since = _number("after_write_id", self.after_write_id, lowest=0)
        else:
            self._since = self._mark_of_last_success(context)

    def _look(self) -> Answer | None:
        return look_for_commit(self.hivex_conn_id, self.table, self.partition, self._since)

    def _trigger(self) -> HivexTrigger:
        return HivexTableCommitTrigger(
            table=self.table,
            partition=self.partition,
            since=self._since,
            hivex_conn_id=self.hivex_conn_id,
            poll_interval=self.poke_interval,
            check_existence=self.check_existence,
        )

    def _awaited(self) -> str:
        place = self.table + (f" ({self.partition})" if self.partition else "")
        after = f" after write id {self.after_write_id}" if self.after_write_id is not None else ""
        return f"commit to {place}{after}"

    def _mark_of_last_success(self, context: Context) -> dict[str, Any] | None:
        ti = context["ti"]
        dag_run = context.get("dag_run")
        place = {"task_ids": self.task_id, "map_indexes": -1 if ti.map_index is None else ti.map_index}
        if dag_run is None or dag_run.logical_date is None:
            since = self._mark_before(ti, place)
        else:
            previous = ti.get_previous_dagrun(state="success")
            since = None if previous is None else _mark_of_run(ti, {**place, "run_id": previous.run_id})
        ti.xcom_push(SINCE, {"run_id": ti.run_id, "since": since})
        if since:
            self.log.info("Waiting for a commit to %s after %s.", self.table, since)
        else:
            self.log.info("Waiting for a commit to %s. Any commit counts.", self.table)
        return since

    @staticmethod
    def _mark_before(ti: Any, place: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the mark from which a run without a logical date waits.

        The last DAG run of this sensor decides. If that run has succeeded, return the mark that the sensor returned in
        that run. Otherwise return the mark from which the sensor waited in that run.
        """
        last = ti.xcom_pull(**place, key=SINCE, include_prior_dates=True)
        if not isinstance(last, dict):
            return None
        if ti.get_dagrun_state(ti.dag_id, last["run_id"]) != "success":
            since: dict[str, Any] | None = last["since"]
            return since
        return _mark_of_run(ti, {**place, "run_id": last["run_id"]})


def _mark_of_run(ti: Any, place: Mapping[str, Any]) -> dict[str, Any] | None:
    answer = ti.xcom_pull(**place)
    # A skipped sensor has returned no mark: the mark from which it has waited still holds.
    seen = answer if isinstance(answer, dict) else ti.xcom_pull(**place, key=SINCE) or {}
    mark: dict[str, Any] | None = seen.get("mark", seen.get("since"))
    return mark


def _number(name: str, value: object, lowest: int = 1) -> int:
    text = str(value).strip()
    if isinstance(value, bool) or not (text.isascii() and text.isdigit()) or int(text) < lowest:
        raise AirflowFailException(f"{name} is {value!r}; it must be a whole number, {lowest} or more.")
    return int(text)
