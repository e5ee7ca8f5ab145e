"""The objects that end with their session: temporary views, tables and functions, variables and configuration."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from airflow_hivex.core.model.identifiers import TableName
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.snapshots import QualifiedName


@dataclass(frozen=True, slots=True)
class TemporaryView:
    """A view of one session: its columns, and its query with the databases of all tables."""

    text: str
    columns: tuple[Column, ...]
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class TemporaryTable:
    """A table of one session: its stored database and name, and the namespace in which it was created.

    ``was_closed`` is true if the namespace was closed when the table was created. In this case, no row of the table can
    be from another namespace.
    """

    stored: QualifiedName
    namespace: str
    was_closed: bool


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of one session: its type, and its value and its default, each as a Python value and in Spark SQL."""

    type: str
    value: object
    sql: str
    default: object
    default_sql: str


@dataclass(slots=True)
class SessionObjects:
    """The temporary objects of a session by their normalised names, and the configuration of its jobs.

    ``functions`` is a dict from temporary function to the text after the name in CREATE FUNCTION. ``permanent`` is a
    dict from temporary function to the (database, name) pairs of the permanent functions in its text.
    ``without_effect`` has the parameters that a script has set and that have no effect. ``texts`` has Hive's variables,
    whose values are put into the texts of statements. ``used_ms`` is the time when the session last reported to the
    metastore that its tables are in use.
    """

    views: dict[str, TemporaryView] = field(default_factory=dict)
    tables: dict[str, TemporaryTable] = field(default_factory=dict)
    used_ms: int = 0
    variables: dict[str, Variable] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)
    permanent: dict[str, tuple[QualifiedName, ...]] = field(default_factory=dict)
    configuration: dict[str, str] = field(default_factory=dict)
    without_effect: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    @property
    def are_needed(self) -> bool:
        """Return whether the meaning of a statement can depend on the objects of the session."""
        return bool(self.views or self.tables or self.variables or self.functions or self.configuration)

    @property
    def definitions(self) -> list[object]:
        """Return all objects on which the meaning of a statement depends, as values of JSON."""
        return [
            sorted((name, view.text) for name, view in self.views.items()),
            sorted((name, *each.stored) for name, each in self.tables.items()),
            sorted((name, each.type, each.sql) for name, each in self.variables.items()),
            sorted(self.functions.items()),
            sorted(self.configuration.items()),
        ]

    def view(self, name: TableName) -> TemporaryView | None:
        """Return the temporary view with a name, or None for any other name.

        The result is None for a name with a database or a namespace.
        """
        if name.database is not None or name.namespace is not None:
            return None
        return self.views.get(name.name)

    def table(self, name: TableName) -> QualifiedName | None:
        """Return the stored database and name of a temporary table, or None for any other table."""
        if name.database is not None or name.namespace is not None:
            return None
        found = self.tables.get(name.name)
        return None if found is None else found.stored

    def temporary_table(self, name: TableName) -> TemporaryTable | None:
        """Return the temporary table with a name or with a stored name, or None for any other name."""
        if name.database is None and name.namespace is None:
            return self.tables.get(name.name)
        return next((each for each in self.tables.values() if each.stored == (name.database, name.name)), None)

    @property
    def stored_tables(self) -> list[QualifiedName]:
        """Return the stored names of the temporary tables."""
        return [each.stored for each in self.tables.values()]

    def prelude(self, texts: Iterable[str]) -> tuple[str, ...]:
        """Return the statements that declare the functions and variables whose names occur in the texts of a job.

        If the result is empty, the job can share Spark's session with other jobs of the same configuration.
        """
        named = self._named(texts)
        return tuple(declaration for name, declaration in self._declarations if name in named)

    def permanent_functions(self, texts: Iterable[str]) -> list[QualifiedName]:
        """Return the permanent functions that temporary functions in the texts of a job call."""
        named = self._named(texts) if self.permanent else ()
        return sorted({called for name in named for called in self.permanent.get(name, ())})

    @property
    def _declarations(self) -> list[tuple[str, str]]:
        # A function may read variables, and call other functions. A function and a variable may have one name.
        return [
            *(
                (name, f"DECLARE OR REPLACE VARIABLE {_quoted(name)} {each.type} DEFAULT {each.sql}")
                for name, each in self.variables.items()
            ),
            *((name, _create_function(name, self.functions[name])) for name in self._called_first()),
        ]

    def _called_first(self) -> list[str]:
        """Return the names of the temporary functions. Each function comes after the functions that its text calls."""
        ordered: list[str] = []
        begun: set[str] = set()

        def add(name: str) -> None:
            if name not in begun:
                begun.add(name)
                text = self.functions[name].lower()
                for other in self.functions:
                    if other not in begun and _names(text, other):
                        add(other)
                ordered.append(name)

        for name in self.functions:
            add(name)
        return ordered

    def _named(self, texts: Iterable[str]) -> set[str]:
        """Return the names of the functions and variables that the texts use, directly or in their declarations."""
        declarations = self._declarations
        named: set[str] = set()
        if not declarations:
            return named
        unread = [text.lower() for text in texts]
        while unread:
            text = unread.pop()
            new = {name for name, _ in declarations if name not in named and _names(text, name)}
            named |= new
            unread += [declaration.lower() for name, declaration in declarations if name in new]
        return named


def _names(text: str, name: str) -> bool:
    """Return whether a name occurs in a text as a whole word or in backquotes. Both must be in lower case."""
    return re.search(rf"(?<!\w){re.escape(name.replace('`', '``'))}(?!\w)", text) is not None


def _create_function(name: str, text: str) -> str:
    return f"CREATE OR REPLACE TEMPORARY FUNCTION {_quoted(name)} {text}"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
