"""Binding: the names in a statement are resolved to tables, links, views and functions, before locks are requested."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Generic, TypeAlias, TypeVar

from airflow_hivex.core.errors import InvalidObjectError, InvalidOperationError
from airflow_hivex.core.execution.called_functions import with_functions
from airflow_hivex.core.execution.context import Running, StatementContext
from airflow_hivex.core.execution.read_changes import ReadChanges
from airflow_hivex.core.execution.read_tables import Names, shared_snapshot
from airflow_hivex.core.execution.row_ids import row_id_meaning, with_row_ids
from airflow_hivex.core.execution.statement_transactions import OutrunError
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.snapshots import QualifiedName, Snapshot
from airflow_hivex.core.model.versions import VersionRange
from airflow_hivex.core.namespaces.definitions import Definition
from airflow_hivex.core.parser.grammar.views import query_of, quoted
from airflow_hivex.core.parser.lexer.tokens import tokenize, unsupported_error
from airflow_hivex.core.parser.statements import (
    ChangeQuery,
    ChangeRows,
    Query,
    RoutedStatement,
    TableName,
    TableReference,
    TextEdit,
    is_stored,
)
from airflow_hivex.core.settings import ALLOW_CODE

S = TypeVar("S", bound=RoutedStatement)

ReadName: TypeAlias = tuple[TableName, VersionRange | None]
"""A pair: the name of a table or view that a query reads, and the commits of its CHANGES clause, or None."""

_DEEPEST_VIEW = 100


@dataclass(frozen=True, slots=True)
class BoundStatement(Generic[S]):
    """A statement that names only tables, and the snapshot in which the tables were found.

    In ``statement``, the names of views and of tables with a CHANGES clause are replaced by queries, and ROW__ID by
    columns of row ids. Calls of permanent functions have full names. ``views`` are the replaced views. A temporary view
    has an empty database name in ``views``. ``names`` has the links of the statement, with the tables that they show.
    """

    statement: S
    views: frozenset[QualifiedName]
    names: Names
    snapshot: Snapshot
    reads_row_ids: bool = False

    def check_row_ids(self, snapshot: Snapshot) -> None:
        """Ensure that ROW__ID has the same meaning in ``snapshot`` as in the snapshot of this statement.

        Raises:
            OutrunError: ROW__ID has another meaning, because a table was changed meanwhile.
        """
        if not self.reads_row_ids:
            return
        for name, table in self.snapshot.tables.items():
            if row_id_meaning(snapshot.tables[name]) != row_id_meaning(table):
                raise OutrunError(f"table {table.full_name} was changed while the statement waited")


def bind(
    context: StatementContext, statement: S, running: Running | None, declarations: dict[str, str] | None
) -> BoundStatement[S]:
    """Return a statement with its names resolved.

    The definitions of the permanent functions that the statement calls are added to ``declarations``. The call takes
    one round trip. It takes one more for links that are not cached, for each level of views, and for each function name
    that neither Spark nor the session knows.

    Raises:
        NoSuchTableError, NoSuchDatabaseError, NoSuchLinkError: an object does not exist.
        InvalidObjectError: views are nested too deeply, for example because they read each other in a cycle.
        ForeignNameError: a view or function of a closed namespace reads or calls an object of another namespace.
        InvalidOperationError: only another engine can read the table or view; ``hivex.allow.code.execution`` does not
            allow a function that runs arbitrary code; ROW__ID is read from a table without row ids, or from several
            tables.
    """
    bound = _Views(context, running).expand(statement)
    _refuse_code(context, bound.statement)
    statement = with_functions(context, bound.statement, declarations)
    tables, names = bound.snapshot.tables, bound.names
    reads_row_ids = any(query.row_ids.uses for query in statement.queries)
    statement = with_row_ids(statement, lambda reference: tables[names.of(reference.table)])
    return replace(bound, statement=statement, reads_row_ids=reads_row_ids)


class _Views:
    """The replacement of views and of tables with CHANGES clauses by queries, until only tables are left."""

    def __init__(self, context: StatementContext, running: Running | None) -> None:
        self._context = context
        self._running = running
        self._names = Names(context)
        self._changes = ReadChanges(context)
        self._known: dict[QualifiedName, StoredTable] = {}

    def expand(self, statement: S) -> BoundStatement[S]:
        """Return the statement with queries in place of its views, and the tables that the result names."""
        context, session = self._context, self._context.session
        joined = context.joined(self._running)
        txn_id = joined.txn_id if joined is not None else self._running.opened_id if self._running else None
        valid_txns = None
        if joined is not None:
            valid_txns = joined.snapshot if self._running else shared_snapshot(context, joined)
        views: set[QualifiedName] = set()
        for _ in range(_DEEPEST_VIEW):
            named = [each.table for each in statement.references if session.objects.view(each.table) is None]
            self._names.look_up(named)
            wanted = {self._names.of(name) for name in named} | {session.qualify(name) for name in statement.targets}
            snapshot = context.services.catalog.snapshot(
                sorted(wanted), txn_id, valid_txns=valid_txns, known=self._known.values()
            )
            self._known.update(snapshot.tables)
            for each in named:
                _check_read(statement, self._known[self._names.of(each)])
            texts = {(each.table, each.changes): self._text_of(each) for each in statement.view_references}
            if all(text is None for text in texts.values()):
                return BoundStatement(statement, frozenset(views), self._names, snapshot)
            expansion = Expansion(texts, context.parameters, session.database)
            statement = expansion.of(statement)
            views.update(self._checked_views(expansion))
        raise InvalidObjectError("view", ".".join(min(views)), f"its views are nested deeper than {_DEEPEST_VIEW}")

    def _text_of(self, reference: TableReference) -> str | None:
        """Return the query that replaces a reference, or None if the reference names a table without CHANGES."""
        if reference.changes is not None:
            return self._changes.query(reference.table, reference.changes)
        temporary = self._context.session.objects.view(reference.table)
        if temporary is not None:
            return temporary.text
        table = self._known[self._names.of(reference.table)]
        return table.view_expanded_text or "" if table.is_view else None

    def _checked_views(self, expansion: Expansion) -> Iterator[QualifiedName]:
        """Yield the views that an expansion has replaced; temporary views have an empty database name.

        Raises:
            ForeignNameError: a view of a closed namespace reads or calls an object of another namespace.
        """
        for name, (tables, calls) in expansion.named.items():
            if self._context.session.objects.view(name) is not None:
                yield "", name.name
                continue
            view = self._known[self._names.of(name)]
            if view.is_view:
                definition = Definition("view", view.full_name, view.database, tuple(tables), tuple(calls))
                self._context.services.namespaces.check_definition(definition)
                yield self._names.of(name)


class Expansion:
    """A replacement of names in a statement by queries. Names within these queries are not replaced.

    ``texts`` is a dict from name to query. If the query is None, the name is not replaced. After a call of :meth:`of`,
    ``named`` is a dict from each replaced name to the tables and functions in its query.
    """

    def __init__(self, texts: Mapping[ReadName, str | None], parameters: Mapping[str, object], database: str) -> None:
        self.named: dict[TableName, tuple[list[TableName], list[QualifiedName]]] = {}
        self._texts = texts
        self._parameters = parameters
        self._database = database

    def of(self, statement: S) -> S:
        """Return the statement with its names replaced. The target of an UPDATE, DELETE or MERGE keeps its name."""
        if not isinstance(statement, ChangeRows):
            return statement.with_queries(lambda query: self._query(query)[0])
        return replace(
            statement,
            matched=self._part(statement.matched),
            source=statement.source and self._query(statement.source)[0],
            unmatched=statement.unmatched and self._part(statement.unmatched),
            unmatched_by_source=statement.unmatched_by_source and self._part(statement.unmatched_by_source),
        )

    def _part(self, part: ChangeQuery) -> ChangeQuery:
        query, origins = self._query(part.query, (part.target, part.source))
        target, source = (None if place is None else origins.index(place) for place in (part.target, part.source))
        return replace(part, query=query, target=target, source=source)

    def _query(self, query: Query, kept: Collection[int | None] = ()) -> tuple[Query, Sequence[int]]:
        """Return a pair: the query with its names replaced, and the origins of the references of the result.

        For each reference of the result, its origin is an index of ``query.references``. For example, if the view ``v``
        reads ``a`` and ``b``, a query of ``v`` and ``t`` becomes a query of ``a``, ``b`` and ``t`` with the origins 0,
        0 and 1. The references at the indexes ``kept`` are not replaced.
        """
        texts = [
            None if place in kept else self._texts.get((each.table, each.changes))
            for place, each in enumerate(query.references)
        ]
        if all(text is None for text in texts):
            return query, range(len(texts))
        for reference, text in zip(query.references, texts, strict=True):
            if text is not None and reference.version is not None:
                reason = f"{reference.table} is a view, which has no versions; name those of the tables that it reads"
                raise unsupported_error(query.text, reference.start, reason)
            if text is not None and reference.alias_position is not None:
                reason = f"TABLESAMPLE of view {reference.table} is not of this release; sample the tables behind it"
                raise unsupported_error(query.text, reference.start, reason)
        whole, places = _without_table_statements(_without_changes(query, texts), texts).render_with_places(
            [
                f"({text})"
                if text is not None
                else query.text[reference.start : reference.end]
                if is_stored(reference.table)
                else quoted(reference.table.name)
                for reference, text in zip(query.references, texts, strict=True)
            ],
            with_versions=True,
        )
        read = query_of(whole, self._parameters, self._database)
        starts = [place.start for place in places]
        origins = [bisect_right(starts, each.start) - 1 for each in read.references]
        for reference, text, place in zip(query.references, texts, places, strict=True):
            if text is not None:
                tables, calls = self.named.setdefault(reference.table, ([], []))
                tables += (each.table for each in read.references if place.start <= each.start < place.end)
                calls += (
                    (each.database or self._database, each.name)
                    for each in read.functions
                    if place.start <= each.start < place.end
                )
        # Tables that a view reads get the place of the view's name in the user's text.
        references = (
            replace(each, table=replace(each.table, span=query.references[origin].table.span))
            for each, origin in zip(read.references, origins, strict=True)
        )
        return replace(read, references=tuple(references)), origins


def _without_changes(query: Query, texts: Sequence[str | None]) -> Query:
    """Return the query without the CHANGES clauses of the references that have a text in ``texts``."""
    edits = []
    references = []
    for each, text in zip(query.references, texts, strict=True):
        if text is not None and each.changes is not None:
            edits.append(TextEdit(each.changes.start, each.changes.end, ""))
            each = replace(each, changes=None)
        references.append(each)
    return replace(query, references=tuple(references), qualifiers=(*query.qualifiers, *edits))


def _without_table_statements(query: Query, texts: Sequence[str | None]) -> Query:
    """Return the query with ``SELECT * FROM`` in place of each keyword TABLE before the name of a view."""
    views = {each.start for each, text in zip(query.references, texts, strict=True) if text is not None}
    edits = [
        TextEdit(before.start, before.end, "SELECT * FROM")
        for before, token in pairwise(tokenize(query.text))
        if token.start in views and before.word == "TABLE"
    ]
    return replace(query, qualifiers=tuple(sorted((*query.qualifiers, *edits), key=lambda edit: edit.start)))


def _check_read(statement: RoutedStatement, table: StoredTable) -> None:
    """Refuse a table or view that only another engine can read."""
    if table.not_read:
        raise InvalidOperationError(statement.kind, table.full_name, table.not_read)


def _refuse_code(context: StatementContext, statement: RoutedStatement) -> None:
    """Refuse functions that run arbitrary code, in the statement itself and in the views that it reads."""
    if context.services.settings[ALLOW_CODE]:
        return
    found = frozenset().union(*(query.code_functions for query in statement.queries))
    if found:
        reason = f"it runs any code on the cluster; an administrator may allow it by the setting {ALLOW_CODE}"
        raise InvalidOperationError("A call of", ", ".join(sorted(found)), reason)
