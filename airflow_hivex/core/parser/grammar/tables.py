"""CREATE TABLE in Spark's and in Hive's form, and the clauses after the list of columns."""

from __future__ import annotations

from typing import Any, NamedTuple

from airflow_hivex.core.model.objects import TRANSACTIONAL, Column, Skew
from airflow_hivex.core.parser.grammar.clauses import Parts
from airflow_hivex.core.parser.grammar.columns import read_column, read_columns
from airflow_hivex.core.parser.grammar.constraints import ConstraintReader
from airflow_hivex.core.parser.grammar.serdes import file_format
from airflow_hivex.core.parser.lexer.literals import read_constant
from airflow_hivex.core.parser.lexer.tokens import Cursor, Token
from airflow_hivex.core.parser.queries.reader import at_query, read_query
from airflow_hivex.core.parser.statements import CreateTable, CreateTableLike, Query, TableName


def read_new_table(cursor: Cursor) -> TableName:
    """Return the name of a table that is created.

    Raises:
        StatementSyntaxError: the name is a link ``table@namespace``.
    """
    token = cursor.peek()
    table = cursor.table_name()
    if table.namespace is not None:
        raise cursor.error("a name with @ is that of a link, never of a table that is created", token)
    return table


class NewColumns(NamedTuple):
    """A dict from name to column of a new table, and the constraints of the table."""

    columns: dict[str, Column]
    constraints: ConstraintReader


def read_columns_of_table(cursor: Cursor) -> NewColumns:
    """Return the columns and constraints in parentheses.

    Raises:
        StatementSyntaxError: no list of columns comes next.
    """
    if _at_parenthesised_query(cursor):
        raise cursor.expected("'('")
    constraints = ConstraintReader()
    return NewColumns(read_columns(cursor, constraints), constraints)


def read_query_of_table(cursor: Cursor) -> Query:
    """Return the query of ``CREATE TABLE ... [AS] query``.

    Raises:
        StatementSyntaxError: no query comes next.
    """
    if not at_query(cursor) or (cursor.at_symbol("(") and not _at_parenthesised_query(cursor)):
        raise cursor.expected("a query")
    return read_query(cursor)


def _at_parenthesised_query(cursor: Cursor) -> bool:
    # CREATE TABLE t (SELECT ...) is a query; (select int) would be a column.
    token = cursor.peek(1)
    return cursor.at_symbol("(") and token is not None and (token.word in ("SELECT", "WITH") or token.is_symbol("("))


class PartitionKeys(NamedTuple):
    """The partition columns after PARTITIONED BY, and the tokens of their names.

    A column with an empty type is defined elsewhere: in the statement's list of columns or by its query.
    """

    columns: tuple[Column, ...]
    tokens: tuple[Token, ...]


def read_partition_keys(cursor: Cursor, constraints: ConstraintReader | None = None) -> PartitionKeys:
    """Return the columns in parentheses after PARTITIONED BY.

    ``constraints`` reads the constraints of these columns.

    Raises:
        StatementSyntaxError: the text is not a list of different columns, or only some of them have a type.
        UnsupportedStatementError: a partition key is a function of a column, such as ``days(ts)``.
    """
    constraints = constraints or ConstraintReader()
    cursor.expect_symbol("(")
    keys: dict[str, Column] = {}
    tokens: list[Token] = []
    while True:
        token = cursor.peek()
        name = cursor.name("a partition column")
        if cursor.at_symbol("("):
            raise cursor.unsupported(
                "a table is partitioned by columns, not by functions of them; add a column of the value", token
            )
        if name in keys:
            raise cursor.error(f"partition column {name} is named twice", token)
        if cursor.at_symbol(",", ")"):
            keys[name] = Column(name, "")
        else:
            cursor.index -= 1
            keys[name] = read_column(cursor, constraints)
        if bool(keys[name].type) != bool(next(iter(keys.values())).type):
            raise cursor.error("either all partition columns have a type, or none has one", token)
        if token is not None:
            tokens.append(token)
        if not cursor.accept_symbol(","):
            break
    cursor.expect_symbol(")")
    return PartitionKeys(tuple(keys.values()), tuple(tokens))


def read_skew(cursor: Cursor) -> Skew:
    """Return the clause after SKEWED BY: ``(a, b) ON ((1, 'x'), (2, 'y'))``, or ``(a) ON (1, 2)``.

    Raises:
        StatementSyntaxError: the text is not such a clause, or names a value or a column twice.
        UnsupportedStatementError: the clause has STORED AS DIRECTORIES.
    """
    columns = cursor.names("a column")
    cursor.expect("ON")
    cursor.expect_symbol("(")
    values: list[tuple[str, ...]] = []
    while True:
        token = cursor.peek()
        found = _read_values(cursor)
        if len(found) != len(columns):
            raise cursor.error(f"expected {len(columns)} values in parentheses, one for each column", token)
        if found in values:
            raise cursor.error("values are named twice", token)
        values.append(found)
        if not cursor.accept_symbol(","):
            break
    cursor.expect_symbol(")")
    if cursor.at("STORED", "AS", "DIRECTORIES"):
        raise cursor.unsupported("rows are not stored in directories by their values here; leave the clause out")
    return Skew(columns, tuple(values))


def _read_values(cursor: Cursor) -> tuple[str, ...]:
    if not cursor.accept_symbol("("):
        return (_read_value(cursor),)
    values = [_read_value(cursor)]
    while cursor.accept_symbol(","):
        values.append(_read_value(cursor))
    cursor.expect_symbol(")")
    return tuple(values)


def _read_value(cursor: Cursor) -> str:
    """Return the text that Hive stores for the constant that comes next."""
    start = cursor.peek()
    literal = read_constant(cursor)
    if start is None or literal is None or literal.value is None:
        raise cursor.error("expected a text or a number", start)
    if isinstance(literal.value, str):
        return literal.value
    last = cursor.peek(-1)
    sign = "-" if start.is_symbol("-") else ""
    return sign + last.text.lower() if last is not None else sign


def make_table(parts: Parts) -> CreateTable:
    """Return the statement CREATE TABLE, with or without a query.

    Raises:
        StatementSyntaxError: the parts of the statement do not go together.
    """
    cursor, table = parts.cursor, parts["table"]
    query, new = parts["query"], parts["columns"] or NewColumns({}, ConstraintReader())
    keys = PartitionKeys((), ())
    if "partition_keys" in parts:
        # Names of constraints are unique among columns and partition keys.
        end, cursor.index = cursor.index, parts.places["partition_keys"] + len(("PARTITIONED", "BY"))
        keys, cursor.index = read_partition_keys(cursor, new.constraints), end
    replaces = "or_replace" in parts or "must_exist" in parts
    if replaces and "if_not_exists" in parts:
        reason = "a table that replaces another one has no IF NOT EXISTS; leave one of both out"
        raise cursor.error(reason, parts.token("if_not_exists"))
    _check_partition_keys(cursor, keys, new.columns, query)
    if query is not None and "columns" in parts:
        reason = "CREATE TABLE ... AS takes the columns of its query; it cannot list them"
        raise cursor.error(reason, parts.token("columns"))
    clauses = _clauses(parts)
    if query is None and "columns" not in parts and "external" not in parts and clauses["location"] is None:
        behind = next((token for token in cursor.tokens if token.start >= table.span.end), None)
        raise cursor.error("expected the columns of the table, or AS and a query", behind)
    bucket_columns = parts["bucket_columns"] or ()
    return CreateTable(
        columns=tuple(new.columns.values()),
        partition_keys=keys.columns,
        comment=parts["comment"],
        bucket_columns=bucket_columns,
        sort_columns=parts["sort_columns"] or (),
        num_buckets=parts["num_buckets"] if bucket_columns else -1,
        skew=parts["skew"],
        query=query,
        or_replace=replaces,
        must_exist="must_exist" in parts,
        constraints=new.constraints.found,
        **clauses,
    )


def make_table_like(parts: Parts) -> CreateTableLike:
    """Return the statement CREATE TABLE ... LIKE.

    Raises:
        StatementSyntaxError: the parts of the statement do not go together.
    """
    return CreateTableLike(CreateTable(**_clauses(parts)), parts["source"])


def _clauses(parts: Parts) -> dict[str, Any]:
    """Return a dict from the name of each field that CREATE TABLE and CREATE TABLE ... LIKE share to the value."""
    table, given = parts["table"], file_format(parts)
    if "temporary" in parts and table.database is not None:
        reason = f"the temporary table {table} belongs to the session; give it a name of one part"
        raise parts.cursor.error(reason, parts.token("table"))
    if given.path is not None and "location" in parts:
        last = max(parts.token("options"), parts.token("location"), key=lambda token: token.start)
        raise parts.cursor.error(f"{last.text} is given twice; the option path is the location, too", last)
    properties = dict(parts["properties"] or {})
    if "transactional" in parts:
        properties.setdefault(TRANSACTIONAL, "true")
    return {
        "table": table,
        "external": "external" in parts,
        "if_not_exists": "if_not_exists" in parts,
        "format": given.format,
        "options": given.options,
        "location": parts["location"] if given.path is None else given.path,
        "properties": properties,
        "input_format": given.input_format,
        "output_format": given.output_format,
        "serde_library": given.serde_library,
        "temporary": "temporary" in parts,
    }


def _check_partition_keys(cursor: Cursor, keys: PartitionKeys, columns: dict[str, Column], query: Query | None) -> None:
    for key, token in zip(keys.columns, keys.tokens, strict=True):
        if key.type and query is not None:
            raise cursor.error("CREATE TABLE ... AS names its partition columns without types", token)
        if key.type and key.name in columns:
            raise cursor.error(
                f"{key.name} is a column already; name it here without a type, or leave it out there", token
            )
        if not key.type and query is None and key.name not in columns:
            raise cursor.error(f"partition column {key.name} is not one of the columns; give it a type", token)
    if columns and len(keys.columns) == len(columns) and not keys.columns[0].type:
        raise cursor.error("a table needs a column that is not a partition column", keys.tokens[0])
