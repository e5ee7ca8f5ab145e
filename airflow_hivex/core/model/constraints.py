"""The constraints of a table, stored as table properties: DEFAULT, NOT NULL, CHECK, and keys that are not enforced.

When clients of Hive change a table, they send all its properties back, and so keep the constraints.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

DEFAULTS = "hivex.default."
CHECKS = "hivex.check."
NOT_NULL = "hivex.not.null"
KEYS = "hivex.key."


class KeyKind(enum.StrEnum):
    """The kinds of constraints that are stored and shown, but not enforced."""

    PRIMARY_KEY = "PRIMARY KEY"
    UNIQUE = "UNIQUE"
    FOREIGN_KEY = "FOREIGN KEY"
    NOT_NULL = "NOT NULL"


@dataclass(frozen=True, slots=True)
class Key:
    """A constraint that is not enforced (DISABLE NOVALIDATE): a key, or NOT NULL of one column.

    A foreign key references the columns ``parent_columns`` of the table ``parent``, a pair of database and name.
    ``rely`` is true if queries are allowed to rely on the constraint.
    """

    kind: KeyKind
    columns: tuple[str, ...]
    parent: tuple[str, str] | None = None
    parent_columns: tuple[str, ...] = ()
    rely: bool = False

    @property
    def sql(self) -> str:
        """Return the SQL text of the constraint. In CREATE TABLE this text follows the name of the constraint.

        For NOT NULL, the text follows the column.
        """
        found = self.kind.value
        if self.kind is not KeyKind.NOT_NULL:
            found += f" {_listed(self.columns)}"
        if self.parent is not None:
            found += f" REFERENCES {'.'.join(f'`{part}`' for part in self.parent)} {_listed(self.parent_columns)}"
        return f"{found} DISABLE NOVALIDATE{' RELY' if self.rely else ''}"

    def renamed(self, column: str, name: str) -> Key:
        """Return the key after the column ``column`` is renamed to ``name``."""
        return replace(self, columns=tuple(name if each == column else each for each in self.columns))

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the key that the value of a table property stores."""
        found = json.loads(text)
        parent = found.get("parent")
        return cls(
            KeyKind(found["kind"]),
            tuple(found["columns"]),
            None if parent is None else (parent[0], parent[1]),
            tuple(found.get("parent_columns", ())),
            bool(found.get("rely", False)),
        )

    @property
    def property(self) -> str:
        """Return the value of the property that stores the key."""
        found: dict[str, object] = {"kind": self.kind.value, "columns": self.columns}
        if self.parent is not None:
            found |= {"parent": self.parent, "parent_columns": self.parent_columns}
        return json.dumps(found | ({"rely": True} if self.rely else {}))


def _listed(columns: Iterable[str]) -> str:
    return f"({', '.join(f'`{column}`' for column in columns)})"


@dataclass(frozen=True, slots=True)
class Constraints:
    """The constraints of a table.

    ``defaults`` is a dict from column to Spark SQL. ``not_null`` has the columns that are NOT NULL. ``checks`` is a
    dict from name to Spark SQL. ``keys`` is a dict from name to key. Keys are stored and shown, but not enforced.
    """

    defaults: Mapping[str, str] = field(default_factory=dict)
    not_null: tuple[str, ...] = ()
    checks: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, Key] = field(default_factory=dict)

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Self:
        """Return the constraints in the properties of a table."""
        return cls(
            {name.removeprefix(DEFAULTS): text for name, text in properties.items() if name.startswith(DEFAULTS)},
            tuple(name for name in properties.get(NOT_NULL, "").split(",") if name),
            {name.removeprefix(CHECKS): text for name, text in properties.items() if name.startswith(CHECKS)},
            {name.removeprefix(KEYS): Key.of(text) for name, text in properties.items() if name.startswith(KEYS)},
        )

    def __bool__(self) -> bool:
        """Return whether there is any constraint."""
        return bool(self.defaults or self.not_null or self.checks or self.keys)

    @property
    def are_enforced(self) -> bool:
        """Return whether a write must check a constraint, or fill in a default value."""
        return bool(self.defaults or self.not_null or self.checks)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the constraints that have a name."""
        return (*self.checks, *self.keys)

    @property
    def properties(self) -> dict[str, str]:
        """Return the table properties that store the constraints."""
        found = {f"{DEFAULTS}{column}": text for column, text in self.defaults.items()}
        if self.not_null:
            found[NOT_NULL] = ",".join(self.not_null)
        found |= {f"{CHECKS}{name}": text for name, text in self.checks.items()}
        return found | {f"{KEYS}{name}": key.property for name, key in self.keys.items()}

    def with_others(self, other: Constraints) -> Constraints:
        """Return the constraints of both objects. For an equal column or name, the constraint of ``other`` is taken."""
        return Constraints(
            {**self.defaults, **other.defaults},
            tuple(dict.fromkeys((*self.not_null, *other.not_null))),
            {**self.checks, **other.checks},
            {**self.keys, **other.keys},
        )

    def with_parents_in(self, database: str) -> Constraints:
        """Return the constraints, with ``database`` added to each parent table that is named without a database."""
        keys = {
            name: key if key.parent is None else replace(key, parent=(key.parent[0] or database, key.parent[1]))
            for name, key in self.keys.items()
        }
        return replace(self, keys=keys)

    def renamed(self, column: str, name: str) -> Constraints:
        """Return the constraints after the column ``column`` is renamed to ``name``.

        The caller must refuse a column that a CHECK uses.
        """
        defaults = {name if each == column else each: text for each, text in self.defaults.items()}
        not_null = tuple(name if each == column else each for each in self.not_null)
        keys = {each: key.renamed(column, name) for each, key in self.keys.items()}
        return Constraints(defaults, not_null, self.checks, keys)

    def without_columns(self, columns: Iterable[str]) -> Constraints:
        """Return the constraints after ``columns`` are dropped: a key is dropped if one of its columns is dropped.

        The caller must refuse columns that a CHECK uses.
        """
        gone = frozenset(columns)
        defaults = {each: text for each, text in self.defaults.items() if each not in gone}
        not_null = tuple(each for each in self.not_null if each not in gone)
        keys = {name: key for name, key in self.keys.items() if gone.isdisjoint(key.columns)}
        return Constraints(defaults, not_null, self.checks, keys)


def is_constraint(property_name: str) -> bool:
    """Return whether a table property is a constraint."""
    return property_name == NOT_NULL or property_name.startswith((DEFAULTS, CHECKS, KEYS))


def with_constraints(properties: Mapping[str, str], constraints: Constraints) -> dict[str, str]:
    """Return the properties of a table, with ``constraints`` in place of the constraints in the properties."""
    return {name: text for name, text in properties.items() if not is_constraint(name)} | constraints.properties
