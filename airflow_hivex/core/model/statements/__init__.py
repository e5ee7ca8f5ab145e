"""Statements as values: what kind it is, what it reads, what it writes.

The reader in ``sql`` makes them, the session runs them. Positions count characters
from 0 in the text that the user gave, end excluded, so that table names can be
replaced there and all else is left as written.
"""

from __future__ import annotations

from typing import TypeAlias

from airflow_hivex.core.model.statements.clusters import (
    ExplainRoute,
    ShowClusters,
    UseCluster,
)
from airflow_hivex.core.model.statements.compactions import (
    AbortCompactions,
    Compact,
    ShowCompactions,
)
from airflow_hivex.core.model.statements.definitions import (
    AddColumns,
    AddPartitions,
    AlterDatabase,
    ChangeColumn,
    CreateDatabase,
    CreateTable,
    CreateView,
    DropColumns,
    DropDatabase,
    DropPartitions,
    DropTable,
    DropView,
    RenamePartition,
    RenameTable,
    ReplaceColumns,
    SetTableProperties,
    UseDatabase,
)
from airflow_hivex.core.model.statements.looking import (
    DescribeDatabase,
    DescribeTable,
    ShowCreateTable,
    ShowDatabases,
    ShowPartitions,
    ShowTables,
)
from airflow_hivex.core.model.statements.names import (
    TableName,
)
from airflow_hivex.core.model.statements.queries import (
    Literal,
    Query,
    TableReference,
    TextEdit,
)
from airflow_hivex.core.model.statements.rows import (
    CLAUSE,
    SOURCE_ROW,
    SOURCE_STRUCT,
    Analyze,
    AnalyzeTables,
    ChangeAction,
    ChangeClause,
    ChangeQuery,
    ChangeRows,
    Insert,
    LoadData,
    MultiInsert,
    RoutedStatement,
    Select,
    Truncate,
    assigned_name,
    is_source,
    source_name,
)
from airflow_hivex.core.model.statements.transactions import (
    AbortTransactions,
    Commit,
    Rollback,
    ShowLocks,
    ShowTransactions,
    StartTransaction,
)

__all__ = [
    "CLAUSE",
    "SOURCE_ROW",
    "SOURCE_STRUCT",
    "AbortCompactions",
    "AbortTransactions",
    "AddColumns",
    "AddPartitions",
    "AlterDatabase",
    "Analyze",
    "AnalyzeTables",
    "ChangeAction",
    "ChangeClause",
    "ChangeColumn",
    "ChangeQuery",
    "ChangeRows",
    "Commit",
    "Compact",
    "CreateDatabase",
    "CreateTable",
    "CreateView",
    "DescribeDatabase",
    "DescribeTable",
    "DropColumns",
    "DropDatabase",
    "DropPartitions",
    "DropTable",
    "DropView",
    "ExplainRoute",
    "Insert",
    "Literal",
    "LoadData",
    "MultiInsert",
    "Query",
    "RenamePartition",
    "RenameTable",
    "ReplaceColumns",
    "Rollback",
    "RoutedStatement",
    "Select",
    "SetTableProperties",
    "ShowClusters",
    "ShowCompactions",
    "ShowCreateTable",
    "ShowDatabases",
    "ShowLocks",
    "ShowPartitions",
    "ShowTables",
    "ShowTransactions",
    "StartTransaction",
    "Statement",
    "TableName",
    "TableReference",
    "TextEdit",
    "Truncate",
    "UseCluster",
    "UseDatabase",
    "assigned_name",
    "is_source",
    "source_name",
]

Statement: TypeAlias = (
    Select
    | Insert
    | MultiInsert
    | ChangeRows
    | LoadData
    | Truncate
    | Analyze
    | AnalyzeTables
    | CreateDatabase
    | DropDatabase
    | AlterDatabase
    | UseDatabase
    | CreateTable
    | DropTable
    | AddPartitions
    | DropPartitions
    | RenamePartition
    | SetTableProperties
    | CreateView
    | DropView
    | RenameTable
    | AddColumns
    | ChangeColumn
    | ReplaceColumns
    | DropColumns
    | ShowDatabases
    | ShowTables
    | ShowPartitions
    | ShowCreateTable
    | DescribeTable
    | DescribeDatabase
    | StartTransaction
    | Commit
    | Rollback
    | AbortTransactions
    | ShowTransactions
    | ShowLocks
    | Compact
    | ShowCompactions
    | AbortCompactions
    | UseCluster
    | ShowClusters
    | ExplainRoute
)
