"""The reader of statements by the SYNTAX of their classes. SYNTAX has one line for each form of a statement.

A form describes the text of a statement, and its parts name the fields of the class::

    SYNTAX = ("DROP LINK [IF EXISTS] [TO] <link table>",)

- A word in upper case is a keyword. Keywords are not reserved: a table can be called ``to``.
- ``<field kind>`` is a value, which the reader of the kind reads (see ``values``). ``<name name>`` can be shortened to
  ``<name>``. ``<field: A | B>`` is one of the words A and B.
- ``'('`` is a symbol.
- ``[...]`` is optional. ``{a | b}`` is a choice of one alternative. ``[a & b]`` are clauses in any order, each at most
  once.
- ``{...}*field`` can be repeated. The field has one :class:`~.clauses.Parts` for each repetition.
- Keywords that are a whole alternative set the field with their name to True. For example, ``[IF EXISTS]`` sets
  ``if_exists``. ``!field`` sets the named field instead.

The class makes the statement of the values (``Statement.of``). If the values depend on each other, a function in
``makers`` makes the statement.

All forms are tried, with all choices. If no form fits, the error is for the farthest place that a form has reached.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import TypeAlias

from airflow_hivex.core.errors import StatementSyntaxError, UnsupportedStatementError
from airflow_hivex.core.parser.grammar.clauses import Parts
from airflow_hivex.core.parser.grammar.makers import MAKERS
from airflow_hivex.core.parser.grammar.values import KINDS
from airflow_hivex.core.parser.lexer.advice import meant
from airflow_hivex.core.parser.lexer.tokens import Cursor, Token
from airflow_hivex.core.parser.statements.base import RefusedPart, Statement


@dataclass(frozen=True, slots=True)
class Words:
    """Keywords that follow each other."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol, such as a parenthesis."""

    text: str


@dataclass(frozen=True, slots=True)
class Value:
    """The value of a field, and the kind whose reader reads it."""

    field: str
    kind: str


@dataclass(frozen=True, slots=True)
class OneWord:
    """The value of a field, which is one of several keywords."""

    field: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Flag:
    """A field that is set to True."""

    field: str


@dataclass(frozen=True, slots=True)
class Group:
    """A choice of one alternative or, if ``in_any_order`` is true, of several, each at most once.

    If ``repeats`` names a field, the choice can be repeated, and the field gets the parts of each repetition.
    """

    alternatives: tuple[_Sequence, ...]
    is_optional: bool
    in_any_order: bool
    repeats: str = ""


Part: TypeAlias = Words | Symbol | Value | OneWord | Flag | Group
_Sequence: TypeAlias = tuple[Part, ...]

_END = "the end of the statement"
_PART = re.compile(r"\s*(\[|\]|\{|\}|\||&|'[^']+'|[!*][a-z_]+|<[^>]+>|[A-Z_]+)")


def compiled(line: str, flags: frozenset[str]) -> _Sequence:
    """Return the parts of one SYNTAX line. ``flags`` are the fields that keywords can set.

    Raises:
        ValueError: the line does not follow the notation.
    """
    parts = _split(line)
    sequence, end = _sequence(parts, 0, flags)
    if end != len(parts):
        raise ValueError(f"{parts[end]!r} has no place in the line {line!r}")
    return sequence


def _split(line: str) -> list[str]:
    parts, position = [], 0
    line = line.rstrip()
    while position < len(line):
        found = _PART.match(line, position)
        if found is None:
            raise ValueError(f"{line[position:]!r} has no place in the line {line!r}")
        parts.append(found[1])
        position = found.end()
    return parts


def _sequence(parts: Sequence[str], at: int, flags: frozenset[str]) -> tuple[_Sequence, int]:
    found: list[Part] = []
    words: list[str] = []

    def end_words() -> None:
        if words:
            found.append(Words(tuple(words)))
            words.clear()

    while at < len(parts) and parts[at] not in ("]", "}", "|", "&"):
        part = parts[at]
        at += 1
        if part in ("[", "{"):
            end_words()
            group, at = _group(parts, at, part, flags)
            found.append(group)
        elif part[0].isalpha() or part[0] == "_":
            words.append(part)
        else:
            end_words()
            found.append(_single(part))
    end_words()
    return tuple(found), at


def _group(parts: Sequence[str], at: int, opening: str, flags: frozenset[str]) -> tuple[Group, int]:
    alternatives: list[_Sequence] = []
    separators: set[str] = set()
    while True:
        alternative, at = _sequence(parts, at, flags)
        alternatives.append(_with_flag(alternative, flags))
        if at == len(parts):
            raise ValueError(f"the group {opening} is not closed")
        at += 1
        if parts[at - 1] in ("]", "}"):
            break
        separators.add(parts[at - 1])
    if len(separators) > 1:
        raise ValueError("a group has either | or &")
    repeats = parts[at][1:] if at < len(parts) and parts[at][0] == "*" else ""
    return Group(tuple(alternatives), opening == "[", separators == {"&"}, repeats), at + bool(repeats)


def _with_flag(alternative: _Sequence, flags: frozenset[str]) -> _Sequence:
    if len(alternative) == 1 and isinstance(alternative[0], Words):
        field = "_".join(alternative[0].words).lower()
        if field in flags:
            return (*alternative, Flag(field))
    return alternative


def _single(part: str) -> Part:
    if part[0] == "!":
        return Flag(part[1:])
    if part[0] == "'":
        return Symbol(part[1:-1])
    name, colon, words = part[1:-1].partition(":")
    if colon:
        return OneWord(name.strip(), tuple(words.replace("|", " ").split()))
    field, _, kind = part[1:-1].partition(" ")
    return Value(field, kind.strip() or field)


@dataclass(frozen=True, slots=True)
class _State:
    """A state of the reader: an index in the tokens, and two dicts for the fields that were read before this index.

    One dict has the value of each field, and the other the index of the value's first token.
    """

    index: int
    values: Mapping[str, object]
    places: Mapping[str, int]

    def at(self, index: int) -> _State:
        return _State(index, self.values, self.places)

    def having(self, field: str, value: object, index: int) -> _State:
        return _State(index, {**self.values, field: value}, {**self.places, field: self.index})


_Error: TypeAlias = StatementSyntaxError | UnsupportedStatementError


class _Attempt:
    """An attempt to read one text by several forms. It keeps the farthest place that a form reaches, for the error."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._tokens = cursor.tokens
        self._start = _State(cursor.index, {}, {})
        self.farthest = cursor.index
        self.expected: dict[str, None] = {}
        """The texts that could stand at the farthest place, in the order of the forms."""
        self._error: _Error | None = None
        self._repeated: dict[int, str] = {}

    def ends(self, form: _Sequence) -> Iterator[_State]:
        """Yield the state after each way in which a form can read the tokens. Ways with more clauses come first."""
        return self._walk(form, 0, self._start)

    def miss(self, index: int, what: str) -> None:
        """Record a text that could stand at a place, unless a form has reached a place after it."""
        if index > self.farthest:
            self.farthest, self.expected, self._error = index, {}, None
        if index == self.farthest:
            self.expected[what] = None

    def error(self) -> NoFormError:
        """Return the error for the farthest place that a form has reached."""
        reason = self._error
        if reason is None and self.farthest in self._repeated:
            self._cursor.index = self.farthest
            reason = self._cursor.error(f"{self._repeated[self.farthest]} is given twice")
        return NoFormError(self.farthest, tuple(self.expected), reason)

    def _fail(self, index: int, error: _Error) -> None:
        if index > self.farthest:
            self.farthest, self.expected, self._error = index, {}, error
        elif index == self.farthest and self._error is None:
            self._error = error

    def _walk(self, sequence: _Sequence, at: int, state: _State) -> Iterator[_State]:
        if at == len(sequence):
            yield state
            return
        for following in self._one(sequence[at], state):
            yield from self._walk(sequence, at + 1, following)

    def _one(self, part: Part, state: _State) -> Iterator[_State]:
        match part:
            case Words(words):
                yield from self._words(words, state)
            case Symbol(text):
                token = self._token(state.index)
                if token is not None and token.is_symbol(text):
                    yield state.at(state.index + 1)
                else:
                    self.miss(state.index, f"'{text}'")
            case OneWord(field, words):
                token = self._token(state.index)
                if token is not None and token.word in words:
                    yield state.having(field, token.word, state.index + 1)
                else:
                    for word in words:
                        self.miss(state.index, word)
            case Flag(field):
                places = {field: max(state.index - 1, 0), **state.places}
                yield _State(state.index, {**state.values, field: True}, places)
            case Value():
                yield from self._value(part, state)
            case Group():
                yield from self._group(part, state)

    def _words(self, words: tuple[str, ...], state: _State) -> Iterator[_State]:
        for number, word in enumerate(words):
            token = self._token(state.index + number)
            if token is None or token.word != word:
                self.miss(state.index + number, " ".join(words[number:]))
                return
        yield state.at(state.index + len(words))

    def _value(self, part: Value, state: _State) -> Iterator[_State]:
        kind = KINDS[part.kind]
        self._cursor.index = state.index
        # The name of a kind in quotes is the symbol with which its values begin.
        if self._cursor.at_end or (kind.what[0] == "'" and not self._cursor.at_symbol(*kind.what.split("'")[1:2])):
            self.miss(state.index, kind.what)
            return
        try:
            value = kind.read(self._cursor)
        except UnsupportedStatementError as error:
            self._fail(max(self._cursor.index, state.index + 1), error)
            return
        except StatementSyntaxError as error:
            if self._cursor.index == state.index:
                self.miss(state.index, kind.what)
            else:
                self._fail(self._cursor.index, error)
            return
        yield state.having(part.field, value, self._cursor.index)

    def _group(self, part: Group, state: _State) -> Iterator[_State]:
        if part.repeats:
            yield from self._repeated_group(part, state)
        elif part.in_any_order:
            yield from self._in_any_order(part.alternatives, (), state)
        else:
            for alternative in part.alternatives:
                yield from self._clause(alternative, state)
        if part.is_optional:
            yield state

    def _repeated_group(self, part: Group, state: _State) -> Iterator[_State]:
        for alternative in part.alternatives:
            for end in self._walk(alternative, 0, _State(state.index, {}, {})):
                parts = Parts(self._cursor, end.values, end.places, self._tokens[state.index])
                before = state.values.get(part.repeats, ())
                assert isinstance(before, tuple)
                following = state.having(part.repeats, (*before, parts), end.index)
                yield from self._repeated_group(part, following)
                yield following

    def _clause(self, clause: _Sequence, state: _State) -> Iterator[_State]:
        """Yield the state after each way to read a clause. The fields of the clause get the place of its first word."""
        first, token = clause[0], self._token(state.index)
        if isinstance(first, Words) and (token is None or token.word != first.words[0]):
            self.miss(state.index, " ".join(first.words))
            return
        for end in self._walk(clause, 0, state):
            places = {field: place if field in state.places else state.index for field, place in end.places.items()}
            yield _State(end.index, end.values, places)

    def _in_any_order(self, left: Sequence[_Sequence], done: Sequence[_Sequence], state: _State) -> Iterator[_State]:
        token = self._token(state.index)
        if token is not None and any(isinstance(each[0], Words) and each[0].words[0] == token.word for each in done):
            self._repeated[state.index] = token.text
        for number, alternative in enumerate(left):
            others = (*left[:number], *left[number + 1 :])
            for following in self._clause(alternative, state):
                yield from self._in_any_order(others, (*done, alternative), following)
                yield following

    def _token(self, index: int) -> Token | None:
        return self._tokens[index] if index < len(self._tokens) else None


def _listed(names: Sequence[str]) -> str:
    """Return names as in a sentence, ``a, b or c``. A name that begins with the words of another name is left out."""
    short = [each for each in names if each != _END and not any(each.startswith(f"{other} ") for other in names)]
    *others, last = (*short, _END) if _END in names else short
    return f"{', '.join(others)} or {last}" if others else last


@cache
def _forms(statement: type[Statement]) -> tuple[_Sequence, ...]:
    flags = frozenset(field.name for field in fields(statement) if field.type == "bool")  # type: ignore[arg-type]
    return tuple(compiled(form, flags) for form in statement.SYNTAX)


@cache
def _refused(statement: type[Statement]) -> tuple[tuple[_Sequence, str], ...]:
    return tuple((compiled(form, frozenset()), reason) for form, reason in statement.REFUSED)


def first_words(statement: type[Statement]) -> tuple[str, ...]:
    """Return the words with which a statement can begin."""
    return tuple(dict.fromkeys(word for form in _forms(statement) for word in _beginnings(form[0])))


def _beginnings(part: Part) -> Iterator[str]:
    if isinstance(part, Words):
        yield part.words[0]
    elif isinstance(part, Group):
        for alternative in part.alternatives:
            yield from _beginnings(alternative[0])


def read(cursor: Cursor, statements: Sequence[type[Statement]]) -> Statement:
    """Return the statement in the tokens from the cursor to the end, of the first class in ``statements`` that fits.

    Raises:
        StatementSyntaxError: parts of the statement contradict each other.
        UnsupportedStatementError: only other systems have this form of the statement, or this release does not support
            it.
        NoFormError: no form can be read to its end.
    """
    attempt = _Attempt(cursor)
    first = cursor.tokens[cursor.index]
    for statement in statements:
        for form in _forms(statement):
            for state in attempt.ends(form):
                if state.index < len(cursor.tokens):
                    attempt.miss(state.index, _END)
                    continue
                cursor.index = state.index
                return _made(cursor, statement, state, first)
    error = attempt.error()
    for statement in statements:
        for form, reason in _refused(statement):
            for state in attempt.ends(form):
                last = cursor.tokens[state.index - 1]
                place = cursor.tokens[min(state.index - 1, error.index)]
                raise cursor.unsupported(reason.replace("{word}", last.word), place)
    raise error


class NoFormError(Exception):
    """The error that no form fits the text. ``expected`` are texts that could stand at the token ``index``.

    If ``reason`` is an error, this error is raised, without the expected texts.
    """

    def __init__(self, index: int, expected: tuple[str, ...], reason: _Error | None) -> None:
        super().__init__(index, expected)
        self.index = index
        self.expected = expected
        self.reason = reason

    def refusal(self, cursor: Cursor) -> _Error:
        """Return the error for the user."""
        cursor.index = self.index
        if self.reason is not None:
            return self.reason
        token = cursor.peek()
        found = f"found {token.text}" if token is not None else "but the statement ends here"
        words = [each.split()[0] for each in self.expected if each.isupper()]
        advice = meant(token.text, words) if token is not None else ""
        return cursor.error(f"expected {_listed(self.expected)}, {found}{advice}")


def read_parts(cursor: Cursor, form: str) -> Parts:
    """Return the values of one form that reads the tokens from the cursor to the end.

    Raises:
        StatementSyntaxError: the form cannot be read to the end.
        UnsupportedStatementError: a part is not supported in this release.
    """
    attempt = _Attempt(cursor)
    first = cursor.tokens[cursor.index]
    for state in attempt.ends(compiled(form, frozenset())):
        if state.index == len(cursor.tokens):
            cursor.index = state.index
            return Parts(cursor, state.values, state.places, first)
        attempt.miss(state.index, _END)
    raise attempt.error().refusal(cursor)


def _made(cursor: Cursor, statement: type[Statement], state: _State, first: Token) -> Statement:
    make = MAKERS.get(statement)
    if make is not None:
        return make(Parts(cursor, state.values, state.places, first))
    try:
        return statement.of(state.values)
    except RefusedPart as part:
        error = cursor.unsupported if part.is_unsupported else cursor.error
        raise error(part.reason, cursor.tokens[state.places.get(part.field, 0)]) from None
