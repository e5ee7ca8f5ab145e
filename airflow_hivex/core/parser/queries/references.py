"""A query as a value: its tables, by what name each is called, and what restricts it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlglot import exp

from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.predicates import ColumnReference, Predicate, columns_in, restricts
from airflow_hivex.core.parser.lexer.markers import Markers
from airflow_hivex.core.parser.lexer.tokens import Token, syntax_error
from airflow_hivex.core.parser.queries.filters import FilterReader, rejects_nulls
from airflow_hivex.core.parser.queries.limits import limit_edits
from airflow_hivex.core.parser.queries.pipes import has_pipes
from airflow_hivex.core.parser.queries.row_ids import read_row_ids
from airflow_hivex.core.parser.queries.scopes import Condition, Derived, Links, Scope, ScopeReader, Source
from airflow_hivex.core.parser.queries.virtual_columns import virtual_columns
from airflow_hivex.core.parser.statements import Query, TableReference, TextEdit

_OTHER = "__column_of_another_table"


class QueryReader:
    """Makes a Query of sqlglot's tree.

    ``database`` is the current one: it tells that ``database.table.column`` may be a column of
    ``table``.
    """

    def __init__(
        self, text: str, tokens: Sequence[Token], links: Links, markers: Markers, database: str | None = None
    ) -> None:
        self._text = text
        self._tokens = tokens
        self._links = links
        self._markers = markers
        self._database = database
        self._aliases: dict[Source, str] = {}

    def read(self, tree: exp.Expr, table_statements: Collection[int]) -> Query:
        """Return the query.

        Raises:
            StatementSyntaxError: two tables are called by one name, or a table or link stands
                where none can be.
            UnsupportedStatementError: it reads something that is not a table of the warehouse.
        """
        reader = ScopeReader(self._text, self._tokens, self._links, table_statements)
        reader.read(tree)
        edits = [*self._qualifiers(reader), *virtual_columns(reader.columns, self._tokens)]
        edits += limit_edits(self._text, self._tokens)
        filters: dict[Source, list[Predicate]] = {}
        if not has_pipes(self._tokens):
            # The tree of pipes has their tables, and not all of the columns that they compute.
            self._push_down(reader.derived)
        for scope in reader.scopes:
            if not scope.pivoted:
                for condition in scope.conditions:
                    self._restrict(condition, scope, filters)
        sources = sorted(
            (source for scope in reader.scopes for source in scope.sources if source.table is not None),
            key=lambda source: source.start,
        )
        places = {source: place for place, source in enumerate(sources)}
        references = tuple(
            TableReference(
                table=source.table,
                start=source.start,
                end=source.end,
                alias=self._alias(source),
                has_alias=source.has_alias,
                filters=tuple(filters.get(source, ())),
                alias_position=source.alias_position,
            )
            for source in sources
            if source.table is not None
        )
        return Query(
            text=self._text,
            start=self._tokens[0].start,
            end=self._tokens[-1].end,
            references=references,
            qualifiers=tuple(sorted(edits, key=lambda edit: edit.start)),
            parameters=frozenset(reader.markers),
            row_ids=read_row_ids(self._text, reader, self._tokens, places, self._resolve),
        )

    def _alias(self, source: Source) -> str:
        return self._aliases.get(source, source.alias)

    # -- qualified columns -------------------------------------------------------

    def _qualifiers(self, reader: ScopeReader) -> list[TextEdit]:
        """Return the edits that shorten ``database.table`` before a column to what the table is called."""
        replaced: list[tuple[exp.Identifier, exp.Identifier, Source]] = []
        links_read = set(reader.links_read)
        for column, column_scope in reader.columns:
            qualifiers = _qualifiers_of(column)
            found = self._resolve(qualifiers, column_scope)
            if found is None:
                continue
            scope, matches, length = found
            clash = len(matches) > 1 and any(not match.has_alias for match in matches)
            if clash:
                names = " or ".join(sorted({str(match.table or match.alias) for match in matches}))
                raise syntax_error(
                    self._text,
                    qualifiers[0].meta["start"],
                    f"{'.'.join(part.name for part in qualifiers[:length])} may be {names}; give each an alias",
                )
            is_link = qualifiers[0].meta["start"] in self._links
            if is_link:
                links_read.add(qualifiers[0].meta["start"])
            if length == 2 or is_link:
                self._make_unique(matches[0], scope)
                replaced.append((qualifiers[0], qualifiers[length - 1], matches[0]))
        for start in self._links:
            if start not in links_read:
                raise syntax_error(self._text, start, "a link T@Y stands where a table is read only")
        return [
            TextEdit(first.meta["start"], last.meta["end"] + 1, f"`{self._alias(source)}`")
            for first, last, source in replaced
        ]

    def _resolve(
        self, qualifiers: Sequence[exp.Identifier], scope: Scope | None
    ) -> tuple[Scope, list[Source], int] | None:
        """Return the scope and sources that a column's qualifiers name, and how many of them do so.

        Spark tries ``database.table`` before ``table``, and a sub-query's own tables before those
        around it; what is left over names the field of a struct.
        """
        if not qualifiers:
            return None
        names = [normalise(part.name) for part in qualifiers]
        link = self._links.get(qualifiers[0].meta["start"])
        while scope is not None:
            plain = [source for source in scope.sources if source.table is not None and not source.has_alias]
            if link is not None:
                matches = [source for source in plain if _is_link(source, link)]
            else:
                matches = [source for source in plain if self._is_called(source, names[:2])]
            length = 1 if link is not None else 2
            if not matches and link is None:
                matches, length = [source for source in scope.sources if source.alias == names[0]], 1
            if matches:
                return scope, matches, length
            scope = scope.parent
        return None

    def _is_called(self, source: Source, names: list[str]) -> bool:
        table = source.table
        return table is not None and table.namespace is None and [table.database or self._database, table.name] == names

    def _make_unique(self, source: Source, scope: Scope) -> None:
        """Give a table another alias if its bare name is also that of a neighbour."""
        taken = {self._alias(other) for other in scope.sources if other is not source}
        table = source.table
        if table is None or source in self._aliases or source.alias not in taken:
            return
        alias = f"{table.database or table.namespace or self._database}__{table.name}"
        while alias in taken:
            alias += "_"
        self._aliases[source] = alias

    # -- filters -----------------------------------------------------------------

    def _restrict(self, condition: Condition, scope: Scope, filters: dict[Source, list[Predicate]]) -> None:
        named = self._named_sources(condition.expression, scope)
        for source, was_nullable in condition.restricted:
            if source.table is None or not source.filterable or (named is not None and source not in named):
                continue
            predicate = self._predicate(condition.expression, source, scope)
            if restricts(predicate) and (not was_nullable or _holds_after_outer_join(predicate, scope)):
                filters.setdefault(source, []).append(predicate)

    def _push_down(self, queries: Sequence[Derived]) -> None:
        """Give the queries that FROM reads the conditions that hold for all rows which are taken from them."""
        waiting = list(queries)
        while waiting:
            inner = {id(derived.scope) for derived in waiting}
            ready = [each for each in waiting if not any(id(scope) in inner for _, scope in each.readers)]
            for derived in ready:
                self._push_into(derived)
            waiting = [each for each in waiting if each not in ready] if ready else []

    def _push_into(self, derived: Derived) -> None:
        """Add the conditions on a query to those within it: those of its one reader, or that one of several has."""
        found = [self._conditions_on(source, scope) for source, scope in derived.readers]
        if not found or not all(found):
            return
        parts = found[0] if len(found) == 1 else [exp.or_(*(exp.and_(*each) for each in found))]
        restricted = [(source, source.nullable) for source in derived.scope.sources if source.visible]
        derived.scope.conditions += [Condition(part, restricted) for part in parts]

    def _conditions_on(self, source: Source, scope: Scope) -> list[exp.Expr]:
        """Return the conditions that hold for all rows which are taken from a query, in the columns within it."""
        derived = source.derived
        if derived is None or scope.pivoted:
            return []

        def within(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column):
                return node
            qualifiers = _qualifiers_of(node)
            resolved = self._resolve(qualifiers, scope)
            is_own = not qualifiers or (resolved is not None and resolved[1:] == ([source], len(qualifiers)))
            has_name = isinstance(node.this, exp.Identifier)
            column = derived.column(normalise(node.name)) if is_own and has_name else None
            return exp.Anonymous(this=_OTHER) if column is None else column.copy()

        found = []
        for condition in scope.conditions:
            nullable = [was_nullable for each, was_nullable in condition.restricted if each is source]
            if not nullable:
                continue
            predicate = self._predicate(condition.expression, source, scope)
            if restricts(predicate) and (not nullable[0] or _holds_after_outer_join(predicate, scope)):
                found.append(condition.expression.transform(within))
        return found

    def _named_sources(self, expression: exp.Expr, scope: Scope) -> set[Source] | None:
        """Return the sources whose columns a condition may name.

        None when a column without qualifier leaves that open.
        """
        found: set[Source] = set()
        for column in expression.find_all(exp.Column):
            resolved = self._resolve(_qualifiers_of(column), scope)
            if resolved is not None:
                found.update(resolved[1])
            elif not _qualifiers_of(column):
                return None
        return found

    def _predicate(self, expression: exp.Expr, source: Source, scope: Scope) -> Predicate:
        def find_column(column: exp.Column) -> ColumnReference | None:
            if not isinstance(column.this, exp.Identifier):
                return None
            name = normalise(column.name)
            qualifiers = _qualifiers_of(column)
            if not qualifiers:
                return ColumnReference(name)
            found = self._resolve(qualifiers, scope)
            if found is None or found[1] != [source] or found[2] != len(qualifiers):
                return None
            return ColumnReference(name, self._alias(source))

        return FilterReader(find_column, self._markers).read(expression)


def _qualifiers_of(column: exp.Column) -> list[exp.Identifier]:
    parts = [column.args.get(part) for part in ("catalog", "db", "table")]
    return [part for part in parts if isinstance(part, exp.Identifier) and "start" in part.meta]


def _is_link(source: Source, link: tuple[int, str, str]) -> bool:
    table = source.table
    return table is not None and (table.name, table.namespace) == link[1:]


def _holds_after_outer_join(predicate: Predicate, scope: Scope) -> bool:
    # A column that NATURAL or USING merged is the other side's for a row that the join made NULL.
    loose = any(column.qualifier is None for column in columns_in(predicate))
    return not (scope.merges_columns and loose) and rejects_nulls(predicate)
