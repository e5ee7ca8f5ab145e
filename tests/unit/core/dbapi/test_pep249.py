from __future__ import annotations

import pickle

import pytest

from airflow_hivex.core import dbapi, errors


def test_module_has_its_level_and_styles() -> None:
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 1, "named")


def test_constructors_return_values_that_statements_take() -> None:
    assert dbapi.DateFromTicks(0) == dbapi.Date(1970, 1, 1)
    assert dbapi.TimeFromTicks(60) == dbapi.Time(0, 1)
    assert dbapi.TimestampFromTicks(60).replace(tzinfo=None) == dbapi.Timestamp(1970, 1, 1, 0, 1)
    assert dbapi.Binary(b"a") == b"a"


@pytest.mark.parametrize(
    ("error", "classes"),
    [
        (errors.StatementSyntaxError("odd", 1, 1), dbapi.ProgrammingError),
        (errors.UnsupportedStatementError("odd", 1, 1), dbapi.NotSupportedError),
        (errors.NoSuchTableError("d", "t"), dbapi.ProgrammingError),
        (errors.TypeMismatchError("t", "a", "int", "a string"), dbapi.DataError),
        (errors.WriteConflictError(7, "conflict"), dbapi.OperationalError),
        (errors.LockTimeoutError("d/t", 5.0, None), dbapi.OperationalError),
        (errors.StoreUnavailableError("a read", "down"), dbapi.OperationalError),
        (errors.JobError("c1", "failed"), dbapi.OperationalError),
        (errors.UnexpectedError("The statement", "odd"), dbapi.InternalError),
        (errors.ClosedError("cursor"), dbapi.InterfaceError),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value.__name__,
)
def test_errors_of_the_warehouse_are_those_of_pep_249(error: errors.HivexError, classes: type[Exception]) -> None:
    for each in (error, pickle.loads(pickle.dumps(error))):
        assert isinstance(each, classes)
        assert isinstance(each, dbapi.Error)
        assert isinstance(each, errors.HivexError)
