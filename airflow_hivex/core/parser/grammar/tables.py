"""CREATE TABLE in Spark's and in Hive's form, and its clauses behind the columns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from airflow_hivex.core.model.file_properties import (
    COLLECTION_DELIM,
    ESCAPE,
    FIELD_DELIM,
    LINE_DELIM,
    MAPKEY_DELIM,
    NULL_FORMAT,
    TEXTFILE,
)
from airflow_hivex.core.model.objects import TRANSACTIONAL, Column, Skew, SortColumn
from airflow_hivex.core.parser.grammar.clauses import once, read_properties, unsupported_statement
from airflow_hivex.core.parser.grammar.columns import read_column, read_columns
from airflow_hivex.core.parser.grammar.constraints import ConstraintReader
from airflow_hivex.core.parser.grammar.serdes import SERDES, SerDe, format_of_input, serde_of, text_options
from airflow_hivex.core.parser.lexer.advice import meant
from airflow_hivex.core.parser.lexer.literals import read_constant, read_integer, read_string
from airflow_hivex.core.parser.lexer.tokens import Cursor, Kind, Token
from airflow_hivex.core.parser.queries.reader import at_query, read_query
from airflow_hivex.core.parser.statements import CreateTable, CreateTableLike, Query

_HIVE_FORM = {"STORED", "ROW"}


@dataclass(slots=True)
class TableClauses:
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
    constraints: ConstraintReader = field(default_factory=ConstraintReader)


def read_clause(cursor: Cursor, clauses: TableClauses) -> None:
    """Read one clause into ``clauses``.

    Raises:
        StatementSyntaxError: the text is not a clause of CREATE TABLE, occurs twice, or contradicts another clause.
    """
    token = cursor.next("a clause of CREATE TABLE")
    reader = _CLAUSES.get(token.word)
    if reader is None:
        if token.word in ("CLUSTER", "WITH", "DEFAULT"):
            raise cursor.unsupported(f"{token.word} is not a clause of CREATE TABLE in this release", token)
        if token.word in ("CLONE", "DEEP", "SHALLOW"):
            reason = "CREATE TABLE ... AS SELECT copies rows, and CREATE LINK shows a table in another database"
            raise cursor.unsupported(f"CREATE TABLE ... {token.word} is not supported; {reason}", token)
        raise cursor.error(f"{token.text} is not a clause of CREATE TABLE{meant(token.text, _CLAUSES)}", token)
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


def _using(cursor: Cursor, clauses: TableClauses) -> None:
    parts = [cursor.name("a format")]
    while cursor.accept_symbol("."):
        parts.append(cursor.name("a format"))
    clauses.format = ".".join(parts)


def _stored(cursor: Cursor, clauses: TableClauses) -> None:
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


def _row_format(cursor: Cursor, clauses: TableClauses) -> None:
    cursor.expect("FORMAT")
    if cursor.accept("SERDE"):
        token = cursor.peek()
        name = read_string(cursor, "the class of a SerDe")
        properties = read_properties(cursor) if cursor.accept("WITH", "SERDEPROPERTIES") else {}
        clauses.serde = serde_of(name, properties)
        if clauses.serde is None:
            raise cursor.unsupported(f"{name} is not one of the SerDes that are read here: {', '.join(SERDES)}", token)
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


def _options(cursor: Cursor, clauses: TableClauses) -> None:
    token = cursor.peek(-1)
    options = read_properties(cursor)
    path = next((name for name in options if name.lower() == "path"), None)
    if path is not None:
        # As in Spark, this option is another word for the location.
        once(cursor, token, clauses.location is not None)
        clauses.location = options.pop(path)
    clauses.options = options


def _partitioned(cursor: Cursor, clauses: TableClauses) -> None:
    cursor.expect("BY")
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
            keys[name] = read_column(cursor, clauses.constraints)
        if bool(keys[name].type) != bool(next(iter(keys.values())).type):
            raise cursor.error("either all partition columns have a type, or none has one", token)
        if token is not None:
            tokens.append(token)
        if not cursor.accept_symbol(","):
            break
    cursor.expect_symbol(")")
    clauses.partition_keys = tuple(keys.values())
    clauses.partition_tokens = tuple(tokens)


def _clustered(cursor: Cursor, clauses: TableClauses) -> None:
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


def _skewed(cursor: Cursor, clauses: TableClauses) -> None:
    clauses.skew = read_skew(cursor)


def _sort_column(cursor: Cursor) -> SortColumn:
    name = cursor.name("a column")
    return SortColumn(name, cursor.accept_one("ASC", "DESC") != "DESC")


def _location(cursor: Cursor, clauses: TableClauses) -> None:
    once(cursor, cursor.peek(-1), clauses.location is not None)
    clauses.location = read_string(cursor, "a location")


def _comment(cursor: Cursor, clauses: TableClauses) -> None:
    clauses.comment = read_string(cursor, "a comment")


def _properties(cursor: Cursor, clauses: TableClauses) -> None:
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


def format_of(clauses: TableClauses) -> tuple[str | None, dict[str, str]]:
    """Return the name of the format, or None, and its options."""
    options = dict(clauses.options or {})
    if clauses.serde is not None:
        if clauses.serde.format == TEXTFILE:
            options = text_options(options)
        return clauses.serde.format, {**clauses.serde.options, **options}
    if TEXTFILE in (clauses.format, clauses.stored_as) or clauses.delimited is not None:
        return TEXTFILE, {**text_options(options), **(clauses.delimited or {})}
    return clauses.format or clauses.stored_as, options


def read_skew(cursor: Cursor) -> Skew:
    """Return the clause behind SKEWED: ``BY (a, b) ON ((1, 'x'), (2, 'y'))``, or ``BY (a) ON (1, 2)``.

    Raises:
        StatementSyntaxError: the text is not such a clause, or names values or columns twice.
        UnsupportedStatementError: the clause asks for directories by these values.
    """
    cursor.expect("BY")
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
    """Return the text of a constant, as Hive stores it: a number or a word stays as it was written."""
    start = cursor.peek()
    literal = read_constant(cursor)
    if start is None or literal is None or literal.value is None:
        raise cursor.error("expected a text or a number", start)
    if isinstance(literal.value, str):
        return literal.value
    last = cursor.peek(-1)
    sign = "-" if start.is_symbol("-") else ""
    return sign + last.text.lower() if last is not None else sign


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

    Hive's delimited and plain text become the format ``textfile``, with the properties of Hive's SerDe as options.

    Raises:
        StatementSyntaxError: the text is not SQL, or has a column or clause twice.
        UnsupportedStatementError: the statement asks for a feature that tables do not have here.
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
        properties=_table_properties(clauses, transactional=transactional),
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
        UnsupportedStatementError: the statement replaces rows, as in other dialects.
    """
    first = cursor.tokens[cursor.index - 1]
    if not cursor.accept("TABLE"):
        raise unsupported_statement(cursor, first)
    return read_create_table(cursor, or_replace=True, must_exist=True)


def _read_like(cursor: Cursor, new: CreateTable, *, transactional: bool) -> CreateTableLike:
    """Return CREATE TABLE ... LIKE, whose words up to LIKE are read.

    Raises:
        UnsupportedStatementError: the statement takes the columns of a file.
        StatementSyntaxError: the statement has a clause that the source decides.
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
        properties=_table_properties(clauses, transactional=transactional),
        input_format=clauses.input_format,
        output_format=clauses.output_format,
        serde_library=clauses.serde_library,
    )
    return CreateTableLike(given, source)


def _table_properties(clauses: TableClauses, *, transactional: bool) -> dict[str, str]:
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
