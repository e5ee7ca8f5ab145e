"""SHOW and DESCRIBE."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.statements import (
    DescribeDatabase,
    DescribeFunction,
    DescribeHistory,
    DescribeQuery,
    DescribeTable,
    ShowCapacity,
    ShowClusters,
    ShowColumns,
    ShowCompactions,
    ShowCopies,
    ShowCreateTable,
    ShowCurrentNamespace,
    ShowDatabases,
    ShowFunctions,
    ShowLinks,
    ShowLocks,
    ShowPartitions,
    ShowTableExtended,
    ShowTableProperties,
    ShowTables,
    ShowTransactions,
)
from airflow_hivex.core.sql.capacity import read_show_capacity
from airflow_hivex.core.sql.clauses import (
    read_property_key,
    read_static_partition,
    unsupported_statement,
)
from airflow_hivex.core.sql.compactions import read_show_compactions
from airflow_hivex.core.sql.databases import DATABASE_WORDS
from airflow_hivex.core.sql.links import LINK_WORDS
from airflow_hivex.core.sql.literals import read_integer, read_string
from airflow_hivex.core.sql.partition_lists import read_show_partitions
from airflow_hivex.core.sql.queries import at_query, read_query
from airflow_hivex.core.sql.tokens import Cursor, Kind, Token
from airflow_hivex.core.sql.transactions import read_show_locks

Show: TypeAlias = (
    ShowCapacity
    | ShowClusters
    | ShowCurrentNamespace
    | ShowDatabases
    | ShowTables
    | ShowColumns
    | ShowFunctions
    | ShowTableExtended
    | ShowTableProperties
    | ShowPartitions
    | ShowCreateTable
    | ShowLocks
    | ShowTransactions
    | ShowCompactions
    | ShowCopies
    | ShowLinks
)

_DATABASES = tuple(f"{word}S" for word in DATABASE_WORDS)
_SHOWN = (
    *_DATABASES,
    *(
        "CAPACITY",
        "CLUSTERS",
        "COLUMNS",
        "COMPACTIONS",
        "COPIES",
        "FUNCTIONS",
        "LINKS",
        "LOCKS",
        "PARTITIONS",
        "TABLES",
    ),
    *("TBLPROPERTIES", "TRANSACTIONS", "VIEWS"),
)


def read_show(cursor: Cursor, first: Token) -> Show:
    """Return the statement whose word SHOW is read."""
    if cursor.accept("CLUSTERS"):
        return ShowClusters()
    if cursor.accept_one(*_DATABASES):
        return ShowDatabases(_pattern(cursor))
    if any(cursor.accept("CURRENT", word) for word in ("NAMESPACE", *DATABASE_WORDS)):
        return ShowCurrentNamespace()
    if listed := cursor.accept_one("TABLES", "VIEWS", "LINKS"):
        return _show_names(cursor, listed)
    if cursor.accept("TABLE", "EXTENDED"):
        return _show_extended(cursor)
    described = _show_part_of_table(cursor)
    if described is not None:
        return described
    if cursor.at("FUNCTIONS") or any(cursor.at(word, "FUNCTIONS") for word in ("ALL", "SYSTEM", "USER")):
        return _show_functions(cursor)
    if cursor.accept("CAPACITY"):
        return read_show_capacity(cursor)
    if cursor.accept("TRANSACTIONS"):
        return ShowTransactions()
    if cursor.accept("LOCKS"):
        return read_show_locks(cursor)
    if cursor.accept("COMPACTIONS"):
        return read_show_compactions(cursor)
    raise unsupported_statement(cursor, first, _SHOWN)


def _show_part_of_table(
    cursor: Cursor,
) -> ShowColumns | ShowTableProperties | ShowPartitions | ShowCreateTable | ShowCopies | None:
    """Return the statement that shows one part of what a table is; None, with nothing read, if it is about others."""
    if cursor.at("COLUMNS") or cursor.at("SORTED", "COLUMNS"):
        return _show_columns(cursor)
    if cursor.accept("TBLPROPERTIES"):
        return _show_properties(cursor)
    if cursor.accept("PARTITIONS"):
        return read_show_partitions(cursor)
    if cursor.accept("CREATE", "TABLE"):
        table = cursor.table_name()
        return ShowCreateTable(table, as_serde=cursor.accept("AS", "SERDE"))
    if cursor.accept("COPIES"):
        return ShowCopies(cursor.table_name())
    return None


def _show_functions(cursor: Cursor) -> ShowFunctions:
    scope = cursor.accept_one("ALL", "SYSTEM", "USER") or "ALL"
    cursor.expect("FUNCTIONS")
    database = cursor.database_name() if cursor.accept_one("IN", "FROM") else None
    if cursor.at_kind(Kind.WORD) and not cursor.at("LIKE"):
        return ShowFunctions(cursor.name("the name of a function"), database, scope)
    return ShowFunctions(_pattern(cursor), database, scope)


def _describe_function(cursor: Cursor) -> DescribeFunction:
    extended = cursor.peek(1) is not None and cursor.accept("EXTENDED")
    if cursor.at_kind(Kind.SYMBOL):
        first = last = cursor.next("the name of a function")
        while not cursor.at_end and cursor.at_kind(Kind.SYMBOL):
            last = cursor.next("an operator")
        return DescribeFunction(cursor.text[first.start : last.end], extended)
    if cursor.at_kind(Kind.STRING):
        return DescribeFunction(read_string(cursor, "the name of a function"), extended)
    if cursor.at("SYSTEM") and cursor.at_symbol(".", ahead=1):
        cursor.index += 2
    name = cursor.identifier("the name of a function")
    if name.lower() in ("builtin", "session") and cursor.accept_symbol("."):
        name = cursor.identifier("the name of a function")
    if not cursor.accept_symbol("."):
        return DescribeFunction(name, extended)
    return DescribeFunction(cursor.name("the name of a function"), extended, normalise(name))


def _show_columns(cursor: Cursor) -> ShowColumns:
    is_sorted = cursor.accept("SORTED")
    cursor.expect("COLUMNS")
    if not cursor.accept_one("IN", "FROM"):
        raise cursor.expected("IN or FROM")
    table = cursor.table_name()
    token = cursor.peek()
    if cursor.accept_one("IN", "FROM"):
        database = cursor.database_name()
        if table.database not in (None, str(database)):
            raise cursor.error(f"the table is of database {table.database} already", token)
        table = replace(table, database=str(database))
    return ShowColumns(table, _pattern(cursor), is_sorted)


def _show_properties(cursor: Cursor) -> ShowTableProperties:
    table = cursor.table_name()
    if not cursor.accept_symbol("("):
        return ShowTableProperties(table)
    key = read_property_key(cursor)
    cursor.expect_symbol(")")
    return ShowTableProperties(table, key)


def _show_names(cursor: Cursor, listed: str) -> ShowTables | ShowLinks:
    database = cursor.database_name() if cursor.accept_one("IN", "FROM") else None
    pattern = _pattern(cursor)
    return ShowLinks(database, pattern) if listed == "LINKS" else ShowTables(database, pattern, views=listed == "VIEWS")


def _show_extended(cursor: Cursor) -> ShowTableExtended:
    database = cursor.database_name() if cursor.accept_one("IN", "FROM") else None
    cursor.expect("LIKE")
    pattern = _read_pattern(cursor)
    return ShowTableExtended(pattern, database, read_static_partition(cursor) if cursor.accept("PARTITION") else None)


def _pattern(cursor: Cursor) -> str | None:
    if cursor.accept("LIKE"):
        return _read_pattern(cursor)
    return read_string(cursor, "a pattern") if cursor.at_kind(Kind.STRING) else None


def _read_pattern(cursor: Cursor) -> str:
    """Return the pattern behind LIKE, which may be a name, as in Hive."""
    if cursor.at_kind(Kind.WORD, Kind.QUOTED):
        return cursor.identifier("a pattern")
    return read_string(cursor, "a pattern")


def read_describe(
    cursor: Cursor, first: Token
) -> DescribeTable | DescribeDatabase | DescribeQuery | DescribeFunction | DescribeHistory:
    """Return the statement whose word DESCRIBE or DESC is read."""
    if cursor.peek(1) is not None and cursor.accept_one(*DATABASE_WORDS):
        extended = cursor.peek(1) is not None and cursor.accept("EXTENDED")
        return DescribeDatabase(cursor.database_name(), extended)
    following = cursor.peek(1)
    is_from = cursor.at("FROM") and any(token.word == "SELECT" for token in cursor.tokens)
    if following is not None and (is_from or cursor.at("SELECT") or cursor.at("WITH") or cursor.at("VALUES")):
        return DescribeQuery(read_query(cursor))
    if cursor.at("QUERY") and (cursor.at_kind(Kind.WORD, Kind.QUOTED, ahead=1) or cursor.at_symbol("(", ahead=1)):
        cursor.expect("QUERY")
        if not at_query(cursor):
            raise cursor.expected("a query")
        return DescribeQuery(read_query(cursor))
    other = None if following is None else _describe_other(cursor, following)
    if other is not None:
        return other
    if following is not None and following.kind in (Kind.WORD, Kind.QUOTED):
        if cursor.at("DETAIL"):
            word = cursor.next("a name")
            raise cursor.unsupported(
                f"DESCRIBE {word.word} is not a statement of this release; DESCRIBE FORMATTED and DESCRIBE HISTORY "
                f"have its facts. For a table of that name write DESCRIBE `{word.text}`",
                word,
            )
        # DESCRIBE link x asks for a column of the table link.
        if not any(token.is_symbol("@") for token in cursor.tokens[cursor.index :]) or not cursor.accept_one(
            *LINK_WORDS
        ):
            cursor.accept("TABLE")
    extended = cursor.peek(1) is not None and cursor.accept_one("EXTENDED", "FORMATTED") is not None
    table = cursor.table_name()
    partition = read_static_partition(cursor) if cursor.accept("PARTITION") else None
    column = None
    if not cursor.at_end and not cursor.at("AS", "JSON"):
        column = _described_column(cursor, first)
        if partition is None and cursor.accept("PARTITION"):
            partition = read_static_partition(cursor)
    token = cursor.peek()
    as_json = cursor.accept("AS", "JSON")
    if as_json and (not extended or column is not None):
        reason = "AS JSON describes a whole table or partition: DESCRIBE EXTENDED name [PARTITION (...)] AS JSON"
        raise cursor.unsupported(reason, token)
    return DescribeTable(table, extended, partition, column, as_json)


def _described_column(cursor: Cursor, first: Token) -> str:
    column = cursor.name("the name of a column")
    if cursor.at_symbol("."):
        raise cursor.unsupported("DESCRIBE of a field of a column is not a statement of this release", first)
    return column


def _describe_other(cursor: Cursor, following: Token) -> DescribeFunction | DescribeHistory | None:
    if cursor.accept("FUNCTION"):
        return _describe_function(cursor)
    is_named = following.kind in (Kind.WORD, Kind.QUOTED)
    return _describe_history(cursor) if is_named and cursor.accept("HISTORY") else None


def _describe_history(cursor: Cursor) -> DescribeHistory:
    if cursor.at_kind(Kind.WORD, Kind.QUOTED, ahead=1) and not cursor.at("LIMIT"):
        cursor.accept("TABLE")
    table = cursor.table_name()
    limit = read_integer(cursor, "a number of commits") if cursor.accept("LIMIT") else None
    return DescribeHistory(table, limit)
