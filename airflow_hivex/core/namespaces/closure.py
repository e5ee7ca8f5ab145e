"""Closure: the objects of a namespace that depend on something outside of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from sqlalchemy import Connection

from airflow_hivex.core.catalog import functions, links, tables
from airflow_hivex.core.catalog.closed_namespaces import foreign_owners
from airflow_hivex.core.catalog.databases import select_database
from airflow_hivex.core.catalog.folders import SharedFolder, shared_folders
from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.errors import HivexError, InvalidObjectError, SqlError
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.links import LinkName
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.permanent_functions import PermanentFunction
from airflow_hivex.core.model.snapshots import QualifiedName
from airflow_hivex.core.namespaces.definitions import (
    Definition,
    function_definition,
    statement_calls,
    table_definition,
    view_definition,
)
from airflow_hivex.core.namespaces.foreign_names import create_link, foreign_uses, link_of
from airflow_hivex.core.parser.lexer.tokens import location
from airflow_hivex.core.parser.reader import read_all
from airflow_hivex.core.parser.statements import (
    ExecuteImmediate,
    ObjectKind,
    TableName,
    UseDatabase,
)
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.engine import Store

_FOREIGN_FUNCTION = "it is a function of another namespace"


@dataclass(frozen=True, slots=True)
class Dependency:
    """An object of a namespace that depends on something outside, or on nothing that exists.

    ``object`` is such as ``a.v``, or the place of a statement; ``kind`` is ``view``, ``function``, ``table`` (its
    constraints), ``folder`` or ``statement``. ``name`` is the name in it, and ``reason`` says what is wrong.
    ``create_link`` makes the table available, None where no link does.
    ``line`` and ``column`` count from 1 in a statement's text. ``namespace`` is the other one, where an object of a
    namespace depends on one.
    """

    kind: str
    object: str
    name: str
    reason: str
    create_link: str | None = None
    line: int | None = None
    column: int | None = None
    namespace: str | None = None


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

    def __init__(self, store: Store, clusters: Clusters) -> None:
        self._store = store
        self._clusters = clusters

    def check(self, namespace: str, statements: Iterable[NamedStatement] = ()) -> Closure:
        """Return the dependencies of a namespace: of its objects, and of statements that run in it.

        These are the names in its views, functions and constraints, and the folders of its tables. The number of round
        trips does not grow with the number of objects.

        Raises:
            NoSuchDatabaseError: the namespace does not exist.
        """
        name = normalise(namespace)
        with self._store.read() as connection:
            select_database(connection, name)
            own = set(tables.select_table_names(connection, name, None))
            named = [(name, each) for each in sorted(own)]
            stored = [each for batch in batches(named, 1000) for each in tables.select_tables(connection, batch)]
            own_functions = functions.select_functions(connection, name, None)
            imported = links.describe_links(connection, links.links_in(name))
            folders = shared_folders(connection)
        known = {link.name for link in imported}
        read: list[Definition | Dependency] = [_read(view_definition, "view", each) for each in stored if each.is_view]
        read += [_read(function_definition, "function", each) for each in own_functions]
        read += [_read(table_definition, "table", each) for each in stored if not each.is_view]
        texts = [_names_in(each, name) for each in statements]
        calls = {call for each in read if isinstance(each, Definition) for call in each.foreign_calls}
        calls |= {call for each in texts for call, _, _ in each.calls}
        with self._store.read() as connection:
            existing = set(functions.existing(connection, calls)) if calls else set()
            owners = self._owners(connection, name, {folder for each in texts for folder, _, _ in each.folders})
        found: list[Dependency] = []
        for definition in read:
            if isinstance(definition, Dependency):
                found.append(definition)
            else:
                found += _of_definition(definition, own, known, existing)
        found += [_of_folder(each, name) for each in folders if name in (each.inner.namespace, each.outer.namespace)]
        for text in texts:
            found += text.found
            found += [
                Dependency("statement", text.name, ".".join(call), _FOREIGN_FUNCTION, None, line, column)
                for call, line, column in text.calls
                if call in existing
            ]
            found += [
                Dependency("statement", text.name, folder, f"the folder is shared with {owner}", None, line, column)
                for folder, line, column in text.folders
                for owner in owners.get(folder, ())
            ]
        imports = tuple(Import(link.name.in_database, ".".join(link.source), link.type.value) for link in imported)
        return Closure(name, tuple(found), imports)

    def _owners(self, connection: Connection, namespace: str, folders: Iterable[str]) -> dict[str, list[str]]:
        """Return the objects of other namespaces whose folders are, hold or lie in folders of statements."""
        found: dict[str, list[str]] = {}
        for folder in folders:
            for cluster in self._clusters:
                root = self._clusters.get(cluster).root
                place = root.relative(folder)
                for each in () if place is None else dict.fromkeys((place, root.real(place))):
                    if each is not None:
                        found.setdefault(folder, []).extend(foreign_owners(connection, namespace, cluster, each))
        return {folder: list(dict.fromkeys(owners)) for folder, owners in found.items()}


T = TypeVar("T", StoredTable, PermanentFunction)


def _read(definition: Callable[[T], Definition], kind: str, found: T) -> Definition | Dependency:
    try:
        return definition(found)
    except (SqlError, InvalidObjectError) as error:
        reason = str(error) if isinstance(error, SqlError) else error.reason
        return Dependency(kind, found.full_name, found.full_name, reason)


def _of_definition(
    definition: Definition, own: set[str], known: set[LinkName], existing: set[QualifiedName]
) -> Iterator[Dependency]:
    kind, owner, namespace = definition.kind, definition.name, definition.namespace
    foreign = set(definition.foreign_tables)
    for name in dict.fromkeys(definition.tables):
        # Nothing is read of a table that a foreign key references.
        link = None if kind == "table" else create_link(link_of(name.name, name.database or "", name.namespace))
        if name in foreign:
            reason = "it is of another namespace"
            yield Dependency(kind, owner, str(name), reason, link, namespace=name.database)
        elif name.namespace is not None and LinkName(namespace, name.name, name.namespace) not in known:
            yield Dependency(kind, owner, str(name), "the link does not exist", link)
        elif name.namespace is None and name.name not in own:
            yield Dependency(kind, owner, str(name), "it does not exist")
    for call in dict.fromkeys(definition.foreign_calls):
        if call in existing:
            yield Dependency(kind, owner, ".".join(call), _FOREIGN_FUNCTION, namespace=call[0])


def _of_folder(shared: SharedFolder, namespace: str) -> Dependency:
    mine, other = (shared.inner, shared.outer) if shared.inner.namespace == namespace else (shared.outer, shared.inner)
    relation = "lies in" if mine is shared.inner else "holds"
    if shared.inner.location == shared.outer.location:
        relation = "is"
    reason = f"the folder {mine.location} on cluster {shared.cluster} {relation} that of {other.owner}"
    return Dependency("folder", mine.owner, other.owner, reason, namespace=other.namespace)


@dataclass(slots=True)
class _NamesIn:
    """The foreign names in a text, and the calls and folders that may be of other namespaces, with their places."""

    name: str
    found: list[Dependency] = field(default_factory=list)
    calls: list[tuple[QualifiedName, int, int]] = field(default_factory=list)
    folders: list[tuple[str, int, int]] = field(default_factory=list)


def _names_in(statement: NamedStatement, namespace: str) -> _NamesIn:
    """Return the foreign names of a text; USE in it changes the namespace of the statements behind it."""
    names = _NamesIn(statement.name)
    current = normalise(statement.namespace or namespace)
    if current != namespace:
        names.found.append(Dependency("statement", statement.name, current, "it runs in another namespace"))
        return names
    try:
        _read_names(names, statement.text, namespace, None)
    except HivexError as error:
        reason = f"the statement cannot be read: {error}"
        names.found.append(Dependency("statement", statement.name, "", reason))
    return names


def _read_names(names: _NamesIn, text: str, namespace: str, place: tuple[int, int] | None) -> None:
    """Add the names of a text. ``place`` is that of the EXECUTE IMMEDIATE that has it, None for the whole text."""

    def at(start: int | None) -> tuple[int, int]:
        return place or location(text, start or 0)

    for each in read_all(text, database=namespace):
        found = each.statement
        if isinstance(found, UseDatabase):
            if found.name != namespace:
                reason = "it changes to another namespace"
                names.found.append(Dependency("statement", names.name, found.name, reason, None, *at(each.span.start)))
            continue
        if isinstance(found, ExecuteImmediate):
            if found.text is not None:
                _read_names(names, found.text, namespace, at(each.span.start))
            else:
                reason = f"the text in variable {found.variable} is known when it runs"
                names.found.append(Dependency("statement", names.name, "", reason, None, *at(each.span.start)))
            continue
        for use in foreign_uses(found, namespace):
            name = str(TableName(use.name or "", use.database, use.namespace))
            shown = link_of(use.name or "", use.database or "", use.namespace)
            link = None if use.role.is_output or use.kind is not ObjectKind.TABLE else create_link(shown)
            reason = f"it is of another namespace ({use.role})"
            names.found.append(Dependency("statement", names.name, name, reason, link, *at(use.start)))
        names.calls += [
            ((call.database, call.name), *at(call.start))
            for call in statement_calls(found)
            if call.database not in (None, namespace)
        ]
        names.folders += [(folder, *at(each.span.start)) for folder in found.folders]
