"""The root of the error tree.

A class of the tree declares each of its facts once, as a field::

    class NoSuchTableError(NoSuchObjectError):
        sentence = "Table {database}.{table} does not exist."
        database: str
        table: str

The constructor takes the facts in this order, by position or by name, and keeps each fact as an attribute. A list
becomes a tuple. ``sentence`` is a template of the message. If a template is not enough, for example for a list with
commas, the method ``_describe`` returns the message. The ``code`` of this class is NO_SUCH_TABLE, from the name of the
class; a class can give another code.
"""

from __future__ import annotations

import enum
import re
from typing import Any, ClassVar, Protocol, dataclass_transform

from airflow_hivex.core.errors import pep249
from airflow_hivex.core.errors.secrets import hide

_WORD = re.compile("(?<!^)(?=[A-Z])")
_HALF = re.compile("[\ud800-\udfff]")
_REQUIRED = object()


class Outcome(enum.Enum):
    """The effect of a failed call on the warehouse."""

    NONE = "none"
    NOT_APPLIED = "not applied"
    UNKNOWN = "unknown"


class Described(Protocol):
    """A fact with a description of its own, such as a route or a lock."""

    def describe(self) -> str:
        """Return the description, for people."""


@dataclass_transform()
class HivexError(pep249.DatabaseError):
    """Root of every error that this project raises.

    A subclass declares its facts as fields, and its constructor takes these facts. The constructor of a class without
    facts takes the sentence. A pickled error keeps its type and attributes, also in another process. Secrets are masked
    in the sentence and in the facts. Each error is also an error of PEP 249.
    """

    code: ClassVar[str] = "HIVEX"
    retryable: ClassVar[bool] = False
    outcome: ClassVar[Outcome] = Outcome.NOT_APPLIED
    sentence: ClassVar[str]
    _fields: ClassVar[dict[str, Any]] = {}

    def __init__(self, sentence: str) -> None:
        # A fact may have half of a surrogate pair, which no program can print or store.
        super().__init__(hide(_HALF.sub("\N{REPLACEMENT CHARACTER}", sentence)))

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "code" not in vars(cls):
            cls.code = _WORD.sub("_", cls.__name__.removesuffix("Error")).upper()
        kinds = cls.__annotations__.items()
        own = {name: vars(cls).get(name, _REQUIRED) for name, kind in kinds if "ClassVar" not in str(kind)}
        cls._fields = cls._fields | own
        if own and "__init__" not in vars(cls):
            cls.__init__ = _init_of_facts  # type: ignore[method-assign]

    def _describe(self) -> str:
        """Return the sentence, in which secrets are not masked yet."""
        return self.sentence.format_map(vars(self))

    @property
    def facts(self) -> tuple[Any, ...]:
        """Return the arguments of the error, in the order of the constructor's parameters."""
        facts = (getattr(self, name) for name in self._fields)
        return tuple(hide(fact) if isinstance(fact, str) else fact for fact in facts) or self.args

    def __reduce__(self) -> tuple[Any, ...]:
        # Not through the constructor: it takes facts, and those that are kept are masked, so that a
        # position in a text may not be in it any more.
        state = {name: hide(value) if isinstance(value, str) else value for name, value in self.__dict__.items()}
        return (_restored, (type(self), self.args), state)


def _init_of_facts(self: HivexError, *given: Any, **named: Any) -> None:
    """Set the facts and the sentence of an error. Classes that declare facts get this function as ``__init__``."""
    placed = dict(zip(self._fields, given, strict=False))
    facts = self._fields | placed | named
    is_missing = any(fact is _REQUIRED for fact in facts.values())
    if is_missing or len(facts) > len(self._fields) or len(given) > len(placed) or placed.keys() & named.keys():
        raise TypeError(f"{type(self).__name__} takes the facts {', '.join(self._fields)}")
    vars(self).update((name, tuple(fact) if isinstance(fact, list) else fact) for name, fact in facts.items())
    HivexError.__init__(self, self._describe())


def _restored(error_type: type[HivexError], args: tuple[Any, ...]) -> HivexError:
    """Return an unpickled error with its sentence; the caller sets the attributes."""
    return error_type.__new__(error_type, *args)
