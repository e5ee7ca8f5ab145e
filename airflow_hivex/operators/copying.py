"""The base of operators that copy tables to another cluster, in the worker or in the triggerer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_hivex.hooks.tasks import NamedInMap, agent_info, failing_for_good

if TYPE_CHECKING:
    from airflow.sdk import Context


class CopyOperator(NamedInMap, BaseOperator):
    """The base of operators that copy files by one call of the metastore.

    :param copy_cluster: the cluster whose Spark copies the files; None: a Spark job copies large amounts of data, and
        the task itself copies small amounts (templated)
    :param deferrable: True: free the worker slot while the job of ``copy_cluster`` copies. If this cluster does not use
        a Spark Connect server, the task fails. None: use ``[operators] default_deferrable``. If ``copy_cluster`` does
        not use a Spark Connect server, the task runs in the worker
    :param hivex_conn_id: the connection of type ``hivex`` (templated)
    """

    call: ClassVar[str]
    ui_color = "#fdee21"

    def __init__(self, *, copy_cluster: str | None, deferrable: bool | None, hivex_conn_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if deferrable is not None and not isinstance(deferrable, bool):
            raise ValueError(f"deferrable is {deferrable!r}; it must be True, False or None")
        if deferrable and copy_cluster is None:
            raise ValueError(
                "deferrable=True needs copy_cluster, the cluster whose Spark Connect server copies the files"
            )
        self.copy_cluster = copy_cluster
        self.deferrable = deferrable
        self.hivex_conn_id = hivex_conn_id

    @property
    def map_name(self) -> str:
        """Return the name of a mapped task in Airflow's web interface. Subclasses define this property."""
        raise NotImplementedError

    def execute(self, context: Context) -> dict[str, Any]:
        """Copy, and report the progress to the log.

        :raises AirflowFailException: the request is wrong or a file is damaged, and a retry would fail again
        :raises HivexError: a retry can succeed
        """
        from airflow_hivex.triggers.copying import HivexCopyTrigger, copy

        arguments = {**self._arguments(), "agent_info": agent_info(context)}
        with failing_for_good():
            if self._defers(is_dry_run=bool(arguments.get("dry_run"))):
                trigger = HivexCopyTrigger(call=self.call, arguments=arguments, hivex_conn_id=self.hivex_conn_id)
                self.defer(trigger=trigger, method_name="execute_complete", timeout=self.execution_timeout)
            answer = copy(self.hivex_conn_id, self.call, arguments)
        return self._complete(answer)

    def execute_complete(
        self,
        context: Context,  # noqa: ARG002 - Airflow gives it by this name
        event: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the result of the deferred task.

        :raises AirflowFailException: a retry would fail again
        :raises AirflowException: a retry can succeed
        """
        if not event or not event.keys() & {"answer", "error"}:
            raise AirflowException(f"The trigger ended without a result: {event!r}")
        if "error" in event:
            raise (AirflowFailException if event.get("is_final") else AirflowException)(event["error"])
        answer: dict[str, Any] = event["answer"]
        return self._complete(answer)

    def _arguments(self) -> dict[str, Any]:
        """Return the arguments of the call, in JSON types. Subclasses define this method."""
        raise NotImplementedError

    def _complete(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Declare the tables of the task as inlets, and return the task's result. Subclasses define this method."""
        raise NotImplementedError

    def _defers(self, *, is_dry_run: bool) -> bool:
        """Return whether the task is deferred, so that the triggerer waits for the job.

        :raises AirflowFailException: ``deferrable`` is true, and no Spark Connect server runs the job
        """
        from airflow.configuration import conf

        from airflow_hivex.triggers.copying import has_server

        wanted = self.deferrable
        if wanted is None:
            wanted = conf.getboolean("operators", "default_deferrable", fallback=False)
        if not wanted or is_dry_run:
            return False
        if self.copy_cluster and has_server(self.hivex_conn_id, self.copy_cluster):
            return True
        if self.deferrable:
            raise AirflowFailException(
                f"deferrable=True needs a copy_cluster whose jobs run on a Spark Connect server, and those of "
                f"{self.copy_cluster} do not. Set another copy_cluster, or deferrable=False."
            )
        return False
