"""Errors of databases, tables, partitions, columns and the log of their changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hivex.core.errors.pep249 import DataError, OperationalError, ProgrammingError
from airflow_hivex.core.errors.root import HivexError

if TYPE_CHECKING:
    from collections.abc import Sequence

_PREPOSITIONS = (" in", " of", " to")


class NoSuchObjectError(HivexError, ProgrammingError):
    """A named object does not exist."""

    code = "NO_SUCH_OBJECT"


class NoSuchDatabaseError(NoSuchObjectError):
    """The database does not exist."""

    code = "NO_SUCH_DATABASE"

    def __init__(self, database: str) -> None:
        super().__init__(f"Database {database} does not exist; SHOW DATABASES lists those that do.", database)
        self.database = database


class NoSuchTableError(NoSuchObjectError):
    """The table does not exist."""

    code = "NO_SUCH_TABLE"

    def __init__(self, database: str, table: str) -> None:
        super().__init__(
            f"Table {database}.{table} does not exist; SHOW TABLES IN {database} lists those that do.",
            database,
            table,
        )
        self.database = database
        self.table = table


class NoSuchPartitionError(NoSuchObjectError):
    """The partition does not exist."""

    code = "NO_SUCH_PARTITION"

    def __init__(self, database: str, table: str, partition: str) -> None:
        super().__init__(
            f"Table {database}.{table} has no partition {partition}; SHOW PARTITIONS lists those it has.",
            database,
            table,
            partition,
        )
        self.partition = partition


class NoSuchColumnError(NoSuchObjectError):
    """The table has no such column."""

    code = "NO_SUCH_COLUMN"

    def __init__(self, table: str, column: str, columns: Sequence[str] = ()) -> None:
        # Other sources of rows are described, such as the DataFrame.
        owner = f"The {table.removeprefix('the ')}" if table.startswith("the ") else f"Table {table}"
        super().__init__(
            f"{owner} has no column {column}; it has: {', '.join(columns)}.", table, column, tuple(columns)
        )
        self.table = table
        self.column = column


class NoSuchFunctionError(NoSuchObjectError):
    """The database has no such permanent function."""

    code = "NO_SUCH_FUNCTION"

    def __init__(self, database: str, function: str) -> None:
        super().__init__(
            f"Function {database}.{function} does not exist; SHOW USER FUNCTIONS IN {database} lists those that do.",
            database,
            function,
        )
        self.database = database
        self.function = function


class NoSuchVariableError(NoSuchObjectError):
    """The session has no such variable."""

    code = "NO_SUCH_VARIABLE"

    def __init__(self, name: str) -> None:
        super().__init__(f"Variable {name} does not exist in this session; DECLARE VARIABLE makes it.", name)
        self.name = name


class NoSuchTemporaryFunctionError(NoSuchObjectError):
    """The session has no such temporary function."""

    code = "NO_SUCH_TEMPORARY_FUNCTION"

    def __init__(self, name: str) -> None:
        super().__init__(f"Temporary function {name} does not exist in this session.", name)
        self.name = name


class NotOnClusterError(NoSuchObjectError):
    """The object exists, but has no copy on the cluster asked for."""

    code = "NOT_ON_CLUSTER"

    def __init__(self, name: str, cluster: str, present_on: Sequence[str]) -> None:
        super().__init__(
            f"{name} has no copy on cluster {cluster}; it is on {', '.join(present_on)}.",
            name,
            cluster,
            tuple(present_on),
        )
        self.cluster = cluster


class AlreadyExistsError(HivexError, ProgrammingError):
    """An object of that name exists already."""

    code = "ALREADY_EXISTS"

    def __init__(self, kind: str, name: str, advice: str = "use IF NOT EXISTS to accept it") -> None:
        super().__init__(f"{kind.capitalize()} {name} exists already; {advice}.", kind, name, advice)
        self.kind = kind
        self.name = name


class InvalidObjectError(HivexError, ProgrammingError):
    """An object was described in a way that cannot be stored or used."""

    code = "INVALID_OBJECT"

    def __init__(self, kind: str, name: str, reason: str) -> None:
        super().__init__(f"{kind.capitalize()} {name}: {reason}.", kind, name, reason)
        self.kind = kind
        self.name = name
        self.reason = reason


class InvalidTextError(HivexError, DataError):
    """A text has a character that the metastore database cannot keep: NUL, or half of a surrogate pair."""

    code = "INVALID_TEXT"

    def __init__(self, what: str, text: str, position: int) -> None:
        character = "a NUL character" if text[position] == "\0" else f"half of a surrogate pair ({text[position]!a})"
        start = max(0, position - 40)
        super().__init__(
            f"{what} has {character} at position {position + 1}, which cannot be stored: "
            f"{text[start : position + 40]!a}. Remove it.",
            what,
            text,
            position,
        )
        self.position = position


class InvalidTypeError(HivexError, ProgrammingError):
    """A text is not a type of a column. ``position`` counts from 1."""

    code = "INVALID_TYPE"

    def __init__(self, text: str, index: int, reason: str) -> None:
        super().__init__(
            f"{text!r} is not a valid type, at position {index + 1}: {reason}. "
            "Give a type as Hive spells it, such as array<decimal(10,2)>.",
            text,
            index,
            reason,
        )
        self.position = index + 1


class InvalidOperationError(HivexError, ProgrammingError):
    """The object exists, but does not allow the operation.

    ``operation`` is a statement, such as ``DROP VIEW``, or ends with the preposition of the object: ``A write to``.
    """

    code = "INVALID_OPERATION"

    def __init__(self, operation: str, name: str, reason: str) -> None:
        preposition = "" if operation.endswith(_PREPOSITIONS) else " on"
        super().__init__(f"{operation}{preposition} {name} is refused: {reason}.", operation, name, reason)
        self.operation = operation
        self.name = name
        self.reason = reason


class CopyMismatchError(HivexError, OperationalError):
    """Files on a secondary cluster differ from those of the primary."""

    code = "COPY_MISMATCH"

    def __init__(self, name: str, cluster: str, differences: Sequence[str]) -> None:
        shown = "; ".join(differences[:10])
        more = f" and {len(differences) - 10} more" if len(differences) > 10 else ""
        super().__init__(
            f"The files of {name} on cluster {cluster} are not a complete copy of the primary: {shown}{more}. "
            "Copy them again, then register the copy.",
            name,
            cluster,
            tuple(differences),
        )
        self.differences = tuple(differences)


class CopyOutdatedError(HivexError, OperationalError):
    """The files that were copied to a secondary cluster are not those that the primary has now."""

    code = "COPY_OUTDATED"
    retryable = True

    def __init__(self, name: str, cluster: str, directory: str, reason: str) -> None:
        super().__init__(
            f"The copy of {name} on cluster {cluster} cannot be registered: directory {directory} {reason}. "
            "Find out again what has to be copied, and copy that.",
            name,
            cluster,
            directory,
            reason,
        )
        self.cluster = cluster
        self.directory = directory


class CopyAlteredError(HivexError, OperationalError):
    """A file or directory of a cluster is not what was written to it."""

    code = "COPY_ALTERED"

    def __init__(self, name: str, cluster: str, location: str, reason: str) -> None:
        super().__init__(
            f"{location} of {name} on cluster {cluster} is damaged: {reason}. Nothing was registered. Restore the file "
            "from a backup or another cluster, then replicate the table once more.",
            name,
            cluster,
            location,
            reason,
        )
        self.cluster = cluster
        self.location = location


class PrimaryChangedError(HivexError, OperationalError):
    """The primary cluster of a table has changed while a statement or compaction wrote on the previous one."""

    code = "PRIMARY_CHANGED"
    retryable = True

    def __init__(self, name: str, cluster: str, primary: str) -> None:
        super().__init__(
            f"The primary cluster of {name} is {primary} now, and a write was made on cluster {cluster}. Nothing of it "
            "is visible; try again.",
            name,
            cluster,
            primary,
        )
        self.cluster = cluster
        self.primary = primary


class WritesLostError(HivexError, OperationalError):
    """A forced change of a table's primary cluster would lose writes, and the caller has not confirmed that.

    ``lost`` describes each directory that would be lost; ``confirmation`` is the text that confirms exactly that.
    """

    code = "WRITES_LOST"

    def __init__(self, name: str, cluster: str, summary: str, lost: Sequence[str], confirmation: str) -> None:
        shown = "".join(f"\n  {each}" for each in lost[:20])
        more = f"\n  and {len(lost) - 20} more" if len(lost) > 20 else ""
        super().__init__(
            f"With cluster {cluster} as its primary, {name} loses {summary}. Nothing was changed. To accept this loss, "
            f"repeat the statement with CONFIRM '{confirmation}'. It would lose:{shown}{more}",
            name,
            cluster,
            summary,
            tuple(lost),
            confirmation,
        )
        self.lost = tuple(lost)
        self.confirmation = confirmation


class EventsPurgedError(HivexError, OperationalError):
    """A reader of the notification log asks for events that were purged: it has missed changes."""

    code = "EVENTS_PURGED"

    def __init__(self, after: int, purged: int) -> None:
        super().__init__(
            f"The events after {after} are not all there: those up to {purged} were purged. "
            "Read the catalog again, and continue after the current event id.",
            after,
            purged,
        )
        self.after = after
        self.purged = purged


class EventsReplacedError(HivexError, OperationalError):
    """The notification log has other events than the reader has seen: its database was restored from a backup."""

    code = "EVENTS_REPLACED"

    def __init__(self, after: int) -> None:
        super().__init__(
            f"The events up to {after} are not those that were read before: the metastore's database was restored "
            "from a backup. Read the catalog again, and continue after the current event id.",
            after,
        )
        self.after = after


class TableChangedError(HivexError, OperationalError):
    """A table has changed since a client read it. The client has asked for a change of the table that it had read."""

    code = "TABLE_CHANGED"

    def __init__(self, name: str, key: str, current: str | None, expected: str | None) -> None:
        # Hive's own sentence: the library of Iceberg recognises a conflict by its beginning.
        super().__init__(
            f"The table has been modified. The parameter value for key '{key}' is '{current}'. "
            f"The expected was value was '{expected}'",
            name,
            key,
            current,
            expected,
        )
        self.name = name
