"""The reads and writes of statements, found in their text alone: no metastore is read and nothing is run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from airflow_hivex.core.parser.reader import read_all
from airflow_hivex.core.parser.statements import CreateTemporaryView, DropView, ObjectKind, UsedObject


@dataclass(frozen=True, slots=True)
class Inspection:
    """One statement of a text: its kind, its place, the objects that it names, and its parameters.

    ``kind`` is such as ``SELECT``, ``INSERT OVERWRITE``, ``MERGE`` or ``CREATE TABLE AS SELECT``. ``inputs`` are the
    objects that it reads, describes or uses, ``outputs`` those that it changes, in the order of their places; an
    object that is named twice is there twice, and one that is read and changed is in both. ``start`` and ``end``
    count characters of the text from 0, end excluded. ``parameters`` are the names of its ``:name`` markers.
    """

    kind: str
    start: int
    end: int
    inputs: tuple[UsedObject, ...]
    outputs: tuple[UsedObject, ...]
    parameters: tuple[str, ...] = ()


def inspect(text: str, database: str | None = None) -> tuple[Inspection, ...]:
    """Inspect each statement of a text, in order.

    The names of common table expressions, aliases and sub-queries are not objects. Views count as they are named:
    what they read is in the catalog, not in the text. A temporary view that the text makes stands for what its query
    reads.

    Args:
        text: any number of statements, separated by semicolons. Markers need no values.
        database: the current database, which tables named without one belong to; a USE in the text changes it for
            the statements behind it. Without it the ``database`` of such tables is None.

    Raises:
        StatementSyntaxError: a statement cannot be read; ``line`` and ``column`` are those in the text.
        UnsupportedStatementError: a statement is SQL that this release does not run.
        InvalidParametersError: ``text`` is not a text.
    """
    return tuple(_inspections(text, database))


def _inspections(text: str, database: str | None) -> Iterator[Inspection]:
    temporary: dict[str, tuple[UsedObject, ...]] = {}
    for each in read_all(text, database=database):
        named = (found for use in each.statement.uses for found in _read_by(use, temporary))
        uses = sorted((_qualified(use, each.database) for use in named), key=lambda use: use.start or 0)
        if isinstance(each.statement, CreateTemporaryView):
            temporary[each.statement.view.name] = tuple(uses)
        elif isinstance(each.statement, DropView) and each.statement.view.database is None:
            temporary.pop(each.statement.view.name, None)
        yield Inspection(
            each.statement.kind,
            each.span.start,
            each.span.end,
            inputs=tuple(use for use in uses if not use.role.is_output),
            outputs=tuple(use for use in uses if use.role.is_output),
            parameters=each.markers,
        )


def _read_by(use: UsedObject, temporary: Mapping[str, tuple[UsedObject, ...]]) -> tuple[UsedObject, ...]:
    """Return the object, or what the query of a temporary view reads that the text has made before."""
    if use.kind is not ObjectKind.TABLE or use.database is not None or use.namespace is not None:
        return (use,)
    found = temporary.get(use.name or "")
    return (use,) if found is None else tuple(replace(each, start=use.start, end=use.end) for each in found)


def _qualified(use: UsedObject, database: str | None) -> UsedObject:
    """Return the object with the current database, if the statement names none; a link keeps that of its namespace."""
    if use.kind is ObjectKind.DATABASE and use.name is None:
        return replace(use, name=database)
    if use.kind is ObjectKind.TABLE and use.database is None and use.namespace is None:
        return replace(use, database=database)
    return use
