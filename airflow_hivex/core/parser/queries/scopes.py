"""The scopes of a query: the sources that each SELECT reads, and the conditions on their rows.

A name of WITH hides tables of this name after its definition. A sub-query sees the tables around it. A derived table
does not see its neighbours unless it is lateral. Source: Spark's CTESubstitution and the scoping rules of its SELECT
reference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self, TypeAlias

from sqlglot import exp

from airflow_hivex.core.errors import StatementSyntaxError, UnsupportedStatementError
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.row_ids import ROW_ID
from airflow_hivex.core.parser.lexer.tokens import CATALOG, Token, syntax_error, unsupported_error
from airflow_hivex.core.parser.queries.filters import conjuncts
from airflow_hivex.core.parser.statements import Span, TableName

Links: TypeAlias = Mapping[int, tuple[int, str, str]]
"""A dict from the start of each link ``T@Y`` in the text to (end, T, Y)."""

Names: TypeAlias = Mapping[str, "Output"]
"""A dict from each name of WITH to the output of its query."""

_NAMING_GENERATORS = ("inline", "inline_outer", "json_tuple", "stack")
_PATH = re.compile(r"[/:.*\\]")
_QUERIES = (exp.Select, exp.SetOperation, exp.Subquery, exp.Values)
_TABLE_PARTS = ("this", "db", "alias", "joins", "laterals", "pivots", "sample")
_VERSIONS = (
    "a version is a write id, and a time is a text, a marker, or current_timestamp() or current_date(), from which an "
    "INTERVAL may be subtracted"
)
_OF_SOME_ROWS = ("limit", "offset", "fetch", "sample", "qualify", "match", "connect")
_RANDOM = (exp.Rand, exp.Randn, exp.Uuid)
_RANDOM_NAMES = frozenset(
    {"rand", "random", "randn", "uuid", "shuffle", "uniform", "randstr", "monotonically_increasing_id"}
    | {"spark_partition_id", "input_file_name", "input_file_block_start", "input_file_block_length"}
)
_REFUSED_TABLE_PARTS = {
    "catalog": f"a table is named table or database.table; the only catalog is {CATALOG}",
    "version": _VERSIONS,
    "when": _VERSIONS,
}


@dataclass(frozen=True, slots=True, eq=False)
class Output:
    """The meaning of the name ROW__ID in the result of a query.

    ``named`` is the number of columns named ROW__ID. ``tables`` are the tables whose columns the result has because of
    ``*``. ``is_known`` is False if the text alone does not show all columns. ``derived`` is the :class:`Derived` of a
    query in WITH.
    """

    named: int = 0
    tables: tuple[Source, ...] = ()
    is_known: bool = True
    derived: Derived | None = None


UNKNOWN = Output(is_known=False)


@dataclass(slots=True, eq=False)
class Source:
    """A source that FROM adds to a scope: a table, a query or a function.

    ``table`` is the table of the warehouse, or None for other sources. ``start`` and ``end`` are the places of the
    table's name in the text. ``nullable`` is true if an outer join can have made the source's columns NULL. ``visible``
    is true if the source's columns can be named outside of the join of the source. ``filterable`` is true if a
    condition can be applied while the table is read: the columns are not renamed, and no sample is taken. ``output`` is
    the output of a source that is not a table. ``inner`` are the sources that an alias for a join hides. ``derived`` is
    the query of the source, if conditions can be added to this query.
    """

    alias: str
    table: TableName | None = None
    start: int = 0
    end: int = 0
    has_alias: bool = True
    alias_position: int | None = None
    nullable: bool = False
    visible: bool = True
    filterable: bool = True
    output: Output | None = None
    inner: tuple[Source, ...] = ()
    derived: Derived | None = None

    @property
    def brings(self) -> Output:
        """Return the meaning of ROW__ID among the columns that a star over the source returns."""
        if self.inner:
            return _together(source.brings for source in self.inner if source.visible)
        if self.output is not None:
            return self.output
        return Output(tables=(self,)) if self.table is not None else UNKNOWN


@dataclass(slots=True, eq=False)
class Condition:
    """A part of WHERE or ON that must be true, and the sources whose rows it restricts.

    The flag of each source is true if an outer join before the condition can have made the source's columns NULL.
    """

    expression: exp.Expr
    restricted: list[tuple[Source, bool]]


@dataclass(slots=True, eq=False)
class Scope:
    """The scope of one SELECT: the sources in its FROM, and the conditions on their rows.

    ``parent`` is the scope of the query around the SELECT. ``merges_columns`` is true if NATURAL or USING merges
    columns, and ``pivoted`` is true if PIVOT or UNPIVOT changes the columns. ``output`` is the output of the SELECT.
    """

    parent: Scope | None
    sources: list[Source] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)
    merges_columns: bool = False
    pivoted: bool = False
    output: Output = UNKNOWN


@dataclass(slots=True, eq=False)
class Derived:
    """A query with one SELECT that FROM reads under a name. Conditions on the query's rows can be added to it.

    Inner columns are the columns of the query's own sources. ``columns`` is a dict from the query's columns to inner
    columns. ``stars`` has the qualifiers of each star in the SELECT list. ``hidden`` are names that can be computed
    columns, and so are never taken as columns of a star. ``is_allowed`` returns whether an added condition is allowed
    to name an inner column. ``readers`` are the sources that read the query, with their scopes.
    """

    scope: Scope
    columns: Mapping[str, exp.Column]
    stars: tuple[Sequence[exp.Identifier], ...]
    hidden: frozenset[str]
    is_allowed: Callable[[exp.Column], bool]
    readers: list[tuple[Source, Scope]] = field(default_factory=list)

    @classmethod
    def of(cls, select: exp.Select, scope: Scope, named: exp.Expr) -> Self | None:
        """Return the :class:`Derived` of a SELECT, or None if the columns of the SELECT are not known.

        ``named`` is the node with the query's alias, which can have names for the columns.
        """
        columns: dict[str, exp.Column] = {}
        others: set[str] = set()
        stars: list[Sequence[exp.Identifier]] = []
        names = _column_aliases(named)
        for number, each in enumerate(select.expressions):
            star = each.this if isinstance(each, exp.Column) else each
            if isinstance(star, exp.Star):
                if names or star.args.get("replace") or star.args.get("rename"):
                    return None
                qualifiers = qualifiers_of(each) if isinstance(each, exp.Column) else []
                if isinstance(each, exp.Column) and not qualifiers:
                    return None
                stars.append(qualifiers)
                others |= {normalise(column.name) for column in star.args.get("except_") or ()}
                continue
            value = each.unalias().unnest()
            name = normalise(names[number] if number < len(names) else each.alias_or_name)
            if name in columns or name in others or not isinstance(value, exp.Column):
                columns.pop(name, None)
                others.add(name)
            else:
                columns[name] = value
        return cls(scope, columns, tuple(stars), frozenset(others), _allowed_columns(select))

    def column(self, name: str) -> exp.Column | None:
        """Return the inner column for a column of the query.

        The result is None if the inner column is not certain, or if conditions must not name it.
        """
        found = self.columns.get(name)
        if found is None and name not in self.hidden and len(self.stars) == 1:
            found = exp.column(exp.to_identifier(name, quoted=True), *reversed(self.stars[0]))
        return found if found is not None and self.is_allowed(found) else None


def _only_select(query: exp.Expr) -> exp.Select | None:
    """Return the SELECT whose rows are the query's result, or None for other queries, such as a UNION or a LIMIT."""
    while isinstance(query, exp.Subquery):
        if any(query.args.get(part) for part in (*_OF_SOME_ROWS, "joins", "laterals", "pivots")):
            return None
        query = query.this
    if not isinstance(query, exp.Select) or any(query.args.get(part) for part in _OF_SOME_ROWS):
        return None
    is_random = any(
        isinstance(node, _RANDOM) or (isinstance(node, exp.Anonymous) and str(node.this).lower() in _RANDOM_NAMES)
        for node in _own_nodes(query)
    )
    return None if is_random else query


def _own_nodes(select: exp.Select) -> Iterator[exp.Expr]:
    """Yield the expressions of a SELECT, except the expressions of its FROM and of inner queries."""
    stack = [
        child
        for part, value in select.args.items()
        if part not in ("from_", "joins", "laterals", "with_")
        for child in (value if isinstance(value, list) else [value])
        if isinstance(child, exp.Expr)
    ]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(child for child in node.iter_expressions() if not isinstance(child, exp.Query))


def _column_aliases(node: exp.Expr) -> list[str]:
    alias = node.args.get("alias")
    return [each.name for each in alias.args.get("columns") or ()] if isinstance(alias, exp.TableAlias) else []


def _allowed_columns(select: exp.Select) -> Callable[[exp.Column], bool]:
    """Return a function that returns whether a condition is allowed to name a column.

    The column must be a key of the GROUP BY (if the SELECT has a GROUP BY) and of the PARTITION BY of each window.
    """
    nodes = list(_own_nodes(select))
    sets = [node.args.get("partition_by") or [] for node in nodes if isinstance(node, exp.Window)]
    group = select.args.get("group")
    if group is not None:
        only_keys = not any(value for part, value in group.args.items() if part != "expressions")
        sets.append([_group_key(select, key) for key in group.expressions] if only_keys else [])
    elif select.args.get("having") is not None or any(
        isinstance(node, exp.AggFunc) and node.find_ancestor(exp.Window) is None for node in nodes
    ):
        # A group of all rows.
        sets.append([])
    return lambda column: all(any(_is_same(column, key) for key in keys) for keys in sets)


def _group_key(select: exp.Select, key: exp.Expr) -> exp.Expr:
    """Return the expression of a key of GROUP BY. For the number of a column, return the column's expression."""
    if isinstance(key, exp.Literal) and not key.is_string and key.name.isdecimal():
        columns: list[exp.Expr] = select.expressions
        number = int(key.name) - 1
        if 0 <= number < len(columns):
            return columns[number].unalias().unnest()
    return key.unnest()


def _is_same(column: exp.Column, key: exp.Expr) -> bool:
    if not isinstance(key, exp.Column) or normalise(column.name) != normalise(key.name):
        return False
    one, other = (tuple(normalise(part.name) for part in each.parts[:-1]) for each in (column, key))
    return one == other or not one or not other


class ScopeReader:
    """A reader that collects the scopes of a query, its columns and stars with their scopes, and its markers."""

    def __init__(
        self,
        text: str,
        tokens: Sequence[Token],
        links: Links,
        table_statements: Collection[int],
        database: str | None = None,
    ) -> None:
        self.scopes: list[Scope] = []
        self.columns: list[tuple[exp.Column, Scope]] = []
        self.stars: list[tuple[exp.Star, Scope]] = []
        self.output = UNKNOWN
        self.markers: set[str] = set()
        self.links_read: set[int] = set()
        self.derived: list[Derived] = []
        self._scope_of: dict[int, Scope] = {}
        self._text = text
        self._tokens = tokens
        self._links = links
        self._database = database
        self._table_statements = {tokens[index + 1].start for index in table_statements}
        self._tables_read: set[int] = set()

    def read(self, tree: exp.Expr) -> None:
        """Collect the scopes, columns, stars and markers of the whole query.

        Raises:
            StatementSyntaxError: a table stands at a wrong place.
            UnsupportedStatementError: the query reads an object that is not a table of the warehouse.
        """
        self.output = self._query(tree, {}, None)
        for table in tree.find_all(exp.Table):
            if id(table) not in self._tables_read:
                raise self._error(table, "a table cannot stand here")

    # -- qualifiers --------------------------------------------------------------

    def resolve(
        self, qualifiers: Sequence[exp.Identifier], scope: Scope | None
    ) -> tuple[Scope, list[Source], int] | None:
        """Return (scope, sources, number) for the qualifiers of a column or star, or None if no source has the name.

        The sources are the tables or queries that the qualifiers can mean, and the scope is the scope of these sources.
        The number is the number of qualifiers that name the source; the other qualifiers name the field of a struct. A
        table has the names ``database.table`` and ``table``. A link has the names ``database.table@namespace`` and
        ``table@namespace``, and ``table`` if no other table of the same FROM has this name. Spark tries two qualifiers
        before one qualifier, and a sub-query's own tables before the tables around it. If a name can mean a link or a
        table around the link's sub-query, both are returned.
        """
        names = [self._name(part) for part in qualifiers[:2]]
        while scope is not None:
            for length in range(len(names), 0, -1):
                matches = [source for source in scope.sources if self._is_called(source, names[:length])]
                if not matches and length == 1:
                    links = [source for source in scope.sources if names[:1] == [(source.alias, None)]]
                    matches = links and links + self._around(scope, names[:1])
                if matches:
                    return scope, matches, length
            scope = scope.parent
        return None

    def _around(self, scope: Scope, names: Sequence[tuple[str, str | None]]) -> list[Source]:
        found: list[Source] = []
        while scope.parent is not None and not found:
            scope = scope.parent
            found = [source for source in scope.sources if self._is_called(source, names)]
        return found

    def _name(self, part: exp.Identifier) -> tuple[str, str | None]:
        """Return the name, and the namespace of a link or None."""
        link = self._links.get(part.meta["start"])
        return (normalise(part.name), None) if link is None else link[1:]

    def _is_called(self, source: Source, names: Sequence[tuple[str | None, str | None]]) -> bool:
        table = source.table
        if table is None or source.has_alias:
            return names == [(source.alias, None)]
        whole = [(table.database or self._database, None), (table.name, table.namespace)]
        return names == whole[-len(names) :]

    # -- queries -----------------------------------------------------------------

    def _query(self, node: exp.Expr, names: Names, outer: Scope | None) -> Output:
        # Chains of UNION are deep trees on their left side, and recursion would be too deep.
        while True:
            names = self._with(node, names)
            if isinstance(node, exp.Select):
                return self._select(node, names, outer)
            if isinstance(node, exp.SetOperation):
                self._query(node.expression, names, outer)
                self._walk_parts(node, names, outer, but=("this", "expression", "with_"))
                node = node.this
            elif isinstance(node, exp.Subquery):
                self._walk_parts(node, names, outer, but=("this", "alias", "with_"))
                node = node.this
            elif isinstance(node, exp.Values):
                self._walk_parts(node, names, outer, but=("alias", "with_"))
                return _renamed(Output(), node)
            else:
                raise self._error(node, "expected a query")

    def _with(self, node: exp.Expr, names: Names) -> Names:
        with_ = node.args.get("with_")
        if with_ is None:
            return names
        is_recursive = bool(with_.args.get("recursive"))
        for cte in with_.expressions:
            name = normalise(cte.alias)
            known = {**names, name: _renamed(UNKNOWN, cte)} if is_recursive else names
            output = _renamed(self._query(cte.this, known, None), cte)
            names = {**names, name: replace(output, derived=None if is_recursive else self._derived(cte.this, cte))}
        return names

    def _derived(self, query: exp.Expr, named: exp.Expr) -> Derived | None:
        """Return the :class:`Derived` of a query, or None if conditions cannot be added to the query.

        ``named`` is the node with the query's alias.
        """
        select = _only_select(query)
        scope = None if select is None else self._scope_of.get(id(select))
        if select is None or scope is None or scope.pivoted:
            return None
        derived = Derived.of(select, scope, named)
        if derived is not None:
            self.derived.append(derived)
        return derived

    def _select(self, node: exp.Select, names: Names, outer: Scope | None) -> Output:
        if not node.expressions:
            raise self._error(node, "SELECT names no columns")
        scope = self._scope_of[id(node)] = Scope(outer)
        self.scopes.append(scope)
        from_, where = node.args.get("from_"), node.args.get("where")
        sources = self._item(from_.this, names, scope) if from_ is not None else []
        sources = self._joins(node.args.get("joins") or [], sources, names, scope)
        for lateral in node.args.get("laterals") or []:
            self._item(lateral, names, scope)
        if where is not None:
            restricted = [(source, source.nullable) for source in sources if source.visible]
            scope.conditions += [Condition(part, restricted) for part in conjuncts(where.this)]
        self._walk_parts(node, names, scope, but=("from_", "joins", "laterals", "with_"))
        scope.output = _together(self._output(each, scope) for each in node.expressions)
        return scope.output

    # -- FROM --------------------------------------------------------------------

    def _item(self, node: exp.Expr, names: Names, scope: Scope) -> list[Source]:
        """Return the sources of one item of FROM and of the item's joins."""
        if isinstance(node, exp.Table):
            sources = [self._table(node, names, scope)]
        elif isinstance(node, exp.Subquery):
            sources = self._subquery(node, names, scope)
        elif isinstance(node, exp.Lateral) and isinstance(node.this, exp.Subquery):
            sources = [Source(normalise(node.alias), output=_renamed(self._query(node.this, names, scope), node))]
        elif isinstance(node, exp.Lateral) and isinstance(node.this, exp.Func):
            self._walk(node.this, names, scope)
            sources = [Source(normalise(node.alias), output=_renamed(UNKNOWN, node))]
        elif isinstance(node, (exp.Query, exp.Lateral)):
            raise self._error(node, "a query in FROM stands in parentheses")
        else:
            self._walk(node, names, scope)
            output = Output() if isinstance(node, exp.Values) else UNKNOWN
            sources = [Source(normalise(node.alias_or_name), output=_renamed(output, node))]
        scope.sources += [source for source in sources if source not in scope.sources]
        for pivot in node.args.get("pivots") or []:
            scope.pivoted = True
            self._walk(pivot, names, scope)
            scope.sources.append(Source(normalise(pivot.alias)))
        sources = self._joins(node.args.get("joins") or [], sources, names, scope)
        for lateral in node.args.get("laterals") or []:
            self._item(lateral, names, scope)
        return sources

    def _subquery(self, node: exp.Subquery, names: Names, scope: Scope) -> list[Source]:
        self._walk_parts(node, names, scope, but=("this", "alias", "with_", "joins", "laterals", "pivots"))
        alias = normalise(node.alias)
        if not _is_relation(node.this):
            output = self._query(node.this, self._with(node, names), scope.parent)
            derived = None if node.args.get("sample") else self._derived(node.this, node)
            return [_read_in(scope, Source(alias, output=_renamed(output, node), derived=derived))]
        if not alias:
            return self._item(node.this, names, scope)
        # (a JOIN b) AS g hides the names a and b.
        inner = Scope(scope.parent)
        self.scopes.append(inner)
        self._item(node.this, names, inner)
        renamed = _renamed(UNKNOWN, node)
        return [Source(alias, output=renamed, inner=tuple(inner.sources) if renamed is UNKNOWN else ())]

    def _joins(self, joins: Sequence[exp.Join], left: list[Source], names: Names, scope: Scope) -> list[Source]:
        left = list(left)
        for join in joins:
            right = self._item(join.this, names, scope)
            self._walk_parts(join, names, scope, but=("this", "using"))
            self._join(join, left, right, scope)
            left += right
        return left

    def _join(self, join: exp.Join, left: list[Source], right: list[Source], scope: Scope) -> None:
        """Add a join's condition with the sources whose rows it restricts, and mark the sources that can become NULL.

        An outer join keeps all rows of its preserved side, so the condition restricts only the other side.
        """
        side, kind = join.side, join.kind
        known = join.method in ("", "NATURAL") and kind in ("", "INNER", "OUTER", "CROSS", "SEMI", "ANTI")
        scope.merges_columns |= bool(join.args.get("using")) or join.method == "NATURAL"
        restricted: list[Source] = []
        if not known or side == "FULL":
            nullable = [*left, *right]
        elif kind == "ANTI" or (side == "LEFT" and kind != "SEMI"):
            restricted, nullable = right, right if kind != "ANTI" else []
        elif side == "RIGHT":
            restricted, nullable = left, left
        else:
            restricted, nullable = [*left, *right], []
        on = join.args.get("on")
        if on is not None and restricted:
            pairs = [(source, source.nullable) for source in restricted if source.visible]
            scope.conditions += [Condition(part, pairs) for part in conjuncts(on)]
        for source in nullable:
            source.nullable = True
        if kind in ("SEMI", "ANTI"):
            for source in right:
                source.visible = False

    # -- tables ------------------------------------------------------------------

    def _table(self, node: exp.Table, names: Names, scope: Scope) -> Source:
        self._tables_read.add(id(node))
        for part, value in node.args.items():
            if value and part not in _TABLE_PARTS:
                reason = _REFUSED_TABLE_PARTS.get(part, "what stands behind the table's name is not of this release")
                raise self._unsupported(node, reason)
        name, database = node.this, node.args.get("db")
        if isinstance(name, exp.Func) and database is None:
            self._walk(name, names, scope)
            return Source(normalise(node.alias or name.name), output=_renamed(UNKNOWN, node))
        if not all(isinstance(part, exp.Identifier) and "start" in part.meta for part in (name, database or name)):
            raise self._unsupported(node, "a table is named table or database.table")
        self._walk_parts(node, names, scope, but=("this", "db", "alias", "joins", "laterals", "pivots"))
        source = self._named(node, name, database)
        table = source.table
        if table is not None and table.name in names and table.database is None and table.namespace is None:
            output = _renamed(names[table.name], node)
            derived = None if source.alias_position is not None else output.derived
            if derived is None and names[table.name].derived is not None:
                # This reference reads all rows.
                _read_in(scope, Source("", derived=names[table.name].derived))
            return _read_in(scope, Source(source.alias, output=output, derived=derived))
        return source

    def _named(self, node: exp.Table, name: exp.Identifier, database: exp.Identifier | None) -> Source:
        start, end = (database or name).meta["start"], name.meta["end"] + 1
        link = self._links.get(name.meta["start"])
        if link is not None:
            self.links_read.add(name.meta["start"])
        elif database is not None and _PATH.search(name.name):
            example = "CREATE EXTERNAL TABLE t (id INT) USING parquet LOCATION 'raw/t'"
            raise self._unsupported(
                node, f"a file is not read by its path; make an external table of its folder, such as {example}"
            )
        table = TableName(
            link[1] if link is not None else normalise(name.name),
            normalise(database.name) if database is not None else None,
            link[2] if link is not None else None,
            Span(start, end),
        )
        alias = node.args.get("alias")
        alias_columns = alias is not None and bool(alias.args.get("columns"))
        if alias_columns and not node.alias:
            raise self._unsupported(node, "names for columns stand behind an alias")
        sampled = bool(node.args.get("sample"))
        is_statement = start in self._table_statements
        return Source(
            alias=normalise(node.alias) or table.name,
            table=table,
            start=start,
            end=end,
            has_alias=bool(node.alias) or is_statement,
            alias_position=self._end_of_sample(end) if sampled else None,
            filterable=not (sampled or alias_columns),
            output=_renamed(UNKNOWN, node) if alias_columns else None,
        )

    def _end_of_sample(self, table_end: int) -> int | None:
        """Return the place for an alias after TABLESAMPLE (...) [REPEATABLE (...)], or None without TABLESAMPLE."""
        depth, end = 0, None
        for token in self._tokens:
            if token.start < table_end:
                continue
            if depth == 0 and token.word not in ("TABLESAMPLE", "REPEATABLE") and not token.is_symbol("("):
                break
            depth += token.is_symbol("(") - token.is_symbol(")")
            if depth == 0 and token.is_symbol(")"):
                end = token.end
        return end

    # -- what a SELECT brings ----------------------------------------------------

    def _output(self, expression: exp.Expr, scope: Scope) -> Output:
        """Return the output of one expression after SELECT."""
        star = expression.this if isinstance(expression, exp.Column) else expression
        if isinstance(star, exp.Star):
            output = (
                UNKNOWN if scope.pivoted else _together(source.brings for source in self._starred(expression, scope))
            )
            left_out = any(_is_row_id(column.name) for column in star.args.get("except_") or ())
            return Output(is_known=output.is_known) if left_out else output
        if isinstance(expression, exp.Aliases):
            return Output(sum(_is_row_id(str(name)) for name in expression.aliases))
        if isinstance(expression, exp.Anonymous):
            # Some generators return columns with names of their own.
            return Output(is_known=not _is_called(expression, *_NAMING_GENERATORS))
        return Output(int(_is_row_id(expression.alias_or_name)))

    def _starred(self, star: exp.Expr, scope: Scope) -> Sequence[Source]:
        if not isinstance(star, exp.Column):
            return [source for source in scope.sources if source.visible]
        qualifiers = qualifiers_of(star)
        found = self.resolve(qualifiers, scope)
        # Remaining names mean all fields of a struct.
        return found[1] if found is not None and found[2] == len(qualifiers) else [Source("")]

    # -- everything else ---------------------------------------------------------

    def _walk_parts(self, node: exp.Expr, names: Names, scope: Scope | None, but: Collection[str]) -> None:
        for part, value in node.args.items():
            if part not in but:
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, exp.Expr):
                        self._walk(child, names, scope)

    def _walk(self, expression: exp.Expr, names: Names, scope: Scope | None) -> None:
        stack = [expression]
        while stack:
            node = stack.pop()
            if isinstance(node, _QUERIES):
                self._query(node, names, scope)
            elif isinstance(node, exp.Column):
                if scope is not None:
                    self.columns.append((node, scope))
            elif isinstance(node, exp.Placeholder):
                self.markers.add(node.name)
            elif isinstance(node, exp.Star) and scope is not None and not _is_called(node.parent, "count"):
                self.stars.append((node, scope))
                stack.extend(node.iter_expressions())
            else:
                stack.extend(node.iter_expressions())

    def _unsupported(self, node: exp.Expr, reason: str) -> UnsupportedStatementError:
        return unsupported_error(self._text, self._start(node), reason)

    def _error(self, node: exp.Expr, reason: str) -> StatementSyntaxError:
        return syntax_error(self._text, self._start(node), reason)

    def _start(self, node: exp.Expr) -> int:
        """Return the place of the first name in a node, or else the beginning of the query."""
        starts = [part.meta["start"] for part in node.find_all(exp.Identifier) if "start" in part.meta]
        return min(starts, default=self._tokens[0].start)


def qualifiers_of(column: exp.Column) -> list[exp.Identifier]:
    """Return the names before the name of a column, or before a star."""
    parts = [column.args.get(part) for part in ("catalog", "db", "table")]
    return [part for part in parts if isinstance(part, exp.Identifier) and "start" in part.meta]


def _read_in(scope: Scope, source: Source) -> Source:
    if source.derived is not None:
        source.derived.readers.append((source, scope))
    return source


def _is_relation(node: exp.Expr) -> bool:
    """Return whether a node in parentheses in FROM is a table or join rather than a query."""
    if isinstance(node, exp.Subquery):
        return bool(node.alias or node.args.get("joins")) or _is_relation(node.this)
    return isinstance(node, exp.Table)


# -- what a query brings under the name ROW__ID ---------------------------------------------


def _is_row_id(name: str) -> bool:
    return normalise(name) == normalise(ROW_ID)


def _together(outputs: Iterable[Output]) -> Output:
    found = list(outputs)
    return Output(
        sum(output.named for output in found),
        tuple(table for output in found for table in output.tables),
        all(output.is_known for output in found),
    )


def _renamed(output: Output, node: exp.Expr) -> Output:
    """Return ``output``, or the output of the new column names if the alias of ``node`` renames the columns."""
    alias = node.args.get("alias")
    columns = alias.args.get("columns") if isinstance(alias, exp.TableAlias) else None
    return Output(sum(_is_row_id(column.name) for column in columns)) if columns else output


def _is_called(node: exp.Expr | None, *names: str) -> bool:
    """Return whether a node is the call of a function that has one of these names."""
    return isinstance(node, exp.Anonymous) and isinstance(node.this, str) and node.this.lower() in names
