"""The one error tree of the warehouse.

Every error says what happened, on which object, and what to do next. Three
facts let a caller decide without reading the sentence: ``code`` names the
case, ``retryable`` tells whether the same call may succeed later, and
``outcome`` whether anything was changed.
"""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_hivex.core.model.secrets import hide

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hivex.core.model.locks import LockInfo
    from airflow_hivex.core.model.routes import Route


_HALF = re.compile("[\ud800-\udfff]")


class Outcome(enum.Enum):
    """The effect of a failed call."""

    NONE = "none"
    NOT_APPLIED = "not applied"
    UNKNOWN = "unknown"


class HivexError(Exception):
    """Root of every error that this project raises.

    A subclass takes facts and builds the sentence. The facts are kept, so that
    an error crosses process borders by pickling with its type and attributes.
    Secrets are masked in both.
    """

    code: ClassVar[str] = "HIVEX"
    retryable: ClassVar[bool] = False
    outcome: ClassVar[Outcome] = Outcome.NOT_APPLIED

    def __init__(self, sentence: str, *facts: Any) -> None:
        # Nobody can print or store half of a surrogate pair, which a fact may have.
        shown = hide(_HALF.sub("\N{REPLACEMENT CHARACTER}", sentence))
        super().__init__(shown)
        self._facts = tuple(hide(fact) if isinstance(fact, str) else fact for fact in facts) or (shown,)

    @property
    def facts(self) -> tuple[Any, ...]:
        """Return the arguments of the error, in the order of its constructor's arguments."""
        return self._facts

    def __reduce__(self) -> tuple[Any, ...]:
        # Not through the constructor: it takes facts, and those that are kept are masked, so that a
        # position in a text may not be in it any more.
        state = {name: hide(value) if isinstance(value, str) else value for name, value in self.__dict__.items()}
        return (_restored, (type(self), self.args), state)


def _restored(error_type: type[HivexError], args: tuple[Any, ...]) -> HivexError:
    """Return an error with its sentence; its attributes follow."""
    return error_type.__new__(error_type, *args)


# -- settings and clusters -----------------------------------------------------


class SettingsError(HivexError):
    """A hive.* parameter cannot be used as given."""

    code = "SETTINGS"


class UnknownSettingError(SettingsError):
    """The parameter does not exist."""

    code = "UNKNOWN_SETTING"

    def __init__(self, name: str, suggestions: Sequence[str] = ()) -> None:
        hint = f" Did you mean {' or '.join(suggestions)}?" if suggestions else ""
        super().__init__(f"There is no setting {name!r}.{hint}", name, tuple(suggestions))
        self.name = name


class InvalidSettingError(SettingsError):
    """The parameter exists, its value is of the wrong type or out of range."""

    code = "INVALID_SETTING"

    def __init__(self, name: str, value: object, reason: str) -> None:
        problem = f"{name} has no value" if value is None else f"{name} = {value!r} is not usable"
        # Any object may be given, also one that cannot be pickled.
        kept = value if value is None or isinstance(value, bool | int | float) else hide(str(value))
        super().__init__(f"Setting {problem}: {reason}.", name, kept, reason)
        self.name = name
        self.value = kept


class InvalidClusterPropertiesError(SettingsError):
    """hive.cluster.properties is malformed or incomplete."""

    code = "INVALID_CLUSTER_PROPERTIES"

    def __init__(self, reason: str, cluster: str | None = None) -> None:
        where = f", cluster {cluster!r}" if cluster is not None else ""
        super().__init__(
            f"hive.cluster.properties{where}: {reason}. Expected JSON such as "
            '{"c1": {"filesystem": "file:///data/c1", "jobtracker": "local[2]"}}.',
            reason,
            cluster,
        )
        self.cluster = cluster


class InvalidConnectionError(SettingsError):
    """An Airflow connection does not describe a metastore."""

    code = "INVALID_CONNECTION"

    def __init__(self, conn_id: str, reason: str) -> None:
        super().__init__(f"Connection {conn_id!r} is not usable: {reason}.", conn_id, reason)
        self.conn_id = conn_id
        self.reason = reason


class UnknownClusterError(HivexError):
    """The cluster is not in hive.cluster.properties."""

    code = "UNKNOWN_CLUSTER"

    def __init__(self, cluster: str, known: Sequence[str] = ()) -> None:
        super().__init__(
            f"There is no cluster {cluster!r} in hive.cluster.properties; known are: {', '.join(known) or 'none'}.",
            cluster,
            tuple(known),
        )
        self.cluster = cluster
        self.known = tuple(known)


class LocationOutsideClusterError(HivexError):
    """A location does not lie in the file system of the cluster that should hold it."""

    code = "LOCATION_OUTSIDE_CLUSTER"

    def __init__(self, location: str, cluster: str, filesystem: str) -> None:
        super().__init__(
            f"Location {location!r} lies outside cluster {cluster}, whose file system is "
            f"{filesystem}. Give a path relative to it, or choose another cluster.",
            location,
            cluster,
            filesystem,
        )
        self.location = location
        self.cluster = cluster


# -- catalog --------------------------------------------------------------------


class NoSuchObjectError(HivexError):
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
        super().__init__(
            f"Table {table} has no column {column}; it has: {', '.join(columns)}.", table, column, tuple(columns)
        )
        self.table = table
        self.column = column


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


class AlreadyExistsError(HivexError):
    """An object of that name exists already."""

    code = "ALREADY_EXISTS"

    def __init__(self, kind: str, name: str, advice: str = "use IF NOT EXISTS to accept it") -> None:
        super().__init__(f"{kind.capitalize()} {name} exists already; {advice}.", kind, name, advice)
        self.kind = kind
        self.name = name


class InvalidObjectError(HivexError):
    """An object was described in a way that cannot be stored or used."""

    code = "INVALID_OBJECT"

    def __init__(self, kind: str, name: str, reason: str) -> None:
        super().__init__(f"{kind.capitalize()} {name}: {reason}.", kind, name, reason)
        self.kind = kind
        self.name = name
        self.reason = reason


class InvalidTextError(HivexError):
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


class InvalidTypeError(HivexError):
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


class InvalidOperationError(HivexError):
    """The object exists, but does not allow the operation."""

    code = "INVALID_OPERATION"

    def __init__(self, operation: str, name: str, reason: str) -> None:
        super().__init__(f"{operation} on {name} is refused: {reason}.", operation, name, reason)
        self.operation = operation
        self.name = name
        self.reason = reason


class CopyMismatchError(HivexError):
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


class CopyOutdatedError(HivexError):
    """What was copied to a secondary cluster is not what the primary has now."""

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


# -- SQL ------------------------------------------------------------------------


class SqlError(HivexError):
    """A statement cannot be run as written."""

    code = "SQL"


class StatementSyntaxError(SqlError):
    """The text is not a statement that we can read. Lines and columns count from 1."""

    code = "SYNTAX"

    def __init__(self, reason: str, line: int, column: int, text: str = "") -> None:
        source = text.splitlines()[line - 1] if 0 < line <= len(text.splitlines()) else ""
        pointer = f"\n{source}\n{' ' * (column - 1)}^" if source else ""
        super().__init__(f"Line {line}, column {column}: {reason}.{pointer}", reason, line, column, text)
        self.reason = reason
        self.line = line
        self.column = column


class UnsupportedStatementError(StatementSyntaxError):
    """The statement is known SQL that this warehouse does not run."""

    code = "UNSUPPORTED_STATEMENT"


class MergeCardinalityError(SqlError):
    """Several rows of a MERGE's source match one row of its target. Source: Hive, MERGE_CARDINALITY_VIOLATION."""

    code = "MERGE_CARDINALITY"

    def __init__(self, table: str, count: int) -> None:
        super().__init__(
            f"MERGE into {table}: rows of the target that several rows of the source match each: {count}. Their "
            "result is not defined. Make the rows of the source unique by the columns of the condition.",
            table,
            count,
        )


class ColumnCountMismatchError(SqlError):
    """An INSERT has more or fewer values than the table has columns."""

    code = "COLUMN_COUNT"

    def __init__(self, table: str, expected: int, actual: int, columns: Sequence[str] = ()) -> None:
        names = f" ({', '.join(columns)})" if columns else ""
        super().__init__(
            f"INSERT into {table}: the number of columns must be {expected}{names}, not {actual}.",
            table,
            expected,
            actual,
            tuple(columns),
        )
        self.expected = expected
        self.actual = actual


class TypeMismatchError(SqlError):
    """A value does not fit the type of its column."""

    code = "TYPE_MISMATCH"

    def __init__(self, table: str, column: str, type: str, given: str) -> None:
        super().__init__(
            f"Column {column} of {table} has type {type}; {given} cannot be stored in it without an explicit CAST.",
            table,
            column,
            type,
            given,
        )
        self.table = table
        self.column = column


class AnalysisError(SqlError):
    """Spark read the statement and refused it: a column, function or type is wrong."""

    code = "ANALYSIS"

    def __init__(self, message: str) -> None:
        super().__init__(f"Spark refused the statement: {message}", message)


class InvalidParametersError(SqlError):
    """The parameters given do not fit the markers in the statement."""

    code = "INVALID_PARAMETERS"


# -- routing --------------------------------------------------------------------


class RoutingError(HivexError):
    """No cluster can run the statement. ``route`` has what each candidate lacks."""

    code = "NO_ROUTE"

    def __init__(self, route: Route) -> None:
        super().__init__(route.describe(), route)
        self.route = route


# -- transactions ---------------------------------------------------------------


class TransactionError(HivexError):
    """A transaction is not in the state that the call needs."""

    code = "TRANSACTION"


class NoSuchTransactionError(TransactionError):
    """No transaction has this id, or its record is gone already."""

    code = "NO_SUCH_TRANSACTION"

    def __init__(self, txn_id: int) -> None:
        super().__init__(f"There is no transaction {txn_id}.", txn_id)
        self.txn_id = txn_id


class TransactionAbortedError(TransactionError):
    """The transaction was aborted, by its owner, a time-out or a conflict."""

    code = "TRANSACTION_ABORTED"

    def __init__(self, txn_id: int, reason: str | None = None) -> None:
        because = f": {reason}" if reason else ""
        super().__init__(
            f"Transaction {txn_id} was aborted{because}. Nothing it wrote is visible; run the statement again.",
            txn_id,
            reason,
        )
        self.txn_id = txn_id
        self.reason = reason


class TransactionCommittedError(TransactionError):
    """The transaction has committed already, so it cannot do this any more."""

    code = "TRANSACTION_COMMITTED"

    def __init__(self, txn_id: int) -> None:
        super().__init__(f"Transaction {txn_id} has committed already.", txn_id)
        self.txn_id = txn_id


class TransactionNotOpenError(TransactionError):
    """Write ids were asked for with a transaction that is not open or may not write."""

    code = "TRANSACTION_NOT_OPEN"

    def __init__(self, txn_ids: Sequence[int], why: str) -> None:
        super().__init__(f"Transactions {', '.join(map(str, txn_ids))}: {why}.", tuple(txn_ids), why)
        self.txn_ids = tuple(txn_ids)


class TooManyOpenTransactionsError(TransactionError):
    """hive.max.open.txns is reached."""

    code = "TOO_MANY_OPEN_TRANSACTIONS"
    retryable = True

    def __init__(self, open_count: int, limit: int) -> None:
        super().__init__(
            f"{open_count} transactions are open and hive.max.open.txns is {limit}; "
            "abort idle ones or wait for them to end.",
            open_count,
            limit,
        )


class CommitOutcomeUnknownError(TransactionError):
    """The database was lost during a commit and could not be asked afterwards."""

    code = "COMMIT_OUTCOME_UNKNOWN"
    outcome = Outcome.UNKNOWN

    def __init__(self, txn_id: int) -> None:
        super().__init__(
            f"The metastore database was lost while transaction {txn_id} committed. Look it up by its id "
            "before running the statement again; do not delete its files.",
            txn_id,
        )
        self.txn_id = txn_id


class WriteConflictError(TransactionAbortedError):
    """Another transaction that overlaps this one has updated or deleted the same rows' partition first.

    The transaction was aborted; the statement may succeed in a new one.
    """

    code = "WRITE_CONFLICT"
    retryable = True

    def __init__(self, txn_id: int, reason: str) -> None:
        super().__init__(txn_id, reason)


class DeadlockError(TransactionAbortedError):
    """Transactions waited for each other's locks in a circle, and this one was chosen to be aborted."""

    code = "DEADLOCK"
    retryable = True

    def __init__(self, txn_id: int, reason: str) -> None:
        super().__init__(txn_id, reason)


class InvalidTransactionRequestError(TransactionError):
    """A call to the transaction manager asks for something that does not exist."""

    code = "INVALID_TRANSACTION_REQUEST"


class UnexpectedError(HivexError):
    """An error that no part of this project knows. Its cause has the details; the transaction is settled."""

    code = "UNEXPECTED"

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(
            f"{what} ended with an error that is not known here: {reason}. Its transaction is settled. "
            "Report the error together with its cause.",
            what,
            reason,
        )


class StatementCancelledError(TransactionError):
    """A statement was cancelled; the transaction that it was part of continues without it."""

    code = "STATEMENT_CANCELLED"

    def __init__(self, txn_id: int) -> None:
        super().__init__(f"The statement was cancelled; transaction {txn_id} continues without it.", txn_id)
        self.txn_id = txn_id


class WriteTakenBackError(TransactionError):
    """Another session has begun the same part of a transaction anew, so this one's write does not count."""

    code = "WRITE_TAKEN_BACK"

    def __init__(self, table: str, txn_id: int, writer: str) -> None:
        super().__init__(
            f"The write to {table} in transaction {txn_id} was withdrawn: {writer!r} runs again elsewhere.",
            table,
            txn_id,
            writer,
        )
        self.table = table
        self.txn_id = txn_id
        self.writer = writer


class LockError(HivexError):
    """A lock cannot be acquired, or is not in the state that the call needs."""

    code = "LOCK"


class InvalidLockRequestError(LockError):
    """A request for locks is not one that can be granted by anyone."""

    code = "INVALID_LOCK_REQUEST"

    def __init__(self, reason: str) -> None:
        super().__init__(f"The request for locks is not usable: {reason}.", reason)


class NoSuchLockError(LockError):
    """No lock has this id: it was released, its transaction has ended, or it timed out."""

    code = "NO_SUCH_LOCK"

    def __init__(self, lock_id: int) -> None:
        super().__init__(f"There is no lock {lock_id}.", lock_id)
        self.lock_id = lock_id


class LockOfOpenTransactionError(LockError):
    """A lock that a transaction has acquired lives until the transaction ends (Hive's TxnOpenException)."""

    code = "LOCK_OF_OPEN_TRANSACTION"

    def __init__(self, lock_id: int, txn_id: int) -> None:
        super().__init__(
            f"Lock {lock_id} belongs to transaction {txn_id}, which is open; commit or abort that instead.",
            lock_id,
            txn_id,
        )
        self.lock_id = lock_id
        self.txn_id = txn_id


class LockNotAcquiredError(LockError):
    """A lock that was requested without waiting is held by another client."""

    code = "LOCK_NOT_ACQUIRED"
    retryable = True

    def __init__(self, message: str) -> None:
        super().__init__(message, message)


class LockTimeoutError(LockError):
    """A lock was not acquired in time (Hive's LOCK_ACQUIRE_TIMEDOUT). ``blocker`` is the lock in its way."""

    code = "LOCK_TIMEOUT"
    retryable = True

    def __init__(self, wanted: str, waited_s: float, blocker: LockInfo | None = None) -> None:
        because = f": {blocker.describe()}" if blocker is not None else ""
        super().__init__(
            f"{wanted} could not be locked within {waited_s:g} s{because}. Try again later, or end the holder.",
            wanted,
            waited_s,
            blocker,
        )
        self.wanted = wanted
        self.waited_s = waited_s
        self.blocker = blocker


class InvalidWriteIdListError(HivexError):
    """A text is not a transaction list or write id list."""

    code = "INVALID_WRITE_ID_LIST"

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(f"{text!r} is not a transaction or write id list: {reason}.", text, reason)


class NotEnoughHistoryError(HivexError):
    """A compacted base hides data that this snapshot still needs (Hive's ACID_NOT_ENOUGH_HISTORY, 10327)."""

    code = "ACID_NOT_ENOUGH_HISTORY"

    def __init__(self, high_watermark: int, first_exception: int | None, base: str) -> None:
        super().__init__(
            f"Not enough history available for ({high_watermark},{first_exception}). Oldest available base: {base}.",
            high_watermark,
            first_exception,
            base,
        )
        self.base = base


# -- compaction -----------------------------------------------------------------


class EventsPurgedError(HivexError):
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


class CompactionError(HivexError):
    """A compaction is not in the state that the call needs."""

    code = "COMPACTION"


class NoSuchCompactionError(CompactionError):
    """No compaction has this id, in the queue or in the history."""

    code = "NO_SUCH_COMPACTION"

    def __init__(self, compaction_id: int) -> None:
        super().__init__(
            f"There is no compaction {compaction_id}; SHOW COMPACTIONS lists those that are known.", compaction_id
        )
        self.compaction_id = compaction_id


class CompactionNotDoneError(CompactionError):
    """A compaction has ended without success."""

    code = "COMPACTION_NOT_DONE"

    def __init__(self, compaction_id: int, name: str, state: str, reason: str | None = None) -> None:
        because = f": {reason}" if reason else ""
        super().__init__(
            f"Compaction {compaction_id} of {name} is {state}{because}. The table reads as before; ask for it again.",
            compaction_id,
            name,
            state,
            reason,
        )
        self.compaction_id = compaction_id
        self.reason = reason


class CompactionLostError(CompactionError):
    """A worker or cleaner continues a compaction that it has lost, because it took too long."""

    code = "COMPACTION_LOST"

    def __init__(self, compaction_id: int, name: str, owner: str) -> None:
        super().__init__(
            f"Compaction {compaction_id} of {name} is not with {owner} any more: it was given back after its time-out, "
            "or has ended. Undo its work; nothing of it counts.",
            compaction_id,
            name,
            owner,
        )
        self.compaction_id = compaction_id


class ReplacementMissingError(CompactionError):
    """The cleaner does not find, or not whole, the directory that has the rows of those that it is to delete.

    ``found`` and ``registered`` are numbers of files and of bytes.
    """

    code = "REPLACEMENT_MISSING"

    def __init__(self, uri: str, found: tuple[int, int], registered: tuple[int, int]) -> None:
        super().__init__(
            f"{uri} has {found[0]} files of {found[1]} bytes, and registered are {registered[0]} files of "
            f"{registered[1]} bytes. The directories that it replaces may hold the last copy of their rows, and were "
            "not deleted: bring it back from a backup, and keep them until then.",
            uri,
            found,
            registered,
        )
        self.uri = uri


# -- metastore database ---------------------------------------------------------


class StoreError(HivexError):
    """The metastore database refused or failed a call."""

    code = "STORE"


class StoreUnavailableError(StoreError):
    """The metastore database cannot be reached, or was too busy for too long."""

    code = "STORE_UNAVAILABLE"
    retryable = True

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"Metastore database {url} is not available: {reason}.", url, reason)


class StoreDriverMissingError(StoreError):
    """The package that connects to a PostgreSQL metastore cannot be imported."""

    code = "STORE_DRIVER_MISSING"

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"A metastore in PostgreSQL needs the package psycopg, which cannot be imported: {reason}. "
            "Install it with: pip install 'airflow-provider-hivex[postgresql]'",
            reason,
        )


class StoreRefusedError(StoreError):
    """The metastore database refused a call for what it holds; nothing was changed."""

    code = "STORE_REFUSED"

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"Metastore database {url} refused a call, and nothing was changed: {reason}.", url, reason)


class StoreTooOldError(StoreError):
    """The database has an older schema than this release needs."""

    code = "STORE_TOO_OLD"

    def __init__(self, url: str, found: str, needed: str) -> None:
        super().__init__(
            f"Metastore database {url} has schema revision {found}, this release needs {needed}. "
            f"Upgrade it with: hivex --metastore '{url}' metastore upgrade",
            url,
            found,
            needed,
        )


class StoreTooNewError(StoreError):
    """The database was upgraded by a newer release."""

    code = "STORE_TOO_NEW"

    def __init__(self, url: str, found: str, known: str) -> None:
        super().__init__(
            f"Metastore database {url} has schema revision {found}, which this release (up to {known}) does not "
            "know. Upgrade airflow-provider-hivex.",
            url,
            found,
            known,
        )


class NotAMetastoreError(StoreError):
    """The database, or the file in its place, holds something else."""

    code = "NOT_A_METASTORE"

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(
            f"Database {url} is not a metastore, and nothing was changed in it: {reason}. Give an empty database, "
            "a file that does not exist yet, or, in PostgreSQL, an empty schema of its own: "
            "postgresql://.../database?options=-csearch_path%3Dhivex",
            url,
            reason,
        )


class StoreDamagedError(StoreError):
    """The file of a SQLite metastore is damaged."""

    code = "STORE_DAMAGED"
    outcome = Outcome.UNKNOWN

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(
            f"Metastore database {url} is damaged: {reason}. Restore it from a backup; the data files are not touched.",
            url,
            reason,
        )


class StorePermissionError(StoreError):
    """The metastore database does not let its user do what the metastore needs."""

    code = "STORE_PERMISSION"

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(
            f"Metastore database {url} refuses what the metastore needs: {reason}. Its user must own the schema, "
            "or have the privileges USAGE and CREATE on it.",
            url,
            reason,
        )


# -- running --------------------------------------------------------------------


class JobError(HivexError):
    """A job failed on its cluster."""

    code = "JOB_FAILED"

    def __init__(self, cluster: str, message: str) -> None:
        super().__init__(f"The job on cluster {cluster} failed: {message}", cluster, message)
        self.cluster = cluster


class JobCause(HivexError):  # noqa: N818 - it is the cause of an error, and never raised by itself
    """The message of Spark for a failed job; the ``__cause__`` of the job's error."""

    code = "JOB_CAUSE"


class JobCancelledError(JobError):
    """A job was stopped on request."""

    code = "JOB_CANCELLED"

    def __init__(self, cluster: str, message: str = "it was cancelled") -> None:
        super().__init__(cluster, message)


class ExecutorsLostError(JobError):
    """A job failed because processes of its cluster went away, as often as Spark tries its tasks."""

    code = "EXECUTORS_LOST"
    retryable = True


class SparkProcessError(JobError):
    """The process that runs Spark did not start, has ended, or ran out of memory. A new one may fare better."""

    code = "SPARK_PROCESS"
    retryable = True


class StorageError(HivexError):
    """Files of a cluster could not be listed, written or deleted."""

    code = "STORAGE"
    retryable = True

    def __init__(self, location: str, reason: str) -> None:
        super().__init__(f"Storage at {location} cannot be used: {reason}.", location, reason)
        self.location = location


class RootMissingError(HivexError):
    """The root of a cluster's file system lacks the marker that was written to it."""

    code = "ROOT_MISSING"
    retryable = True

    def __init__(self, cluster: str, filesystem: str, missing: str) -> None:
        super().__init__(
            f"The root {filesystem} of cluster {cluster} is not the one that was written to: {missing}. Is it not "
            "mounted? Nothing was written or deleted. Mount it and try again; if what it held is lost, "
            f"`hivex metastore accept-root {cluster}` takes the root as it is now.",
            cluster,
            filesystem,
            missing,
        )
        self.cluster = cluster


class ForeignRootError(HivexError):
    """The root of a cluster's file system has the marker of another metastore, or of another cluster."""

    code = "FOREIGN_ROOT"

    def __init__(self, cluster: str, filesystem: str, marker: str) -> None:
        super().__init__(
            f"The root {filesystem} of cluster {cluster} has a marker, {marker}, that this metastore has not written "
            "for it. Two metastores, or two clusters, must not share a root: each would delete what the other one "
            "writes. Give the cluster another root; if nobody else uses this one, "
            f"`hivex metastore accept-root {cluster}` takes it.",
            cluster,
            filesystem,
            marker,
        )
        self.cluster = cluster


class UnsupportedJobTrackerError(HivexError):
    """No runner exists for a cluster's job tracker."""

    code = "UNSUPPORTED_JOBTRACKER"

    def __init__(self, cluster: str, jobtracker: str) -> None:
        super().__init__(
            f"Cluster {cluster} has jobtracker {jobtracker!r}; this release runs jobs on local[...] only.",
            cluster,
            jobtracker,
        )
