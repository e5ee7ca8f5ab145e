"""Closure: the dependencies of a namespace's objects on other namespaces, and foreign names in statements."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from sqlalchemy import Connection

from airflow_hivex.core.catalog import functions, link_rows, table_rows
from airflow_hivex.core.catalog.closed_namespaces import foreign_owners
from airflow_hivex.core.catalog.database_rows import select_database
from airflow_hivex.core.catalog.folders import SharedFolder, shared_folders
from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.errors import ForeignNameError, HivexError, InvalidObjectError, SqlError
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
from airflow_hivex.core.parser.lexer.tokens import location
from airflow_hivex.core.parser.reader import read_all
from airflow_hivex.core.parser.statements import (
    CreateDatabase,
    CreateLink,
    DescribeDatabase,
    ExecuteImmediate,
    ObjectKind,
    Role,
    ShowCapacity,
    ShowCompactions,
    ShowLinks,
    ShowLocks,
    ShowTables,
    Statement,
    TableName,
    UseDatabase,
    UsedObject,
)
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.engine import Store

_FOREIGN_FUNCTION = "it is a function of another namespace"


@dataclass(frozen=True, slots=True)
class Dependency:
    """An object of a namespace that depends on an object of another namespace, or on a missing object.

    ``object`` is the object that depends, such as ``a.v``, or the name of a statement. ``kind`` is the kind of
    ``object``: ``view``, ``function``, ``table`` (for its constraints), ``folder`` or ``statement``. ``name`` is the
    foreign or missing object, and ``reason`` describes the problem. ``namespace`` is the namespace of the foreign
    object, or None for a missing object. ``create_link`` is the CREATE LINK statement that makes the foreign table
    available, or None if a link does not help. ``line`` and ``column`` count from 1 in the text of a statement.
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
    """A permitted dependency: a link to a table of another namespace."""

    link: str
    source: str
    type: str


@dataclass(frozen=True, slots=True)
class Closure:
    """The links of a namespace (``imports``), and the dependencies that a closed namespace must not have."""

    namespace: str
    dependencies: tuple[Dependency, ...]
    imports: tuple[Import, ...]

    @property
    def is_closed(self) -> bool:
        """Return whether links are the only dependencies of the namespace."""
        return not self.dependencies

    @property
    def is_self_contained(self) -> bool:
        """Return whether the namespace has neither dependencies nor links."""
        return self.is_closed and not self.imports


@dataclass(frozen=True, slots=True)
class NamedStatement:
    """A text with one or more statements that run in a namespace, and its name, such as that of a task.

    ``cluster`` is the pinned cluster, and ``parameters`` are the values of ``:name`` markers.
    """

    name: str
    text: str
    namespace: str | None = None
    cluster: str | None = None
    parameters: Mapping[str, object] | None = None


class ClosureCheck:
    """A check for the dependencies of a namespace. The check reads only the catalog."""

    def __init__(self, store: Store, clusters: Clusters) -> None:
        self._store = store
        self._clusters = clusters

    def check(self, namespace: str, statements: Iterable[NamedStatement] = ()) -> Closure:
        """Return the dependencies of a namespace's objects, and of statements that run in the namespace.

        The check looks at names in views, functions, constraints and statements, and at folders.

        Raises:
            NoSuchDatabaseError: the namespace does not exist.
        """
        name = normalise(namespace)
        with self._store.read() as connection:
            select_database(connection, name)
            own = set(table_rows.select_table_names(connection, name, None))
            named = [(name, each) for each in sorted(own)]
            stored = [each for batch in batches(named, 1000) for each in table_rows.select_tables(connection, batch)]
            own_functions = functions.select_functions(connection, name, None)
            imported = link_rows.describe_links(connection, link_rows.links_in(name))
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
        """Return a dict from folder to the objects of other namespaces whose folders overlap this folder.

        ``folders`` are the folders that statements name.
        """
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
        # No data is read of a table that a foreign key references.
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
    """The foreign names in a text, and the calls and folders that can belong to other namespaces."""

    name: str
    found: list[Dependency] = field(default_factory=list)
    calls: list[tuple[QualifiedName, int, int]] = field(default_factory=list)
    folders: list[tuple[str, int, int]] = field(default_factory=list)


def _names_in(statement: NamedStatement, namespace: str) -> _NamesIn:
    """Return the foreign names, calls and folders in the text of a statement."""
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
    """Add the names in a text to ``names``.

    ``place`` is the line and column of all names if EXECUTE IMMEDIATE runs the text, otherwise None.
    """

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


_OF_ANY_DATABASE = (
    *(CreateDatabase, DescribeDatabase, UseDatabase),
    *(ShowCapacity, ShowCompactions, ShowLinks, ShowLocks, ShowTables),
)
"""The statements that can name any database, also in a closed namespace."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def foreign_uses(statement: Statement, namespace: str) -> list[UsedObject]:
    """Return the objects of other namespaces that a statement in ``namespace`` names, sorted by place in the text.

    If an object is both read and written at the same place, the write comes first. The table that CREATE LINK names,
    and a database that a statement creates, describes, lists or enters by USE, are not in the result.
    """
    found = [use for use in statement.uses if _is_foreign(statement, use, namespace)]
    return sorted(found, key=lambda use: (use.start or 0, not use.role.is_output))


def _is_foreign(statement: Statement, use: UsedObject, namespace: str) -> bool:
    if use.kind is ObjectKind.DATABASE:
        return not isinstance(statement, _OF_ANY_DATABASE) and use.name not in (None, namespace)
    if use.kind not in (ObjectKind.TABLE, ObjectKind.FUNCTION) or use.database in (None, namespace):
        return False
    return not (isinstance(statement, CreateLink) and use.namespace is None)


def foreign_tables(names: Iterable[TableName], namespace: str) -> list[TableName]:
    """Return the names that belong to another namespace than ``namespace``."""
    return [name for name in names if name.database not in (None, namespace)]


def foreign_name_error(use: UsedObject, namespace: str, text: str | None) -> ForeignNameError:
    """Return the error for a foreign name, with its place in the text and advice."""
    name = _written(use)
    if use.kind is ObjectKind.DATABASE:
        return _error(name, namespace, use, text, f"Change to it first, by USE {use.name}.", None)
    if use.kind is ObjectKind.FUNCTION:
        advice = f"Change to the namespace of the function first, by USE {quoted(use.database or '')}."
        return _error(name, namespace, use, text, advice, None)
    if use.role.is_output:
        advice = (
            f"A link is read only; change to the namespace of the table first, by USE {quoted(use.database or '')}."
        )
        return _error(name, namespace, use, text, advice, None)
    link = link_of(use.name or "", use.database or "", use.namespace)
    return _error(
        name, namespace, use, text, f"{create_link(link)}; then write {link} in its place.", create_link(link)
    )


def foreign_view_error(view: str, name: TableName, namespace: str, kind: str = "view") -> ForeignNameError:
    """Return the error for a foreign name in the query of a view, or of a function."""
    link = link_of(name.name, name.database or "", name.namespace)
    again = f"then create the {kind} again, with {link} in its place"
    advice = f"{kind.capitalize()} {view} reads it. {create_link(link)}; {again}."
    return ForeignNameError(str(name), namespace, None, None, advice, create_link(link))


def foreign_call_error(
    function: tuple[str, str], namespace: str, text: str | None = None, start: int | None = None, reader: str = ""
) -> ForeignNameError:
    """Return the error for a call of a function of another namespace. ``reader`` is a sentence about the caller."""
    line, column = (None, None) if text is None or start is None else location(text, start)
    advice = f"{reader}Create the function in namespace {namespace}, too; functions have no links."
    return ForeignNameError(".".join(function), namespace, line, column, advice, None)


def foreign_use(name: TableName, role: Role = Role.READ) -> UsedObject:
    """Return the name of a table as a :class:`UsedObject`, with its place in the text of the statement."""
    start, end = name.span or (None, None)
    return UsedObject(ObjectKind.TABLE, role, name.name, name.database, name.namespace, start, end)


def link_of(table: str, database: str, namespace: str | None) -> str:
    """Return the name of a link to a table of ``database``.

    If ``namespace`` is given, ``table@namespace`` is a link in ``database``, and the result is a link to the same
    source.
    """
    return f"{quoted(table)}@{quoted(namespace or database)}"


def create_link(link: str) -> str:
    """Return the statement that creates a link."""
    return f"CREATE LINK TO {link}"


def quoted(name: str) -> str:
    """Return a name as it is written in a statement, with backquotes if they are necessary."""
    return name if _PLAIN.fullmatch(name) else f"`{name.replace('`', '``')}`"


def _written(use: UsedObject) -> str:
    if use.kind is ObjectKind.DATABASE:
        return use.name or ""
    return str(TableName(use.name or "", use.database, use.namespace))


def _error(
    name: str, namespace: str, use: UsedObject, text: str | None, instead: str, link: str | None
) -> ForeignNameError:
    line, column = (None, None) if text is None or use.start is None else location(text, use.start)
    return ForeignNameError(name, namespace, line, column, instead, link)
