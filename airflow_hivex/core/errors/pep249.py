"""The error classes of Python's database API (PEP 249).

Every error of the warehouse has one of these classes as a base class.
"""

from __future__ import annotations


class Warning(Exception):  # noqa: A001, N818 - the name that PEP 249 gives it
    """An important notice. The warehouse never raises it; PEP 249 requires the class."""


class Error(Exception):
    """Root of the errors of PEP 249."""


class InterfaceError(Error):
    """The connection or the cursor was not used as PEP 249 allows."""


class DatabaseError(Error):
    """The warehouse refused a call, or could not do it."""


class DataError(DatabaseError):
    """A value does not fit its type or its column."""


class OperationalError(DatabaseError):
    """The reason is a database, a cluster, a lock or another transaction, and not the statement."""


class IntegrityError(DatabaseError):
    """A row violates a constraint of its table that is enforced: NOT NULL or CHECK."""


class InternalError(DatabaseError):
    """An error of the warehouse itself."""


class ProgrammingError(DatabaseError):
    """The statement, or an object that it names, is wrong."""


class NotSupportedError(DatabaseError):
    """The statement is SQL that this release does not run."""
