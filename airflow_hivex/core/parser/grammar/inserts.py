"""INSERT INTO and INSERT OVERWRITE of one table, or of several behind one FROM; a VALUES list is read as rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Self

from airflow_hivex.core.model.file_properties import TEXTFILE
from airflow_hivex.core.model.identifiers import Span, normalise
from airflow_hivex.core.parser.grammar.clauses import read_partition
from airflow_hivex.core.parser.grammar.serdes import SERDES, format_of_input, serde_of
from airflow_hivex.core.parser.grammar.tables import TableClauses, format_of, read_clause
from airflow_hivex.core.parser.lexer.literals import read_constant, read_string
from airflow_hivex.core.parser.lexer.tokens import Cursor, Kind, Token, name_of
from airflow_hivex.core.parser.queries.pieces import Pieces
from airflow_hivex.core.parser.queries.reader import at_query, read_query
from airflow_hivex.core.parser.statements import (
    DefaultValue,
    Insert,
    InsertDirectory,
    Literal,
    LoadData,
    MultiInsert,
    Query,
    TableName,
    ValueList,
    source_name,
)

Rows = tuple[tuple[Literal, ...], ...]


@dataclass(frozen=True, slots=True)
class InsertHead:
    """The target of an INSERT: the clauses before its rows."""

    target: TableName
    overwrite: bool
    partition: Mapping[str, Literal | None]
    if_not_exists: bool
    columns: tuple[str, ...] | None
    by_name: bool

    @classmethod
    def read(cls, cursor: Cursor) -> Self:
        """Read the words behind INSERT, up to the query.

        Raises:
            StatementSyntaxError: the text is not SQL.
            UnsupportedStatementError: the statement writes a link, or has IF NOT EXISTS without one whole partition.
        """
        if cursor.at("WITH", "SCHEMA", "EVOLUTION"):
            raise cursor.unsupported("this INSERT has no WITH SCHEMA EVOLUTION; add the columns by ALTER TABLE")
        if at_directory(cursor):
            raise cursor.unsupported(
                "a multi-table INSERT writes tables; write INSERT OVERWRITE DIRECTORY as a statement of its own"
            )
        overwrite = cursor.accept_one("INTO", "OVERWRITE")
        if overwrite is None:
            raise cursor.expected("INTO or OVERWRITE")
        cursor.accept("TABLE")
        target = cursor.table_name()
        partition: dict[str, Literal | None] = read_partition(cursor) if cursor.accept("PARTITION") else {}
        if_not_exists = _read_if_not_exists(cursor, overwrite == "OVERWRITE", partition)
        by_name = cursor.accept("BY", "NAME")
        if cursor.at("REPLACE"):
            raise cursor.unsupported(
                "INSERT ... REPLACE is not a statement of this release; DELETE and INSERT in one transaction replace "
                "rows, and so does mode replace_where of warehouse.write"
            )
        token = cursor.peek()
        columns = cursor.names("a column") if _at_columns(cursor) else None
        if by_name and columns is not None:
            raise cursor.error("BY NAME takes the columns of the query; leave the list out", token)
        return cls(target, overwrite == "OVERWRITE", partition, if_not_exists, columns, by_name)

    def insert(self, query: Query, rows: Rows | None = None) -> Insert:
        """Return the statement that takes its rows from a query."""
        return Insert(
            target=self.target,
            query=query,
            overwrite=self.overwrite,
            columns=self.columns,
            partition=tuple(self.partition),
            static={key: literal for key, literal in self.partition.items() if literal is not None},
            rows=rows,
            if_not_exists=self.if_not_exists,
            by_name=self.by_name,
        )


def read_insert(cursor: Cursor) -> Insert | InsertDirectory:
    """Return the statement whose word INSERT is read.

    Raises:
        StatementSyntaxError: the text is not SQL, or a row of VALUES is longer than another.
        UnsupportedStatementError: the statement writes a link, or files of a format that cannot be written.
    """
    if at_directory(cursor):
        return read_insert_directory(cursor)
    token = cursor.peek()
    evolves = cursor.accept("WITH", "SCHEMA", "EVOLUTION")
    head = InsertHead.read(cursor)
    if evolves and head.columns is not None:
        raise cursor.unsupported("WITH SCHEMA EVOLUTION takes no list of columns; write BY NAME in its place", token)
    if not at_query(cursor):
        raise cursor.expected("VALUES or a query")
    if not head.by_name and cursor.at("VALUES") and (found := _read_defaults(cursor)):
        query, defaults = found
        return replace(head.insert(query), defaults=defaults, evolves=evolves)
    rows, query = (None, read_query(cursor)) if head.by_name else _read_source(cursor)
    return replace(head.insert(query, rows), evolves=evolves)


def _read_if_not_exists(cursor: Cursor, overwrite: bool, partition: Mapping[str, Literal | None]) -> bool:
    """Read IF NOT EXISTS, which requires an INSERT OVERWRITE of one named partition; return whether it stands here.

    Source: Hive's error 10127, INSERT_INTO_DYNAMICPARTITION_IFNOTEXISTS; visitInsertIntoTable of Spark's AstBuilder.
    """
    token = cursor.peek()
    if not cursor.accept("IF", "NOT", "EXISTS"):
        return False
    if not overwrite:
        raise cursor.unsupported("INSERT INTO does not support IF NOT EXISTS; write INSERT OVERWRITE", token)
    if not partition:
        raise cursor.error("IF NOT EXISTS follows a PARTITION clause that gives every partition key a value", token)
    dynamic = [name for name, value in partition.items() if value is None]
    if dynamic:
        reason = f"dynamic partitions do not support IF NOT EXISTS; give partition key {dynamic[0]} a value"
        raise cursor.unsupported(reason, token)
    return True


def _at_columns(cursor: Cursor) -> bool:
    # (a, b) lists columns; (SELECT ...), (VALUES ...) and (FROM ...) are queries.
    named = cursor.at_kind(Kind.WORD, Kind.QUOTED, ahead=1)
    return cursor.at_symbol("(") and named and cursor.at_symbol(",", ")", ahead=2)


def _read_source(cursor: Cursor) -> tuple[Rows | None, Query]:
    if not cursor.at("VALUES"):
        return None, read_query(cursor)
    start = cursor.index
    found = _constant_rows(cursor)
    if found is None:
        cursor.index = start
        return None, read_query(cursor)
    rows, values = found
    tokens = cursor.tokens[start:]
    # Among constants, a colon can only begin a marker.
    markers = frozenset(name.text for colon, name in pairwise(tokens) if colon.is_symbol(":"))
    return rows, Query(cursor.text, tokens[0].start, tokens[-1].end, (), (), markers, values=values)


def _constant_rows(cursor: Cursor) -> tuple[Rows, ValueList] | None:
    """Return the rows of VALUES up to the end of the statement; None if Spark must compute them."""
    cursor.expect("VALUES")
    rows: list[tuple[Literal, ...]] = []
    cells: list[tuple[Span, ...]] = []
    while True:
        token = cursor.peek()
        found = _constant_row(cursor)
        if found is None:
            return None
        row, places = found
        if rows and len(row) != len(rows[0]):
            raise cursor.error(f"row {len(rows) + 1} has {len(row)} values, the rows before have {len(rows[0])}", token)
        rows.append(row)
        cells.append(places)
        if not cursor.accept_symbol(","):
            break
        if cursor.at_end:
            raise cursor.expected("a row")
    if not cursor.at_end:
        return None
    return tuple(rows), ValueList(tuple(cells), tuple(tuple(literal.type for literal in row) for row in rows))


def _constant_row(cursor: Cursor) -> tuple[tuple[Literal, ...], tuple[Span, ...]] | None:
    in_parentheses = cursor.accept_symbol("(")
    found: list[Literal] = []
    cells: list[Span] = []
    while True:
        start = cursor.index
        literal = read_constant(cursor)
        if literal is None:
            return None
        found.append(literal)
        cells.append(Span(cursor.tokens[start].start, cursor.tokens[cursor.index - 1].end))
        if not in_parentheses or not cursor.accept_symbol(","):
            break
    return (tuple(found), tuple(cells)) if not in_parentheses or cursor.accept_symbol(")") else None


def _read_defaults(cursor: Cursor) -> tuple[Query, tuple[DefaultValue, ...]] | None:
    """Return the query of VALUES with NULL for each DEFAULT, and their places; None, without reading, without DEFAULT.

    Raises:
        StatementSyntaxError: the text is not SQL.
    """
    tokens = cursor.tokens[cursor.index :]
    found: list[tuple[int, int]] = []
    depth = position = 0
    for index, token in enumerate(tokens):
        depth += token.is_symbol("(") - token.is_symbol(")")
        if token.is_symbol("(") and depth == 1:
            position = 0
        elif token.is_symbol(",") and depth == 1:
            position += 1
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        is_alone = (depth <= 1 and tokens[index - 1].is_symbol("(", ",")) or tokens[index - 1].word == "VALUES"
        if token.word == "DEFAULT" and is_alone and (following is None or following.is_symbol(",", ")")):
            found.append((index, position if depth else 0))
    if not found:
        return None
    pieces = Pieces(cursor)
    defaults = []
    start = tokens[0].start
    for index, position in found:
        pieces.copy(start, tokens[index].start)
        at = len(pieces.text)
        pieces.add("NULL")
        defaults.append(DefaultValue(at, len(pieces.text), position))
        start = tokens[index].end
    pieces.copy(start, tokens[-1].end)
    query = pieces.read()
    cursor.index = len(cursor.tokens)
    return query, tuple(defaults)


_CLAUSES = ("ROW", "STORED", "USING", "OPTIONS")


def at_directory(cursor: Cursor) -> bool:
    """Return whether the words behind INSERT name a directory rather than a table with the name ``directory``."""
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
        StatementSyntaxError: the text is not SQL, or names no directory.
        UnsupportedStatementError: the statement names a format that cannot be written.
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


def read_load(cursor: Cursor) -> LoadData:
    """Return the statement whose word LOAD is read.

    Raises:
        StatementSyntaxError: the text is not SQL.
        UnsupportedStatementError: the statement loads into a link, or names a format that cannot be read.
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


_QUERY_WORDS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")
_AFTER_SOURCE = (
    "JOIN CROSS INNER LEFT RIGHT FULL SEMI ANTI NATURAL ON USING LATERAL TABLESAMPLE PIVOT UNPIVOT WHERE".split()  # noqa: SIM905
)


def at_multi_insert(cursor: Cursor) -> bool:
    """Return whether an INSERT follows the FROM or WITH that stands here."""
    return (cursor.at("FROM") or cursor.at("WITH")) and next(_inserts(cursor), None) is not None


def read_multi_insert(cursor: Cursor) -> MultiInsert | Insert:
    """Return the statement that begins with FROM, or WITH, here; ``WITH ... INSERT INTO t SELECT ...`` is an INSERT.

    The text before the first INSERT, a FROM clause and perhaps WITH, is the beginning of the query of each INSERT. Its
    sub-queries become separate sources, which are computed once for all INSERTs.

    Raises:
        StatementSyntaxError: the text is not SQL.
        UnsupportedStatementError: the statement reads or writes an object that is not a table of the warehouse.
    """
    starts = [*_inserts(cursor), len(cursor.tokens)]
    beginning = cursor.tokens[cursor.index : starts[0]]
    at_from = next((index for index, token in _outer(beginning) if token.word == "FROM"), None)
    sources = [] if at_from is None else list(_sources(beginning, at_from))
    inserts = []
    for start, end in pairwise(starts):
        branch = Cursor(cursor.text, cursor.tokens[start:end], cursor.markers, cursor.database)
        branch.expect("INSERT")
        head = InsertHead.read(branch)
        if not (branch.at("SELECT") if at_from is not None else at_query(branch)):
            if branch.at("MAP") or branch.at("REDUCE"):
                raise branch.unsupported("MAP and REDUCE would run a program; an INSERT takes the rows of a SELECT")
            raise branch.expected("SELECT")
        text = _without(cursor, beginning, sources).copy_tokens(branch.tokens[branch.index :])
        inserts.append(head.insert(text.read()))
    cursor.index = len(cursor.tokens)
    if at_from is None:
        if len(inserts) > 1:
            raise cursor.error("several INSERTs need FROM before the first of them", cursor.tokens[starts[1]])
        return inserts[0]
    before = beginning[:at_from]
    return MultiInsert(tuple(inserts), tuple(_source_query(cursor, before, source) for source in sources))


@dataclass(frozen=True, slots=True)
class _Source:
    """A sub-query of FROM in its parentheses, or (``name``) a common table expression that FROM names."""

    tokens: Sequence[Token]
    name: str | None
    has_alias: bool


def _outer(tokens: Sequence[Token]) -> Iterator[tuple[int, Token]]:
    """Yield the tokens outside of parentheses, with the opening parentheses themselves."""
    depth = 0
    for index, token in enumerate(tokens):
        if depth == 0:
            yield index, token
        depth += token.is_symbol("(") - token.is_symbol(")")


def _inserts(cursor: Cursor) -> Iterator[int]:
    """Yield the indexes of INSERT INTO and INSERT OVERWRITE outside of parentheses."""
    for index, token in _outer(cursor.tokens[cursor.index :]):
        following = cursor.peek(index + 1)
        if index and token.word == "INSERT" and following is not None and following.word in ("INTO", "OVERWRITE"):
            yield cursor.index + index


def _sources(beginning: Sequence[Token], at_from: int) -> Iterator[_Source]:
    """Yield the sources of FROM that can be computed separately, since they depend on no other source."""
    common = set(_common_names(beginning[:at_from]))
    is_next = in_view = False
    for index, token in _outer(beginning):
        if index < at_from:
            continue
        if is_next:
            found = _source_at(beginning, index, common)
            if found is not None:
                yield found
        # Behind LATERAL VIEW, commas stand between names of columns.
        in_view = (in_view or token.word == "VIEW") and token.word != "JOIN"
        is_next = token.word in ("FROM", "JOIN") or (token.is_symbol(",") and not in_view)


def _source_at(tokens: Sequence[Token], index: int, common: set[str]) -> _Source | None:
    end = index + 1
    following = tokens[end] if end < len(tokens) else None
    if tokens[index].is_symbol("("):
        if following is None or following.word not in _QUERY_WORDS:
            return None
        depth = 1
        while depth and end < len(tokens):
            depth += tokens[end].is_symbol("(") - tokens[end].is_symbol(")")
            end += 1
        return _Source(tokens[index:end], None, _has_alias(tokens, end))
    name = normalise(name_of(tokens[index]))
    is_plain = following is None or not following.is_symbol(".", "(", "@")
    if name in common and is_plain:
        return _Source(tokens[index:end], name, _has_alias(tokens, end))
    return None


def _has_alias(tokens: Sequence[Token], index: int) -> bool:
    if index >= len(tokens):
        return False
    token = tokens[index]
    return token.kind is Kind.QUOTED or (token.kind is Kind.WORD and token.word not in _AFTER_SOURCE)


def _common_names(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield the names of common table expressions."""
    for (_, before), (_, token) in pairwise(_outer(tokens)):
        begins = before.word in ("WITH", "RECURSIVE") or before.is_symbol(",")
        if begins and token.kind in (Kind.WORD, Kind.QUOTED) and token.word != "RECURSIVE":
            yield normalise(name_of(token))


def _without(cursor: Cursor, beginning: Sequence[Token], sources: Sequence[_Source]) -> Pieces:
    """Return the beginning of a query, with names in place of the sources."""
    text = Pieces(cursor)
    at = beginning[0].start
    for number, source in enumerate(sources):
        text.copy(at, source.tokens[0].start)
        text.add(f"`{source_name(number)}`")
        if source.name is not None and not source.has_alias:
            text.add(f" AS `{source.name}`")
        at = source.tokens[-1].end
    text.copy(at, beginning[-1].end)
    return text.add("\n")


def _source_query(cursor: Cursor, before: Sequence[Token], source: _Source) -> Query:
    """Return a source by itself, with the common table expressions that it may read."""
    text = Pieces(cursor)
    if before:
        text.copy_tokens(before)
    if source.name is not None:
        return text.add("SELECT * FROM ").copy_tokens(source.tokens).read()
    nested = before and source.tokens[1].word == "WITH"
    return text.copy_tokens(source.tokens if nested else source.tokens[1:-1]).read()
