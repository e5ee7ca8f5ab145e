"""The last check of errors: each error of a statement becomes a HivexError, except interrupts of the whole process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow_hivex.core.errors import HivexError, UnexpectedError


@contextmanager
def own_errors(what: str) -> Iterator[None]:
    """Raise each error of the block as a HivexError; ``what`` names the action that failed.

    KeyboardInterrupt, SystemExit and similar exceptions are not converted. The block must end its transactions itself.

    Raises:
        UnexpectedError: the block has raised an exception that is not a HivexError.
    """
    try:
        yield
    except HivexError:
        raise
    except Exception as error:
        raise UnexpectedError(what, f"{type(error).__name__}: {error}".removesuffix(": ")) from error
