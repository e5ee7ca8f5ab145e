"""Errors of databases, tables, versions of tables, partitions, columns, copies and the notification log."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_hivex.core.errors import pep249
from airflow_hivex.core.errors.root import HivexError
from airflow_hivex.core.errors.secrets import hide

_PREPOSITIONS = (" in", " of", " to")


class NoSuchObjectError(HivexError, pep249.ProgrammingError):
    """A named object does not exist."""


class NoSuchDatabaseError(NoSuchObjectError):
    """The database does not exist."""

    sentence = "Database {database} does not exist; SHOW DATABASES lists those that do."
    database: str


class NoSuchTableError(NoSuchObjectError):
    """The table does not exist."""

    sentence = "Table {database}.{table} does not exist; SHOW TABLES IN {database} lists those that do."
    database: str
    table: str


class NoSuchPartitionError(NoSuchObjectError):
    """The partition does not exist."""

    sentence = "Table {database}.{table} has no partition {partition}; SHOW PARTITIONS lists those it has."
    database: str
    table: str
    partition: str


class NoSuchColumnError(NoSuchObjectError):
    """The table has no such column."""

    table: str
    column: str
    columns: Sequence[str] = ()

    def _describe(self) -> str:
        # Other sources of rows are described, such as the DataFrame.
        owner = f"The {self.table.removeprefix('the ')}" if self.table.startswith("the ") else f"Table {self.table}"
        return f"{owner} has no column {self.column}; it has: {', '.join(self.columns)}."


class NoSuchFunctionError(NoSuchObjectError):
    """The database has no such permanent function."""

    sentence = "Function {database}.{function} does not exist; SHOW USER FUNCTIONS IN {database} lists those that do."
    database: str
    function: str


class NoSuchVariableError(NoSuchObjectError):
    """The session has no such variable."""

    sentence = "Variable {name} does not exist in this session; DECLARE VARIABLE makes it."
    name: str


class NoSuchTemporaryFunctionError(NoSuchObjectError):
    """The session has no such temporary function."""

    sentence = "Temporary function {name} does not exist in this session."
    name: str


class NotOnClusterError(NoSuchObjectError):
    """The object exists, but has no copy on the requested cluster."""

    name: str
    cluster: str
    present_on: Sequence[str]

    def _describe(self) -> str:
        return f"{self.name} has no copy on cluster {self.cluster}; it is on {', '.join(self.present_on)}."


class AlreadyExistsError(HivexError, pep249.ProgrammingError):
    """An object of that name exists already."""

    kind: str
    name: str
    advice: str = "use IF NOT EXISTS to accept it"

    def _describe(self) -> str:
        return f"{self.kind.capitalize()} {self.name} exists already; {self.advice}."


class InvalidObjectError(HivexError, pep249.ProgrammingError):
    """An object was described in a way that cannot be stored or used."""

    kind: str
    name: str
    reason: str

    def _describe(self) -> str:
        return f"{self.kind.capitalize()} {self.name}: {self.reason}."


class InvalidTextError(HivexError, pep249.DataError):
    """A text has a character that the metastore database cannot keep: NUL, or half of a surrogate pair."""

    what: str
    text: str
    position: int

    def __init__(self, what: str, text: str, position: int) -> None:
        character = "a NUL character" if text[position] == "\0" else f"half of a surrogate pair ({text[position]!a})"
        around = text[max(0, position - 40) : position + 40]
        self.what, self.text, self.position = what, hide(text), position
        super().__init__(
            f"{what} has {character} at position {position + 1}, which cannot be stored: {around!a}. Remove it."
        )


class InvalidTypeError(HivexError, pep249.ProgrammingError):
    """A text is not a type of a column. ``position`` counts from 1."""

    text: str
    index: int
    reason: str

    @property
    def position(self) -> int:
        """Return the position in the text."""
        return self.index + 1

    def _describe(self) -> str:
        return (
            f"{self.text!r} is not a valid type, at position {self.position}: {self.reason}. "
            "Give a type as Hive spells it, such as array<decimal(10,2)>."
        )


class InvalidOperationError(HivexError, pep249.ProgrammingError):
    """The object exists, but does not allow the operation.

    The message begins with ``operation``, such as ``DROP VIEW`` or ``A write to``, and the object's name follows.
    """

    operation: str
    name: str
    reason: str

    def _describe(self) -> str:
        preposition = "" if self.operation.endswith(_PREPOSITIONS) else " on"
        return f"{self.operation}{preposition} {self.name} is refused: {self.reason}."


class CopyMismatchError(HivexError, pep249.OperationalError):
    """Files on a secondary cluster differ from the files on the primary."""

    name: str
    cluster: str
    differences: Sequence[str]

    def _describe(self) -> str:
        shown = "; ".join(self.differences[:10])
        more = f" and {len(self.differences) - 10} more" if len(self.differences) > 10 else ""
        return (
            f"The files of {self.name} on cluster {self.cluster} are not a complete copy of the primary: {shown}"
            f"{more}. Copy them again, then register the copy."
        )


class CopyOutdatedError(HivexError, pep249.OperationalError):
    """The files on the primary cluster are not those that were copied to a secondary."""

    retryable = True
    sentence = (
        "The copy of {name} on cluster {cluster} cannot be registered: directory {directory} {reason}. Find out again "
        "what has to be copied, and copy that."
    )
    name: str
    cluster: str
    directory: str
    reason: str


class CopyAlteredError(HivexError, pep249.OperationalError):
    """A file or directory of a cluster has changed since it was written."""

    sentence = (
        "{location} of {name} on cluster {cluster} is damaged: {reason}. Nothing was registered. Restore the file from "
        "a backup or another cluster, then replicate the table once more."
    )
    name: str
    cluster: str
    location: str
    reason: str


class PrimaryChangedError(HivexError, pep249.OperationalError):
    """The primary cluster of a table has changed while a statement or compaction wrote on the earlier one."""

    retryable = True
    sentence = (
        "The primary cluster of {name} is {primary} now, and a write was made on cluster {cluster}. Nothing of it is "
        "visible; try again."
    )
    name: str
    cluster: str
    primary: str


class WritesLostError(HivexError, pep249.OperationalError):
    """A forced change of a table's primary cluster would lose writes.

    ``lost`` describes each directory; ``confirmation`` is the text that confirms exactly this loss.
    """

    name: str
    cluster: str
    summary: str
    lost: Sequence[str]
    confirmation: str

    def _describe(self) -> str:
        shown = "".join(f"\n  {each}" for each in self.lost[:20])
        more = f"\n  and {len(self.lost) - 20} more" if len(self.lost) > 20 else ""
        return (
            f"With cluster {self.cluster} as its primary, {self.name} loses {self.summary}. Nothing was changed. To "
            f"accept this loss, repeat the statement with CONFIRM '{self.confirmation}'. It would lose:{shown}{more}"
        )


class EventsPurgedError(HivexError, pep249.OperationalError):
    """A reader of the notification log requests purged events, and has missed changes."""

    sentence = (
        "The events after {after} are not all there: those up to {purged} were purged. Read the catalog again, and "
        "continue after the current event id."
    )
    after: int
    purged: int


class EventsReplacedError(HivexError, pep249.OperationalError):
    """The notification log has other events than the reader has seen: its database was restored."""

    sentence = (
        "The events up to {after} are not those that were read before: the metastore's database was restored from a "
        "backup. Read the catalog again, and continue after the current event id."
    )
    after: int


class TableChangedError(HivexError, pep249.OperationalError):
    """A client requests a change of a table that was changed after it had read it."""

    # Hive's own sentence: the library of Iceberg recognises a conflict by its beginning.
    sentence = (
        "The table has been modified. The parameter value for key '{key}' is '{current}'. The expected was value was "
        "'{expected}'"
    )
    name: str
    key: str
    current: str | None
    expected: str | None


class NoSuchVersionError(HivexError, pep249.DataError):
    """The table has never had this version: no commit has this write id, or the table did not exist at this time."""

    sentence = "Table {table} has no {version}: {reason}. DESCRIBE HISTORY {table} lists its versions."
    table: str
    version: str
    reason: str


class VersionExpiredError(HivexError, pep249.OperationalError):
    """The version existed, and cannot be read any more."""

    sentence = "The {version} of table {table} cannot be read any more: {reason}."
    table: str
    version: str
    reason: str
