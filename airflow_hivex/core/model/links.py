"""Links: tables of other namespaces, shown in a namespace as ``table@namespace``. Source: Hive HIVE-2989."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, Self

from airflow_hivex.core.errors import InvalidObjectError
from airflow_hivex.core.model.column_types import Family, Primitive
from airflow_hivex.core.model.identifiers import check_name, normalise
from airflow_hivex.core.model.objects import Column, freeze
from airflow_hivex.core.model.partitions import DEFAULT_PARTITION, partition_values
from airflow_hivex.core.model.predicates import And, ColumnReference, In, Predicate, Value, typed
from airflow_hivex.core.model.snapshots import QualifiedName

RETENTION = "RETENTION"
"""The link property with the number of days that a partition stays in a link."""

_MOST_VALUES = 1000
_MOST_DAYS = 1_000_000


class LinkType(enum.Enum):
    """Hive's table types of links. Only a dynamic link shows partitions that are added after its creation."""

    DYNAMIC = "LINK_TABLE"
    STATIC = "STATIC_LINK_TABLE"


class LinkName(NamedTuple):
    """The name of a link: ``table@namespace`` in the namespace ``database``."""

    database: str
    table: str
    namespace: str

    @classmethod
    def of(cls, database: str, link: str) -> Self:
        """Return the name of a link such as ``t@y`` in a namespace.

        Raises:
            InvalidObjectError: ``link`` does not have the form ``table@namespace``.
        """
        table, at, namespace = link.partition("@")
        if not at:
            raise InvalidObjectError("link", repr(link), "a link is named table@namespace")
        return cls(normalise(database), check_name("table", table.strip()), check_name("namespace", namespace.strip()))

    @property
    def in_database(self) -> str:
        """Return ``table@namespace``, the name of the link in statements that run in the link's namespace."""
        return f"{self.table}@{self.namespace}"

    def __str__(self) -> str:
        return f"{self.database}.{self.in_database}"


@dataclass(frozen=True, slots=True)
class Link:
    """A link as stored in the catalog.

    ``source`` is the current name of the table that the link shows, and ``source_id`` is the id of this table. A static
    link shows only the partitions ``shown``. A dynamic link shows these and each partition with an id above
    ``after_partition_id``, except the partitions ``hidden``. If the link was read from the catalog without its
    partitions, ``shown`` and ``hidden`` are empty.
    """

    id: int
    name: LinkName
    type: LinkType
    source: QualifiedName
    source_id: int
    after_partition_id: int = 0
    shown: Mapping[int, str] = field(default_factory=dict)
    hidden: frozenset[int] = frozenset()
    properties: Mapping[str, str] = field(default_factory=dict)
    owner: str | None = None
    created_at: datetime | None = None

    def __post_init__(self) -> None:
        freeze(self, "shown", "properties")

    @property
    def is_static(self) -> bool:
        """Return whether only ALTER LINK changes the partitions that the link shows."""
        return self.type is LinkType.STATIC

    @property
    def retention_days(self) -> int | None:
        """Return the number of days for which readers of the link see a partition, or None if there is no limit."""
        return retention_days(self.properties)

    def shows(self, partition_id: int) -> bool:
        """Return whether the link shows a partition of the source."""
        if partition_id in self.shown:
            return True
        return not self.is_static and partition_id > self.after_partition_id and partition_id not in self.hidden

    def restriction(self, keys: Sequence[Column]) -> Predicate | None:
        """Return a predicate that holds for all partitions that a static link shows, to prune other partitions.

        The result is None if the link is dynamic, or shows too many partitions for a useful predicate.
        """
        if not self.is_static or len(self.shown) > _MOST_VALUES:
            return None
        names = [partition_values(name) for name in self.shown.values()]
        found = [(key, _values(key, [each[place] for each in names])) for place, key in enumerate(keys)]
        decided = tuple(In(ColumnReference(key.name), values) for key, values in found if values is not None)
        return And(decided) if decided else None


_COMPARABLE = (Family.TEXT, Family.WHOLE)


def _values(key: Column, texts: Iterable[str]) -> tuple[Value, ...] | None:
    """Return the values of a partition key for a predicate, or None if a predicate cannot use one of the values."""
    of = key.parsed_type
    if not isinstance(of, Primitive) or of.family not in _COMPARABLE or of.name == "char":
        return None
    distinct = dict.fromkeys(texts)
    if DEFAULT_PARTITION in distinct:
        return None
    try:
        return tuple(typed(text, of) for text in distinct)
    except ValueError:
        return None


def normalised_properties(name: LinkName, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a link, with the name RETENTION in capitals.

    Raises:
        InvalidObjectError: RETENTION is given twice, or is not a number of days.
    """
    found: dict[str, str] = {}
    for key, value in properties.items():
        written = RETENTION if key.upper() == RETENTION else key
        if written in found:
            raise InvalidObjectError("link", name.in_database, f"property {written} is given twice")
        found[written] = value
    if RETENTION in found:
        text = found[RETENTION].strip()
        if not (text.isascii() and text.isdigit() and 1 <= int(text) <= _MOST_DAYS):
            reason = f"{RETENTION} = {text!r} is not a valid number of days; give a whole number from 1 to {_MOST_DAYS}"
            raise InvalidObjectError("link", name.in_database, reason)
        found[RETENTION] = str(int(text))
    return found


def retention_days(properties: Mapping[str, str]) -> int | None:
    """Return the number of days in the property RETENTION, or None if the property is not set."""
    return int(properties[RETENTION]) if RETENTION in properties else None
