"""``{name}`` in a statement, which stands for a DataFrame, as in ``spark.sql`` of PySpark."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from airflow_hivex.core.errors import InvalidOperationError, InvalidParametersError, NoSuchTableError
from airflow_hivex.core.parser.lexer.tokens import Kind, lex, syntax_error
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import (
    ChangeQuery,
    ChangeRows,
    CreateTable,
    DescribeQuery,
    ExplainQuery,
    ExplainRoute,
    Insert,
    MultiInsert,
    Query,
    RoutedStatement,
    Select,
    Statement,
    TableReference,
    frame_name,
    is_stored,
)

FrameOf = Callable[[TableReference], int | None]
"""A function that returns the number of the DataFrame that a table reference reads, or None for a table."""

TAKE_FRAMES = (Select, DescribeQuery, ExplainQuery, ExplainRoute, Insert, MultiInsert, ChangeRows, CreateTable)
"""The statements that can read DataFrames."""

_NAME = re.compile(r"\{([A-Za-z_]\w*)\}", re.ASCII)


def read_with_frames(
    text: str, names: Collection[str], parameters: Mapping[str, object] | None, database: str
) -> Statement:
    """Return the statement in ``text``, in which ``{name}`` stands for the DataFrame with this name.

    The returned statement reads the DataFrame ``names[i]`` as the table ``frame_name(i)``. ``{name}`` can stand in
    place of a table name, or before a column as in ``{name}.id``. In a string it is plain text. Positions in the
    statement are positions in ``text``.

    Raises:
        HivexError: as :func:`reader.read`.
        InvalidOperationError: the statement takes no DataFrames.
        StatementSyntaxError: ``{name}`` is at a place where no table is read, or no DataFrame has the name.
        InvalidParametersError: the statement does not read one of the DataFrames.
    """
    numbers = {name: number for number, name in enumerate(names)}
    places: dict[int, str] = {}
    mentions: set[int] = set()
    in_hint = False
    named = text
    for token in lex(text, with_placeholders=True):
        if token.kind is not Kind.PLACEHOLDER:
            in_hint = (in_hint or token.text == "/*+") and token.text != "*/"
            continue
        found = _NAME.fullmatch(token.text)
        if found is None or found.group(1) not in numbers:
            given = ", ".join(f"{{{name}}}" for name in names) or "none was given"
            reason = f"{token.text} is not the name of a DataFrame of the statement ({given}); values are :name markers"
            raise syntax_error(text, token.start, reason)
        places[token.start] = found.group(1)
        if in_hint or text[token.end :].lstrip().startswith("."):
            mentions.add(token.start)
        # The length stays, so that all other tokens keep their places.
        named = f"{named[: token.start]}`{found.group(1)}`{named[token.end :]}"
    unused = [name for name in names if name not in places.values()]
    if unused:
        raise InvalidParametersError(f"The statement does not read the DataFrames {', '.join(unused)}.")
    read_at: set[int] = set()

    def frame_of(reference: TableReference) -> int | None:
        span = reference.table.span
        if span is None or span.start not in places:
            return None
        read_at.add(span.start)
        return numbers[places[span.start]]

    statement = read(named, parameters, database=database)
    if places and not isinstance(statement, TAKE_FRAMES):
        raise frames_not_taken(statement, [f"{{{name}}}" for name in names])
    if isinstance(statement, RoutedStatement) and statement.frame_reads:
        # No table has a name that we generate.
        raise NoSuchTableError(database, statement.frame_reads[0])
    statement = with_frames(statement, frame_of)
    for start, name in places.items():
        if start not in read_at and start not in mentions:
            reason = f"{{{name}}} does not stand where a table is read, or is also a common table expression"
            raise syntax_error(text, start, reason)
    return statement


def frames_not_taken(statement: Statement, names: Collection[str]) -> InvalidOperationError:
    """Return the error for a statement that cannot read DataFrames, such as CREATE VIEW."""
    return InvalidOperationError(
        statement.kind, ", ".join(names), "a DataFrame is not kept with it; make a table of its rows"
    )


def with_frames(statement: Statement, frame_of: FrameOf) -> Statement:
    """Return the statement. Each reference that reads the DataFrame ``i`` gets the name ``frame_name(i)``.

    The target of an UPDATE, DELETE or MERGE is not changed.
    """
    if isinstance(statement, ExplainRoute):
        inner = with_frames(statement.statement, frame_of)
        assert isinstance(inner, RoutedStatement)
        return replace(statement, statement=inner)
    if not isinstance(statement, RoutedStatement):
        return statement

    def changed(query: Query, target: int | None = None) -> Query:
        references = []
        for place, reference in enumerate(query.references):
            number = None if place == target or not _may_be_frame(reference) else frame_of(reference)
            if number is not None:
                table = replace(reference.table, name=frame_name(number), database=None)
                # Conditions only serve to find partitions.
                reference = replace(reference, table=table, filters=())
            references.append(reference)
        return replace(query, references=tuple(references))

    if not isinstance(statement, ChangeRows):
        return statement.with_queries(changed)

    def changed_part(part: ChangeQuery | None) -> ChangeQuery | None:
        return None if part is None else replace(part, query=changed(part.query, part.target))

    return replace(
        statement,
        matched=replace(statement.matched, query=changed(statement.matched.query, statement.matched.target)),
        source=None if statement.source is None else changed(statement.source),
        unmatched=changed_part(statement.unmatched),
        unmatched_by_source=changed_part(statement.unmatched_by_source),
    )


def _may_be_frame(reference: TableReference) -> bool:
    table = reference.table
    return table.database is None and table.namespace is None and reference.version is None and is_stored(table)
