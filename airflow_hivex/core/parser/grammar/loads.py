"""LOAD DATA."""

from __future__ import annotations

from airflow_hivex.core.parser.grammar.clauses import read_partition
from airflow_hivex.core.parser.grammar.serdes import SERDES, format_of_input, serde_of
from airflow_hivex.core.parser.lexer.literals import read_string
from airflow_hivex.core.parser.lexer.tokens import Cursor
from airflow_hivex.core.parser.statements import LoadData


def read_load(cursor: Cursor) -> LoadData:
    """Return the statement whose word LOAD is read.

    Raises:
        StatementSyntaxError: it is not SQL.
        UnsupportedStatementError: it loads into a link, or names a format that is not read.
    """
    cursor.expect("DATA")
    is_local = cursor.accept("LOCAL")
    cursor.expect("INPATH")
    path = read_string(cursor, "a path")
    overwrite = cursor.accept("OVERWRITE")
    cursor.expect("INTO", "TABLE")
    target = cursor.table_name()
    given = read_partition(cursor) if cursor.accept("PARTITION") else {}
    static = {key: literal for key, literal in given.items() if literal is not None}
    dynamic = tuple(key for key, literal in given.items() if literal is None)
    source_format, options = _read_format(cursor) if cursor.accept("INPUTFORMAT") else (None, {})
    return LoadData(target, path, is_local, overwrite, static, dynamic, source_format, options)


def _read_format(cursor: Cursor) -> tuple[str, dict[str, str]]:
    """Return the format of the files, and the options of its reader, by Hive's classes."""
    token = cursor.peek()
    input_format = read_string(cursor, "the class of an input format")
    stored_as = format_of_input(input_format)
    if stored_as is None:
        raise cursor.unsupported(f"files of input format {input_format} are not read", token)
    cursor.expect("SERDE")
    token = cursor.peek()
    name = read_string(cursor, "the class of a SerDe")
    serde = serde_of(name, {})
    if serde is None:
        raise cursor.unsupported(f"{name} is not one of the SerDes that are read here: {', '.join(SERDES)}", token)
    if stored_as not in serde.stored_as:
        raise cursor.error(f"{name} does not read files of input format {input_format}", token)
    return serde.format, dict(serde.options)
