"""The last net: whatever a statement ends with is an error of ours, or asks the whole process to end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow_hivex.core.errors import HivexError, UnexpectedError


@contextmanager
def own_errors(what: str) -> Iterator[None]:
    """Raise an error that no adapter has translated as one of ours; ``what`` says what was done.

    Transactions are settled inside of it. KeyboardInterrupt, SystemExit and the like pass.

    Raises:
        UnexpectedError: the block has raised an exception that is not a HivexError.
    """
    try:
        yield
    except HivexError:
        raise
    except Exception as error:
        raise UnexpectedError(what, f"{type(error).__name__}: {error}".removesuffix(": ")) from error
