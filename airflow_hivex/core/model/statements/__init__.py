"""Statements as values: what kind it is, what it reads, what it writes.

The reader in ``sql`` makes them, the session runs them. Positions count characters
from 0 in the text that the user gave, end excluded, so that table names can be
replaced there and all else is left as written.
"""

from __future__ import annotations

from airflow_hivex.core.model.literals import Literal
from airflow_hivex.core.model.statements.base import RoutedStatement, Statement
from airflow_hivex.core.model.statements.capacity import SetQuota, ShowCapacity
from airflow_hivex.core.model.statements.clusters import (
    ExplainRoute,
    ResetSetting,
    SetSetting,
    ShowClusters,
    UseCluster,
)
from airflow_hivex.core.model.statements.compactions import (
    AbortCompactions,
    Compact,
    ShowCompactions,
)
from airflow_hivex.core.model.statements.copies import DropCopy, ReplicateTable, SetPrimaryCluster, ShowCopies
from airflow_hivex.core.model.statements.definitions import (
    AddColumns,
    AddPartitions,
    AlterDatabase,
    ChangeColumn,
    CreateDatabase,
    CreateTable,
    CreateTableLike,
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
from airflow_hivex.core.model.statements.links import (
    AddLinkPartitions,
    CreateLink,
    DropLink,
    DropLinkPartitions,
    SetLinkProperties,
    ShowLinks,
)
from airflow_hivex.core.model.statements.looking import (
    DescribeDatabase,
    DescribeTable,
    ShowCreateTable,
    ShowDatabases,
    ShowPartitions,
    ShowTables,
)
from airflow_hivex.core.model.statements.moves import CancelMove, MoveDatabase
from airflow_hivex.core.model.statements.names import PlacedName, Span, TableName, is_source, source_name
from airflow_hivex.core.model.statements.queries import (
    Query,
    TableReference,
    TextEdit,
)
from airflow_hivex.core.model.statements.rows import (
    Analyze,
    AnalyzeTables,
    ChangeAction,
    ChangeClause,
    ChangeQuery,
    ChangeRows,
    DescribeQuery,
    ExplainMode,
    ExplainQuery,
    Insert,
    LoadData,
    MultiInsert,
    Select,
    Truncate,
)
from airflow_hivex.core.model.statements.transactions import (
    AbortTransactions,
    Commit,
    Rollback,
    ShowLocks,
    ShowTransactions,
    StartTransaction,
)
from airflow_hivex.core.model.statements.uses import ObjectKind, Role, UsedObject

__all__ = [
    "AbortCompactions",
    "AbortTransactions",
    "AddColumns",
    "AddLinkPartitions",
    "AddPartitions",
    "AlterDatabase",
    "Analyze",
    "AnalyzeTables",
    "CancelMove",
    "ChangeAction",
    "ChangeClause",
    "ChangeColumn",
    "ChangeQuery",
    "ChangeRows",
    "Commit",
    "Compact",
    "CreateDatabase",
    "CreateLink",
    "CreateTable",
    "CreateTableLike",
    "CreateView",
    "DescribeDatabase",
    "DescribeQuery",
    "DescribeTable",
    "DropColumns",
    "DropCopy",
    "DropDatabase",
    "DropLink",
    "DropLinkPartitions",
    "DropPartitions",
    "DropTable",
    "DropView",
    "ExplainMode",
    "ExplainQuery",
    "ExplainRoute",
    "Insert",
    "Literal",
    "LoadData",
    "MoveDatabase",
    "MultiInsert",
    "ObjectKind",
    "PlacedName",
    "Query",
    "RenamePartition",
    "RenameTable",
    "ReplaceColumns",
    "ReplicateTable",
    "ResetSetting",
    "Role",
    "Rollback",
    "RoutedStatement",
    "Select",
    "SetLinkProperties",
    "SetPrimaryCluster",
    "SetQuota",
    "SetSetting",
    "SetTableProperties",
    "ShowCapacity",
    "ShowClusters",
    "ShowCompactions",
    "ShowCopies",
    "ShowCreateTable",
    "ShowDatabases",
    "ShowLinks",
    "ShowLocks",
    "ShowPartitions",
    "ShowTables",
    "ShowTransactions",
    "Span",
    "StartTransaction",
    "Statement",
    "TableName",
    "TableReference",
    "TextEdit",
    "Truncate",
    "UseCluster",
    "UseDatabase",
    "UsedObject",
    "is_source",
    "source_name",
]
