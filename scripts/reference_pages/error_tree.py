"""The page of errors, from the classes of the error tree."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from airflow_hivex.core import errors
from airflow_hivex.core.errors import HivexError, Outcome, pep249
from scripts.reference_pages.markdown import cell, table

if TYPE_CHECKING:
    from collections.abc import Iterator

_INTRODUCTION = """\
# Errors

<!-- Written by `make format` from airflow_hivex/core/errors. -->

Every error of the warehouse is a `HivexError`, a class of `airflow_hivex.core.errors`. Its message says what happened,
on which object, and what to do next. Three attributes are for programs:

- `code` names the case. It stays the same when a message changes.
- `retryable` says whether the same call may succeed later. In Airflow, an error that is not retryable fails a task of
  the operators of this provider at once, whatever its `retries`.
- `outcome` is `Outcome.NOT_APPLIED` where nothing was changed, and `Outcome.UNKNOWN` where the metastore database was
  lost during a change. A task whose query is a transaction of its own then fails without a retry, which could write its
  rows a second time. Tasks whose repetition changes nothing, such as the commit of a group, are retried.

Errors survive pickling, mask secrets, and are errors of Python's database API (PEP 249). An indented class is a
subclass of the one above it with less indentation, and has the class of PEP 249 of that one where its cell is empty.
An empty cell of *retry* means no.
"""


def page() -> str:
    """Return the page."""
    rows = [_row(error, depth, parent) for error, depth, parent in _tree(HivexError)]
    return f"{_INTRODUCTION}\n" + table(("error", "code", "retry", "PEP 249", "case"), rows)


def _tree(
    error: type[HivexError], depth: int = 0, parent: type[HivexError] | None = None
) -> Iterator[tuple[type[HivexError], int, type[HivexError] | None]]:
    yield error, depth, parent
    public = [each for each in error.__subclasses__() if getattr(errors, each.__name__, None) is each]
    for each in sorted(public, key=lambda each: each.__name__):
        yield from _tree(each, depth + 1, error)


def _row(error: type[HivexError], depth: int, parent: type[HivexError] | None) -> tuple[str, ...]:
    may_retry = "yes" if error.retryable else ""
    if error.outcome is Outcome.UNKNOWN:
        may_retry = "outcome unknown"
    of_api = "" if parent is not None and _of_api(error) == _of_api(parent) else f"`{_of_api(error)}`"
    indentation = "&emsp;" * depth
    description = inspect.getdoc(error) or ""
    if parent is None:
        # The others are for those who write a subclass.
        description = description.partition(".")[0] + "."
    return (f"{indentation}`{error.__name__}`", f"`{error.code}`", may_retry, of_api, cell(description))


def _of_api(error: type[HivexError]) -> str:
    return next(base.__name__ for base in error.__mro__ if base.__module__ == pep249.__name__)
