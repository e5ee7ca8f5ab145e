"""The translation of a query's tokens for sqlglot, and the tree that sqlglot makes of them.

sqlglot finds names, stars and conditions, and must never refuse a query that Spark parses. It gets the tokens of
Spark's lexer, some of them in another spelling with the same meaning. If a word is a keyword for sqlglot and a name for
Spark, sqlglot gets the word as a name.
"""

from __future__ import annotations

import logging
import math
import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence

from sqlglot import Token as SqlglotToken
from sqlglot import TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError

from airflow_hivex.core.parser.lexer.advice import meant
from airflow_hivex.core.parser.lexer.literals import unquote
from airflow_hivex.core.parser.lexer.tokens import Kind, Token, name_of, syntax_error, unsupported_error
from airflow_hivex.core.parser.queries.functions import QueryParser
from airflow_hivex.core.parser.queries.scopes import Links

# sqlglot logs a warning if it reads a text differently from its dialect. Such a statement is refused, or judged by
# Spark, so the warning helps no user.
logging.getLogger("sqlglot").setLevel(logging.ERROR)

_STRUCTURE = frozenset(
    """
SELECT FROM WHERE GROUP HAVING ORDER SORT CLUSTER DISTRIBUTE LIMIT OFFSET UNION EXCEPT INTERSECT MINUS JOIN ON
USING LEFT RIGHT FULL INNER CROSS NATURAL SEMI ANTI LATERAL WITH TABLE VALUES INSERT AS AND OR NOT IN EXISTS
CASE WHEN THEN ELSE INTO QUALIFY
""".split()  # noqa: SIM905
)
"""Words of a query's structure, which are never read as names, so that no table is overlooked."""
_MEANT = (
    "FROM",
    "WHERE",
    "GROUP",
    "HAVING",
    "ORDER",
    "LIMIT",
    "UNION",
    "JOIN",
    "INNER",
    "LEFT",
    "RIGHT",
    "CROSS",
    "USING",
)
"""Words between the parts of a query, to suggest for a mistyped word."""
_AFTER_LATERAL_VIEW = _STRUCTURE | {"PIVOT", "UNPIVOT", "WINDOW", "MAP", "REDUCE"}
"""Words that cannot name a column when they follow the alias of a LATERAL VIEW."""
_MOST_NAMES = 20
_SYMBOLS = {">>>": ">>", "!>": "<=", "!<": ">="}
_MISSING_PART = re.compile(r"Required keyword: '\w+' missing for <class '(?:\w+\.)*(\w+)'>\.?")
_NOT_SUPPORTED: Mapping[tuple[str, ...], str] = {
    ("EXACT", "NEAREST"): "joins with the NEAREST rows are not supported",
    ("APPROX", "NEAREST"): "joins with the NEAREST rows are not supported",
    ("ON", "CONFLICT"): "INSERT has no ON CONFLICT; MERGE INTO ... USING ... ON ... updates or inserts rows",
    ("SELECT", "TOP"): "SELECT has no TOP; LIMIT stands behind the query",
    ("WATERMARK",): "WATERMARK is for streams; a query of this warehouse does not support it",
}
"""A dict from words that sqlglot does not know to the error message for a query with these words."""
_EXPECTED = re.compile(r"Expecting (\S+)")
_UNEXPECTED = "Invalid expression / Unexpected token"
_FOREIGN_MARKER = re.compile(r"%\((\w+)\)s\b")
_TOKEN_IN_MESSAGE = re.compile(r"<Token token_type: \S+ text: (.*?), line: .*?>", re.DOTALL)
_NO_PART_OF_A_QUERY = (exp.DDL, exp.DML, exp.Command, exp.Into, exp.QueryTransform, exp.Lock)
_INSTEAD: dict[type[exp.Expr], str] = {
    exp.Into: "CREATE TABLE ... AS SELECT keeps its rows in a table; leave INTO out",
    exp.Lock: "it locks no rows; of transactions that change the same partition only the first one commits",
    exp.QueryTransform: "TRANSFORM would run a program; a permanent function of a class computes values in code",
}


def refuse_foreign_parts(text: str, first: Token, tree: exp.Expr) -> None:
    """Refuse a query that would write, lock rows or run a program. ``first`` is its first token.

    Raises:
        UnsupportedStatementError: the query has such a part.
    """
    foreign = tree.find(*_NO_PART_OF_A_QUERY)
    if foreign is not None:
        advice = _INSTEAD.get(type(foreign), f"{foreign.key.upper()} is not a part of one in this release")
        raise unsupported_error(text, first.start, f"a query reads only; {advice}")


def parse(text: str, tokens: Sequence[Token], links: Links, table_statements: Collection[int]) -> exp.Expr:
    """Return the tree of a query, with positions in ``text``.

    ``links`` are the names ``T@Y``. ``table_statements`` are the indexes of the words TABLE that mean SELECT * FROM.

    Raises:
        StatementSyntaxError: sqlglot cannot read the query.
    """
    names: frozenset[int] = frozenset()
    found = first = _attempt(text, tokens, links, table_statements, names)
    while isinstance(found, _ParseFailure):
        others = [names | {index} for index in _mistaken(tokens, found.offset, names)]
        attempts = [(_attempt(text, tokens, links, table_statements, other), other) for other in others]
        if not attempts or len(names) == _MOST_NAMES:
            assert isinstance(first, _ParseFailure)
            raise first.readable(text, tokens) from first.cause
        found, names = max(attempts, key=lambda attempt: _progress(attempt[0]))
    return found


def _attempt(
    text: str, tokens: Sequence[Token], links: Links, table_statements: Collection[int], names: Collection[int]
) -> exp.Expr | _ParseFailure:
    """Return the query's tree, or the failure with its place. The tokens at the indexes ``names`` are read as names."""
    translated = list(_Translation(text, tokens, links, table_statements, names).tokens())
    try:
        return _tree(text, translated, tokens)
    except _ParseFailure as failure:
        return failure


def _progress(attempt: exp.Expr | _ParseFailure) -> float:
    return attempt.offset if isinstance(attempt, _ParseFailure) else math.inf


class _ParseFailure(Exception):  # noqa: N818 - it never leaves this module
    def __init__(self, offset: int, reason: str, cause: Exception) -> None:
        super().__init__(reason)
        self.offset, self.reason, self.cause = offset, reason, cause

    def readable(self, text: str, tokens: Sequence[Token]) -> Exception:
        index = _at(tokens, self.offset)
        for start in range(max(index - 2, 0), index + 2):
            for words, reason in _NOT_SUPPORTED.items():
                if tuple(token.word for token in tokens[start : start + len(words)]) == words:
                    return unsupported_error(text, tokens[start].start, reason)
        for token in tokens[max(index - 4, 0) : index + 1]:
            if token.is_symbol("%") and (marker := _FOREIGN_MARKER.match(text, token.start)):
                return syntax_error(
                    text, token.start, f"{marker[0]} is a marker of other drivers; write :{marker[1]} in its place"
                )
        reason = _sentence(self.reason, tokens[index] if 0 <= index < len(tokens) else None)
        around = [tokens[each] for each in (index, index - 1) if 0 <= each < len(tokens)]
        hint = next(filter(None, (meant(token.text, _MEANT) for token in around if token.word not in _STRUCTURE)), "")
        if not hint and not _EXPECTED.fullmatch(self.reason) and any(map(_is_keyword, around)):
            hint = "; a name that is a keyword, too, is written in backquotes"
        return syntax_error(text, max(self.offset, tokens[0].start), f"{reason}{hint}")


def _tree(text: str, found: list[SqlglotToken], tokens: Sequence[Token]) -> exp.Expr:
    # The parser quotes the text before its error; quoting all of it shows where the error is.
    parser = QueryParser(error_level=ErrorLevel.IMMEDIATE, error_message_context=len(text) + 1, dialect=Spark())
    try:
        trees = parser.parse(found, text)
    except ParseError as error:
        problem = error.errors[0] if error.errors else {}
        reason = _readable(str(problem.get("description") or "the query cannot be read"))
        raise _ParseFailure(len(str(problem.get("start_context") or "")), reason, error) from error
    except SqlglotError as error:
        raise syntax_error(text, tokens[0].start, "the query cannot be read") from error
    tree = trees[0] if len(trees) == 1 else None
    if not isinstance(tree, (exp.Select, exp.SetOperation, exp.Subquery, exp.Values)):
        raise syntax_error(text, tokens[0].start, f"{tokens[0].text} does not begin a query that can be read")
    return tree


def _at(tokens: Sequence[Token], offset: int) -> int:
    # Tokens of the pipe syntax are not in the order of the text.
    places = [(token.start, index) for index, token in enumerate(tokens) if token.start <= offset]
    return max(places)[1] if places else -1


def _mistaken(tokens: Sequence[Token], offset: int, names: Collection[int]) -> list[int]:
    """Return the indexes of the words that can be names, at the place of an error and just before this place."""
    index = _at(tokens, offset)
    around = [each for each in (index, index - 1) if 0 <= each < len(tokens) and each not in names]
    return [each for each in around if _is_keyword(tokens[each]) and tokens[each].word not in _STRUCTURE]


def _is_keyword(token: Token) -> bool:
    return token.kind is Kind.WORD and [each.token_type for each in Spark().tokenize(token.text)] != [TokenType.VAR]


def _readable(description: str) -> str:
    """Return the parser's message without names of Python classes."""
    missing = _MISSING_PART.fullmatch(description)
    if missing is not None:
        return f"{missing.group(1).upper()} is not complete"
    reason = _TOKEN_IN_MESSAGE.sub(r"\1", description)
    return reason.replace("but got SENTINEL", "but the statement ends here").rstrip(".")


def _sentence(reason: str, found: Token | None) -> str:
    """Return the parser's reason in the wording of the other errors, with the token at the place of the error."""
    if found is None:
        return reason
    if reason == _UNEXPECTED:
        return f"{found.text} is not expected here"
    reason = reason.replace("Expected table name but got", "expected a table, found")
    expected = _EXPECTED.fullmatch(reason)
    return reason if expected is None else f"expected '{expected[1]}', found {found.text}"


class _Translation:
    """The translation of a query's tokens to a text for sqlglot's tokenizer.

    The tokens that sqlglot makes of this text get places in the user's text.
    """

    def __init__(
        self,
        text: str,
        tokens: Sequence[Token],
        links: Links,
        table_statements: Collection[int],
        names: Collection[int],
    ) -> None:
        self._text = text
        self._tokens = tokens
        self._links = links
        self._table_statements = table_statements
        self._names = names
        self._left_out = _recursion_levels(tokens)
        self._lateral_aliases = _lateral_aliases(tokens)

    def tokens(self) -> Iterator[SqlglotToken]:
        pieces, starts, length = [], [], 0
        for piece, index, end in self._pieces():
            starts.append((length, index, end))
            pieces.append(piece)
            length += len(piece) + 1
        try:
            found = Spark().tokenize(" ".join(pieces))
        except SqlglotError as error:
            reason = "the statement cannot be split into words"
            raise syntax_error(self._text, self._tokens[0].start, reason) from error
        for token in found:
            first = bisect_right(starts, token.start, key=lambda each: each[0]) - 1
            last = bisect_right(starts, token.end, key=lambda each: each[0]) - 1
            yield from self._placed(token, starts[first][1], starts[last][2])

    def _pieces(self) -> Iterator[tuple[str, int, int]]:
        """Yield, for each token, its text for sqlglot, its index, and the place of its end in the user's text."""
        taken = 0
        for index, token in enumerate(self._tokens):
            if index < taken or index in self._left_out:
                continue
            end = token.end
            if token.start in self._links and token.kind in (Kind.WORD, Kind.QUOTED) and token.end > token.start:
                end = self._links[token.start][0]
                # The table, @ and the namespace.
                taken = index + 3
                yield "link", index, end
            elif token.is_symbol("@"):
                reason = "@ stands between a table and the namespace of its link only"
                raise syntax_error(self._text, token.start, reason)
            elif self._is_hexadecimal(index):
                end = self._tokens[index + 1].end
                taken = index + 2
                yield "''", index, end
            else:
                piece = self._piece(index, token)
                yield f"{piece} AS" if index in self._lateral_aliases else piece, index, end

    def _piece(self, index: int, token: Token) -> str:
        if token.kind is Kind.STRING:
            return "''"
        if token.kind is Kind.QUOTED or index in self._names or self._calls_keyword(index) or token.text[0].isdigit():
            return "name" if token.kind is not Kind.NUMBER else _number(token.text)
        return _SYMBOLS.get(token.text, token.text)

    def _placed(self, token: SqlglotToken, index: int, end: int) -> Iterator[SqlglotToken]:
        """Yield sqlglot's token with its place in the user's text, or several tokens that replace it."""
        own = self._tokens[index]

        def at_own(kind: TokenType, text: str) -> SqlglotToken:
            return SqlglotToken(kind, text, token.line, token.col, own.start, end - 1, comments=[])

        if own.start in self._links and own.end > own.start:
            # Each link gets a separate name.
            _, table, namespace = self._links[own.start]
            yield at_own(TokenType.VAR, f"{table}@{namespace}")
        elif index in self._lateral_aliases and token.token_type is TokenType.ALIAS:
            yield at_own(TokenType.ALIAS, "AS")
        elif self._is_hexadecimal(index):
            yield at_own(TokenType.HEX_STRING, unquote(self._tokens[index + 1]))
        elif own.kind is Kind.STRING:
            yield at_own(TokenType.STRING, unquote(own))
        elif own.kind is Kind.QUOTED:
            yield at_own(TokenType.IDENTIFIER, name_of(own))
        elif own.kind is Kind.WORD and token.text == "name":
            yield at_own(TokenType.VAR, own.text)
        elif index in self._table_statements or (own.word == "VALUES" and self._follows_with(index)):
            for kind, word in ((TokenType.SELECT, "SELECT"), (TokenType.STAR, "*"), (TokenType.FROM, "FROM")):
                yield at_own(kind, word)
            if own.word == "VALUES":
                yield at_own(token.token_type, token.text)
        else:
            yield at_own(token.token_type, token.text)

    def _is_hexadecimal(self, index: int) -> bool:
        """Return whether X and a string begin at an index, with or without blanks between them."""
        following = self._tokens[index + 1] if index + 1 < len(self._tokens) else None
        return self._tokens[index].word == "X" and following is not None and following.kind is Kind.STRING

    def _calls_keyword(self, index: int) -> bool:
        """Return whether a call of the function WINDOW is at an index. For sqlglot this word only begins a clause."""
        return (
            self._tokens[index].word == "WINDOW"
            and index + 1 < len(self._tokens)
            and self._tokens[index + 1].is_symbol("(")
        )

    def _follows_with(self, index: int) -> bool:
        """Return whether VALUES is the query after WITH. sqlglot accepts WITH only before SELECT."""
        before = index - 1
        while before >= 0 and self._tokens[before].is_symbol("("):
            before -= 1
        return before >= 0 and self._tokens[before].is_symbol(")")


def _number(text: str) -> str:
    """Return a number in the form that sqlglot knows, with a digit before its point."""
    return f"0{text}" if text.startswith(".") else text


def _recursion_levels(tokens: Sequence[Token]) -> set[int]:
    """Return the indexes of the tokens ``MAX RECURSION LEVEL n`` in WITH RECURSIVE, which sqlglot does not know."""
    words = [token.word for token in tokens]
    if "RECURSION" not in words:
        return set()
    return {
        index + ahead
        for index in range(len(words) - 4)
        if words[index : index + 3] == ["MAX", "RECURSION", "LEVEL"] and words[index + 4] == "AS"
        for ahead in range(4)
    }


def _lateral_aliases(tokens: Sequence[Token]) -> set[int]:
    """Return the index of each LATERAL VIEW's alias after which columns follow without AS. sqlglot needs the AS."""
    found = set()
    for index in range(1, len(tokens)):
        if tokens[index].word != "VIEW" or tokens[index - 1].word != "LATERAL":
            continue
        depth, end = 0, index + 1
        while end < len(tokens) and not (depth == 1 and tokens[end].is_symbol(")")):
            depth += tokens[end].is_symbol("(") - tokens[end].is_symbol(")")
            end += 1
        if end + 2 >= len(tokens) or tokens[end + 1].word == "AS":
            continue
        column = tokens[end + 2]
        if column.kind is Kind.QUOTED or column.word not in {"", *_AFTER_LATERAL_VIEW}:
            found.add(end + 1)
    return found
