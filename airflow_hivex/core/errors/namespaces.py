"""Errors of namespaces: links, names of other namespaces, quotas, moves. The numbers are those of Hive's ErrorMsg."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from airflow_hivex.core.errors import pep249
from airflow_hivex.core.errors.catalog import NoSuchObjectError
from airflow_hivex.core.errors.root import HivexError
from airflow_hivex.core.errors.sql import SqlError


class LinkError(HivexError, pep249.ProgrammingError):
    """A link, or the table that it shows, does not allow the operation.

    ``hive_error`` is Hive's number of the error.
    """

    hive_error: ClassVar[int | None] = None


class OwnTableLinkError(LinkError):
    """The table of a new link is in the link's own namespace. Source: Hive's error 10130."""

    code = "LINK_TO_OWN_TABLE"
    hive_error = 10130
    sentence = (
        "CREATE LINK TO {link} is refused (Hive error 10130): {table} is a table of namespace {namespace} itself; read "
        "the table by its own name."
    )
    link: str
    table: str
    namespace: str


class NotLinkableError(LinkError):
    """The object of a new link is not a managed table. Source: Hive's error 10131."""

    hive_error = 10131
    sentence = (
        "CREATE LINK TO {link} is refused (Hive error 10131): the object is {kind}, and only managed tables can be "
        "linked."
    )
    link: str
    kind: str


class NoSuchLinkSourceError(LinkError, NoSuchObjectError):
    """The table of a new link does not exist. Source: Hive's error 10001."""

    hive_error = 10001
    sentence = (
        "CREATE LINK TO {link} is refused (Hive error 10001): table {table} of namespace {namespace} does not exist; "
        "SHOW TABLES IN {namespace} lists the tables."
    )
    link: str
    table: str
    namespace: str


class TableIsNotALinkError(LinkError):
    """DROP LINK or ALTER LINK names a table. Source: Hive's error 10134."""

    hive_error = 10134
    operation: str
    name: str

    def _describe(self) -> str:
        instead = self.operation.replace("LINK", "TABLE")
        return f"{self.operation} on {self.name} is refused: it is a table; use {instead} (Hive error 10134)."


class ViewIsNotALinkError(LinkError):
    """DROP LINK or ALTER LINK names a view. Source: Hive's error 10132."""

    hive_error = 10132
    operation: str
    name: str

    def _describe(self) -> str:
        instead = self.operation.replace("LINK", "VIEW")
        return f"{self.operation} on {self.name} is refused: it is a view; use {instead} (Hive error 10132)."


class LinkIsNotATableError(LinkError):
    """DROP TABLE or DROP VIEW names a link. Source: Hive's error 10133."""

    hive_error = 10133
    sentence = "{operation} on {link} is refused: it is a link; use DROP LINK TO {link} (Hive error 10133)."

    operation: str
    link: str


class NoSuchLinkError(LinkError, NoSuchObjectError):
    """The namespace has no such link."""

    namespace: str
    link: str

    def _describe(self) -> str:
        table, _, version = self.link.rpartition("@v")
        hint = f" {table} VERSION AS OF {version} reads an earlier version." if version.isdecimal() else ""
        makes = f"CREATE LINK TO {self.link} makes one" if "@" in self.link else "a link is named table@namespace"
        return f"Namespace {self.namespace} has no link {self.link}; {makes}, and SHOW LINKS lists them.{hint}"


class LinkedTableError(LinkError):
    """A table cannot be dropped, because links show it."""

    operation: str
    name: str
    links: Sequence[str]

    def _describe(self) -> str:
        shown = ", ".join(self.links[:10])
        more = f" and {len(self.links) - 10} more" if len(self.links) > 10 else ""
        return (
            f"{self.operation} on {self.name} is refused: links of other namespaces show it: {shown}{more}. Drop the "
            "links first, or add CASCADE to drop them, too."
        )


class ForeignNameError(SqlError):
    """A statement in a closed namespace names an object of another namespace. Lines and columns count from 1.

    ``create_link`` is the CREATE LINK with which the namespace can read the table, or None.
    """

    name: str
    namespace: str
    line: int | None
    column: int | None
    instead: str
    create_link: str | None

    def _describe(self) -> str:
        place = "" if self.line is None else f"Line {self.line}, column {self.column}: "
        return (
            f"{place}{self.name} belongs to another namespace, and namespace {self.namespace} is closed "
            f"(hivex.namespace.mode). {self.instead}"
        )


class NoSuchHomeError(NoSuchObjectError):
    """The registry has no metastore for a namespace."""

    sentence = (
        "No metastore is noted for namespace {namespace}. `hivex namespace home {namespace} METASTORE` notes one."
    )
    namespace: str


class QuotaExceededError(HivexError, pep249.OperationalError):
    """A commit is refused: a namespace would exceed its quota on a cluster."""

    namespace: str
    cluster: str
    quota_bytes: int
    used_bytes: int
    largest: Sequence[tuple[str, int]]

    @property
    def excess_bytes(self) -> int:
        """Return the number of bytes above the quota."""
        return self.used_bytes - self.quota_bytes

    def _describe(self) -> str:
        shown = ", ".join(f"{name} ({size:,} bytes)" for name, size in self.largest)
        return (
            f"Namespace {self.namespace} would have {self.used_bytes:,} bytes on cluster {self.cluster}, "
            f"{self.excess_bytes:,} more than its quota of {self.quota_bytes:,}. Its largest tables there: {shown}. "
            f"Delete or compact rows, or raise the quota by ALTER DATABASE {self.namespace} SET QUOTA."
        )


class MoveRefusedError(HivexError):
    """A namespace cannot be moved in its current state.

    Nothing was changed; ``blockers`` has each reason with its remedy.
    """

    namespace: str
    cluster: str
    blockers: Sequence[str]

    def _describe(self) -> str:
        lines = "".join(f"\n  {each}" for each in self.blockers)
        return f"Namespace {self.namespace} cannot be moved to cluster {self.cluster}:{lines}"


class MoveUnderWayError(HivexError):
    """A namespace is being moved to another cluster already."""

    sentence = (
        "Namespace {namespace} is being moved to cluster {cluster}, and cannot be moved to {wanted} meanwhile. Finish "
        "that move, or cancel it by ALTER DATABASE {namespace} CANCEL MOVE."
    )
    namespace: str
    cluster: str
    wanted: str


class MoveEndedError(HivexError):
    """A move was cancelled, or finished by another process, while this process worked on it."""

    sentence = "Another process has ended the move of namespace {namespace} to cluster {cluster}: it is {state}."
    namespace: str
    cluster: str
    state: str


class NamespaceChangedError(HivexError):
    """A namespace got or lost tables during each attempt to move it."""

    retryable = True
    sentence = (
        "Namespace {namespace} has got or lost tables while it was being moved. Only copies were made; repeat the move "
        "to continue it."
    )
    namespace: str
