"""The last net: each error of a statement is a HivexError, except interrupts that end the whole process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow_hivex.core.errors import HivexError, UnexpectedError


@contextmanager
def own_errors(what: str) -> Iterator[None]:
    """Raise an error that no adapter has translated as a HivexError; ``what`` names the action that failed.

    The block settles its transactions itself. KeyboardInterrupt, SystemExit and similar exceptions pass.

    Raises:
        UnexpectedError: the block has raised an exception that is not a HivexError.
    """
    try:
        yield
    except HivexError:
        raise
    except Exception as error:
        raise UnexpectedError(what, f"{type(error).__name__}: {error}".removesuffix(": ")) from error
