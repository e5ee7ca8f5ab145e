"""INSERT OVERWRITE DIRECTORY, in Hive's form and in Spark's."""

from __future__ import annotations

from airflow_hivex.core.model.text_files import TEXTFILE
from airflow_hivex.core.parser.grammar.table_clauses import TableClauses, format_of, read_clause
from airflow_hivex.core.parser.lexer.literals import read_string
from airflow_hivex.core.parser.lexer.tokens import Cursor, Kind
from airflow_hivex.core.parser.queries.reader import at_query, read_query
from airflow_hivex.core.parser.statements import InsertDirectory

_CLAUSES = ("ROW", "STORED", "USING", "OPTIONS")


def at_directory(cursor: Cursor) -> bool:
    """Return whether the words behind INSERT name a directory, and not a table that is called so."""
    ahead = 1 + cursor.at("OVERWRITE", "LOCAL")
    following = cursor.peek(ahead + 1)
    return (
        (cursor.at("OVERWRITE", "DIRECTORY") or cursor.at("OVERWRITE", "LOCAL", "DIRECTORY"))
        and following is not None
        and (following.kind is Kind.STRING or following.word in _CLAUSES)
    )


def read_insert_directory(cursor: Cursor) -> InsertDirectory:
    """Return the statement whose word INSERT is read.

    Raises:
        StatementSyntaxError: it is not SQL, or names no directory.
        UnsupportedStatementError: it asks for a format that is not written.
    """
    cursor.expect("OVERWRITE")
    is_local = cursor.accept("LOCAL")
    cursor.expect("DIRECTORY")
    path = read_string(cursor, "the path of a directory") if cursor.at_kind(Kind.STRING) else None
    clauses = TableClauses()
    while any(cursor.at(word) for word in _CLAUSES):
        token = cursor.peek()
        read_clause(cursor, clauses)
        if clauses.location is not None and path is not None:
            raise cursor.error("the directory is named twice; leave the option path out", token)
    path = path if path is not None else clauses.location
    if path is None:
        raise cursor.expected("the path of a directory")
    if not at_query(cursor):
        raise cursor.expected("a query")
    form, options = format_of(clauses)
    return InsertDirectory(
        path=path,
        query=read_query(cursor),
        is_local=is_local,
        format=form or TEXTFILE,
        options=options,
        serde_library=clauses.serde_library,
    )
