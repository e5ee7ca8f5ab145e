"""The constraints of a table: DEFAULT, NOT NULL and CHECK, as table properties.

Clients of Hive return the properties of a table when they change it, so that the constraints stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

DEFAULTS = "hivex.default."
CHECKS = "hivex.check."
NOT_NULL = "hivex.not.null"


@dataclass(frozen=True, slots=True)
class Constraints:
    """Expressions of Spark SQL: ``defaults`` by column, ``checks`` by name; and the columns that are never NULL."""

    defaults: Mapping[str, str] = field(default_factory=dict)
    not_null: tuple[str, ...] = ()
    checks: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Self:
        """Return the constraints that the properties of a table have."""
        return cls(
            {name.removeprefix(DEFAULTS): text for name, text in properties.items() if name.startswith(DEFAULTS)},
            tuple(name for name in properties.get(NOT_NULL, "").split(",") if name),
            {name.removeprefix(CHECKS): text for name, text in properties.items() if name.startswith(CHECKS)},
        )

    def __bool__(self) -> bool:
        """Return whether there is any."""
        return bool(self.defaults or self.not_null or self.checks)

    @property
    def properties(self) -> dict[str, str]:
        """Return the properties of a table that has the constraints."""
        found = {f"{DEFAULTS}{column}": text for column, text in self.defaults.items()}
        if self.not_null:
            found[NOT_NULL] = ",".join(self.not_null)
        return found | {f"{CHECKS}{name}": text for name, text in self.checks.items()}

    def with_others(self, other: Constraints) -> Constraints:
        """Return these constraints together with others, which replace those of the same column or name."""
        return Constraints(
            {**self.defaults, **other.defaults},
            tuple(dict.fromkeys((*self.not_null, *other.not_null))),
            {**self.checks, **other.checks},
        )

    def renamed(self, column: str, name: str) -> Constraints:
        """Return the constraints after a column was renamed that no check names."""
        defaults = {name if each == column else each: text for each, text in self.defaults.items()}
        return Constraints(defaults, tuple(name if each == column else each for each in self.not_null), self.checks)

    def without_columns(self, columns: Iterable[str]) -> Constraints:
        """Return the constraints without those of columns that no check names."""
        gone = frozenset(columns)
        defaults = {each: text for each, text in self.defaults.items() if each not in gone}
        return Constraints(defaults, tuple(each for each in self.not_null if each not in gone), self.checks)


def is_constraint(property_name: str) -> bool:
    """Return whether a table property is a constraint."""
    return property_name == NOT_NULL or property_name.startswith((DEFAULTS, CHECKS))


def with_constraints(properties: Mapping[str, str], constraints: Constraints) -> dict[str, str]:
    """Return the properties of a table with these constraints in place of those that it has."""
    return {name: text for name, text in properties.items() if not is_constraint(name)} | constraints.properties
