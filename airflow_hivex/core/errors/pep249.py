"""The classes of errors of Python's database API (PEP 249), which every error of the warehouse also is."""

from __future__ import annotations


class Warning(Exception):  # noqa: A001, N818 - the name that PEP 249 gives it
    """An important notice. The warehouse raises none; PEP 249 wants the class."""


class Error(Exception):
    """Root of the errors of PEP 249."""


class InterfaceError(Error):
    """The connection or the cursor was not used as PEP 249 allows."""


class DatabaseError(Error):
    """The warehouse refused a call, or could not do it."""


class DataError(DatabaseError):
    """A value does not fit."""


class OperationalError(DatabaseError):
    """A database, a cluster, a lock or another transaction is the reason, not the statement."""


class IntegrityError(DatabaseError):
    """A constraint is violated. The warehouse never raises it; PEP 249 wants the class."""


class InternalError(DatabaseError):
    """An error of the warehouse itself."""


class ProgrammingError(DatabaseError):
    """The statement, or an object that it names, is wrong."""


class NotSupportedError(DatabaseError):
    """The statement is one that this release does not run."""
