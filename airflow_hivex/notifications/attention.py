"""A notifier for failed compactions, old transactions, and quotas that are nearly used up."""

from __future__ import annotations

from copy import copy
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseNotifier

from airflow_hivex.hooks.warehouse import WarehouseHook

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

    from airflow_hivex.core.metastore import Metastore

MOST = 20


class HivexAttentionNotifier(BaseNotifier):
    """Call other notifiers if a compaction has failed, a transaction is too old, or a quota is nearly used up.

    A quota is reported when its use has reached the warning level.

    ::

        HivexHousekeepingOperator(
            task_id="housekeeping",
            on_success_callback=HivexAttentionNotifier(
                notifiers=[SmtpNotifier(to="ops@example.com", subject="Hivex", html_content="{{ hivex_attention }}")]
            ),
        )

    The context of the notifiers has the report as ``hivex_attention``, with one sentence per line. The report is also
    logged.

    :param notifiers: the notifiers to call; without notifiers the report is only logged
    :param open_for: report transactions that have been open for longer than this time
    :param failed_within: report compactions that have failed within this time. Set it to the time between two calls
    :param hivex_conn_id: the connection of type ``hivex`` (templated)
    """

    template_fields = ("hivex_conn_id",)

    def __init__(
        self,
        *,
        notifiers: Sequence[BaseNotifier] = (),
        open_for: timedelta = timedelta(hours=12),
        failed_within: timedelta = timedelta(hours=1),
        hivex_conn_id: str = WarehouseHook.default_conn_name,
    ) -> None:
        super().__init__()
        self.notifiers = list(notifiers)
        self.open_for = open_for
        self.failed_within = failed_within
        self.hivex_conn_id = hivex_conn_id

    def notify(self, context: Context) -> None:
        """Call the notifiers, if there is something to report."""
        metastore = WarehouseHook(self.hivex_conn_id).get_metastore()
        sentences = attention(metastore, open_for=self.open_for, failed_within=self.failed_within)
        if not sentences:
            return
        text = "\n".join(sentences)
        self.log.warning("The warehouse needs attention:\n%s", text)
        with_text: Any = {**context, "hivex_attention": text}
        for notifier in self.notifiers:
            # A notifier renders its templates in place, so the copy keeps them for the next call.
            copy(notifier)(with_text)


def attention(metastore: Metastore, *, open_for: timedelta, failed_within: timedelta) -> list[str]:
    """Return sentences about failed compactions, old transactions and used-up quotas, at most 20 for each kind."""
    from airflow_hivex.core.clock import to_datetime
    from airflow_hivex.core.compaction.history import CompactionFilter
    from airflow_hivex.core.model.compaction import CompactionState
    from airflow_hivex.core.model.transactions import TxnState

    now = to_datetime(metastore.services.clock()).timestamp()
    failed = [
        f"Compaction {entry.id} of {entry.database}.{entry.table}"
        f"{f' ({entry.partition})' if entry.partition else ''} has failed: {entry.error_message or 'without a reason'}"
        for entry in metastore.compactor.show(CompactionFilter(state=CompactionState.FAILED))
        if entry.ended_at is not None and now - entry.ended_at.timestamp() <= failed_within.total_seconds()
    ]
    old = [
        f"Transaction {each.id} of {each.agent_info or each.user} is open since "
        f"{each.started_at:%Y-%m-%d %H:%M:%S} UTC."
        for each in metastore.transactions.show()
        if each.state is TxnState.OPEN and now - each.started_at.timestamp() > open_for.total_seconds()
    ]
    full = [
        f"Namespace {each.namespace} holds {each.used_bytes:,} of {each.quota.size_bytes:,} bytes on cluster "
        f"{each.cluster}, {each.used_bytes * 100 // each.quota.size_bytes} % of its quota."
        for each in metastore.capacity.show()
        if each.quota is not None and each.status in ("warning", "exceeded")
    ]
    return [*failed[:MOST], *old[:MOST], *full[:MOST]]
