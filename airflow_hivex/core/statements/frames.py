"""DataFrames of a user's own SparkSession: a query as one, and one as an INSERT."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.core.model.statements import Insert, Literal, Query, Select, TableName
from airflow_hivex.core.statements.context import Result, Running, StatementContext
from airflow_hivex.core.statements.queries import plan_query, run_insert
from airflow_hivex.core.statements.routing import chosen_cluster, route
from airflow_hivex.core.statements.transactions import commit_kept, in_transaction

if TYPE_CHECKING:
    from airflow_hivex.core.runners.given import Frame, GivenSession

log = logging.getLogger(__name__)


def query_frame(context: StatementContext, statement: Select, spark: GivenSession) -> Frame:
    """Return the rows of a query in the snapshot of now, or of the session's transaction.

    Computed when the DataFrame is.
    """
    from airflow_hivex.core.runners import given

    def work(running: Running) -> Frame:
        # The job is the user's own.
        routed = route(context, statement, running, runs_job=False)
        cluster = chosen_cluster(context, routed)
        log.info("Transaction %s: %s", running.txn_id, routed.route.describe())
        rows = given.frame(spark, plan_query(context, running, routed.statement.query, routed, cluster))
        commit_kept(context, running, (bound.table for bound in routed.bound))
        return rows

    return in_transaction(context, work, read_only=True)


def write_frame(
    context: StatementContext, rows: Frame, target: TableName, *, overwrite: bool, static: Mapping[str, Literal]
) -> Result:
    """INSERT INTO or INSERT OVERWRITE of a DataFrame's rows, column by column of the same name.

    Raises:
        NoSuchColumnError, ColumnCountMismatchError: its columns are not those of the table.
        InvalidOperationError: it is a DataFrame of Spark Connect.
    """
    from airflow_hivex.core.runners import given

    given.check_session(given.session_of(rows))
    table = context.services.catalog.get_table(*context.session.qualify(target))
    if table.not_inserted:
        raise InvalidOperationError("Write", table.full_name, table.not_inserted)
    dynamic = [key.name for key in table.partition_keys if key.name.lower() not in static]
    names = [*(column.name for column in table.columns), *dynamic]
    with given.temporary_view(rows, names, table.full_name) as view:
        # Its rows are known by name in its own session alone.
        context = replace(context, runner=given.GivenRunner(given.session_of(rows), view))
        text = f"SELECT * FROM {view}"  # noqa: S608 - a name of our own
        insert = Insert(
            target=target,
            query=Query(text, 0, len(text), ()),
            overwrite=overwrite,
            partition=(*static, *dynamic) if static else (),
            static=static,
        )
        return run_insert(context, insert)
