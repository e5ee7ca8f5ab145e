"""The conversion of sqlglot's tree to a Query, which has the tables, their aliases and the conditions on their rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from sqlglot import exp

from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.predicates import ColumnReference, Predicate, columns_in, restricts
from airflow_hivex.core.parser.lexer.markers import Markers
from airflow_hivex.core.parser.lexer.tokens import Kind, Token, syntax_error
from airflow_hivex.core.parser.queries.filters import FilterReader, rejects_nulls
from airflow_hivex.core.parser.queries.pipes import has_pipes
from airflow_hivex.core.parser.queries.row_ids import read_row_ids
from airflow_hivex.core.parser.queries.scopes import (
    Condition,
    Derived,
    Links,
    Scope,
    ScopeReader,
    Source,
    qualifiers_of,
)
from airflow_hivex.core.parser.statements import Query, TableReference, TextEdit

_OTHER = "__column_of_another_table"


class QueryReader:
    """A reader that makes a Query of sqlglot's tree.

    ``database`` is the current database, which is needed to recognise ``database.table.column`` as a column of
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
            StatementSyntaxError: two tables have the same name, or a table or link stands at a wrong place.
            UnsupportedStatementError: the query reads an object that is not a table of the warehouse.
        """
        reader = ScopeReader(self._text, self._tokens, self._links, table_statements, self._database)
        self._resolve = reader.resolve
        reader.read(tree)
        virtual = list(virtual_columns(reader, self._tokens))
        replaced = {edit.end for edit in virtual}
        edits = [*self._qualifiers(reader, replaced), *virtual]
        edits += limit_edits(self._text, self._tokens)
        filters: dict[Source, list[Predicate]] = {}
        if not has_pipes(self._tokens):
            # The tree of a query with pipes has all tables, but not all computed columns.
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
            row_ids=read_row_ids(self._text, reader, self._tokens, places, reader.resolve),
        )

    def _alias(self, source: Source) -> str:
        return self._aliases.get(source, source.alias)

    # -- qualified columns -------------------------------------------------------

    def _qualifiers(self, reader: ScopeReader, replaced_ends: Collection[int]) -> list[TextEdit]:
        """Return the edits that shorten ``database.table.column`` to the table's alias and the column.

        A column that ends at one of ``replaced_ends`` gets no edit, because another edit replaces the column with its
        qualifiers.
        """
        taken = {source.alias for scope in reader.scopes for source in scope.sources}
        named: list[tuple[list[exp.Identifier], Source, bool]] = []
        links_read = set(reader.links_read)
        for column, column_scope in reader.columns:
            qualifiers = qualifiers_of(column)
            found = reader.resolve(qualifiers, column_scope)
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
            links = {part.meta["start"] for part in qualifiers[:length]} & self._links.keys()
            links_read |= links
            if not matches[0].has_alias and self._is_hidden(matches[0], scope, column_scope):
                self._rename(matches[0], taken)
            if column.this.meta.get("end", -2) + 1 not in replaced_ends:
                named.append((qualifiers[:length], matches[0], length == 2 or bool(links)))
        for start in self._links:
            if start not in links_read:
                _, table, namespace = self._links[start]
                reason = (
                    f"{table}@{namespace} is not a table that is read here; a link T@Y stands where a table is read, "
                    "and before its columns if it has no alias"
                )
                raise syntax_error(self._text, start, reason)
        return [
            TextEdit(parts[0].meta["start"], parts[-1].meta["end"] + 1, f"`{self._alias(source)}`")
            for parts, source, is_changed in named
            if is_changed or source in self._aliases
        ]

    def _is_hidden(self, source: Source, scope: Scope, column_scope: Scope) -> bool:
        """Return whether another table with the same alias hides a source from a column.

        The other table stands in the FROM of the source, or in the FROM of a query between the source and the column.
        """
        nearer: list[Source] = []
        around: Scope | None = column_scope
        while around is not None and around is not scope:
            nearer += around.sources
            around = around.parent
        return any(other.alias == source.alias for other in (*nearer, *scope.sources) if other is not source)

    def _rename(self, source: Source, taken: set[str]) -> None:
        """Set a unique alias for a table of the query."""
        table = source.table
        if table is None or source in self._aliases:
            return
        alias = f"{table.database or table.namespace or self._database or ''}__{table.name}"
        while alias in taken:
            alias += "_"
        taken.add(alias)
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
        """Copy conditions of outer queries into the queries in their FROM.

        Only a condition that restricts all rows that are read from the inner query is copied.
        """
        waiting = list(queries)
        while waiting:
            inner = {id(derived.scope) for derived in waiting}
            ready = [each for each in waiting if not any(id(scope) in inner for _, scope in each.readers)]
            for derived in ready:
                self._push_into(derived)
            waiting = [each for each in waiting if each not in ready] if ready else []

    def _push_into(self, derived: Derived) -> None:
        """If all readers of a query have conditions on it, add these conditions, joined by OR, to the query."""
        found = [self._conditions_on(source, scope) for source, scope in derived.readers]
        if not found or not all(found):
            return
        parts = found[0] if len(found) == 1 else [exp.or_(*(exp.and_(*each) for each in found))]
        restricted = [(source, source.nullable) for source in derived.scope.sources if source.visible]
        derived.scope.conditions += [Condition(part, restricted) for part in parts]

    def _conditions_on(self, source: Source, scope: Scope) -> list[exp.Expr]:
        """Return the outer query's conditions on a query in FROM, rewritten to name the inner query's own columns."""
        derived = source.derived
        if derived is None or scope.pivoted:
            return []

        def within(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column):
                return node
            qualifiers = qualifiers_of(node)
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
        """Return the sources whose columns a condition names, or None if the sources are not certain.

        A column without a qualifier can belong to any source.
        """
        found: set[Source] = set()
        for column in expression.find_all(exp.Column):
            resolved = self._resolve(qualifiers_of(column), scope)
            if resolved is not None:
                found.update(resolved[1])
            elif not qualifiers_of(column):
                return None
        return found

    def _predicate(self, expression: exp.Expr, source: Source, scope: Scope) -> Predicate:
        def find_column(column: exp.Column) -> ColumnReference | None:
            if not isinstance(column.this, exp.Identifier):
                return None
            name = normalise(column.name)
            qualifiers = qualifiers_of(column)
            if not qualifiers:
                return ColumnReference(name)
            found = self._resolve(qualifiers, scope)
            if found is None or found[1] != [source] or found[2] != len(qualifiers):
                return None
            return ColumnReference(name, self._alias(source))

        return FilterReader(find_column, self._markers).read(expression)


def _holds_after_outer_join(predicate: Predicate, scope: Scope) -> bool:
    # For a row that the join made NULL, a column merged by NATURAL or USING has the value of the other side.
    loose = any(column.qualifier is None for column in columns_in(predicate))
    return not (scope.merges_columns and loose) and rejects_nulls(predicate)


def limit_edits(text: str, tokens: Sequence[Token]) -> Iterator[TextEdit]:
    """Yield the edits that replace ``LIMIT offset, count`` by ``LIMIT count OFFSET offset``.

    The offset and the count are numbers or markers.
    """
    for index, token in enumerate(tokens):
        if token.word != "LIMIT":
            continue
        offset = _value(tokens[index + 1 : index + 3])
        rest = tokens[index + 1 + len(offset) :]
        count = _value(rest[1:3])
        if offset and count and rest[0].is_symbol(","):
            skipped = text[offset[0].start : offset[-1].end]
            yield TextEdit(offset[0].start, count[-1].end, f"{text[count[0].start : count[-1].end]} OFFSET {skipped}")


def _value(tokens: Sequence[Token]) -> Sequence[Token]:
    """Return the tokens of the number or marker at the beginning of ``tokens``, or an empty sequence."""
    if tokens and tokens[0].kind is Kind.NUMBER:
        return tokens[:1]
    is_marker = len(tokens) == 2 and tokens[0].is_symbol(":") and tokens[1].kind is Kind.WORD
    return tokens if is_marker else ()


# `INPUT__FILE__NAME` and `BLOCK__OFFSET__INSIDE__FILE`: Hive's names for results of Spark's functions. In backquotes
# they are normal names of columns.


_FUNCTIONS = {
    "INPUT__FILE__NAME": "input_file_name()",
    "BLOCK__OFFSET__INSIDE__FILE": "input_file_block_start()",
}


def virtual_columns(reader: ScopeReader, tokens: Sequence[Token]) -> Iterator[TextEdit]:
    """Yield the edits that replace Hive's virtual columns, such as INPUT__FILE__NAME, by functions of Spark.

    An edit replaces the qualifiers of the column, too. In a SELECT list the edit adds an alias, so that the result
    column keeps its name. A struct field with the name of a virtual column is not replaced.
    """
    words = {token.start: token for token in tokens if token.kind is Kind.WORD and token.word in _FUNCTIONS}
    if not words:
        return
    for column, scope in reader.columns:
        name, qualifiers = column.this, qualifiers_of(column)
        token = words.get(name.meta.get("start", -1)) if isinstance(name, exp.Identifier) else None
        found = reader.resolve(qualifiers, scope)
        if token is None or len(qualifiers) != (0 if found is None else found[2]):
            continue
        start = qualifiers[0].meta["start"] if qualifiers else token.start
        is_result = isinstance(column.parent, exp.Select) and column.arg_key == "expressions"
        alias = f" AS `{token.text}`" if is_result else ""
        yield TextEdit(start, token.end, f"{_FUNCTIONS[token.word]}{alias}")
