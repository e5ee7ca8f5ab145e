"""Statements as values: what kind it is, what it reads, what it writes.

The reader in ``sql`` makes them, the session runs them. Positions count characters
from 0 in the text that the user gave, end excluded, so that table names can be
replaced there and all else is left as written.
"""

from __future__ import annotations

from types import ModuleType

from airflow_hivex.core.model.identifiers import (
    PlacedName,
    Span,
    TableName,
    frame_name,
    is_source,
    is_stored,
    source_name,
)
from airflow_hivex.core.model.literals import Literal
from airflow_hivex.core.parser.statements import (
    clusters,
    columns,
    compactions,
    copies,
    databases,
    functions,
    links,
    listings,
    maintenance,
    partitions,
    rows,
    session_objects,
    tables,
    transactions,
    views,
)
from airflow_hivex.core.parser.statements.base import RoutedStatement, Statement
from airflow_hivex.core.parser.statements.clusters import (
    ExplainRoute,
    ResetSetting,
    SetSetting,
    ShowClusters,
    UseCluster,
)
from airflow_hivex.core.parser.statements.columns import (
    AddColumns,
    ChangeColumn,
    ChangeConstraints,
    DropColumns,
    ReplaceColumns,
)
from airflow_hivex.core.parser.statements.compactions import (
    AbortCompactions,
    Compact,
    ShowCompactions,
    Vacuum,
)
from airflow_hivex.core.parser.statements.copies import (
    CancelMove,
    DropCopy,
    MoveDatabase,
    ReplicateTable,
    SetPrimaryCluster,
    ShowCopies,
)
from airflow_hivex.core.parser.statements.databases import (
    AlterDatabase,
    CreateDatabase,
    DropDatabase,
    SetQuota,
    ShowCapacity,
    UseDatabase,
)
from airflow_hivex.core.parser.statements.functions import CreateFunction, DropFunction
from airflow_hivex.core.parser.statements.links import (
    AddLinkPartitions,
    CreateLink,
    DropLink,
    DropLinkPartitions,
    SetLinkProperties,
    ShowLinks,
)
from airflow_hivex.core.parser.statements.listings import (
    DescribeDatabase,
    DescribeFunction,
    DescribeHistory,
    DescribeTable,
    ShowColumns,
    ShowCreateTable,
    ShowCurrentNamespace,
    ShowDatabases,
    ShowFunctions,
    ShowPartitions,
    ShowTableExtended,
    ShowTableProperties,
    ShowTables,
)
from airflow_hivex.core.parser.statements.maintenance import (
    RefreshTable,
    RepairPartitions,
    TouchTable,
    UpdateStatistics,
)
from airflow_hivex.core.parser.statements.partitions import (
    AddPartitions,
    DropPartitions,
    ExchangePartition,
    RenamePartition,
)
from airflow_hivex.core.parser.statements.queries import (
    DatabaseCall,
    FunctionCall,
    Query,
    TableReference,
    TextEdit,
    ValueList,
)
from airflow_hivex.core.parser.statements.rows import (
    Analyze,
    AnalyzeTables,
    ChangeAction,
    ChangeClause,
    ChangeQuery,
    ChangeRows,
    DefaultValue,
    DescribeQuery,
    ExplainChanges,
    ExplainMode,
    ExplainMultiInsert,
    ExplainQuery,
    Insert,
    InsertDirectory,
    LoadData,
    MultiInsert,
    RestoreTable,
    Select,
    Truncate,
)
from airflow_hivex.core.parser.statements.session_objects import (
    CreateTemporaryFunction,
    CreateTemporaryView,
    DeclareVariable,
    DropTemporaryFunction,
    DropVariable,
    ExecuteImmediate,
    ImmediateArgument,
    ResetConfiguration,
    SetConfiguration,
    SetVariables,
)
from airflow_hivex.core.parser.statements.tables import (
    CommentOn,
    CreateTable,
    CreateTableLike,
    DropTable,
    RenameTable,
    SetFormat,
    SetLocation,
    SetSerdeProperties,
    SetTableProperties,
)
from airflow_hivex.core.parser.statements.transactions import (
    AbortTransactions,
    Commit,
    Rollback,
    ShowLocks,
    ShowTransactions,
    StartTransaction,
)
from airflow_hivex.core.parser.statements.uses import ObjectKind, Role, UsedObject
from airflow_hivex.core.parser.statements.views import CreateView, DropView

CHAPTERS: tuple[ModuleType, ...] = (
    clusters,
    databases,
    listings,
    links,
    tables,
    partitions,
    columns,
    views,
    functions,
    rows,
    session_objects,
    transactions,
    compactions,
    copies,
    maintenance,
)
"""The modules of the statements."""


def statements_of(chapter: ModuleType) -> tuple[type[Statement], ...]:
    """Return the statements that a chapter defines, in their order."""
    return tuple(
        kind
        for kind in vars(chapter).values()
        if isinstance(kind, type) and issubclass(kind, Statement) and kind.__module__ == chapter.__name__
    )


__all__ = [
    "CHAPTERS",
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
    "ChangeConstraints",
    "ChangeQuery",
    "ChangeRows",
    "CommentOn",
    "Commit",
    "Compact",
    "CreateDatabase",
    "CreateFunction",
    "CreateLink",
    "CreateTable",
    "CreateTableLike",
    "CreateTemporaryFunction",
    "CreateTemporaryView",
    "CreateView",
    "DatabaseCall",
    "DeclareVariable",
    "DefaultValue",
    "DescribeDatabase",
    "DescribeFunction",
    "DescribeHistory",
    "DescribeQuery",
    "DescribeTable",
    "DropColumns",
    "DropCopy",
    "DropDatabase",
    "DropFunction",
    "DropLink",
    "DropLinkPartitions",
    "DropPartitions",
    "DropTable",
    "DropTemporaryFunction",
    "DropVariable",
    "DropView",
    "ExchangePartition",
    "ExecuteImmediate",
    "ExplainChanges",
    "ExplainMode",
    "ExplainMultiInsert",
    "ExplainQuery",
    "ExplainRoute",
    "FunctionCall",
    "ImmediateArgument",
    "Insert",
    "InsertDirectory",
    "Literal",
    "LoadData",
    "MoveDatabase",
    "MultiInsert",
    "ObjectKind",
    "PlacedName",
    "Query",
    "RefreshTable",
    "RenamePartition",
    "RenameTable",
    "RepairPartitions",
    "ReplaceColumns",
    "ReplicateTable",
    "ResetConfiguration",
    "ResetSetting",
    "RestoreTable",
    "Role",
    "Rollback",
    "RoutedStatement",
    "Select",
    "SetConfiguration",
    "SetFormat",
    "SetLinkProperties",
    "SetLocation",
    "SetPrimaryCluster",
    "SetQuota",
    "SetSerdeProperties",
    "SetSetting",
    "SetTableProperties",
    "SetVariables",
    "ShowCapacity",
    "ShowClusters",
    "ShowColumns",
    "ShowCompactions",
    "ShowCopies",
    "ShowCreateTable",
    "ShowCurrentNamespace",
    "ShowDatabases",
    "ShowFunctions",
    "ShowLinks",
    "ShowLocks",
    "ShowPartitions",
    "ShowTableExtended",
    "ShowTableProperties",
    "ShowTables",
    "ShowTransactions",
    "Span",
    "StartTransaction",
    "Statement",
    "TableName",
    "TableReference",
    "TextEdit",
    "TouchTable",
    "Truncate",
    "UpdateStatistics",
    "UseCluster",
    "UseDatabase",
    "UsedObject",
    "Vacuum",
    "ValueList",
    "frame_name",
    "is_source",
    "is_stored",
    "source_name",
    "statements_of",
]
