"""CREATE TABLE in Spark's and in Hive's form."""

from __future__ import annotations

from dataclasses import replace

from airflow_hivex.core.model.objects import TRANSACTIONAL, Column
from airflow_hivex.core.parser.grammar.clauses import unsupported_statement
from airflow_hivex.core.parser.grammar.columns import read_columns
from airflow_hivex.core.parser.grammar.constraints import ConstraintReader
from airflow_hivex.core.parser.grammar.table_clauses import TableClauses, format_of, read_clause
from airflow_hivex.core.parser.lexer.tokens import Cursor, Kind
from airflow_hivex.core.parser.queries.reader import at_query, read_query
from airflow_hivex.core.parser.statements import CreateTable, CreateTableLike, Query

_OF_THE_SOURCE = ("OPTIONS", "PARTITIONED", "CLUSTERED", "SKEWED", "COMMENT")


def read_create_table(
    cursor: Cursor,
    *,
    external: bool = False,
    transactional: bool = False,
    or_replace: bool = False,
    must_exist: bool = False,
) -> CreateTable | CreateTableLike:
    """Return the statement whose words up to TABLE are read.

    Delimited and plain text of Hive is the format ``textfile``, with the properties of Hive's SerDe as options.

    Raises:
        StatementSyntaxError: it is not SQL, names a column twice, or gives a clause twice.
        UnsupportedStatementError: it asks for what a table here cannot have.
    """
    if or_replace and cursor.at("IF", "NOT", "EXISTS"):
        raise cursor.error("a table that replaces another one has no IF NOT EXISTS; leave one of both out")
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name_token = cursor.peek()
    table = cursor.table_name()
    if table.namespace is not None:
        raise cursor.error("a name with @ is that of a link, never of a table that is created", name_token)
    if cursor.at("LIKE") and or_replace:
        raise cursor.unsupported("CREATE TABLE ... LIKE does not replace a table; list the columns")
    if cursor.accept("LIKE"):
        return _read_like(
            cursor, CreateTable(table, external=external, if_not_exists=if_not_exists), transactional=transactional
        )
    columns: dict[str, Column] = {}
    constraints = ConstraintReader()
    columns_token = cursor.peek()
    if cursor.at_symbol("(") and not _at_parenthesised_query(cursor):
        columns = read_columns(cursor, constraints)
    clauses = TableClauses(constraints=constraints)
    while not cursor.at_end and not cursor.at("AS") and not at_query(cursor):
        read_clause(cursor, clauses)
    query = _read_query(cursor)
    _check_partition_keys(cursor, clauses, columns, query)
    if query is not None and columns:
        raise cursor.error("CREATE TABLE ... AS takes the columns of its query; it cannot list them", columns_token)
    if query is None and not columns and external is False and clauses.location is None:
        raise cursor.error("expected the columns of the table, or AS and a query", columns_token)
    source_format, options = format_of(clauses)
    return CreateTable(
        table=table,
        columns=tuple(columns.values()),
        partition_keys=clauses.partition_keys,
        external=external,
        if_not_exists=if_not_exists,
        format=source_format,
        options=options,
        location=clauses.location,
        comment=clauses.comment,
        properties=_properties(clauses, transactional=transactional),
        bucket_columns=clauses.bucket_columns,
        sort_columns=clauses.sort_columns,
        num_buckets=clauses.num_buckets,
        skew=clauses.skew,
        query=query,
        input_format=clauses.input_format,
        output_format=clauses.output_format,
        serde_library=clauses.serde_library,
        or_replace=or_replace,
        must_exist=must_exist,
        constraints=constraints.found,
    )


def read_replace_table(cursor: Cursor) -> CreateTable | CreateTableLike:
    """Return the statement whose word REPLACE is read.

    Raises:
        UnsupportedStatementError: it replaces rows, as in other dialects.
    """
    first = cursor.tokens[cursor.index - 1]
    if not cursor.accept("TABLE"):
        raise unsupported_statement(cursor, first)
    return read_create_table(cursor, or_replace=True, must_exist=True)


def _read_like(cursor: Cursor, new: CreateTable, *, transactional: bool) -> CreateTableLike:
    """Return CREATE TABLE ... LIKE, whose words up to LIKE are read.

    Raises:
        UnsupportedStatementError: it takes the columns of a file.
        StatementSyntaxError: it has a clause that the source decides.
    """
    if cursor.at("FILE") and cursor.peek(1) is not None and cursor.at_kind(Kind.STRING, ahead=2):
        raise cursor.unsupported("columns are not taken from a file; list them")
    source = cursor.table_name()
    clauses = TableClauses()
    while not cursor.at_end:
        token = cursor.peek()
        if token is not None and token.word in _OF_THE_SOURCE:
            raise cursor.error(f"CREATE TABLE ... LIKE takes what {token.word} says from its source; leave it out")
        read_clause(cursor, clauses)
    source_format, options = format_of(clauses)
    given = replace(
        new,
        format=source_format,
        options=options,
        location=clauses.location,
        properties=_properties(clauses, transactional=transactional),
        input_format=clauses.input_format,
        output_format=clauses.output_format,
        serde_library=clauses.serde_library,
    )
    return CreateTableLike(given, source)


def _properties(clauses: TableClauses, *, transactional: bool) -> dict[str, str]:
    properties = clauses.properties or {}
    if transactional:
        properties.setdefault(TRANSACTIONAL, "true")
    return properties


def _at_parenthesised_query(cursor: Cursor) -> bool:
    # CREATE TABLE t (SELECT ...) is a query; (select int) would be a column.
    token = cursor.peek(1)
    return token is not None and (token.word in ("SELECT", "WITH") or token.is_symbol("("))


def _read_query(cursor: Cursor) -> Query | None:
    if cursor.accept("AS") and not at_query(cursor):
        raise cursor.expected("a query")
    return None if cursor.at_end else read_query(cursor)


def _check_partition_keys(
    cursor: Cursor, clauses: TableClauses, columns: dict[str, Column], query: Query | None
) -> None:
    for key, token in zip(clauses.partition_keys, clauses.partition_tokens, strict=True):
        if key.type and query is not None:
            raise cursor.error("CREATE TABLE ... AS names its partition columns without types", token)
        if key.type and key.name in columns:
            raise cursor.error(
                f"{key.name} is a column already; name it here without a type, or leave it out there", token
            )
        if not key.type and query is None and key.name not in columns:
            raise cursor.error(f"partition column {key.name} is not one of the columns; give it a type", token)
    if columns and len(clauses.partition_keys) == len(columns) and not clauses.partition_keys[0].type:
        raise cursor.error("a table needs a column that is not a partition column", clauses.partition_tokens[0])
