"""Closure: the objects of a namespace that depend on something outside of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from airflow_hivex.core.catalog import links, tables
from airflow_hivex.core.catalog.databases import select_database
from airflow_hivex.core.errors import HivexError, SqlError
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.links import LinkName
from airflow_hivex.core.model.objects import StoredTable, TableType
from airflow_hivex.core.model.statements import TableName, UseDatabase
from airflow_hivex.core.namespaces.foreign_names import create_link, foreign_uses, link_of
from airflow_hivex.core.sql.reader import read_all
from airflow_hivex.core.sql.tokens import location
from airflow_hivex.core.sql.views import tables_of
from airflow_hivex.core.store.engine import Store


@dataclass(frozen=True, slots=True)
class Dependency:
    """An object of a namespace that depends on something outside, or on nothing that exists.

    ``object`` is a view such as ``a.v``, or the place of a statement; ``kind`` is ``view`` or ``statement``. ``name``
    is the name in it, and ``reason`` says what is wrong. ``create_link`` makes the table available, None where no link
    does.
    ``line`` and ``column`` count from 1 in a statement's text.
    """

    kind: str
    object: str
    name: str
    reason: str
    create_link: str | None = None
    line: int | None = None
    column: int | None = None


@dataclass(frozen=True, slots=True)
class Import:
    """A link of a namespace: what it takes from another one, by permission."""

    link: str
    source: str
    type: str


@dataclass(frozen=True, slots=True)
class Closure:
    """The answer for one namespace: it is closed if nothing in it depends on something outside besides its links."""

    namespace: str
    dependencies: tuple[Dependency, ...]
    imports: tuple[Import, ...]

    @property
    def is_closed(self) -> bool:
        """Return whether nothing depends on something outside, besides links."""
        return not self.dependencies

    @property
    def is_self_contained(self) -> bool:
        """Return whether there are no links either, so that the namespace could move alone."""
        return self.is_closed and not self.imports


@dataclass(frozen=True, slots=True)
class NamedStatement:
    """A text of statements that runs in a namespace, and the name of its place, such as a task.

    ``cluster`` is the one that is pinned, and ``parameters`` are the values of ``:name`` markers, for their routes.
    """

    name: str
    text: str
    namespace: str | None = None
    cluster: str | None = None
    parameters: Mapping[str, object] | None = None


class ClosureCheck:
    """Finds what a namespace depends on. Reads the catalog, and no data."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def check(self, namespace: str, statements: Iterable[NamedStatement] = ()) -> Closure:
        """Return the dependencies of a namespace: of its views, and of statements that run in it. Four round trips.

        Raises:
            NoSuchDatabaseError: the namespace does not exist.
        """
        name = normalise(namespace)
        with self._store.read() as connection:
            select_database(connection, name)
            views = tables.select_tables(
                connection,
                [(name, each) for each in tables.select_table_names(connection, name, None, TableType.VIRTUAL_VIEW)],
            )
            own = set(tables.select_table_names(connection, name, None))
            imported = links.describe_links(connection, links.links_in(name))
        known = {link.name for link in imported}
        found = [each for view in views for each in _of_view(view, own, known)]
        for statement in statements:
            found += _of_statement(statement, name)
        imports = tuple(Import(link.name.in_database, ".".join(link.source), link.type.value) for link in imported)
        return Closure(name, tuple(found), imports)


def _of_view(view: StoredTable, own: set[str], known: set[LinkName]) -> list[Dependency]:
    found = []
    try:
        names = tables_of(view.view_expanded_text or "")
    except SqlError as error:
        reason = f"its query cannot be read: {error}"
        return [Dependency("view", view.full_name, view.full_name, reason)]
    for name in dict.fromkeys(names):
        link = create_link(link_of(name.name, name.database or "", name.namespace))
        if name.database != view.database:
            found.append(Dependency("view", view.full_name, str(name), "it is of another namespace", link))
        elif name.namespace is not None and LinkName(view.database, name.name, name.namespace) not in known:
            found.append(Dependency("view", view.full_name, str(name), "the link does not exist", link))
        elif name.namespace is None and name.name not in own:
            found.append(Dependency("view", view.full_name, str(name), "it does not exist"))
    return found


def _of_statement(statement: NamedStatement, namespace: str) -> list[Dependency]:
    """Return the foreign names of a text; USE in it changes the namespace of the statements behind it."""
    found: list[Dependency] = []
    current = normalise(statement.namespace or namespace)
    if current != namespace:
        return [Dependency("statement", statement.name, current, "it runs in another namespace")]
    try:
        for each in read_all(statement.text, database=current):
            if isinstance(each.statement, UseDatabase):
                if each.statement.name != namespace:
                    line, column = location(statement.text, each.span.start)
                    reason = "it changes to another namespace"
                    found.append(
                        Dependency("statement", statement.name, each.statement.name, reason, None, line, column)
                    )
                continue
            for use in foreign_uses(each.statement, namespace):
                line, column = location(statement.text, use.start or 0)
                name = str(TableName(use.name or "", use.database, use.namespace))
                shown = link_of(use.name or "", use.database or "", use.namespace)
                link = None if use.role.is_output else create_link(shown)
                reason = f"it is of another namespace ({use.role})"
                found.append(Dependency("statement", statement.name, name, reason, link, line, column))
    except HivexError as error:
        found.append(Dependency("statement", statement.name, "", f"the statement cannot be read: {error}"))
    return found
