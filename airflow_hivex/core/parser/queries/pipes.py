"""The pipe syntax (``FROM t |> WHERE a > 1 |> SELECT b``): its tokens in the order of a nested SELECT, for sqlglot.

Spark reads the user's text unchanged; sqlglot only finds the tables and columns in it. For sqlglot each operator
becomes a SELECT, and the query before the operator becomes a sub-query in the FROM of this SELECT.

After a UNION, a pipe applies to the result of the whole UNION. Source: Spark's SqlBaseParser grammar,
operatorPipeRightSide.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_hivex.core.parser.lexer.tokens import Kind, Token, syntax_error

_JOINS = ("JOIN", "INNER", "CROSS", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "NATURAL", "LATERAL", "OUTER")
_SETS = ("UNION", "EXCEPT", "INTERSECT", "MINUS")
_BEHIND_FROM = ("PIVOT", "UNPIVOT", "TABLESAMPLE")
_ORDERS = ("ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "WINDOW")
_GROUPINGS = ("GROUPING", "WITH")
_QUERY_WORDS = ("SELECT", "FROM", "TABLE", "VALUES")


def has_pipes(tokens: Sequence[Token]) -> bool:
    """Return whether a query has the pipe syntax anywhere."""
    return any(token.is_symbol("|>") for token in tokens)


def without_pipes(text: str, tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens of a query, with nested SELECTs in place of its pipes.

    Raises:
        StatementSyntaxError: a word is not an operator of the pipe syntax, or an operator or its operand is missing.
    """
    inner: list[Token] = []
    open_at: list[int] = []
    for token in tokens:
        inner.append(token)
        if token.is_symbol("("):
            open_at.append(len(inner))
        elif token.is_symbol(")") and open_at:
            start = open_at.pop()
            inner[start:-1] = _piped(text, inner[start:-1])
    return _piped(text, inner)


def _piped(text: str, tokens: list[Token]) -> list[Token]:
    """Return the tokens between two parentheses, with nested SELECTs in place of the pipes.

    The caller must replace the pipes in inner parentheses first.
    """
    parts = _split(tokens, "|>")
    if len(parts) == 1:
        return tokens
    first = parts[0][1]
    start = _behind_with(first)
    query = _Query(first[start:])
    for pipe, operation in parts[1:]:
        assert pipe is not None
        if not first[start:] or not operation:
            raise syntax_error(text, pipe.start, "an operator of the pipe syntax stands between two |>")
        query.apply(text, pipe, operation)
    return [*first[:start], *query.tokens]


def _split(tokens: Sequence[Token], symbol: str) -> list[tuple[Token | None, list[Token]]]:
    """Split the tokens at each ``symbol`` outside of parentheses, and return each part with the symbol before it."""
    found: list[tuple[Token | None, list[Token]]] = [(None, [])]
    depth = 0
    for token in tokens:
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth == 0 and token.is_symbol(symbol):
            found.append((token, []))
        else:
            found[-1][1].append(token)
    return found


def _behind_with(tokens: Sequence[Token]) -> int:
    """Return the index of the query after the WITH clause, or 0 if there is no WITH clause."""
    if not tokens or tokens[0].word != "WITH":
        return 0
    depth = 0
    for index, token in enumerate(tokens):
        depth += token.is_symbol("(") - token.is_symbol(")")
        before = tokens[index - 1]
        begins = token.word in _QUERY_WORDS or token.is_symbol("(")
        if index and before.is_symbol(")") and begins and depth == token.is_symbol("("):
            return index
    return 0


class _Query:
    """A query while its pipes are read: its SELECT list, and FROM with the clauses after it.

    ``is_open`` is true while a join can follow the sources after FROM. ``is_plain`` is true while the query selects all
    columns.
    """

    def __init__(self, tokens: list[Token]) -> None:
        self._at = tokens[0].start if tokens else 0
        self._list: list[Token] = self._words("*")
        self._rest = tokens
        self._is_plain = self._is_open = bool(tokens) and tokens[0].word in ("FROM", "TABLE")
        if not self._is_plain:
            self._rest = self._words("FROM", "(") + tokens + self._words(")")
            self._is_plain = self._is_open = True
        elif tokens[0].word == "TABLE":
            self._rest = [*self._words("FROM"), *tokens[1:]]

    @property
    def tokens(self) -> list[Token]:
        """Return the tokens of the query."""
        return [*self._words("SELECT"), *self._list, *self._rest]

    def apply(self, text: str, pipe: Token, operation: list[Token]) -> None:
        """Add a pipe operator with its operands to the query."""
        word, operands = operation[0].word, operation[1:]
        self._at = pipe.start
        if word == "WHERE":
            self._behind(operation, needs_open=True, stays_open=False)
        elif word in _JOINS:
            self._behind(operation, needs_open=True, stays_open=True)
        elif word == "SELECT":
            self._select(_list_and_clauses(operands))
        elif word == "EXTEND":
            self._select(([*self._words("*", ","), *operands], []))
        elif word == "SET":
            self._select(([*self._words("*", ","), *_values(text, operands)], []))
        elif word == "AGGREGATE":
            self._aggregate(operands)
        elif word == "AS":
            self._nest()
            self._rest += operation
        elif word == "DROP":
            self._nest()
        elif word in _SETS:
            self._rest = [*self._words("FROM", "("), *self.tokens, *self._words(")")]
            self._list = self._words("*")
            self._rest += operation
            self._is_open = self._is_plain = False
        elif word in _BEHIND_FROM or word in _ORDERS:
            self._nest()
            self._rest += operation
            self._is_open = self._is_plain = False
        else:
            raise syntax_error(text, operation[0].start, f"{operation[0].text} is not an operator of the pipe syntax")

    def _nest(self) -> None:
        """Turn the query into a sub-query of an outer query."""
        self._rest = [*self._words("FROM", "("), *self.tokens, *self._words(")")]
        self._list = self._words("*")
        self._is_open = self._is_plain = True

    def _behind(self, tokens: list[Token], *, needs_open: bool, stays_open: bool) -> None:
        if not self._is_plain or (needs_open and not self._is_open):
            self._nest()
        self._rest = [*self._rest, *tokens]
        self._is_open = stays_open

    def _select(self, given: tuple[list[Token], list[Token]]) -> None:
        if not self._is_plain:
            self._nest()
        self._list, clauses = given
        self._rest = [*self._rest, *clauses]
        self._is_open = self._is_plain = False

    def _aggregate(self, operands: list[Token]) -> None:
        """Replace AGGREGATE by a SELECT of its aggregates and keys.

        GROUP BY is left out, unless it has grouping sets.
        """
        places = (index for index in range(len(operands)) if _is_group(operands, index))
        group = next((index for index in places if not _depth(operands[:index])), None)
        aggregates = operands if group is None else operands[:group]
        keys = [] if group is None else operands[group + 2 :]
        if any(each.word in _GROUPINGS for each in keys):
            self._select((aggregates or self._words("1"), operands[group:]))
            return
        comma = self._words(",") if aggregates and keys else []
        self._select(([*aggregates, *comma, *keys] or self._words("1"), []))

    def _words(self, *words: str) -> list[Token]:
        """Return tokens for generated words, at the place of the operator."""
        kinds = (Kind.WORD if each.isalpha() else Kind.NUMBER if each.isdigit() else Kind.SYMBOL for each in words)
        return [Token(kind, each, self._at, self._at) for kind, each in zip(kinds, words, strict=True)]


def _is_group(tokens: Sequence[Token], index: int) -> bool:
    return tokens[index].word == "GROUP" and index + 1 < len(tokens) and tokens[index + 1].word == "BY"


def _depth(tokens: Sequence[Token]) -> int:
    return sum(each.is_symbol("(") - each.is_symbol(")") for each in tokens)


def _list_and_clauses(tokens: list[Token]) -> tuple[list[Token], list[Token]]:
    """Return the columns of SELECT, and the clauses GROUP BY and WINDOW after them."""
    for index, token in enumerate(tokens):
        begins = token.word == "WINDOW" or _is_group(tokens, index)
        if begins and index and not _depth(tokens[:index]) and not tokens[index - 1].is_symbol(","):
            return tokens[:index], tokens[index:]
    return tokens, []


def _values(text: str, operands: list[Token]) -> list[Token]:
    """Return the expressions of ``SET a = x, b = y``, with the commas between them."""
    found: list[Token] = []
    for comma, part in _split(operands, ","):
        if len(part) < 3 or not part[1].is_symbol("=", "=="):
            at = part[0].start if part else operands[0].start if operands else 0
            raise syntax_error(text, at, "SET of the pipe syntax takes column = expression")
        found += [*([] if comma is None else [comma]), *part[2:]]
    return found
