"""INSERT INTO and INSERT OVERWRITE of one table or a directory, LOAD DATA, and COPY INTO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from airflow_hivex.core.model.file_properties import TEXTFILE
from airflow_hivex.core.model.identifiers import Span
from airflow_hivex.core.parser.grammar.clauses import Parts, read_parentheses
from airflow_hivex.core.parser.grammar.serdes import file_format
from airflow_hivex.core.parser.lexer.literals import read_constant, unquote
from airflow_hivex.core.parser.lexer.tokens import Cursor, Kind, Token
from airflow_hivex.core.parser.queries.pieces import Pieces
from airflow_hivex.core.parser.queries.reader import at_query, read_query
from airflow_hivex.core.parser.statements import (
    COPIED_FILES,
    CopyInto,
    DefaultValue,
    Insert,
    InsertDirectory,
    Literal,
    LoadData,
    Query,
    TextEdit,
    ValueList,
)

Rows = tuple[tuple[Literal, ...], ...]


@dataclass(frozen=True, slots=True)
class Source:
    """The source of an INSERT: a query, its rows if all values are constants, and the places of DEFAULT in it."""

    query: Query
    rows: Rows | None = None
    defaults: tuple[DefaultValue, ...] = ()


def make_insert(parts: Parts) -> Insert:
    """Return the statement INSERT INTO or INSERT OVERWRITE for one table.

    Raises:
        StatementSyntaxError: parts of the statement do not go together.
        UnsupportedStatementError: the statement has IF NOT EXISTS, and does not name one whole partition.
    """
    if "evolves" in parts and "columns" in parts:
        reason = "WITH SCHEMA EVOLUTION takes no list of columns; write BY NAME in its place"
        raise parts.cursor.unsupported(reason, parts.token("evolves"))
    source = parts["source"] or Source(parts["query"])
    return insert_of(parts, source.query, source.rows, source.defaults)


def insert_of(parts: Parts, query: Query, rows: Rows | None = None, defaults: tuple[DefaultValue, ...] = ()) -> Insert:
    """Return the INSERT that takes its rows from a query.

    Raises:
        StatementSyntaxError: parts of the statement do not go together.
        UnsupportedStatementError: the statement has IF NOT EXISTS, and does not name one whole partition.
    """
    if "by_name" in parts and "columns" in parts:
        reason = "BY NAME takes the columns of the query; leave the list out"
        raise parts.cursor.error(reason, parts.token("columns"))
    if "if_not_exists" in parts:
        _check_if_not_exists(parts)
    partition = parts["partition"] or {}
    return Insert(
        target=parts["target"],
        query=query,
        overwrite="overwrite" in parts,
        columns=parts["columns"],
        partition=tuple(partition),
        static={key: literal for key, literal in partition.items() if literal is not None},
        rows=rows,
        if_not_exists="if_not_exists" in parts,
        by_name="by_name" in parts,
        defaults=defaults,
        evolves="evolves" in parts,
    )


def _check_if_not_exists(parts: Parts) -> None:
    """Refuse IF NOT EXISTS except in an INSERT OVERWRITE of one named partition.

    Source: Hive's error 10127, INSERT_INTO_DYNAMICPARTITION_IFNOTEXISTS; visitInsertIntoTable of Spark's AstBuilder.
    """
    cursor, token = parts.cursor, parts.token("if_not_exists")
    if "overwrite" not in parts:
        raise cursor.unsupported("INSERT INTO does not support IF NOT EXISTS; write INSERT OVERWRITE", token)
    if "partition" not in parts:
        raise cursor.error("IF NOT EXISTS follows a PARTITION clause that gives every partition key a value", token)
    dynamic = [name for name, value in parts["partition"].items() if value is None]
    if dynamic:
        reason = f"dynamic partitions do not support IF NOT EXISTS; give partition key {dynamic[0]} a value"
        raise cursor.unsupported(reason, token)


def read_branch(cursor: Cursor) -> Sequence[Token]:
    """Return the tokens of the SELECT of one INSERT in a multi-table INSERT, without the FROM before all INSERTs.

    Raises:
        StatementSyntaxError: no query comes next.
        UnsupportedStatementError: MAP or REDUCE would run a program.
    """
    if cursor.at("MAP") or cursor.at("REDUCE"):
        raise cursor.unsupported("MAP and REDUCE would run a program; an INSERT takes the rows of a SELECT")
    if not at_query(cursor) or _at_columns(cursor):
        raise cursor.expected("SELECT")
    start, cursor.index = cursor.index, len(cursor.tokens)
    return cursor.tokens[start:]


def _at_columns(cursor: Cursor) -> bool:
    # (a, b) lists columns; (SELECT ...), (VALUES ...) and (FROM ...) are queries.
    named = cursor.at_kind(Kind.WORD, Kind.QUOTED, ahead=1)
    return cursor.at_symbol("(") and named and cursor.at_symbol(",", ")", ahead=2)


def read_inserted_query(cursor: Cursor) -> Source:
    """Return the query of an INSERT without VALUES.

    Raises:
        StatementSyntaxError: the text is not SQL.
        UnsupportedStatementError: the query writes, or reads an object that is not a table of the warehouse.
    """
    if not at_query(cursor) or cursor.at("VALUES") or _at_columns(cursor):
        raise cursor.expected("a query")
    return Source(read_query(cursor))


def read_rows(cursor: Cursor) -> Source:
    """Return the rows after VALUES, with their constants if all values are constants.

    Raises:
        StatementSyntaxError: the text is not SQL, or a row is longer than another.
        UnsupportedStatementError: a value reads an object that is not a table of the warehouse.
    """
    if cursor.at_end:
        raise cursor.expected("a row")
    # The word belongs to the query.
    cursor.index -= 1
    if (defaults := _read_defaults(cursor)) is not None:
        return defaults
    start = cursor.index
    found = _constant_rows(cursor)
    if found is None:
        cursor.index = start
        return Source(read_query(cursor))
    rows, values = found
    tokens = cursor.tokens[start:]
    # Among constants, a colon can only begin a marker.
    markers = frozenset(name.text for colon, name in pairwise(tokens) if colon.is_symbol(":"))
    return Source(Query(cursor.text, tokens[0].start, tokens[-1].end, (), (), markers, values=values), rows)


def _constant_rows(cursor: Cursor) -> tuple[Rows, ValueList] | None:
    """Return the constants after VALUES, as rows and as a :class:`ValueList`, or None if a value is not a constant."""
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


def _read_defaults(cursor: Cursor) -> Source | None:
    """Return VALUES with NULL in place of each DEFAULT, and the places of these NULLs.

    If there is no DEFAULT, return None and do not move the cursor.

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
    cursor.index = len(cursor.tokens)
    query = pieces.read()
    return Source(query, defaults=tuple(defaults))


def make_insert_directory(parts: Parts) -> InsertDirectory:
    """Return the statement INSERT OVERWRITE DIRECTORY.

    Raises:
        StatementSyntaxError: the statement names no directory, or two directories or formats.
    """
    given = file_format(parts)
    if given.path is not None and "path" in parts:
        raise parts.cursor.error("the directory is named twice; leave the option path out", parts.token("options"))
    path = parts["path"] if given.path is None else given.path
    if path is None:
        raise parts.cursor.error("the statement names no directory; write its path behind DIRECTORY", parts.first)
    return InsertDirectory(
        path=path,
        query=parts["query"],
        is_local="is_local" in parts,
        format=given.format or TEXTFILE,
        options=given.options,
        serde_library=given.serde_library,
    )


def make_load(parts: Parts) -> LoadData:
    """Return the statement LOAD DATA.

    Raises:
        StatementSyntaxError: the SerDe does not read files of the input format.
    """
    partition = parts["partition"] or {}
    given = file_format(parts)
    return LoadData(
        parts["target"],
        parts["path"],
        "is_local" in parts,
        "overwrite" in parts,
        {key: literal for key, literal in partition.items() if literal is not None},
        tuple(key for key, literal in partition.items() if literal is None),
        given.format,
        given.options,
    )


@dataclass(frozen=True, slots=True)
class CopiedQuery:
    """The query of a COPY INTO over the files of one path."""

    path: str
    query: Query


def read_copied_query(cursor: Cursor) -> CopiedQuery:
    """Return the query in parentheses, with the path of the files that it reads.

    Raises:
        StatementSyntaxError: the query does not read exactly one path.
        UnsupportedStatementError: the query reads an object that is not a table of the warehouse.
    """
    if not cursor.at_symbol("("):
        raise cursor.expected("'(' and a query")
    _, *tokens, _ = read_parentheses(cursor)
    first = tokens[0] if tokens else None
    if first is None or first.word != "SELECT":
        raise cursor.error("expected SELECT", first)
    paths = [token for before, token in pairwise(tokens) if before.word in ("FROM", "JOIN") and _is_text(token)]
    if len(paths) != 1:
        reason = "the query reads the files of one path: FROM (SELECT ... FROM 'folder')"
        raise cursor.error(reason, paths[1] if paths else first)
    (path,) = paths
    pieces = Pieces(cursor)
    pieces.copy(first.start, path.start)
    start = len(pieces.text)
    pieces.add(COPIED_FILES)
    pieces.copy(path.end, tokens[-1].end)
    query = pieces.add("\n").read()
    return CopiedQuery(unquote(path), _of_files(query, start))


def _is_text(token: Token) -> bool:
    return token.kind is Kind.STRING


def _of_files(query: Query, start: int) -> Query:
    """Return a query in which the name at ``start`` is the name of files in place of a reference to a table."""
    (files,) = (each for each in query.references if each.start == start)
    others = tuple(each for each in query.references if each is not files)
    edits = [TextEdit(files.start, files.end, COPIED_FILES)]
    if not files.has_alias:
        at = files.end if files.alias_position is None else files.alias_position
        edits.append(TextEdit(at, at, f" AS `{files.alias}`"))
    return replace(query, references=others, qualifiers=(*query.qualifiers, *edits))


_COPY_OPTIONS = ("force", "mergeSchema", "allowOverwrites")
_CHOOSES_FILES = "PATTERN and FILES choose the files"
_SKIPS_FAULTS = "a missing or damaged file is an error; name the other files with FILES or PATTERN"
_SKIPS_ROWS = "ON_ERROR = CONTINUE puts rows that do not fit into another table"
_IN_COPY_OPTIONS = "write it in COPY_OPTIONS"
_NOT_OF_THE_READER = {
    **dict.fromkeys(("pathglobfilter", "modifiedbefore", "modifiedafter", "recursivefilelookup"), _CHOOSES_FILES),
    **dict.fromkeys(("maxfilespertrigger", "maxbytespertrigger", "latestfirst", "maxfileage"), _CHOOSES_FILES),
    **dict.fromkeys(("path", "paths", "basepath", "__globpaths__"), "the path after FROM names the files"),
    **dict.fromkeys(("ignorecorruptfiles", "ignoremissingfiles", "ignoreextension"), _SKIPS_FAULTS),
    **dict.fromkeys(("mode", "columnnameofcorruptrecord", "badrecordspath", "rescueddatacolumn"), _SKIPS_ROWS),
    "enforceschema": "the headers of all files must be the same",
    "samplingratio": "all rows are read for the types of columns",
    "singlevariantcolumn": "the columns of the table name the values",
    **dict.fromkeys(("force", "allowoverwrites"), _IN_COPY_OPTIONS),
}
"""Options of Spark's reader that would leave out files or rows of a load, with the reason why they are refused."""


def _check_format_options(parts: Parts) -> None:
    """Refuse options of Spark's reader that would leave out files or rows, since their files count as loaded.

    Raises:
        StatementSyntaxError: FORMAT_OPTIONS has such an option.
    """
    for name in parts["format_options"] or {}:
        reason = _NOT_OF_THE_READER.get(name.lower())
        if reason is not None:
            raise parts.cursor.error(f"FORMAT_OPTIONS cannot have {name}: {reason}", parts.token("format_options"))


def _check_splits(parts: Parts) -> None:
    """Refuse VALIDATE and ON_ERROR = CONTINUE in statements that cannot find single rows that do not fit.

    Raises:
        StatementSyntaxError: the format or another clause of the statement does not go together with the clause.
    """
    clause = next((name for name in ("rejects", "validates") if name in parts), None)
    if clause is None:
        return
    reason = ""
    if parts["format"] not in ("csv", "json"):
        reason = "single rows are only found in CSV and JSON files"
    elif "validates" in parts and "rejects" in parts:
        reason = "VALIDATE writes nothing; leave ON_ERROR out"
    elif any(name.lower() == "mergeschema" for name in parts["copy_options"] or {}) and clause == "rejects":
        reason = "ON_ERROR = CONTINUE does not go together with mergeSchema"
    if reason:
        raise parts.cursor.error(reason, parts.token(clause) if clause in parts.places else parts.first)


def make_copy_into(parts: Parts) -> CopyInto:
    """Return the statement COPY INTO.

    Raises:
        StatementSyntaxError: an option is unknown or refused, or FILES and PATTERN are both given.
    """
    if "files" in parts and "patterns" in parts:
        raise parts.cursor.error("FILES and PATTERN do not go together", parts.token("patterns"))
    _check_splits(parts)
    _check_format_options(parts)
    options: dict[str, bool] = {}
    known = {name.lower(): name for name in _COPY_OPTIONS}
    for name, value in (parts["copy_options"] or {}).items():
        if name.lower() not in known:
            reason = f"{name} is not an option of COPY_OPTIONS; the options are {', '.join(_COPY_OPTIONS)}"
            raise parts.cursor.error(reason, parts.token("copy_options"))
        if value.lower() not in ("true", "false"):
            raise parts.cursor.error(f"the option {name} is 'true' or 'false'", parts.token("copy_options"))
        options[known[name.lower()]] = value.lower() == "true"
    source = parts["source"]
    text = f"SELECT * FROM {COPIED_FILES}"  # noqa: S608 - a name of our own
    at = len(text) - len(COPIED_FILES)
    whole = Query(text, 0, len(text), (), (TextEdit(at, len(text), COPIED_FILES),))
    return CopyInto(
        target=parts["target"],
        path=parts["path"] if source is None else source.path,
        query=whole if source is None else source.query,
        format=parts["format"],
        selects=source is not None,
        columns=parts["columns"],
        files=parts["files"] or (),
        patterns=parts["patterns"] or (),
        format_options=parts["format_options"] or {},
        force=options.get("force", False),
        reloads_changed=options.get("allowOverwrites", False),
        merges_schema=options.get("mergeSchema", False),
        validates="validates" in parts,
        validates_all="validates_all" in parts,
        **({} if parts["most_rows"] is None else {"most_rows": parts["most_rows"]}),
        rejects=parts["rejects"],
    )
