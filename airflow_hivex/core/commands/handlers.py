"""The handlers: a dict from the type of a statement to the function that runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from airflow_hivex.core.commands import (
    columns,
    compactions,
    constraints,
    copies,
    create_as_select,
    databases,
    exports,
    functions,
    links,
    loads,
    maintenance,
    multi_inserts,
    partitions,
    rows,
    session_settings,
    show,
    statistics,
    storage_changes,
    tables,
    temporary_tables,
    transactions,
    variables,
    views,
)
from airflow_hivex.core.execution import select_and_insert
from airflow_hivex.core.execution.context import Result, StatementContext
from airflow_hivex.core.model.configuration import IGNORES_NONEXISTENT
from airflow_hivex.core.parser import statements as kinds

Handler = Callable[[StatementContext, Any], Result]


def _create_table(context: StatementContext, statement: kinds.CreateTable) -> Result:
    if statement.temporary:
        return temporary_tables.create_temporary(context, statement, _create_stored_table)
    return _create_stored_table(context, statement)


def _create_table_like(context: StatementContext, statement: kinds.CreateTableLike) -> Result:
    if statement.new.temporary:
        return temporary_tables.create_temporary(context, statement, tables.create_table_like)
    return tables.create_table_like(context, statement)


def _create_stored_table(context: StatementContext, statement: kinds.CreateTable) -> Result:
    if statement.query is not None:
        return create_as_select.run_create_table_as_select(context, statement)
    create = create_as_select.run_replace if statement.or_replace else tables.create_table
    return create(context, statement)


def _drop(drop: Handler) -> Handler:
    """Return a handler of DROP that adds IF EXISTS if the session's settings say so, as in Hive."""

    def run(context: StatementContext, statement: Any) -> Result:
        ignores = context.session.objects.without_effect.get(IGNORES_NONEXISTENT, "")
        return drop(context, replace(statement, if_exists=True) if ignores.lower() == "true" else statement)

    return run


HANDLERS: dict[type, Handler] = {
    kinds.Select: select_and_insert.run_select,
    kinds.DescribeQuery: select_and_insert.run_describe_query,
    kinds.ExplainQuery: select_and_insert.run_explain_query,
    kinds.ExplainChanges: rows.run_explain_statement,
    kinds.ExplainMultiInsert: multi_inserts.run_explain_multi_insert,
    kinds.Insert: rows.run_insert_statement,
    kinds.InsertDirectory: exports.run_insert_directory,
    kinds.ChangeRows: rows.run_change_statement,
    kinds.LoadData: loads.run_load,
    kinds.Truncate: rows.run_truncate,
    kinds.RestoreTable: rows.run_restore,
    kinds.Analyze: statistics.run_analyze,
    kinds.AnalyzeTables: statistics.run_analyze_tables,
    kinds.MultiInsert: multi_inserts.run_multi_insert,
    kinds.StartTransaction: transactions.start_transaction,
    kinds.Commit: transactions.commit,
    kinds.Rollback: transactions.rollback,
    kinds.CreateDatabase: databases.create_database,
    kinds.DropDatabase: databases.drop_database,
    kinds.AlterDatabase: databases.alter_database,
    kinds.UseDatabase: databases.use_database,
    kinds.UseCluster: databases.use_cluster,
    kinds.CreateTable: _create_table,
    kinds.CreateTableLike: _create_table_like,
    kinds.DropTable: _drop(temporary_tables.drop_one),
    kinds.AddPartitions: partitions.add_partitions,
    kinds.DropPartitions: partitions.drop_partitions,
    kinds.RenamePartition: partitions.rename_partition,
    kinds.SetTableProperties: tables.set_table_properties,
    kinds.CommentOn: tables.comment_on,
    kinds.CreateView: views.create_view,
    kinds.DropView: _drop(views.drop_view),
    kinds.RenameTable: tables.rename_table,
    kinds.AddColumns: columns.add_columns,
    kinds.ChangeColumn: columns.change_column,
    kinds.ChangeConstraints: constraints.change_constraints,
    kinds.ReplaceColumns: columns.replace_columns,
    kinds.DropColumns: columns.drop_columns,
    kinds.CreateLink: links.create_link,
    kinds.DropLink: links.drop_link,
    kinds.AddLinkPartitions: links.add_link_partitions,
    kinds.DropLinkPartitions: links.drop_link_partitions,
    kinds.SetLinkProperties: links.set_link_properties,
    kinds.ShowLinks: links.show_links,
    kinds.ShowCapacity: databases.show_capacity,
    kinds.SetQuota: databases.set_quota,
    kinds.MoveDatabase: copies.move_database,
    kinds.CancelMove: copies.cancel_move,
    kinds.ShowCurrentNamespace: show.show_current_namespace,
    kinds.ShowDatabases: show.show_databases,
    kinds.ShowTables: show.show_tables,
    kinds.ShowTableExtended: show.show_table_extended,
    kinds.ShowFunctions: functions.show_functions,
    kinds.DescribeFunction: functions.describe_function,
    kinds.CreateFunction: functions.create_function,
    kinds.DropFunction: _drop(functions.drop_function),
    kinds.ShowColumns: show.show_columns,
    kinds.ShowTableProperties: show.show_table_properties,
    kinds.ShowPartitions: partitions.show_partitions,
    kinds.ShowCreateTable: show.show_create_table,
    kinds.ShowClusters: show.show_clusters,
    kinds.RepairPartitions: maintenance.repair_partitions,
    kinds.RefreshTable: maintenance.refresh_table,
    kinds.UpdateStatistics: statistics.run_update_statistics,
    kinds.TouchTable: maintenance.touch_table,
    kinds.ExchangePartition: partitions.exchange_partition,
    kinds.SetLocation: storage_changes.set_location,
    kinds.SetFormat: storage_changes.set_format,
    kinds.SetSerdeProperties: storage_changes.set_serde_properties,
    kinds.CreateTemporaryView: temporary_tables.create_temporary_view,
    kinds.CreateTemporaryFunction: functions.create_temporary_function,
    kinds.DropTemporaryFunction: _drop(functions.drop_temporary_function),
    kinds.DeclareVariable: variables.declare_variable,
    kinds.SetVariables: variables.set_variables,
    kinds.DropVariable: variables.drop_variable,
    kinds.ExecuteImmediate: variables.execute_immediate,
    kinds.SetConfiguration: session_settings.set_configuration,
    kinds.ResetConfiguration: session_settings.reset_configuration,
    kinds.SetSetting: session_settings.set_setting,
    kinds.ResetSetting: session_settings.reset_setting,
    kinds.DescribeTable: show.describe_table,
    kinds.DescribeDatabase: show.describe_database,
    kinds.DescribeHistory: show.describe_history,
    kinds.ExplainRoute: show.explain_route,
    kinds.ShowTransactions: transactions.show_transactions,
    kinds.ShowLocks: transactions.show_locks,
    kinds.AbortTransactions: transactions.abort_transactions,
    kinds.Compact: compactions.compact,
    kinds.Vacuum: compactions.vacuum,
    kinds.ShowCompactions: compactions.show_compactions,
    kinds.ReplicateTable: copies.replicate,
    kinds.DropCopy: copies.drop_copy,
    kinds.SetPrimaryCluster: copies.set_primary,
    kinds.ShowCopies: copies.show_copies,
    kinds.AbortCompactions: compactions.abort_compactions,
}
