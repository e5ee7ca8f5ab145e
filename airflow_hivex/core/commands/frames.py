"""DataFrames of a user's own SparkSession: the rows of a query as one."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow_hivex.core.execution.context import Running, StatementContext
from airflow_hivex.core.execution.queries import plan_query
from airflow_hivex.core.execution.routing import chosen_cluster, route
from airflow_hivex.core.execution.transactions import commit_kept, in_transaction
from airflow_hivex.core.parser.statements import Select

if TYPE_CHECKING:
    from airflow_hivex.core.runners.given import Frame, GivenSession

log = logging.getLogger(__name__)


def query_frame(context: StatementContext, statement: Select, spark: GivenSession) -> Frame:
    """Return the rows of a query in the current snapshot, or of the session's transaction.

    Computed when the DataFrame is.
    """
    from airflow_hivex.core.runners import given

    given.check_session(spark)

    def work(running: Running) -> Frame:
        # The job is the user's own.
        routed = route(context, statement, running, runs_job=False)
        cluster = chosen_cluster(context, routed)
        log.info("Transaction %s: %s", running.txn_id, routed.route.describe())
        views = () if context.frames is None else tuple(context.frames.views.values())
        plan = context.completed(cluster, plan_query(context, running, routed.statement.query, routed, cluster))
        rows = given.frame(spark, plan, views)
        commit_kept(context, running, (bound.table for bound in routed.bound))
        return rows

    return in_transaction(context, work, read_only=True)
