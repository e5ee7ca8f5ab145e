"""Binding: the names of a statement become the tables, links, views and functions that they mean, before its locks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from airflow_hivex.core.errors import InvalidObjectError, InvalidOperationError
from airflow_hivex.core.execution.called_functions import with_functions
from airflow_hivex.core.execution.closed_names import check_views
from airflow_hivex.core.execution.context import Running, StatementContext
from airflow_hivex.core.execution.linked_names import Names
from airflow_hivex.core.execution.row_ids import row_id_meaning, with_row_ids
from airflow_hivex.core.execution.snapshot import shared_snapshot
from airflow_hivex.core.execution.table_changes import changes_in
from airflow_hivex.core.execution.transactions import OutrunError
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.snapshots import QualifiedName, Snapshot
from airflow_hivex.core.model.versions import VersionRange
from airflow_hivex.core.parser.grammar.views import expanded
from airflow_hivex.core.parser.statements import RoutedStatement, TableName, TableReference, is_stored
from airflow_hivex.core.settings import ALLOW_CODE

S = TypeVar("S", bound=RoutedStatement)

_DEEPEST_VIEW = 100


@dataclass(frozen=True, slots=True)
class BoundStatement(Generic[S]):
    """A statement that names tables only, and the snapshot in which they were found.

    ``statement`` has the queries of ``views`` and of changes in place of their names, full names in its calls of
    permanent functions, and columns of row ids in place of ROW__ID. Temporary views are in ``views`` with an empty
    database name. ``names`` has the links.
    """

    statement: S
    views: frozenset[QualifiedName]
    names: Names
    snapshot: Snapshot
    reads_row_ids: bool = False

    def check_row_ids(self, snapshot: Snapshot) -> None:
        """Refuse a later snapshot in which ROW__ID means something else.

        Raises:
            OutrunError: a table was changed meanwhile.
        """
        if not self.reads_row_ids:
            return
        for name, table in self.snapshot.tables.items():
            if row_id_meaning(snapshot.tables[name]) != row_id_meaning(table):
                raise OutrunError(f"table {table.full_name} was changed while the statement waited")


def bind(
    context: StatementContext, statement: S, running: Running | None, declarations: dict[str, str] | None
) -> BoundStatement[S]:
    """Resolve the names of a statement.

    The definitions of the permanent functions that it calls are added to ``declarations``. One round trip, and one more
    for each depth of views, for links, and for each function name that neither Spark nor the session knows.

    Raises:
        NoSuchTableError, NoSuchDatabaseError, NoSuchLinkError: an object does not exist.
        InvalidObjectError: views read each other in a circle.
        ForeignNameError: a view or function of a closed namespace reads or calls an object of another one.
        InvalidOperationError: only another engine can read the table or view; ``hivex.allow.code.execution`` does not
            allow a function that runs any code; ROW__ID is read of a table without row ids, or several tables have row
            ids.
    """
    bound = _Views(context, running).expand(statement)
    _refuse_code(context, bound.statement)
    statement = with_functions(context, bound.statement, declarations)
    tables, names = bound.snapshot.tables, bound.names
    reads_row_ids = any(query.row_ids.uses for query in statement.queries)
    statement = with_row_ids(statement, lambda reference: tables[names.of(reference.table)])
    return replace(bound, statement=statement, reads_row_ids=reads_row_ids)


class _Views:
    """Puts the queries of views and of changes into a statement, level by level."""

    def __init__(self, context: StatementContext, running: Running | None) -> None:
        self._context = context
        self._running = running
        self._names = Names(context)
        self._known: dict[QualifiedName, StoredTable] = {}
        self._changes: dict[tuple[TableName, VersionRange], str] = {}

    def expand(self, statement: S) -> BoundStatement[S]:
        """Return the statement with these queries in place of their names, and the tables that it then names."""
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
            temporary = {("", each.table.name) for each in statement.references if session.objects.view(each.table)}
            found = self._views_of(statement)
            if not found and not temporary and all(each.changes is None for each in statement.references):
                return BoundStatement(statement, frozenset(views), self._names, snapshot)
            views |= found.keys() | temporary
            statement = expanded(statement, self._text_of, context.parameters, session.database)
            check_views(context, statement, found)
        name = ".".join(sorted(found or wanted)[0])
        raise InvalidObjectError("view", name, f"its views are nested deeper than {_DEEPEST_VIEW}")

    def _views_of(self, statement: RoutedStatement) -> Mapping[QualifiedName, StoredTable]:
        objects = self._context.session.objects
        named = {self._names.of(each.table) for each in statement.view_references if objects.view(each.table) is None}
        return {name: self._known[name] for name in named if self._known[name].is_view}

    def _text_of(self, reference: TableReference) -> str | None:
        if not is_stored(reference.table):
            return None
        if reference.changes is not None:
            key = (reference.table, reference.changes)
            if key not in self._changes:
                self._changes[key] = changes_in(self._context, *key)
            return self._changes[key]
        temporary = self._context.session.objects.view(reference.table)
        return self._known[self._names.of(reference.table)].view_expanded_text if temporary is None else temporary.text


def _check_read(statement: RoutedStatement, table: StoredTable) -> None:
    """Refuse a table or view that only another engine can read."""
    if table.not_read:
        raise InvalidOperationError(statement.kind, table.full_name, table.not_read)


def _refuse_code(context: StatementContext, statement: RoutedStatement) -> None:
    """Refuse functions that run any code, in the statement itself and in the views that it reads."""
    if context.services.settings[ALLOW_CODE]:
        return
    found = frozenset().union(*(query.code_functions for query in statement.queries))
    if found:
        reason = f"it runs any code on the cluster; an administrator may allow it by the setting {ALLOW_CODE}"
        raise InvalidOperationError("A call of", ", ".join(sorted(found)), reason)
