"""The kinds of values in statements, such as names and lists of columns: how each kind is read and named in errors.

The ``SYNTAX`` lines of the statement classes refer to these kinds by name (``parser/grammar/syntax.py``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from airflow_hivex.core.errors import InvalidObjectError, InvalidParametersError
from airflow_hivex.core.model.compaction import CompactionState, CompactionType
from airflow_hivex.core.model.ended_statements import StatementOutcome
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.objects import SortColumn
from airflow_hivex.core.model.predicates import Predicate
from airflow_hivex.core.model.sizes import size_of
from airflow_hivex.core.parser.grammar.clauses import (
    read_id,
    read_ids,
    read_parentheses,
    read_partition,
    read_partition_predicate,
    read_properties,
    read_property_key,
    read_property_keys,
    read_static_partition,
)
from airflow_hivex.core.parser.grammar.columns import (
    CONSTRAINT,
    read_added_columns,
    read_column_constraint,
    read_constraint,
    read_new_columns,
    read_place,
    read_whole_column,
)
from airflow_hivex.core.parser.grammar.constraints import read_default
from airflow_hivex.core.parser.grammar.functions import (
    read_body,
    read_language,
    read_resources,
    read_session_function,
    read_signature,
)
from airflow_hivex.core.parser.grammar.inserts import read_branch, read_copied_query, read_inserted_query, read_rows
from airflow_hivex.core.parser.grammar.row_changes import (
    ChangedTable,
    MergeSource,
    assignments_before,
    condition_before,
    read_inserted_values,
)
from airflow_hivex.core.parser.grammar.serdes import read_input_format, read_serde
from airflow_hivex.core.parser.grammar.session_objects import (
    read_arguments,
    read_query_in_parentheses,
    read_statement_text,
    read_variable,
    read_variable_values,
    read_variables,
)
from airflow_hivex.core.parser.grammar.session_settings import read_any_text, read_setting, read_time_zone
from airflow_hivex.core.parser.grammar.tables import (
    read_columns_of_table,
    read_new_table,
    read_partition_keys,
    read_query_of_table,
    read_skew,
)
from airflow_hivex.core.parser.grammar.views import read_definition, read_view_columns
from airflow_hivex.core.parser.lexer.literals import read_integer, read_string
from airflow_hivex.core.parser.lexer.markers import Markers
from airflow_hivex.core.parser.lexer.tokens import Cursor, Kind, name_of, tokenize
from airflow_hivex.core.parser.lexer.types import read_type
from airflow_hivex.core.parser.queries.reader import at_query, read_query
from airflow_hivex.core.parser.queries.versions import read_version
from airflow_hivex.core.parser.statements import COPIED_FORMATS, Literal, PlacedName, Query, TableName

T = TypeVar("T")

_PERCENT = re.compile(r"[1-9][0-9]?|100")
_FUNCTION_NAME = re.compile(r"[a-z_]\w*", re.ASCII)
_TABLE_PARTS = 2
"""The greatest number of parts in the name of a table."""
_MOST = 2**63 - 1


class ValueKind(NamedTuple):
    """A kind of values: its description in the error "expected ...", and the function that reads a value."""

    what: str
    read: Callable[[Cursor], object]


# -- names -------------------------------------------------------------------------------


def read_link_name(cursor: Cursor) -> TableName:
    """Return a name ``table@namespace``.

    Raises:
        StatementSyntaxError: another name comes next.
    """
    first = cursor.peek()
    name = cursor.table_name()
    if name.namespace is None:
        raise cursor.error(f"{name} is not a valid name of a link; write table@namespace", first)
    return name


def read_cluster(cursor: Cursor) -> PlacedName:
    """Return the name of a cluster as written: quoted, or words with hyphens and points, such as ``us-east-1``."""
    start = cursor.offset()
    name = _cluster_name(cursor)
    return PlacedName(name, cursor.span_from(start))


def _cluster_name(cursor: Cursor) -> str:
    if cursor.at_kind(Kind.STRING):
        return read_string(cursor, "the name of a cluster")
    if cursor.at_kind(Kind.QUOTED):
        return name_of(cursor.next("the name of a cluster"))
    if not cursor.at_kind(Kind.WORD, Kind.NUMBER):
        raise cursor.expected("the name of a cluster")
    first = last = cursor.next("the name of a cluster")
    while (token := cursor.peek()) is not None and token.start == last.end:
        last = cursor.next("the name of a cluster")
        if not (last.kind in (Kind.WORD, Kind.NUMBER) or last.is_symbol("-", ".")):
            raise cursor.error("a cluster's name that holds more than letters, digits, -, _ and . is quoted", first)
    return cursor.text[first.start : last.end]


def read_function_name(cursor: Cursor) -> TableName:
    """Return the name ``function`` or ``database.function``. The name must have only letters, digits and _."""
    first = cursor.peek()
    start = cursor.offset()
    parts = [cursor.name("the name of a function")]
    while cursor.accept_symbol("."):
        parts.append(cursor.name("the name of a function"))
    if len(parts) > _TABLE_PARTS:
        raise cursor.unsupported("a function is named function or database.function", first)
    if not _FUNCTION_NAME.fullmatch(parts[-1]):
        raise cursor.error(f"`{parts[-1]}` is not a valid name of a function; it has letters, digits and _", first)
    return TableName(parts[-1], parts[0] if len(parts) == _TABLE_PARTS else None, None, cursor.span_from(start))


def _described_function(cursor: Cursor) -> tuple[str, str | None]:
    """Return a pair: the name of a function or operator, and the database in ``database.name`` or None."""
    if cursor.at_kind(Kind.SYMBOL):
        first = last = cursor.next("the name of a function")
        while not cursor.at_end and cursor.at_kind(Kind.SYMBOL):
            last = cursor.next("an operator")
        return cursor.text[first.start : last.end], None
    if cursor.at_kind(Kind.STRING):
        return read_string(cursor, "the name of a function"), None
    if cursor.at("SYSTEM") and cursor.at_symbol(".", ahead=1):
        cursor.index += 2
    name = cursor.identifier("the name of a function")
    if name.lower() in ("builtin", "session") and cursor.accept_symbol("."):
        name = cursor.identifier("the name of a function")
    if not cursor.accept_symbol("."):
        return name, None
    return cursor.name("the name of a function"), normalise(name)


def _described_column(cursor: Cursor) -> str:
    column = cursor.name("the name of a column")
    if cursor.at_symbol("."):
        reason = "DESCRIBE of a field of a column is not a statement of this release"
        raise cursor.unsupported(reason, cursor.tokens[0])
    return column


def _column_of_table(cursor: Cursor) -> tuple[TableName, str]:
    """Return a pair: the table and the column of ``table.column`` or ``database.table.column``."""
    token = cursor.peek()
    start = cursor.offset()
    parts = [cursor.name("the name of a table")]
    span = cursor.span_from(start)
    cursor.expect_symbol(".")
    parts.append(cursor.name("the name of a column"))
    while cursor.at_symbol("."):
        span = cursor.span_from(start)
        cursor.expect_symbol(".")
        parts.append(cursor.name("the name of a column"))
    *table, column = parts
    if len(table) > _TABLE_PARTS:
        raise cursor.unsupported("a column is named table.column or database.table.column, without fields", token)
    return TableName(table[-1], table[0] if len(table) == _TABLE_PARTS else None, span=span), column


def _pattern(cursor: Cursor) -> str:
    """Return the pattern after LIKE: a string or, as in Hive, a name."""
    if cursor.at_kind(Kind.WORD, Kind.QUOTED):
        return cursor.identifier("a pattern")
    return read_string(cursor, "a pattern")


def _script(cursor: Cursor) -> str:
    """Return the script after BEGIN: the rest of the text. TRANSACTION and WORK after BEGIN are refused."""
    if cursor.at("TRANSACTION") or cursor.at("WORK"):
        raise cursor.expected("a statement")
    start, cursor.index = cursor.offset(), len(cursor.tokens)
    return cursor.text[start : cursor.tokens[-1].end]


def _function_word(cursor: Cursor) -> str:
    if not cursor.at_kind(Kind.WORD) or cursor.at("LIKE"):
        raise cursor.expected("the name of a function")
    return cursor.name("the name of a function")


def _query(cursor: Cursor) -> Query:
    if not at_query(cursor):
        raise cursor.expected("a query")
    return read_query(cursor)


# -- partitions and columns --------------------------------------------------------------


def _each_partition(cursor: Cursor, read: Callable[[Cursor], T]) -> tuple[T, ...]:
    """Return the result of ``read`` for each of ``PARTITION (...)[,] PARTITION (...)``."""
    cursor.expect("PARTITION")
    found = [read(cursor)]
    while cursor.accept_symbol(",") or cursor.at("PARTITION"):
        cursor.expect("PARTITION")
        found.append(read(cursor))
    return tuple(found)


def _new_partition(cursor: Cursor) -> tuple[Mapping[str, Literal], str | None]:
    specification = read_static_partition(cursor)
    return specification, read_string(cursor, "a location") if cursor.accept("LOCATION") else None


def read_partition_filter(text: str) -> Predicate:
    """Return the conditions in a text, written as in a PARTITION clause: ``year = 2013, month < 3``.

    Raises:
        StatementSyntaxError: the text is not a list of conditions.
    """
    clause = f"({text})"
    cursor = Cursor(clause, tokenize(clause), Markers(None))
    found = read_partition_predicate(cursor)
    if not cursor.at_end:
        raise cursor.expected("the end of the conditions")
    return found


def _ordered(cursor: Cursor, what: str, kind: str = "") -> tuple[tuple[str, bool], ...]:
    """Return a pair (name, is ascending) for each item of a list ``name [ASC | DESC], ...``."""
    names = cursor.different(lambda: cursor.name(what), kind)
    return tuple((name, cursor.accept_one("ASC", "DESC") != "DESC") for name in names)


def _sort_columns(cursor: Cursor) -> tuple[SortColumn, ...]:
    return tuple(SortColumn(name, rises) for name, rises in _ordered(cursor, "a column"))


def _partition_order(cursor: Cursor) -> tuple[SortColumn, ...]:
    return tuple(SortColumn(*each) for each in _ordered(cursor, "a partition column", "partition column "))


def _partition_condition(cursor: Cursor) -> Predicate:
    from airflow_hivex.core.parser.queries.conditions import read_partition_condition

    return read_partition_condition(cursor)


def _dropped_columns(cursor: Cursor) -> tuple[str, ...]:
    if cursor.at_symbol("("):
        return cursor.names("a column")
    names = [read_whole_column(cursor)]
    while cursor.accept_symbol(","):
        names.append(read_whole_column(cursor))
    return tuple(dict.fromkeys(names))


def _column_list(cursor: Cursor) -> tuple[str, ...]:
    return tuple(cursor.different(lambda: cursor.name("the name of a column")))


def _place(cursor: Cursor) -> str:
    place = read_place(cursor)
    if place is None:
        raise cursor.expected("FIRST or AFTER")
    return place


# -- numbers and words -------------------------------------------------------------------


def _count(what: str, refused: str) -> Callable[[Cursor], int]:
    def read(cursor: Cursor) -> int:
        token = cursor.peek()
        count = read_integer(cursor, what)
        if count > _MOST:
            raise cursor.error(refused, token)
        return count

    return read


def _buckets(cursor: Cursor) -> int:
    token = cursor.peek()
    count = read_integer(cursor, "the number of buckets")
    if not 1 <= count < 2**31:
        raise cursor.error("that is not a valid number of buckets", token)
    return count


def _size(cursor: Cursor) -> int:
    token = cursor.peek()
    if cursor.at_kind(Kind.STRING):
        text = read_string(cursor, "a size")
    elif cursor.at_kind(Kind.NUMBER):
        text = cursor.next("a size").text
    else:
        raise cursor.expected("a size, such as 1000000 or '10 GB'")
    try:
        return size_of(text)
    except InvalidParametersError as error:
        raise cursor.error(str(error).rstrip("."), token) from error


def _percent(cursor: Cursor) -> int:
    token = cursor.peek()
    text = cursor.next("a percentage").text
    if not _PERCENT.fullmatch(text):
        raise cursor.error(f"{text} is not a valid percentage; give a whole number from 1 to 100", token)
    cursor.accept_symbol("%")
    return int(text)


def _named(what: str, read: Callable[[str], T]) -> ValueKind:
    """Return a kind of values that are written as strings and parsed by ``read``."""

    def read_named(cursor: Cursor) -> T:
        token = cursor.peek()
        text = read_string(cursor, what)
        try:
            return read(text)
        except InvalidObjectError as error:
            raise cursor.error(f"{error.kind} {error.name}: {error.reason}", token) from error

    return ValueKind(what, read_named)


def _string(what: str) -> ValueKind:
    return ValueKind(what, lambda cursor: read_string(cursor, what))


def _nullable_comment(cursor: Cursor) -> str | None:
    return None if cursor.accept("NULL") else read_string(cursor, "a comment or NULL")


# -- formats of files --------------------------------------------------------------------


def _format_name(cursor: Cursor) -> str:
    return cursor.name("a format").lower()


def _format_words(cursor: Cursor) -> str:
    parts = [cursor.name("a format")]
    while cursor.accept_symbol("."):
        parts.append(cursor.name("a format"))
    return ".".join(parts)


def _copied_format(cursor: Cursor) -> str:
    token = cursor.peek()
    name = _format_name(cursor)
    if name not in COPIED_FORMATS:
        known = ", ".join(map(str.upper, COPIED_FORMATS))
        raise cursor.error(f"COPY INTO does not read files of format {name}; the formats are {known}", token)
    return name


def _texts(cursor: Cursor) -> tuple[str, ...]:
    cursor.expect_symbol("(")
    found = tuple(cursor.different(lambda: read_string(cursor, "a path"), "file "))
    cursor.expect_symbol(")")
    return found


def _patterns(cursor: Cursor) -> tuple[str, ...]:
    return _texts(cursor) if cursor.at_symbol("(") else (read_string(cursor, "a pattern"),)


def _stored_as(cursor: Cursor) -> str:
    if cursor.at("INPUTFORMAT"):
        raise cursor.expected("a format")
    return _format_name(cursor)


# One line for each kind, to be read as a table.
KINDS: Mapping[str, ValueKind] = {
    "added_columns": ValueKind("a column", read_new_columns),
    "any_partition": ValueKind("'('", read_partition),
    "any_specification": ValueKind("'('", lambda cursor: read_partition_predicate(cursor, any_value=True)),
    "arguments": ValueKind("a value", read_arguments),
    "assignments": ValueKind("a column", assignments_before("WHERE")),
    "assignments_before_when": ValueKind("a column", assignments_before("WHEN")),
    "body": ValueKind("an expression", read_body),
    "branch": ValueKind("SELECT", read_branch),
    "buckets": ValueKind("the number of buckets", _buckets),
    "character": _string("a character"),
    "cluster": ValueKind("the name of a cluster", read_cluster),
    "column": ValueKind("the name of a column", lambda cursor: normalise(cursor.name("the name of a column"))),
    "column_constraint": ValueKind("a constraint", read_column_constraint),
    "column_list": ValueKind("the name of a column", _column_list),
    "column_names": ValueKind("'('", lambda cursor: cursor.names("a column")),
    "column_of_table": ValueKind("the name of a table", _column_of_table),
    "comment": _string("a comment"),
    "commit_count": ValueKind("a number of commits", lambda cursor: read_integer(cursor, "a number of commits")),
    "compaction_id": ValueKind("the id of a compaction", lambda cursor: read_id(cursor, "a compaction")),
    "compaction_ids": ValueKind("the id of a compaction", lambda cursor: read_ids(cursor, "a compaction")),
    "compaction_order": ValueKind(
        "a column of SHOW COMPACTIONS", lambda cursor: _ordered(cursor, "a column of SHOW COMPACTIONS")
    ),
    "compaction_state": _named("a status such as 'initiated'", CompactionState.read),
    "compaction_type": _named("a type such as 'major'", CompactionType.read),
    "condition": ValueKind("a condition", condition_before()),
    "condition_before_then": ValueKind("a condition", condition_before("THEN")),
    "condition_before_when": ValueKind("a condition", condition_before("WHEN")),
    "confirmation": _string("the confirmation"),
    "constraint": ValueKind(CONSTRAINT, read_constraint),
    "constraint_name": ValueKind(
        "the name of a constraint", lambda cursor: normalise(cursor.name("the name of a constraint"))
    ),
    "copied_format": ValueKind(", ".join(map(str.upper, COPIED_FORMATS)), _copied_format),
    "copied_query": ValueKind("'(' and a query", read_copied_query),
    "database": ValueKind("the name of a database", Cursor.database_name),
    "dag_id": _string("the id of a DAG, a string"),
    "default": ValueKind("a default value", read_default),
    "definition": ValueKind("a query", read_definition),
    "described_column": ValueKind("the name of a column", _described_column),
    "described_function": ValueKind("the name of a function", _described_function),
    "directory": _string("the path of a directory"),
    "dropped_columns": ValueKind("a column", _dropped_columns),
    "expression": ValueKind("an expression", read_any_text),
    "file_count": ValueKind("a number of files", _count("a number of files", "that is not a valid number of files")),
    "format_name": ValueKind("a format", _format_name),
    "format_path": ValueKind("a format", _format_words),
    "function": ValueKind("the name of a function", read_function_name),
    "function_word": ValueKind("the name of a function", _function_word),
    "input_format": ValueKind("the class of an input format", read_input_format),
    "inserted_query": ValueKind("a query", read_inserted_query),
    "java_class": _string("a class"),
    "keys": ValueKind("'('", read_property_keys),
    "language": ValueKind("SQL", read_language),
    "line_end": _string("the end of a line"),
    "link": ValueKind("the name of a link", read_link_name),
    "location": _string("a location"),
    "merge_source": ValueKind("the name of a table", MergeSource.read),
    "new_columns": ValueKind("'('", read_added_columns),
    "new_partitions": ValueKind("PARTITION", lambda cursor: _each_partition(cursor, _new_partition)),
    "new_table": ValueKind("the name of a table", read_new_table),
    "new_values": ValueKind("'('", read_inserted_values),
    "nullable_comment": ValueKind("a comment or NULL", _nullable_comment),
    "output_format": _string("the class of an output format"),
    "parameters": ValueKind("'('", read_parentheses),
    "partition": ValueKind("'('", read_static_partition),
    "partition_condition": ValueKind("a condition", _partition_condition),
    "partition_count": ValueKind(
        "a number of partitions", _count("a number of partitions", "that is not a valid number of partitions")
    ),
    "partition_keys": ValueKind("'('", read_partition_keys),
    "partition_order": ValueKind("a partition column", _partition_order),
    "path": _string("a path"),
    "pattern": ValueKind("a pattern", _pattern),
    "patterns": ValueKind("a pattern", _patterns),
    "percent": ValueKind("a percentage", _percent),
    "place": ValueKind("FIRST or AFTER", _place),
    "pool": _string("the name of a pool, a string"),
    "properties": ValueKind("'('", read_properties),
    "property": ValueKind("a property", read_property_key),
    "query": ValueKind("a query", _query),
    "query_in_parentheses": ValueKind("'(' and a query", read_query_in_parentheses),
    "query_of_table": ValueKind("a query", read_query_of_table),
    "quoted_pattern": _string("a pattern"),
    "requested_type": _named("the type of the compaction, such as 'major'", CompactionType.read),
    "resources": ValueKind("JAR, FILE or ARCHIVE", read_resources),
    "row_count": ValueKind("a number of rows", _count("a number of rows", "that is not a valid number of rows")),
    "rows": ValueKind("a row", read_rows),
    "run_id": _string("the id of a DAG run, a string"),
    "script": ValueKind("a statement", _script),
    "separator": _string("a separator"),
    "serde_class": ValueKind("the class of a SerDe", read_serde),
    "session_function": ValueKind("the name of a function", read_session_function),
    "setting": ValueKind("the name of a setting", read_setting),
    "signature": ValueKind("'(' and parameters", read_signature),
    "size": ValueKind("a size, such as 1000000 or '10 GB'", _size),
    "skew": ValueKind("'('", read_skew),
    "sort_columns": ValueKind("a column", _sort_columns),
    "specification": ValueKind("'('", read_partition_predicate),
    "specifications": ValueKind("PARTITION", lambda cursor: _each_partition(cursor, read_partition_predicate)),
    "statement_order": ValueKind(
        "a column of SHOW STATEMENTS", lambda cursor: _ordered(cursor, "a column of SHOW STATEMENTS")
    ),
    "statement_status": _named("a status such as 'failed'", StatementOutcome.read),
    "statement_text": ValueKind("a statement", read_statement_text),
    "static_partitions": ValueKind("PARTITION", lambda cursor: _each_partition(cursor, read_static_partition)),
    "stored_as": ValueKind("a format", _stored_as),
    "table": ValueKind("the name of a table", Cursor.table_name),
    "table_columns": ValueKind("'('", read_columns_of_table),
    "table_with_alias": ValueKind("the name of a table", ChangedTable.read),
    "task_id": _string("the id of a task, a string"),
    "text": ValueKind("a value", read_any_text),
    "text_of_null": _string("the text that stands for NULL"),
    "texts": ValueKind("'('", _texts),
    "time_zone": ValueKind("the name of a zone", read_time_zone),
    "transaction_ids": ValueKind("the id of a transaction", lambda cursor: read_ids(cursor, "a transaction")),
    "type": ValueKind("a type", read_type),
    "user": ValueKind("the name of a user", lambda cursor: cursor.identifier("the name of a user")),
    "user_name": _string("the name of a user, a string"),
    "vacuumed_table": ValueKind(
        "a table; `hivex compaction clean` deletes the needless files of all tables", Cursor.table_name
    ),
    "variable": ValueKind("the name of a variable", read_variable),
    "variable_names": ValueKind("'('", lambda cursor: cursor.names("a variable")),
    "variable_values": ValueKind("the name of a variable", read_variable_values),
    "variables": ValueKind("the name of a variable", read_variables),
    "version": ValueKind("VERSION AS OF or TIMESTAMP AS OF", read_version),
    "view_columns": ValueKind("'('", read_view_columns),
    "whole_column": ValueKind("a column", read_whole_column),
}
