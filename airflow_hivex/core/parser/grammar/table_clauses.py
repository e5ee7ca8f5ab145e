"""The clauses of CREATE TABLE behind the columns, in Spark's and in Hive's form."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_hivex.core.model.file_properties import (
    COLLECTION_DELIM,
    ESCAPE,
    FIELD_DELIM,
    LINE_DELIM,
    MAPKEY_DELIM,
    NULL_FORMAT,
    TEXTFILE,
)
from airflow_hivex.core.model.objects import Column, Skew, SortColumn
from airflow_hivex.core.parser.grammar.clauses import once, read_properties
from airflow_hivex.core.parser.grammar.columns import read_column
from airflow_hivex.core.parser.grammar.constraints import ConstraintReader
from airflow_hivex.core.parser.grammar.serdes import SERDES, SerDe, format_of_input, serde_of, text_options
from airflow_hivex.core.parser.lexer.advice import meant
from airflow_hivex.core.parser.lexer.literals import read_constant, read_integer, read_string
from airflow_hivex.core.parser.lexer.tokens import Cursor, Token

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
        StatementSyntaxError: it is not a clause of CREATE TABLE, is given twice, or contradicts another one.
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
        # As in Spark, where it is another word for the location.
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
    """Return the format's name and its options."""
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
        StatementSyntaxError: it is not such a clause, or values or columns are named twice.
        UnsupportedStatementError: rows are to be stored in directories by these values.
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
    """Return the text of a constant, as Hive keeps it: a number or a word as it was written."""
    start = cursor.peek()
    literal = read_constant(cursor)
    if start is None or literal is None or literal.value is None:
        raise cursor.error("expected a text or a number", start)
    if isinstance(literal.value, str):
        return literal.value
    last = cursor.peek(-1)
    sign = "-" if start.is_symbol("-") else ""
    return sign + last.text.lower() if last is not None else sign
