"""The root of the error tree."""

from __future__ import annotations

import enum
import re
from typing import Any, ClassVar

from airflow_hivex.core.errors.pep249 import DatabaseError
from airflow_hivex.core.model.secrets import hide

_HALF = re.compile("[\ud800-\udfff]")


class Outcome(enum.Enum):
    """The effect of a failed call."""

    NONE = "none"
    NOT_APPLIED = "not applied"
    UNKNOWN = "unknown"


class HivexError(DatabaseError):
    """Root of every error that this project raises.

    A subclass takes facts and builds the sentence. The facts are kept, so that
    an error crosses process borders by pickling with its type and attributes.
    Secrets are masked in both. Each is also one of the errors of PEP 249.
    """

    code: ClassVar[str] = "HIVEX"
    retryable: ClassVar[bool] = False
    outcome: ClassVar[Outcome] = Outcome.NOT_APPLIED

    def __init__(self, sentence: str, *facts: Any) -> None:
        # A fact may have half of a surrogate pair, which no program can print or store.
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
