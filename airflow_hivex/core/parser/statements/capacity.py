"""Statements about the capacity of namespaces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from airflow_hivex.core.parser.statements.base import Statement
from airflow_hivex.core.parser.statements.uses import Named, ObjectKind, Role

_NAMESPACE = "{DATABASE | SCHEMA | NAMESPACE} <database>"
_BY = "BY <by: TABLE | FORMAT | AGE>"


@dataclass(frozen=True, slots=True)
class ShowCapacity(Statement):
    """The bytes and rows of a namespace, or of all of them, on each cluster."""

    KIND = "SHOW CAPACITY"
    SYNTAX = (f"SHOW CAPACITY [{_NAMESPACE}] [{_BY} & CLUSTER <cluster>]",)

    database: Annotated[str | None, Named(Role.DESCRIBE, ObjectKind.DATABASE)] = None
    cluster: Annotated[str | None, Named(Role.DESCRIBE, ObjectKind.CLUSTER)] = None
    by: str | None = None


@dataclass(frozen=True, slots=True)
class SetQuota(Statement):
    """The quota of a namespace, on one cluster or in all; ``size_bytes`` is None for UNSET."""

    KIND = "ALTER DATABASE SET QUOTA"
    SYNTAX = (
        f"ALTER {_NAMESPACE} SET QUOTA <size_bytes size> [WARNING <warning_percent percent>] [ON CLUSTER <cluster>]",
        f"ALTER {_NAMESPACE} UNSET QUOTA [ON CLUSTER <cluster>]",
    )
    IN_TRANSACTIONS = False

    database: Annotated[str, Named(Role.ALTER, ObjectKind.DATABASE)]
    size_bytes: int | None
    warning_percent: int | None = None
    cluster: Annotated[str | None, Named(Role.USE, ObjectKind.CLUSTER)] = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> SetQuota:
        """Return the statement."""
        return cls(**{"size_bytes": None, **values})
