from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator

import pytest

from airflow_hivex.core import errors
from airflow_hivex.core.errors import HivexError, Outcome
from airflow_hivex.core.model.routes import Candidate, Lack, Route

ROUTE = Route(None, "No cluster has everything.", (Candidate("c1", "primary of t", (Lack("d.u", "missing", "c2"),)),))

EXAMPLES: dict[str, tuple[object, ...]] = {
    "HivexError": ("something happened",),
    "SettingsError": ("a setting is wrong",),
    "UnknownSettingError": ("hive.tnx.timeout", ["hive.txn.timeout"]),
    "InvalidSettingError": ("hive.txn.timeout", "soon", "a whole number of s is expected"),
    "InvalidClusterPropertiesError": ("jobtracker is missing", "c1"),
    "UnknownClusterError": ("c9", ["c1", "c2"]),
    "LocationOutsideClusterError": ("/x", "c1", "file:///data/c1"),
    "NoSuchObjectError": ("nothing of that name",),
    "NoSuchDatabaseError": ("d",),
    "NoSuchTableError": ("d", "t"),
    "NoSuchPartitionError": ("d", "t", "ds=1"),
    "NoSuchFunctionError": ("d", "f"),
    "NoSuchColumnError": ("d.t", "x", ["a", "b"]),
    "NoSuchVariableError": ("x",),
    "NoSuchVersionError": ("d.t", "3", "no commit has this write id"),
    "VersionExpiredError": ("d.t", "3", "its files were deleted"),
    "NoSuchTemporaryFunctionError": ("f",),
    "NotOnClusterError": ("d.t", "c2", ["c1"]),
    "AlreadyExistsError": ("table", "d.t"),
    "InvalidObjectError": ("table", "d.t", "it has no columns"),
    "InvalidTextError": ("The name of a user", "a\0b\ud800", 1),
    "InvalidTypeError": ("array<in>", 6, "there is no type in"),
    "InvalidOperationError": ("DROP", "d.t", "it is a link"),
    "CopyMismatchError": ("d.t", "c2", [f"file {number} is missing" for number in range(12)]),
    "CopyAlteredError": ("d.t", "c1", "warehouse/t/delta_0000002_0000002_0000", "it has 3 bytes instead of 10"),
    "CopyOutdatedError": ("d.t", "c2", "delta_0000002_0000002_0000", "has grown"),
    "ClosedError": ("cursor",),
    "NoResultSetError": ("INSERT",),
    "LinkError": ("the link does not allow it",),
    "OwnTableLinkError": ("t@x", "t", "x"),
    "NotLinkableError": ("v@y", "a view"),
    "NoSuchLinkSourceError": ("t@y", "t", "y"),
    "TableIsNotALinkError": ("DROP LINK", "y.t"),
    "ViewIsNotALinkError": ("DROP LINK", "y.v"),
    "LinkIsNotATableError": ("DROP TABLE", "t@y"),
    "NoSuchHomeError": ("x",),
    "NoSuchLinkError": ("x", "t@y"),
    "LinkedTableError": ("DROP TABLE", "y.t", [f"x{number}.t@y" for number in range(12)]),
    "ForeignNameError": ("y.t", "x", 1, 15, "CREATE LINK TO t@y; then write t@y in its place.", "CREATE LINK TO t@y"),
    "QuotaExceededError": ("x", "c1", 1_000, 1_500, [("x.t", 900), ("x.u", 600)]),
    "MoveRefusedError": ("x", "c2", ["link x.t@y: its source stays behind; drop the link"]),
    "MoveUnderWayError": ("x", "c2", "c3"),
    "NamespaceChangedError": ("x",),
    "MoveEndedError": ("x", "c2", "cancelled"),
    "PrimaryChangedError": ("d.t", "c1", "c2"),
    "TableChangedError": ("d.t", "k", "a", "b"),
    "WritesLostError": ("d.t", "c2", "write id 3 (1 directory)", ["write id 3: 2 rows"], "0a1b2c"),
    "SqlError": ("the statement cannot be run",),
    "StatementSyntaxError": ("a name is expected", 1, 8, "SELECT ,"),
    "UnsupportedStatementError": ("MERGE is not supported", 1, 1, "MERGE"),
    "ReplaceConditionError": ("d.t", "day = 1", "day = 2"),
    "ConstraintViolationError": ("d.t", "CHECK positive (a > 0)", "a = -1"),
    "MergeCardinalityError": ("d.t", 3),
    "ColumnCountMismatchError": ("d.t", 3, 2, ["a", "b", "c"]),
    "TypeMismatchError": ("d.t", "a", "int", "a string"),
    "UnreadableTextError": ("default.flights", "day", "date", "soon"),
    "AnalysisError": ("column x cannot be resolved",),
    "InvalidParametersError": ("no value for :x",),
    "RoutingError": (ROUTE,),
    "NoUsableClusterError": (ROUTE,),
    "TransactionError": ("not in that state",),
    "NoSuchTransactionError": (7,),
    "TransactionAbortedError": (7, "it timed out"),
    "TransactionCommittedError": (7,),
    "TransactionNotOpenError": ([7, 8], "they may not write"),
    "TooManyOpenTransactionsError": (100_000, 100_000),
    "CommitOutcomeUnknownError": (7, "postgresql://h/d"),
    "WriteConflictError": (5, "Aborting [txnid:5,5] due to a write conflict on default/t"),
    "DeadlockError": (5, "it waited for transaction 4"),
    "InvalidTransactionRequestError": ("0 transactions cannot be opened",),
    "UnexpectedError": ("The statement", "ValueError: odd"),
    "StatementCancelledError": (7,),
    "WriteTakenBackError": ("default.t", 7, "load.extract"),
    "LockError": ("the lock is not available",),
    "InvalidLockRequestError": ("it has no components",),
    "NoSuchLockError": (3,),
    "LockOfOpenTransactionError": (3, 7),
    "LockNotAcquiredError": ("another transaction holds it",),
    "LockTimeoutError": ("default/t", 5.0, None),
    "InvalidWriteIdListError": ("x", "it needs a high watermark"),
    "MissingWriteIdListError": ("default.t",),
    "NotEnoughHistoryError": (6, 3, "base_0000005_v0000030"),
    "EventsPurgedError": (3, 17),
    "EventsReplacedError": (3,),
    "CompactionError": ("it is not in that state",),
    "NoSuchCompactionError": (9,),
    "CompactionNotDoneError": (9, "d.t ds=1", "failed", "the disk is full"),
    "CompactionLostError": (9, "d.t ds=1", "host-7"),
    "FolderExpectedError": ("/data/c1/t",),
    "RootMissingError": ("c1", "file:///data/c1", "its marker _hivex_root.json is not there"),
    "RootUnseenError": ("c1", "file:///data/c1", "10.0.0.4", "the marker is not there"),
    "WrittenRowsMissingError": ("c1", "default.t", "/data/c1/t", "1000 rows", "0", "10.0.0.4"),
    "ForeignRootError": ("c1", "file:///data/c1", "_hivex_root.json"),
    "ReplacementMissingError": ("file:///data/c1/t/base_0000005_v0000012", (0, 0), (2, 900)),
    "StoreError": ("the database refused",),
    "StoreDriverMissingError": ("No module named 'psycopg'",),
    "StoreMissingError": ("sqlite:///m.db",),
    "StoreUnavailableError": ("sqlite:///x", "it is locked"),
    "StoreLockedError": ("sqlite:///x", "it has waited"),
    "StoreRefusedError": ("sqlite:///x.db", "value too long"),
    "StoreTooOldError": ("sqlite:///x", "0001", "0002"),
    "StoreTooNewError": ("sqlite:///x", "0003", "0002"),
    "NotAMetastoreError": ("sqlite:///x", "it has tables of something else (dag)"),
    "StoreDamagedError": ("sqlite:////x", "database disk image is malformed"),
    "StorePermissionError": ("postgresql://u@h/d", "permission denied for schema public"),
    "JobCause": ("SparkException: a file cannot be read",),
    "JobError": ("c1", "out of memory"),
    "JobCancelledError": ("c1",),
    "InProcessJobError": ("c1", "local[2]"),
    "ClusterUnreachableError": ("c1", "nothing answers at sc://host:15002"),
    "ExecutorsLostError": ("c1", "an executor was killed"),
    "SparkProcessError": ("c1", "it was killed by signal 9"),
    "SparkServerError": ("port 15002 cannot be used",),
    "InvalidConnectionError": ("hivex_default", "its host is missing"),
    "HiveMetastoreError": ("a Hive metastore cannot be read",),
    "InvalidHiveAddressError": ("host:9083", "it has no scheme"),
    "HiveClientMissingError": ("hive_metastore",),
    "HiveUnavailableError": ("thrift://host:9083", "list its databases", "connection refused"),
    "HiveProtocolError": ("thrift://host:9083", "list its databases", "no version"),
    "HiveRefusedError": ("thrift://host:9083", "read table d.t", "not allowed"),
    "StorageError": ("c1/warehouse/t", "it is not a directory"),
    "UnfitRowError": ("d.t", "s3://b/t/part.csv", 3, "a", "it is not a number"),
    "UnsupportedJobTrackerError": ("c1", "yarn"),
}


def subclasses(error: type[HivexError]) -> Iterator[type[HivexError]]:
    yield error
    for each in error.__subclasses__():
        yield from subclasses(each)


# Only those of the package; a test may define its own.
CLASSES = [error for error in dict.fromkeys(subclasses(HivexError)) if error.__module__.startswith(errors.__name__)]


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_error_is_imported_from_the_package(error: type[HivexError]) -> None:
    assert getattr(errors, error.__name__) is error


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_error_has_its_facts_in_the_order_of_its_constructor(error: type[HivexError]) -> None:
    given = [tuple(fact) if isinstance(fact, list) else fact for fact in EXAMPLES[error.__name__]]
    raised = example(error)
    assert list(raised.facts[: len(given)]) == given
    assert list(vars(raised).values()) in ([], list(raised.facts))
    assert_same(error(*raised.facts), raised)


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_error_takes_its_facts_by_name(error: type[HivexError]) -> None:
    raised = example(error)
    assert_same(error(**(vars(raised) or {"sentence": str(raised)})), raised)


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_error_masks_secrets_and_keeps_braces(error: type[HivexError]) -> None:
    odd = " {odd} {0} {} postgresql://user:opensesame@host/db"
    facts = [f"{fact}{odd}" if isinstance(fact, str) else fact for fact in EXAMPLES[error.__name__]]
    raised = error(*facts)  # type: ignore[arg-type]
    assert "opensesame" not in f"{raised} {raised!r} {raised.facts}"
    assert b"opensesame" not in pickle.dumps(raised)
    assert "{odd} {0} {}" in str(raised.facts) or not any(isinstance(fact, str) for fact in facts)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ((), {}),
        (("d",), {}),
        (("d", "t", "u"), {}),
        (("d", "t"), {"table": "u"}),
        (("d", "t"), {"tables": "u"}),
        (("d",), {"tables": "t"}),
    ],
)
def test_error_refuses_other_facts(given: tuple[str, ...], named: dict[str, str]) -> None:
    with pytest.raises(TypeError, match="NoSuchTableError takes the facts database, table"):
        errors.NoSuchTableError(*given, **named)


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_error_survives_pickling_and_copying(error: type[HivexError]) -> None:
    assert error.__name__ in EXAMPLES, f"give an example of the facts of {error.__name__}"
    assert_survives(example(error))


@pytest.mark.parametrize(
    "raised",
    [
        errors.InvalidTextError("A text", "password=abcdefghijklmnopqrstuv\0", 31),
        errors.InvalidSettingError("hive.txn.timeout", object(), "a whole number of s is expected"),
        errors.InvalidSettingError("hive.txn.timeout", lambda: 5, "a whole number of s is expected"),
    ],
    ids=["a masked text", "an object", "an object that cannot be pickled"],
)
def test_error_of_any_value_survives_pickling_and_copying(raised: HivexError) -> None:
    raised.add_note("in the task load")
    assert_survives(raised)


def example(error: type[HivexError]) -> HivexError:
    return error(*EXAMPLES[error.__name__])  # type: ignore[arg-type]


def assert_same(again: HivexError, raised: HivexError) -> None:
    assert type(again) is type(raised)
    assert (str(again), again.facts, vars(again)) == (str(raised), raised.facts, vars(raised))


def assert_survives(raised: HivexError) -> None:
    for again in (pickle.loads(pickle.dumps(raised)), copy.copy(raised), copy.deepcopy(raised)):
        assert_same(again, raised)


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_error_says_what_a_caller_may_do(error: type[HivexError]) -> None:
    assert isinstance(error.retryable, bool)
    assert isinstance(error.outcome, Outcome)
    assert error.__doc__


def test_every_code_names_one_error() -> None:
    codes = [error.code for error in CLASSES]
    assert len(codes) == len(set(codes))


def test_an_example_belongs_to_an_error() -> None:
    assert set(EXAMPLES) == {error.__name__ for error in CLASSES}
