"""CREATE TABLE in Spark's and in Hive's form."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_hivex.core.model.objects import TRANSACTIONAL, Column, Skew, SortColumn
from airflow_hivex.core.model.statements import CreateTable, Query
from airflow_hivex.core.model.text_files import (
    COLLECTION_DELIM,
    ESCAPE,
    FIELD_DELIM,
    LINE_DELIM,
    MAPKEY_DELIM,
    NULL_FORMAT,
    TEXTFILE,
)
from airflow_hivex.core.sql.clauses import once, read_properties
from airflow_hivex.core.sql.literals import read_integer, read_string
from airflow_hivex.core.sql.queries import at_query, read_query
from airflow_hivex.core.sql.serdes import SERDES, SerDe, format_of_input, serde_of, text_options
from airflow_hivex.core.sql.skew import read_skew
from airflow_hivex.core.sql.tokens import Cursor, Kind, Token
from airflow_hivex.core.sql.types import read_type

_HIVE_FORM = {"STORED", "ROW"}


@dataclass(slots=True)
class _Clauses:
    """The clauses behind the columns, which may stand in any order."""

    format: str | None = None
    stored_as: str | None = None
    serde: SerDe | None = None
    serde_library: str | None = None
    input_format: str | None = None
    output_format: str | None = None
    delimited: dict[str, str] | None = None
    options: dict[str, str] | None = None
    partition_keys: tuple[Column, ...] = ()
    partition_tokens: tuple[Token, ...] = ()
    bucket_columns: tuple[str, ...] = ()
    sort_columns: tuple[SortColumn, ...] = ()
    num_buckets: int = -1
    skew: Skew | None = None
    location: str | None = None
    comment: str | None = None
    properties: dict[str, str] | None = None
    seen: set[str] = field(default_factory=set)


_NOT_KEPT = ("NOT", "NULL", "DEFAULT", "GENERATED", "COLLATE", "REFERENCES", "FIRST", "AFTER")


def read_create_table(cursor: Cursor, *, external: bool = False, transactional: bool = False) -> CreateTable:
    """Return the statement whose words up to TABLE are read.

    Delimited and plain text of Hive is the format ``textfile``, with the properties of Hive's SerDe as options.

    Raises:
        StatementSyntaxError: it is not SQL, names a column twice, or gives a clause twice.
        UnsupportedStatementError: it asks for what a table here cannot have.
    """
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name_token = cursor.peek()
    table = cursor.table_name()
    if table.namespace is not None:
        raise cursor.error("a name with @ is that of a link, never of a table that is created", name_token)
    if cursor.at("LIKE"):
        raise cursor.unsupported(
            "CREATE TABLE ... LIKE is not a statement of this release; SHOW CREATE TABLE has the columns"
        )
    columns: dict[str, Column] = {}
    columns_token = cursor.peek()
    if cursor.at_symbol("(") and not _at_parenthesised_query(cursor):
        columns = _read_columns(cursor)
    clauses = _Clauses()
    while not cursor.at_end and not cursor.at("AS") and not at_query(cursor):
        _read_clause(cursor, clauses)
    query = _read_query(cursor)
    _check_partition_keys(cursor, clauses, columns, query)
    if query is not None and columns:
        raise cursor.error("CREATE TABLE ... AS takes the columns of its query; it cannot list them", columns_token)
    if query is None and not columns and external is False and clauses.location is None:
        raise cursor.error("expected the columns of the table, or AS and a query", columns_token)
    source_format, options = _format(clauses)
    properties = clauses.properties or {}
    if transactional:
        properties.setdefault(TRANSACTIONAL, "true")
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
        properties=properties,
        bucket_columns=clauses.bucket_columns,
        sort_columns=clauses.sort_columns,
        num_buckets=clauses.num_buckets,
        skew=clauses.skew,
        query=query,
        input_format=clauses.input_format,
        output_format=clauses.output_format,
        serde_library=clauses.serde_library,
    )


def _at_parenthesised_query(cursor: Cursor) -> bool:
    # CREATE TABLE t (SELECT ...) is a query; (select int) would be a column.
    token = cursor.peek(1)
    return token is not None and (token.word in ("SELECT", "WITH") or token.is_symbol("("))


def _read_query(cursor: Cursor) -> Query | None:
    if cursor.accept("AS") and not at_query(cursor):
        raise cursor.expected("a query")
    return None if cursor.at_end else read_query(cursor)


def read_added_columns(cursor: Cursor) -> tuple[Column, ...]:
    """Return the columns of ADD COLUMNS, in parentheses or one alone; Hive's CASCADE and RESTRICT mean nothing here.

    Raises:
        StatementSyntaxError: it is not a list of columns.
        UnsupportedStatementError: a column is given a place, or belongs to a struct.
    """
    if not cursor.at_symbol("("):
        return (_read_column(cursor),)
    columns = tuple(_read_columns(cursor).values())
    cursor.accept_one("CASCADE", "RESTRICT")
    return columns


def _read_columns(cursor: Cursor) -> dict[str, Column]:
    cursor.expect_symbol("(")
    found: dict[str, Column] = {}
    while True:
        token = cursor.peek()
        column = _read_column(cursor)
        if column.name in found:
            raise cursor.error(f"column {column.name} is named twice", token)
        found[column.name] = column
        if not cursor.accept_symbol(","):
            break
    cursor.expect_symbol(")")
    return found


def _read_column(cursor: Cursor) -> Column:
    _refuse_constraint(cursor)
    name = cursor.name("the name of a column")
    column_type = read_type(cursor)
    comment: str | None = None
    while not cursor.at_symbol(",", ")") and not cursor.at_end:
        token = cursor.peek()
        if cursor.accept("COMMENT"):
            once(cursor, token, comment is not None)
            comment = read_string(cursor, "a comment")
            continue
        _refuse_constraint(cursor)
        if token is not None and token.word in _NOT_KEPT:
            raise cursor.unsupported(f"{token.word} is not kept for a column here; leave it out", token)
        raise cursor.expected("',', ')' or COMMENT")
    return Column(name, column_type, comment)


def _refuse_constraint(cursor: Cursor) -> None:
    keyed = cursor.at("PRIMARY", "KEY") or cursor.at("FOREIGN", "KEY")
    listed = (cursor.at("UNIQUE") or cursor.at("CHECK")) and cursor.at_symbol("(", ahead=1)
    named = cursor.at("CONSTRAINT") and cursor.at_kind(Kind.WORD, Kind.QUOTED, ahead=2)
    if keyed or listed or named:
        raise cursor.unsupported("constraints are not kept here; leave them out")


def _read_clause(cursor: Cursor, clauses: _Clauses) -> None:
    token = cursor.next("a clause of CREATE TABLE")
    reader = _CLAUSES.get(token.word)
    if reader is None:
        if token.word in ("CLUSTER", "WITH", "DEFAULT"):
            raise cursor.unsupported(f"{token.word} is not a clause of CREATE TABLE in this release", token)
        raise cursor.error(f"{token.text} is not a clause of CREATE TABLE", token)
    once(cursor, token, token.word in clauses.seen)
    if (token.word == "USING" and clauses.seen & _HIVE_FORM) or (token.word in _HIVE_FORM and "USING" in clauses.seen):
        raise cursor.error("a format is named by USING, or by Hive's STORED AS and ROW FORMAT, not by both", token)
    clauses.seen.add(token.word)
    reader(cursor, clauses)
    if clauses.delimited is not None and clauses.stored_as not in (None, "textfile"):
        raise cursor.error("ROW FORMAT DELIMITED goes with STORED AS TEXTFILE only", token)
    if clauses.serde is not None and clauses.stored_as not in (None, *clauses.serde.stored_as):
        known = " or ".join(name.upper() for name in clauses.serde.stored_as)
        raise cursor.error(f"that SerDe goes with STORED AS {known} only", token)


def _using(cursor: Cursor, clauses: _Clauses) -> None:
    parts = [cursor.name("a format")]
    while cursor.accept_symbol("."):
        parts.append(cursor.name("a format"))
    clauses.format = ".".join(parts)


def _stored(cursor: Cursor, clauses: _Clauses) -> None:
    if cursor.at("BY"):
        raise cursor.unsupported("a table is stored AS a format, such as ORC, PARQUET or TEXTFILE", cursor.peek(-1))
    cursor.expect("AS")
    if not cursor.accept("INPUTFORMAT"):
        clauses.stored_as = cursor.name("a format")
        return
    token = cursor.peek()
    clauses.input_format = read_string(cursor, "the class of an input format")
    stored_as = format_of_input(clauses.input_format)
    if stored_as is None:
        raise cursor.unsupported("files of that input format are not read; name a format, such as ORC", token)
    cursor.expect("OUTPUTFORMAT")
    clauses.output_format = read_string(cursor, "the class of an output format")
    clauses.stored_as = stored_as


def _row_format(cursor: Cursor, clauses: _Clauses) -> None:
    cursor.expect("FORMAT")
    if cursor.accept("SERDE"):
        token = cursor.peek()
        name = read_string(cursor, "the class of a SerDe")
        properties = read_properties(cursor) if cursor.accept("WITH", "SERDEPROPERTIES") else {}
        clauses.serde = serde_of(name, properties)
        if clauses.serde is None:
            raise cursor.unsupported(f"{name} is none of the SerDes that are read here: {', '.join(SERDES)}", token)
        clauses.serde_library = name
        return
    cursor.expect("DELIMITED")
    found: dict[str, str] = {}
    while True:
        if cursor.accept("FIELDS", "TERMINATED", "BY"):
            found[FIELD_DELIM] = read_string(cursor, "a separator")
            if cursor.accept("ESCAPED", "BY"):
                found[ESCAPE] = read_string(cursor, "an escape character")
        elif cursor.accept("COLLECTION", "ITEMS", "TERMINATED", "BY"):
            found[COLLECTION_DELIM] = read_string(cursor, "a separator")
        elif cursor.accept("MAP", "KEYS", "TERMINATED", "BY"):
            found[MAPKEY_DELIM] = read_string(cursor, "a separator")
        elif cursor.accept("LINES", "TERMINATED", "BY"):
            found[LINE_DELIM] = read_string(cursor, "a line end")
        elif cursor.accept("NULL", "DEFINED", "AS"):
            found[NULL_FORMAT] = read_string(cursor, "what NULL is written as")
        else:
            break
    clauses.delimited = found


def _options(cursor: Cursor, clauses: _Clauses) -> None:
    clauses.options = read_properties(cursor)


def _partitioned(cursor: Cursor, clauses: _Clauses) -> None:
    cursor.expect("BY")
    cursor.expect_symbol("(")
    keys: dict[str, Column] = {}
    tokens: list[Token] = []
    while True:
        token = cursor.peek()
        name = cursor.name("a partition column")
        if cursor.at_symbol("("):
            raise cursor.unsupported("a table is partitioned by columns, not by functions of them", token)
        if name in keys:
            raise cursor.error(f"partition column {name} is named twice", token)
        if cursor.at_symbol(",", ")"):
            keys[name] = Column(name, "")
        else:
            cursor.index -= 1
            keys[name] = _read_column(cursor)
        if bool(keys[name].type) != bool(next(iter(keys.values())).type):
            raise cursor.error("either all partition columns have a type, or none has one", token)
        if token is not None:
            tokens.append(token)
        if not cursor.accept_symbol(","):
            break
    cursor.expect_symbol(")")
    clauses.partition_keys = tuple(keys.values())
    clauses.partition_tokens = tuple(tokens)


def _clustered(cursor: Cursor, clauses: _Clauses) -> None:
    cursor.expect("BY")
    clauses.bucket_columns = cursor.names("a column")
    if cursor.accept("SORTED", "BY"):
        cursor.expect_symbol("(")
        sort_columns = [_sort_column(cursor)]
        while cursor.accept_symbol(","):
            sort_columns.append(_sort_column(cursor))
        cursor.expect_symbol(")")
        clauses.sort_columns = tuple(sort_columns)
    cursor.expect("INTO")
    token = cursor.peek()
    clauses.num_buckets = read_integer(cursor, "the number of buckets")
    if clauses.num_buckets < 1:
        raise cursor.error("a table has at least one bucket", token)
    cursor.expect("BUCKETS")


def _skewed(cursor: Cursor, clauses: _Clauses) -> None:
    clauses.skew = read_skew(cursor)


def _sort_column(cursor: Cursor) -> SortColumn:
    name = cursor.name("a column")
    return SortColumn(name, cursor.accept_one("ASC", "DESC") != "DESC")


def _location(cursor: Cursor, clauses: _Clauses) -> None:
    clauses.location = read_string(cursor, "a location")


def _comment(cursor: Cursor, clauses: _Clauses) -> None:
    clauses.comment = read_string(cursor, "a comment")


def _properties(cursor: Cursor, clauses: _Clauses) -> None:
    clauses.properties = read_properties(cursor)


_CLAUSES = {
    "USING": _using,
    "STORED": _stored,
    "ROW": _row_format,
    "OPTIONS": _options,
    "PARTITIONED": _partitioned,
    "CLUSTERED": _clustered,
    "SKEWED": _skewed,
    "LOCATION": _location,
    "COMMENT": _comment,
    "TBLPROPERTIES": _properties,
}


def _check_partition_keys(cursor: Cursor, clauses: _Clauses, columns: dict[str, Column], query: Query | None) -> None:
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


def _format(clauses: _Clauses) -> tuple[str | None, dict[str, str]]:
    """Return the format's name and its options."""
    options = dict(clauses.options or {})
    if clauses.serde is not None:
        if clauses.serde.format == TEXTFILE:
            options = text_options(options)
        return clauses.serde.format, {**clauses.serde.options, **options}
    if TEXTFILE in (clauses.format, clauses.stored_as) or clauses.delimited is not None:
        return TEXTFILE, {**text_options(options), **(clauses.delimited or {})}
    return clauses.format or clauses.stored_as, options
