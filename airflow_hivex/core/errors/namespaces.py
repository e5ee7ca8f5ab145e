"""Errors of namespaces: links, names of other namespaces, quotas. The numbers are those of Hive's ErrorMsg."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from airflow_hivex.core.errors.catalog import NoSuchObjectError
from airflow_hivex.core.errors.pep249 import OperationalError, ProgrammingError
from airflow_hivex.core.errors.root import HivexError
from airflow_hivex.core.errors.sql import SqlError

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHOWN = 10


class LinkError(HivexError, ProgrammingError):
    """A link, or the table that it shows, does not allow the operation. ``hive_error`` is Hive's number of the case."""

    code = "LINK"
    hive_error: ClassVar[int | None] = None


class OwnTableLinkError(LinkError):
    """The table of a new link is in the link's own namespace. Source: Hive's error 10130."""

    code = "LINK_TO_OWN_TABLE"
    hive_error = 10130

    def __init__(self, link: str, table: str, namespace: str) -> None:
        super().__init__(
            f"CREATE LINK TO {link} is refused (Hive error 10130): {table} is a table of namespace {namespace} itself; "
            "read the table by its own name.",
            link,
            table,
            namespace,
        )


class NotLinkableError(LinkError):
    """The object of a new link is not a managed table. Source: Hive's error 10131."""

    code = "NOT_LINKABLE"
    hive_error = 10131

    def __init__(self, link: str, kind: str) -> None:
        super().__init__(
            f"CREATE LINK TO {link} is refused (Hive error 10131): the object is {kind}, and only managed tables can "
            "be linked.",
            link,
            kind,
        )


class NoSuchLinkSourceError(LinkError, NoSuchObjectError):
    """The table of a new link does not exist. Source: Hive's error 10001."""

    code = "NO_SUCH_LINK_SOURCE"
    hive_error = 10001

    def __init__(self, link: str, table: str, namespace: str) -> None:
        super().__init__(
            f"CREATE LINK TO {link} is refused (Hive error 10001): table {table} of namespace {namespace} does not "
            f"exist; SHOW TABLES IN {namespace} lists the tables.",
            link,
            table,
            namespace,
        )


class TableIsNotALinkError(LinkError):
    """DROP LINK or ALTER LINK names a table. Source: Hive's error 10134."""

    code = "TABLE_IS_NOT_A_LINK"
    hive_error = 10134

    def __init__(self, operation: str, name: str) -> None:
        instead = operation.replace("LINK", "TABLE")
        super().__init__(
            f"{operation} on {name} is refused: it is a table; use {instead} (Hive error 10134).", operation, name
        )


class ViewIsNotALinkError(LinkError):
    """DROP LINK or ALTER LINK names a view. Source: Hive's error 10132."""

    code = "VIEW_IS_NOT_A_LINK"
    hive_error = 10132

    def __init__(self, operation: str, name: str) -> None:
        instead = operation.replace("LINK", "VIEW")
        super().__init__(
            f"{operation} on {name} is refused: it is a view; use {instead} (Hive error 10132).", operation, name
        )


class LinkIsNotATableError(LinkError):
    """DROP TABLE or DROP VIEW names a link. Source: Hive's error 10133."""

    code = "LINK_IS_NOT_A_TABLE"
    hive_error = 10133

    def __init__(self, operation: str, link: str) -> None:
        super().__init__(
            f"{operation} on {link} is refused: it is a link; use DROP LINK TO {link} (Hive error 10133).",
            operation,
            link,
        )


class NoSuchLinkError(LinkError, NoSuchObjectError):
    """The namespace has no such link."""

    code = "NO_SUCH_LINK"

    def __init__(self, namespace: str, link: str) -> None:
        table, _, version = link.rpartition("@v")
        hint = f" {table} VERSION AS OF {version} reads an earlier version." if version.isdecimal() else ""
        makes = f"CREATE LINK TO {link} makes one" if "@" in link else "a link is named table@namespace"
        super().__init__(
            f"Namespace {namespace} has no link {link}; {makes}, and SHOW LINKS lists them.{hint}",
            namespace,
            link,
        )
        self.namespace = namespace
        self.link = link


class LinkedTableError(LinkError):
    """A table cannot be dropped, because links show it."""

    code = "LINKED_TABLE"

    def __init__(self, operation: str, name: str, links: Sequence[str]) -> None:
        super().__init__(
            f"{operation} on {name} is refused: links of other namespaces show it: {_listed(links)}. Drop the links "
            "first, or add CASCADE to drop them, too.",
            operation,
            name,
            tuple(links),
        )
        self.links = tuple(links)


class ForeignNameError(SqlError):
    """A statement in a closed namespace names a table of another one. Lines and columns count from 1.

    ``create_link`` is the statement that makes the table available to readers, None where no link would do.
    """

    code = "FOREIGN_NAME"

    def __init__(
        self, name: str, namespace: str, line: int | None, column: int | None, instead: str, create_link: str | None
    ) -> None:
        place = "" if line is None else f"Line {line}, column {column}: "
        super().__init__(
            f"{place}{name} belongs to another namespace, and namespace {namespace} is closed "
            f"(hivex.namespace.mode). {instead}",
            name,
            namespace,
            line,
            column,
            instead,
            create_link,
        )
        self.name = name
        self.namespace = namespace
        self.line = line
        self.column = column
        self.create_link = create_link


class NoSuchHomeError(NoSuchObjectError):
    """No metastore is noted for a namespace."""

    code = "NO_SUCH_HOME"

    def __init__(self, namespace: str) -> None:
        super().__init__(
            f"No metastore is noted for namespace {namespace}. `hivex namespace home {namespace} METASTORE` notes one.",
            namespace,
        )
        self.namespace = namespace


class QuotaExceededError(HivexError, OperationalError):
    """A commit would take a namespace above its quota on a cluster. Nothing of it is visible."""

    code = "QUOTA_EXCEEDED"

    def __init__(
        self, namespace: str, cluster: str, quota_bytes: int, used_bytes: int, largest: Sequence[tuple[str, int]]
    ) -> None:
        shown = ", ".join(f"{name} ({size:,} bytes)" for name, size in largest)
        super().__init__(
            f"Namespace {namespace} would have {used_bytes:,} bytes on cluster {cluster}, {used_bytes - quota_bytes:,} "
            f"more than its quota of {quota_bytes:,}. Its largest tables there: {shown}. Delete or compact rows, or "
            f"raise the quota by ALTER DATABASE {namespace} SET QUOTA.",
            namespace,
            cluster,
            quota_bytes,
            used_bytes,
            tuple(largest),
        )
        self.namespace = namespace
        self.cluster = cluster
        self.quota_bytes = quota_bytes
        self.used_bytes = used_bytes
        self.excess_bytes = used_bytes - quota_bytes
        self.largest = tuple(largest)


class MoveRefusedError(HivexError):
    """A namespace cannot be moved as it is. Nothing was changed; ``blockers`` has each reason with its remedy."""

    code = "MOVE_REFUSED"

    def __init__(self, namespace: str, cluster: str, blockers: Sequence[str]) -> None:
        lines = "".join(f"\n  {each}" for each in blockers)
        super().__init__(
            f"Namespace {namespace} cannot be moved to cluster {cluster}:{lines}", namespace, cluster, tuple(blockers)
        )
        self.namespace = namespace
        self.cluster = cluster
        self.blockers = tuple(blockers)


class MoveUnderWayError(HivexError):
    """A namespace is being moved to another cluster already."""

    code = "MOVE_UNDER_WAY"

    def __init__(self, namespace: str, cluster: str, wanted: str) -> None:
        super().__init__(
            f"Namespace {namespace} is being moved to cluster {cluster}, and cannot be moved to {wanted} meanwhile. "
            f"Finish that move, or cancel it by ALTER DATABASE {namespace} CANCEL MOVE.",
            namespace,
            cluster,
            wanted,
        )
        self.namespace = namespace
        self.cluster = cluster


class MoveEndedError(HivexError):
    """A move was cancelled, or finished by another process, while this process worked on it."""

    code = "MOVE_ENDED"

    def __init__(self, namespace: str, cluster: str, state: str) -> None:
        super().__init__(
            f"Another process has ended the move of namespace {namespace} to cluster {cluster}: it is {state}.",
            namespace,
            cluster,
            state,
        )
        self.namespace = namespace
        self.cluster = cluster
        self.state = state


class NamespaceChangedError(HivexError):
    """A namespace got or lost tables while it was being moved, at each try."""

    code = "NAMESPACE_CHANGED"
    retryable = True

    def __init__(self, namespace: str) -> None:
        super().__init__(
            f"Namespace {namespace} has got or lost tables while it was being moved. Only copies were made; "
            "repeat the move to continue it.",
            namespace,
        )
        self.namespace = namespace


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"
