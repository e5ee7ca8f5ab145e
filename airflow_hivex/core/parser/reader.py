"""The reader of statements: it turns the user's text into objects of ``parser.statements``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import NamedTuple

from airflow_hivex.core.errors import (
    InvalidParametersError,
    InvalidTextError,
    StatementSyntaxError,
    UnsupportedStatementError,
)
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.texts import check_text
from airflow_hivex.core.parser.grammar import syntax
from airflow_hivex.core.parser.grammar.clauses import read_static_partition, unsupported_statement
from airflow_hivex.core.parser.grammar.multi_inserts import at_multi_insert, read_multi_insert
from airflow_hivex.core.parser.grammar.syntax import NoFormError
from airflow_hivex.core.parser.lexer.advice import STATEMENT_WORDS, instead, instead_of_change, meant
from airflow_hivex.core.parser.lexer.markers import Markers
from airflow_hivex.core.parser.lexer.substitution import with_names
from airflow_hivex.core.parser.lexer.tokens import Cursor, Kind, Token, syntax_error, tokenize, unsupported_error
from airflow_hivex.core.parser.queries.reader import at_query, read_query
from airflow_hivex.core.parser.statements import (
    CHAPTERS,
    AddLinkPartitions,
    ChangeRows,
    CreateLink,
    CreateTable,
    DescribeQuery,
    DropLink,
    DropLinkPartitions,
    DropTable,
    DropView,
    ExplainChanges,
    ExplainMode,
    ExplainMultiInsert,
    ExplainQuery,
    ExplainRoute,
    Insert,
    InsertDirectory,
    Literal,
    MultiInsert,
    RoutedStatement,
    Select,
    SetLinkProperties,
    ShowCompactions,
    ShowLocks,
    Span,
    Statement,
    TableName,
    UseDatabase,
    statements_of,
)
from airflow_hivex.core.parser.statements.base import described_outputs

_OF_OTHER_RELEASES = """
ADD CACHE CALL CLEAR COMPACT CONVERT DFS END EXPORT FETCH FSCK GENERATE GRANT
IMPORT KILL LIST LOCK MAP PREPARE REDUCE RELOAD RENAME REORG REPL
REVOKE SOURCE UNCACHE UNDROP UNLOCK UPSERT
""".split()  # noqa: SIM905

_OTHER_FIRST_WORDS = ("SELECT", "WITH", "FROM", "VALUES", "EXPLAIN")
_STAND_IN = Literal(1, "int")
"""The placeholder for the value of a marker in a statement that is read and not run."""

# A link has neither locks nor compactions of its own.
_ABOUT_TABLES = (ShowLocks, ShowCompactions)
_ABOUT_LINKS = (CreateLink, DropLink, AddLinkPartitions, DropLinkPartitions, SetLinkProperties)
# The errors of these statements name the statement that drops a link.
_ABOUT_BOTH = (DropTable, DropView)


def split(text: str) -> list[str]:
    """Return the text of each statement of a script, without the semicolons between the statements.

    Semicolons in strings, quoted names and comments do not separate statements.

    Raises:
        StatementSyntaxError: a string, name or comment does not end.
    """
    return [text[span.start : span.end] for span in spans(text)]


def spans(text: str) -> list[Span]:
    """Return the places of the statements that :func:`split` returns.

    Raises:
        StatementSyntaxError: a string, name or comment does not end.
    """
    # Variables are replaced by their values when each statement runs.
    return [Span(tokens[0].start, tokens[-1].end) for tokens in _statements(_checked(text), with_variables=True)]


def read(text: str, parameters: Mapping[str, object] | None = None, *, database: str | None = None) -> Statement:
    """Return the only statement in ``text``, with positions in ``text``. A semicolon can follow the statement.

    ``parameters`` are the values of the ``:name`` markers. ``database`` is the current database, which is needed to
    recognise ``database.table.column`` if FROM names only ``table``.

    Raises:
        StatementSyntaxError: the text is not one statement that can be read.
        UnsupportedStatementError: a statement is SQL that this release does not run.
        InvalidParametersError: ``text`` is not a text, or markers and parameters do not fit each other.
    """
    text, named = with_names(_checked(text), parameters)
    tokens = tokenize(text)
    end = next((index for index, token in enumerate(tokens) if token.is_symbol(";")), len(tokens))
    second = next((token for token in tokens[end:] if not token.is_symbol(";")), None)
    if end == 0:
        raise syntax_error(text, tokens[0].start if tokens else 0, "there is no statement here")
    markers = Markers(parameters)
    markers.use(sorted(named))
    cursor = Cursor(text, tokens[:end], markers, None if database is None else normalise(database))
    statement = _whole_statement(cursor)
    if second is not None:
        raise syntax_error(text, second.start, "a second statement begins here; run one at a time")
    _refuse_links(cursor, statement)
    markers.check()
    return statement


class ReadStatement(NamedTuple):
    """A statement of a script, its place in the script, the names of its markers, and the current database for it."""

    statement: Statement
    span: Span
    markers: tuple[str, ...]
    database: str | None


def read_all(text: str, *, database: str | None = None) -> Iterator[ReadStatement]:
    """Yield each statement of a script. Markers need no values.

    ``database`` is the current database before the first statement. A link is accepted wherever a table can stand, also
    where :func:`read` refuses links.

    Raises:
        StatementSyntaxError: a statement cannot be read. The position counts in ``text``.
        UnsupportedStatementError: a statement is SQL that this release does not run.
        InvalidParametersError: ``text`` is not a text.
    """
    database = None if database is None else normalise(database)
    text, _ = with_names(_checked(text), None)
    for tokens in _statements(text):
        markers = Markers(None, stand_in=_STAND_IN)
        cursor = Cursor(text, tokens, markers, database)
        statement = _whole_statement(cursor)
        yield ReadStatement(statement, Span(tokens[0].start, tokens[-1].end), markers.names, database)
        if isinstance(statement, UseDatabase):
            database = str(statement.name)


def _statements(text: str, *, with_variables: bool = False) -> Iterator[list[Token]]:
    """Yield the tokens of each statement of a script, without the semicolons between the statements."""
    found = tokenize(text, with_variables=with_variables)
    for is_end, tokens in groupby(found, key=lambda token: token.is_symbol(";")):
        if not is_end:
            yield list(tokens)


def _whole_statement(cursor: Cursor) -> Statement:
    try:
        statement = _statement(cursor)
    except RecursionError as error:
        start = cursor.tokens[0].start
        raise syntax_error(cursor.text, start, "the statement is nested too deeply to be read") from error
    if not cursor.at_end:
        raise cursor.expected("the end of the statement")
    return statement


def _refuse_links(cursor: Cursor, statement: Statement) -> None:
    """Refuse a statement that would change a link, because links are read-only (HIVE-2989).

    DROP TABLE and DROP VIEW are accepted, because they refuse a link when they run.

    Raises:
        UnsupportedStatementError: the statement changes a link, or shows the locks or compactions of a link.
    """
    if isinstance(statement, ExplainRoute):
        statement = statement.statement
    if isinstance(statement, (*_ABOUT_LINKS, *_ABOUT_BOTH)):
        return
    for use in statement.uses:
        if use.namespace is not None and (use.role.is_output or isinstance(statement, _ABOUT_TABLES)):
            link = TableName(use.name or "", use.database, use.namespace)
            reason = f"{statement.kind} does not take a link such as {link}; links are read only"
            raise unsupported_error(cursor.text, use.start or 0, reason)


def _checked(text: str, what: str = "A statement") -> str:
    """Return the text of a statement, after a check that Spark and the metastore can store its characters.

    Raises:
        InvalidParametersError: ``text`` is not a text.
        StatementSyntaxError: the text has a NUL character or half of a surrogate pair.
    """
    if not isinstance(text, str):
        raise InvalidParametersError(f"{what} is a text, not a {type(text).__name__}.")
    try:
        return check_text("The statement", text)
    except InvalidTextError as error:
        before = text[: error.position]
        # The message has no line of the text, which cannot be printed.
        raise StatementSyntaxError(
            str(error).rstrip("."), before.count("\n") + 1, error.position - before.rfind("\n")
        ) from error


def read_table_name(text: str) -> TableName:
    """Return the name of a table from a text that has only ``table`` or ``database.table``.

    Raises:
        StatementSyntaxError: the text is not a name.
        UnsupportedStatementError: the name has more than two parts.
    """
    cursor = Cursor(text, tokenize(_checked(text, "The name of a table")), Markers(None))
    name = cursor.table_name()
    if not cursor.at_end:
        raise cursor.expected("the end of the name")
    return name


def _statement(cursor: Cursor) -> Statement:
    if at_multi_insert(cursor):
        return read_multi_insert(cursor)
    if at_query(cursor):
        return Select(read_query(cursor))
    first = cursor.next("a statement")
    found = _by_hand(cursor, first)
    if found is not None:
        return found
    cursor.index = cursor.tokens.index(first)
    kinds = _by_first_word().get(first.word)
    if kinds is None:
        raise _no_statement(cursor, first)
    try:
        return syntax.read(cursor, kinds)
    except NoFormError as error:
        raise _refusal(cursor, first, error) from None


def _by_hand(cursor: Cursor, first: Token) -> Statement | None:
    """Return the statement if it is EXPLAIN, or DESCRIBE of a query. Return None for any other statement.

    The cursor is after the first word of the statement.
    """
    match first.word:
        case "DESCRIBE" | "DESC":
            return _describe(cursor)
        case "EXPLAIN":
            return _explain(cursor, first)
    return None


@cache
def _by_first_word() -> Mapping[str, Sequence[type[Statement]]]:
    """Return a dict from a first word to the classes whose SYNTAX begins with this word, in the order of CHAPTERS.

    The reader tries the classes in this order, so ``DESCRIBE FUNCTION f`` is not read as DESCRIBE of a table
    ``FUNCTION``.
    """
    found: dict[str, dict[type[Statement], None]] = {}
    for chapter in CHAPTERS:
        for kind in statements_of(chapter):
            for word in syntax.first_words(kind):
                found.setdefault(word, {})[kind] = None
    return {word: tuple(kinds) for word, kinds in found.items()}


def _no_statement(cursor: Cursor, first: Token) -> StatementSyntaxError | UnsupportedStatementError:
    if first.word in _OF_OTHER_RELEASES:
        return unsupported_statement(cursor, first)
    words = (*_OTHER_FIRST_WORDS, *_by_first_word())
    return cursor.error(f"{first.text} does not begin a statement{meant(first.text, words)}", first)


def _describe(cursor: Cursor) -> Statement | None:
    """Return the statement DESCRIBE of a query, or None for any other form of DESCRIBE.

    The cursor is after the word DESCRIBE.
    """
    is_from = cursor.at("FROM") and any(token.word == "SELECT" for token in cursor.tokens)
    if cursor.peek(1) is None:
        return None
    if is_from or cursor.at("SELECT") or cursor.at("WITH") or cursor.at("VALUES"):
        return DescribeQuery(read_query(cursor))
    if cursor.at("DETAIL") and cursor.at_kind(Kind.WORD, Kind.QUOTED, ahead=1):
        raise cursor.unsupported(
            "DESCRIBE DETAIL is not a statement of this release; DESCRIBE FORMATTED and DESCRIBE HISTORY have its "
            f"facts. For a table of that name write DESCRIBE `{cursor.next('a name').text}`",
            cursor.tokens[cursor.index - 1],
        )
    if not cursor.at("QUERY") or not (
        cursor.at_kind(Kind.WORD, Kind.QUOTED, ahead=1) or cursor.at_symbol("(", ahead=1)
    ):
        return None
    cursor.expect("QUERY")
    if not at_query(cursor):
        raise cursor.expected("a query")
    return DescribeQuery(read_query(cursor))


def _refusal(cursor: Cursor, first: Token, error: NoFormError) -> StatementSyntaxError | UnsupportedStatementError:
    """Return the error for a text that fits no form: a statement of another system, or a text with a wrong word."""
    cursor.index = start = cursor.tokens.index(first)
    # A value, or the end, can stand there, too, so the words before it begin a known statement.
    if error.reason is not None or not all(map(str.isupper, error.expected)):
        return error.refusal(cursor)
    if cursor.accept("ALTER", "TABLE"):
        return _refused_change(cursor, first, error)
    beginning = " ".join(token.word for token in cursor.tokens[start : error.index + 1])
    if instead(beginning):
        return unsupported_statement(cursor, first, error.expected)
    is_only = len(_by_first_word()[first.word]) <= _FEW
    if is_only and (error.index == start + 1 or len(error.expected) <= _FEW):
        return error.refusal(cursor)
    is_statement = error.index > start + 1 or len(error.expected) <= _FEW
    token = cursor.tokens[error.index] if error.index < len(cursor.tokens) else None
    if is_statement and (token is None or error.index > start + _FEW or token.word not in STATEMENT_WORDS):
        return error.refusal(cursor)
    return unsupported_statement(cursor, first, error.expected)


_FEW = 2


def _refused_change(
    cursor: Cursor, first: Token, error: NoFormError
) -> StatementSyntaxError | UnsupportedStatementError:
    """Return the error for an ALTER TABLE that fits no form. The cursor is at the name of the table."""
    cursor.table_name()
    in_partition = cursor.at("PARTITION") and cursor.at_symbol("(", ahead=1) and cursor.accept("PARTITION")
    if in_partition:
        read_static_partition(cursor)
    operation, following = cursor.peek(), cursor.peek(1)
    if error.index > cursor.index + 1 or operation is None or not operation.word:
        return error.refusal(cursor)
    words = f"{operation.word} {following.word if following is not None else ''}".strip()
    advice = (instead_of_change(f"PARTITION {words}") if in_partition else "") or instead_of_change(words)
    shown = f"PARTITION ... {operation.word}" if in_partition else words
    return cursor.unsupported(f"ALTER TABLE ... {shown} is not a statement of this release{advice}", first)


_PLANS = tuple(mode.upper() for mode in ExplainMode if mode is not ExplainMode.SIMPLE)
# Forms of Hive and Spark that show objects which the warehouse does not have.
_OTHER_PLANS = """
ANALYZE AST AUTHORIZATION CBO DDL DEBUG DEPENDENCY JOINCOST LOCKS LOGICAL OPERATOR REOPTIMIZATION VECTORIZATION
""".split()  # noqa: SIM905


def _has_defaults(statement: Statement) -> bool:
    return isinstance(statement, Insert) and bool(statement.defaults)


def _explain_query(cursor: Cursor, first: Token) -> ExplainQuery | ExplainChanges | ExplainMultiInsert:
    following = cursor.peek()
    if following is not None and following.word in _OTHER_PLANS and cursor.peek(1) is not None:
        reason = f"EXPLAIN {following.word} is not a statement of this release; EXPLAIN FORMATTED shows Spark's plan"
        raise cursor.unsupported(reason, first)
    mode = ExplainMode((cursor.accept_one(*_PLANS) or ExplainMode.SIMPLE).lower())
    inner = cursor.peek()
    if at_query(cursor) and not at_multi_insert(cursor):
        return ExplainQuery(read_query(cursor), mode)
    statement = _statement(cursor)
    if isinstance(statement, ChangeRows):
        return ExplainChanges(statement, mode)
    if isinstance(statement, MultiInsert):
        return ExplainMultiInsert(statement, mode)
    if (
        isinstance(statement, Insert | InsertDirectory | CreateTable)
        and len(statement.queries) == 1
        and not _has_defaults(statement)
    ):
        return ExplainQuery(statement.queries[0], mode, described_outputs(statement.uses))
    advice = "; EXPLAIN ROUTE shows where it runs" if isinstance(statement, RoutedStatement) else ""
    raise cursor.unsupported(f"EXPLAIN shows the plan of a query, and not of {statement.kind}{advice}", inner)


def _explain(cursor: Cursor, first: Token) -> ExplainRoute | ExplainQuery | ExplainChanges | ExplainMultiInsert:
    if not cursor.accept("ROUTE"):
        return _explain_query(cursor, first)
    inner = cursor.peek()
    statement = _statement(cursor)
    if isinstance(statement, RoutedStatement) and statement.queries:
        return ExplainRoute(statement)
    raise cursor.unsupported(
        "EXPLAIN ROUTE takes a query, INSERT, UPDATE, DELETE, MERGE or CREATE TABLE ... AS; all else has no route",
        inner,
    )
