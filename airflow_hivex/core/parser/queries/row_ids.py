"""ROW__ID in a query's text: the places that can read it, the tables that can have it, and each ``*`` to replace.

A table that is read with its row ids has an additional column, which ``*`` must not return. In ORDER BY and HAVING a
name means a column of the result, if there is such a column. Source: Spark's rules for names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from sqlglot import exp

from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.row_ids import ROW_ID, Candidates, ColumnStar, RowIdReads, RowIdUse
from airflow_hivex.core.parser.lexer.tokens import Kind, Token, name_of, unsupported_error
from airflow_hivex.core.parser.queries.scopes import Output, Scope, ScopeReader, Source

Resolve: TypeAlias = Callable[[Sequence[exp.Identifier], Scope | None], tuple[Scope, list[Source], int] | None]
"""The type of :meth:`ScopeReader.resolve`, which finds the sources that the qualifiers of a column mean."""

_NAME = normalise(ROW_ID)
_RESULT_FIRST = ("order", "sort", "cluster", "distribute", "having")


def read_row_ids(
    text: str, reader: ScopeReader, tokens: Sequence[Token], places: Mapping[Source, int], resolve: Resolve
) -> RowIdReads:
    """Return the uses of ROW__ID in the query. ``places`` is a dict from tables to indexes in the query's references.

    Raises:
        UnsupportedStatementError: the query begins with FROM without SELECT, so the implied ``*`` cannot be replaced.
    """
    return _RowIdReader(text, reader, tokens, places, resolve).read()


class _RowIdReader:
    def __init__(
        self, text: str, reader: ScopeReader, tokens: Sequence[Token], places: Mapping[Source, int], resolve: Resolve
    ) -> None:
        self._text = text
        self._reader = reader
        self._tokens = {token.start: index for index, token in enumerate(tokens)}
        self._all = tokens
        self._places = places
        self._resolve = resolve
        self._of_result: set[int] = set()

    def read(self) -> RowIdReads:
        mentions = {
            token.start
            for token in self._all
            if token.kind in (Kind.WORD, Kind.QUOTED) and normalise(name_of(token)) == _NAME
        }
        result = self._candidates([], self._reader.output, None)
        if not mentions:
            return RowIdReads(result=result)
        uses = tuple(use for column, scope in self._reader.columns if (use := self._use(column, scope)) is not None)
        otherwise = mentions - self._of_result - {use.start for use in uses}
        return RowIdReads(uses, tuple(self._stars()) if uses else (), result, bool(otherwise))

    # -- the name ----------------------------------------------------------------

    def _use(self, column: exp.Column, scope: Scope) -> RowIdUse | None:
        if isinstance(column.parent, exp.Star):
            # A star does not return the column, so EXCEPT cannot leave it out.
            return None
        parts = _parts(column)
        found = self._resolve(_qualifiers(parts, column), scope)
        length = found[2] if found is not None else 0
        name = parts[length] if length < len(parts) else None
        if name is None or normalise(name.name) != _NAME:
            return None
        query, clause = _clause(column)
        if found is not None:
            around = next(depth for depth, each in enumerate(_chain(scope)) if each is found[0])
            scopes = [*[Candidates()] * around, self._candidates(found[1], None, found[0])]
        elif self._is_of_result(query, clause, scope):
            self._of_result.add(name.meta["start"])
            return None
        else:
            scopes = [
                self._candidates(
                    [source for source in each.sources if source.visible or clause == "joins"],
                    None,
                    each,
                    is_open=each is scope and isinstance(query, exp.Select) and _gives_alias(query),
                )
                for each in _chain(scope)
            ]
        start, end = name.meta["start"], name.meta["end"] + 1
        is_whole = length + 1 == len(parts) and not isinstance(column.this, exp.Star)
        alias = name.name if is_whole and isinstance(column.parent, exp.Select) and clause == "expressions" else None
        return RowIdUse(start, end, tuple(scopes), alias)

    def _is_of_result(self, query: exp.Expr, clause: str, scope: Scope) -> bool:
        """Return whether an unqualified name means a column of the result of a query or union."""
        if not isinstance(query, exp.Select):
            return True
        return clause in _RESULT_FIRST and scope.output.named > 0

    def _candidates(
        self, sources: Sequence[Source], output: Output | None, scope: Scope | None, *, is_open: bool = False
    ) -> Candidates:
        tables = [source for source in sources if source.table is not None and source.output is None]
        others = [source for source in sources if source not in tables]
        brought = [source.brings for source in others] if output is None else [output]
        return Candidates(
            tables=tuple(self._places[source] for source in tables),
            through=tuple(self._places[table] for each in brought for table in each.tables),
            named=sum(each.named for each in brought),
            others=tuple(source.alias for source in others),
            is_open=is_open or not all(each.is_known for each in brought),
            is_pivoted=scope is not None and scope.pivoted,
        )

    # -- stars -------------------------------------------------------------------

    def _stars(self) -> Iterator[ColumnStar]:
        for star, scope in self._reader.stars:
            yield from self._star(star, [source for source in scope.sources if source.visible])
        for column, scope in self._reader.columns:
            if isinstance(column.this, exp.Star):
                qualifiers = _parts(column)
                found = self._resolve(qualifiers, scope)
                if found is not None and found[2] == len(qualifiers):
                    yield from self._star(column.this, found[1])

    def _star(self, star: exp.Star, sources: Sequence[Source]) -> Iterator[ColumnStar]:
        tables = tuple(self._places[table] for source in sources for table in _shown(source))
        if not tables:
            return
        if not star.meta.get("end"):
            from_ = self._from_of(star)
            yield ColumnStar(from_, from_, "SELECT * EXCEPT (", ") ", tables)
            return
        index = self._tokens[star.meta["start"]]
        token = self._all[index]
        if token.word == "TABLE":
            yield ColumnStar(token.start, token.end, "SELECT * EXCEPT (", ") FROM", tables)
        elif star.args.get("except_"):
            opened = self._all[index + 2].end
            yield ColumnStar(opened, opened, "", ", ", tables)
        else:
            yield ColumnStar(token.end, token.end, " EXCEPT (", ")", tables)

    def _from_of(self, star: exp.Star) -> int:
        """Return the place of a FROM without SELECT, which returns all columns.

        ``star`` is the star that sqlglot adds to its tree for such a FROM.
        """
        query = star.find_ancestor(exp.Select)
        assert query is not None
        items = [query.args["from_"], *(query.args.get("joins") or ())]
        names = [name for item in items for name in item.find_all(exp.Identifier)]
        start = min(name.meta["start"] for name in names if "start" in name.meta)
        index = self._tokens[start] - 1
        while self._all[index].is_symbol("("):
            index -= 1
        token = self._all[index]
        if token.word != "FROM" or items[0].find(exp.Select):
            reason = "a query that reads ROW__ID and begins with FROM needs SELECT * before that"
            raise unsupported_error(self._text, token.start, reason)
        return token.start


def _parts(column: exp.Column) -> list[exp.Identifier]:
    parts = [column.args.get(part) for part in ("catalog", "db", "table", "this")]
    return [part for part in parts if isinstance(part, exp.Identifier) and "start" in part.meta]


def _qualifiers(parts: list[exp.Identifier], column: exp.Column) -> list[exp.Identifier]:
    return parts if isinstance(column.this, exp.Star) else parts[:-1]


def _chain(scope: Scope | None) -> Iterator[Scope]:
    while scope is not None:
        yield scope
        scope = scope.parent


def _clause(column: exp.Column) -> tuple[exp.Expr, str]:
    """Return the innermost query around a column, and the clause of this query in which the column stands."""
    node: exp.Expr = column
    while node.parent is not None and not isinstance(node.parent, (exp.Select, exp.SetOperation, exp.Subquery)):
        node = node.parent
        if isinstance(node, exp.Join):
            # The clause may belong to a table in parentheses.
            return node.find_ancestor(exp.Select) or node, "joins"
    return node.parent or node, node.arg_key or ""


def _gives_alias(query: exp.Select) -> bool:
    """Return whether the SELECT list has a column with the alias ROW__ID."""
    return any(isinstance(each, exp.Alias) and normalise(each.alias) == _NAME for each in query.expressions)


def _shown(source: Source) -> Iterator[Source]:
    """Yield the tables whose columns ``source.*`` returns, including an additional column for row ids."""
    if source.table is not None and source.output is None:
        yield source
    for each in source.inner:
        if each.visible:
            yield from _shown(each)
