"""Batches of rows that an application numbers, so that one that is written again does not count twice."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_hivex.core.errors import InvalidParametersError

_LONGEST = 128
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class BatchKey:
    """The key of a batch of an application: batches have rising numbers, and each is written once to a table.

    Raises:
        InvalidParametersError: the application's id is not a text of 1 to 128 printable characters, or that of the
            batch is not a whole number of 0 or more.
    """

    app_id: str
    batch_id: int

    def __str__(self) -> str:
        return f"batch {self.batch_id} of {self.app_id}"

    def __post_init__(self) -> None:
        if not isinstance(self.app_id, str) or not 1 <= len(self.app_id) <= _LONGEST or not self.app_id.isprintable():
            raise InvalidParametersError(f"app_id must be a text of 1 to {_LONGEST} printable characters.")
        if isinstance(self.batch_id, bool) or not isinstance(self.batch_id, int) or not 0 <= self.batch_id <= _LARGEST:
            raise InvalidParametersError(f"batch_id is {self.batch_id!r}; it must be a whole number of 0 or more.")


def batch_key(app_id: str | None, batch_id: int | None) -> BatchKey | None:
    """Return the key that two arguments make, None where neither is given.

    Raises:
        InvalidParametersError: only one of them is given, or one is not valid.
    """
    if app_id is None and batch_id is None:
        return None
    if app_id is None or batch_id is None:
        raise InvalidParametersError("app_id and batch_id belong together; give both of them, or neither.")
    return BatchKey(app_id, batch_id)
