"""The functions that make a statement of the values of its fields, for statements whose fields depend on each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from airflow_hivex.core.parser.grammar.clauses import Parts
from airflow_hivex.core.parser.grammar.columns import make_changed_column
from airflow_hivex.core.parser.grammar.functions import make_function, make_temporary_function
from airflow_hivex.core.parser.grammar.inserts import make_copy_into, make_insert, make_insert_directory, make_load
from airflow_hivex.core.parser.grammar.row_changes import make_changes
from airflow_hivex.core.parser.grammar.serdes import file_format
from airflow_hivex.core.parser.grammar.session_objects import make_assignment, make_declaration
from airflow_hivex.core.parser.grammar.session_settings import make_reset, make_set
from airflow_hivex.core.parser.grammar.tables import make_table, make_table_like
from airflow_hivex.core.parser.statements import (
    ChangeColumn,
    ChangeRows,
    CopyInto,
    CreateFunction,
    CreateTable,
    CreateTableLike,
    CreateTemporaryFunction,
    DeclareVariable,
    Insert,
    InsertDirectory,
    LoadData,
    ResetConfiguration,
    SetConfiguration,
    SetFormat,
    SetVariables,
    Statement,
)


def _set_format(parts: Parts) -> SetFormat:
    given = file_format(parts)
    assert given.format is not None
    classes = given.serde_library, given.input_format, given.output_format
    return SetFormat(parts["table"], given.format, given.options, *classes)


MAKERS: Mapping[type[Statement], Callable[[Parts], Statement]] = {
    ChangeColumn: make_changed_column,
    ChangeRows: make_changes,
    CopyInto: make_copy_into,
    CreateFunction: make_function,
    CreateTable: make_table,
    CreateTableLike: make_table_like,
    CreateTemporaryFunction: make_temporary_function,
    DeclareVariable: make_declaration,
    Insert: make_insert,
    InsertDirectory: make_insert_directory,
    LoadData: make_load,
    ResetConfiguration: make_reset,
    SetConfiguration: make_set,
    SetFormat: _set_format,
    SetVariables: make_assignment,
}
