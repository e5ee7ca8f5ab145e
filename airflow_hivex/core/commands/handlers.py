"""The handlers: a dict from the type of a statement to the function that runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Any

from airflow_hivex.core.execution.context import Result, StatementContext
from airflow_hivex.core.model.configuration import IGNORES_NONEXISTENT
from airflow_hivex.core.parser import statements as kinds

Handler = Callable[[StatementContext, Any], Result]

_DROPS = (kinds.DropTable, kinds.DropView, kinds.DropFunction, kinds.DropTemporaryFunction)


def run(context: StatementContext, statement: kinds.Statement) -> Result:
    """Run a statement by its handler. The session's settings can add IF EXISTS to a DROP, as in Hive."""
    if isinstance(statement, _DROPS):
        ignores = context.session.objects.without_effect.get(IGNORES_NONEXISTENT, "")
        statement = replace(statement, if_exists=True) if ignores.lower() == "true" else statement
    return handler_of(type(statement))(context, statement)


@cache
def handler_of(kind: type) -> Handler:
    """Return the function that runs a kind of statement. The first use loads its module."""
    module, _, name = HANDLERS[kind].rpartition(".")
    handler: Handler = getattr(import_module(f"airflow_hivex.core.{module}"), name)
    return handler


HANDLERS: dict[type, str] = {
    kinds.Select: "execution.select_and_insert.run_select",
    kinds.DescribeQuery: "execution.select_and_insert.run_describe_query",
    kinds.ExplainQuery: "execution.select_and_insert.run_explain_query",
    kinds.ExplainChanges: "commands.rows.run_explain_statement",
    kinds.ExplainMultiInsert: "commands.multi_inserts.run_explain_multi_insert",
    kinds.Insert: "commands.rows.run_insert_statement",
    kinds.InsertDirectory: "commands.exports.run_insert_directory",
    kinds.ChangeRows: "commands.rows.run_change_statement",
    kinds.LoadData: "commands.loads.run_load",
    kinds.CopyInto: "commands.copy_into.run_copy_into",
    kinds.ShowCopyHistory: "commands.copy_into.show_copy_history",
    kinds.Truncate: "commands.rows.run_truncate",
    kinds.RestoreTable: "commands.rows.run_restore",
    kinds.Analyze: "commands.statistics.run_analyze",
    kinds.AnalyzeTables: "commands.statistics.run_analyze_tables",
    kinds.MultiInsert: "commands.multi_inserts.run_multi_insert",
    kinds.StartTransaction: "commands.transactions.start_transaction",
    kinds.Commit: "commands.transactions.commit",
    kinds.Rollback: "commands.transactions.rollback",
    kinds.CreateDatabase: "commands.databases.create_database",
    kinds.DropDatabase: "commands.databases.drop_database",
    kinds.AlterDatabase: "commands.databases.alter_database",
    kinds.UseDatabase: "commands.databases.use_database",
    kinds.UseCluster: "commands.databases.use_cluster",
    kinds.CreateTable: "commands.create_as_select.run_create",
    kinds.CreateTableLike: "commands.temporary_tables.create_like",
    kinds.DropTable: "commands.temporary_tables.drop_one",
    kinds.AddPartitions: "commands.partitions.add_partitions",
    kinds.DropPartitions: "commands.partitions.drop_partitions",
    kinds.RenamePartition: "commands.partitions.rename_partition",
    kinds.SetTableProperties: "commands.tables.set_table_properties",
    kinds.CommentOn: "commands.tables.comment_on",
    kinds.CreateView: "commands.views.create_view",
    kinds.DropView: "commands.views.drop_view",
    kinds.RenameTable: "commands.tables.rename_table",
    kinds.AddColumns: "commands.columns.add_columns",
    kinds.ChangeColumn: "commands.columns.change_column",
    kinds.ChangeConstraints: "commands.constraints.change_constraints",
    kinds.ReplaceColumns: "commands.columns.replace_columns",
    kinds.DropColumns: "commands.columns.drop_columns",
    kinds.CreateLink: "commands.links.create_link",
    kinds.DropLink: "commands.links.drop_link",
    kinds.AddLinkPartitions: "commands.links.add_link_partitions",
    kinds.DropLinkPartitions: "commands.links.drop_link_partitions",
    kinds.SetLinkProperties: "commands.links.set_link_properties",
    kinds.ShowLinks: "commands.links.show_links",
    kinds.ShowCapacity: "commands.databases.show_capacity",
    kinds.SetQuota: "commands.databases.set_quota",
    kinds.MoveDatabase: "commands.copies.move_database",
    kinds.CancelMove: "commands.copies.cancel_move",
    kinds.ShowCurrentNamespace: "commands.show.show_current_namespace",
    kinds.ShowDatabases: "commands.show.show_databases",
    kinds.ShowTables: "commands.show.show_tables",
    kinds.ShowTableExtended: "commands.show.show_table_extended",
    kinds.ShowFunctions: "commands.functions.show_functions",
    kinds.DescribeFunction: "commands.functions.describe_function",
    kinds.CreateFunction: "commands.functions.create_function",
    kinds.DropFunction: "commands.functions.drop_function",
    kinds.ShowColumns: "commands.show.show_columns",
    kinds.ShowTableProperties: "commands.show.show_table_properties",
    kinds.ShowPartitions: "commands.partitions.show_partitions",
    kinds.ShowCreateTable: "commands.show.show_create_table",
    kinds.ShowClusters: "commands.show.show_clusters",
    kinds.RepairPartitions: "commands.maintenance.repair_partitions",
    kinds.RefreshTable: "commands.maintenance.refresh_table",
    kinds.UpdateStatistics: "commands.statistics.run_update_statistics",
    kinds.TouchTable: "commands.maintenance.touch_table",
    kinds.ExchangePartition: "commands.partitions.exchange_partition",
    kinds.SetLocation: "commands.storage_changes.set_location",
    kinds.SetFormat: "commands.storage_changes.set_format",
    kinds.SetSerdeProperties: "commands.storage_changes.set_serde_properties",
    kinds.CreateTemporaryView: "commands.temporary_tables.create_temporary_view",
    kinds.CreateTemporaryFunction: "commands.functions.create_temporary_function",
    kinds.DropTemporaryFunction: "commands.functions.drop_temporary_function",
    kinds.DeclareVariable: "commands.variables.declare_variable",
    kinds.SetVariables: "commands.variables.set_variables",
    kinds.DropVariable: "commands.variables.drop_variable",
    kinds.ExecuteImmediate: "commands.variables.execute_immediate",
    kinds.SetConfiguration: "commands.session_settings.set_configuration",
    kinds.ResetConfiguration: "commands.session_settings.reset_configuration",
    kinds.SetSetting: "commands.session_settings.set_setting",
    kinds.ResetSetting: "commands.session_settings.reset_setting",
    kinds.DescribeTable: "commands.show.describe_table",
    kinds.DescribeDatabase: "commands.show.describe_database",
    kinds.DescribeHistory: "commands.show.describe_history",
    kinds.ExplainRoute: "commands.show.explain_route",
    kinds.ShowTransactions: "commands.transactions.show_transactions",
    kinds.ShowStatements: "commands.transactions.show_statements",
    kinds.ShowLocks: "commands.transactions.show_locks",
    kinds.AbortTransactions: "commands.transactions.abort_transactions",
    kinds.Compact: "commands.compactions.compact",
    kinds.Vacuum: "commands.compactions.vacuum",
    kinds.ShowCompactions: "commands.compactions.show_compactions",
    kinds.ReplicateTable: "commands.copies.replicate",
    kinds.DropCopy: "commands.copies.drop_copy",
    kinds.SetPrimaryCluster: "commands.copies.set_primary",
    kinds.ShowCopies: "commands.copies.show_copies",
    kinds.AbortCompactions: "commands.compactions.abort_compactions",
}
"""Functions below ``airflow_hivex.core``, by name: a process loads what its statements need."""
