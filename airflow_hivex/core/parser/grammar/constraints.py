"""Constraints in the definition of a table, and the rules for their expressions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import count
from typing import NamedTuple

from airflow_hivex.core.errors import UnsupportedStatementError
from airflow_hivex.core.model.constraints import Constraints, Key, KeyKind
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.literals import Literal
from airflow_hivex.core.parser.lexer.literals import read_constant
from airflow_hivex.core.parser.lexer.markers import Markers
from airflow_hivex.core.parser.lexer.tokens import Cursor, Kind, Token, tokenize, unsupported_error
from airflow_hivex.core.parser.queries.reader import random_functions, read_query
from airflow_hivex.core.parser.statements import FunctionCall, Query

_AFTER_DEFAULT = ("COMMENT", "CONSTRAINT", "CHECK", "ENABLE", "ENFORCED", "VALIDATE", "RELY", "NORELY", "NOVALIDATE")
_ENFORCED = ("ENABLE", "ENFORCED", "VALIDATE", "NOVALIDATE", "RELY", "NORELY")


@dataclass(slots=True)
class ConstraintReader:
    """A reader of the constraints in a table's list of columns."""

    defaults: dict[str, str] = field(default_factory=dict)
    not_null: list[str] = field(default_factory=list)
    checks: dict[str, str] = field(default_factory=dict)
    keys: dict[str, Key] = field(default_factory=dict)

    @property
    def found(self) -> Constraints:
        """Return the constraints that this object has read."""
        return Constraints(dict(self.defaults), tuple(self.not_null), dict(self.checks), dict(self.keys))

    def accept_of_column(self, cursor: Cursor, column: str) -> bool:
        """Read a constraint after the type of a column, and return True. If no constraint comes next, return False.

        Raises:
            StatementSyntaxError: the constraint is not SQL, or occurs twice.
            UnsupportedStatementError: this release does not enforce such a constraint, or its expression is not
                about one row.
        """
        named = cursor.at("CONSTRAINT") and cursor.at_kind(Kind.WORD, Kind.QUOTED, ahead=1)
        start, token = cursor.index, cursor.peek()
        name = _read_name(cursor) if named else None
        if cursor.accept("NOT", "NULL"):
            enforcement = _read_enforcement(cursor)
            if enforcement.is_off:
                self._add_key(cursor, token, name, Key(KeyKind.NOT_NULL, (column,), rely=enforcement.rely))
                return True
            self._once(cursor, token, column in self.not_null)
            self.not_null.append(column)
            return True
        if cursor.accept("DEFAULT"):
            self._once(cursor, token, column in self.defaults)
            self.defaults[column] = read_default(cursor)
            _read_enforcement(cursor).check_on(cursor)
            return True
        kind = _read_kind(cursor, of_column=True)
        if kind is not None:
            self._read_key(cursor, token, name, Key(kind, (column,)))
            return True
        if cursor.at("CHECK") and not cursor.at_symbol("(", ahead=1):
            cursor.expect("CHECK")
            raise cursor.expected("'(' and a condition")
        cursor.index = start
        return self.accept_check(cursor)

    def accept_of_table(self, cursor: Cursor) -> bool:
        """Read a CHECK or a key of the whole table, and return True. If no such constraint comes next, return False.

        Raises:
            StatementSyntaxError: the constraint is not SQL, or occurs twice.
            UnsupportedStatementError: this release does not enforce such a constraint, or its expression is not
                about one row.
        """
        named = cursor.at("CONSTRAINT") and cursor.at_kind(Kind.WORD, Kind.QUOTED, ahead=1)
        start, token = cursor.index, cursor.peek()
        name = _read_name(cursor) if named else None
        kind = _read_kind(cursor, of_column=False)
        if kind is None:
            cursor.index = start
            return self.accept_check(cursor)
        self._read_key(cursor, token, name, Key(kind, tuple(normalise(each) for each in cursor.names("a column"))))
        return True

    def _read_key(self, cursor: Cursor, token: Token | None, name: str | None, key: Key) -> None:
        """Read the text after the kind and the columns of a key: the referenced columns, and the words NOT ENFORCED."""
        if key.kind is KeyKind.FOREIGN_KEY:
            cursor.expect("REFERENCES")
            parent = cursor.table_name()
            columns = tuple(normalise(each) for each in cursor.names("a column"))
            if len(columns) != len(key.columns):
                raise cursor.error(f"a foreign key of {len(key.columns)} columns references as many", token)
            key = replace(key, parent=(parent.database or "", parent.name), parent_columns=columns)
        enforcement = _read_enforcement(cursor)
        if not enforcement.is_off:
            reason = (
                f"nothing enforces a {key.kind.value}; write DISABLE NOVALIDATE or NOT ENFORCED behind it to keep it"
            )
            raise cursor.unsupported(reason, token)
        self._add_key(cursor, token, name, replace(key, rely=enforcement.rely))

    def _add_key(self, cursor: Cursor, token: Token | None, name: str | None, key: Key) -> None:
        if name is None:
            name = _free_name(key, {*self.checks, *self.keys})
        is_second = key.kind is KeyKind.PRIMARY_KEY and any(each.kind is key.kind for each in self.keys.values())
        self._once(cursor, token, is_second or name in self.keys or name in self.checks)
        self.keys[name] = key

    def accept_check(self, cursor: Cursor) -> bool:
        """Read ``[CONSTRAINT name] CHECK (...)``, and return True. If no CHECK comes next, return False."""
        named = cursor.at("CONSTRAINT") and cursor.at_kind(Kind.WORD, Kind.QUOTED, ahead=1)
        token = cursor.peek(2 if named else 0)
        following = cursor.peek(3 if named else 1)
        if token is None or token.word != "CHECK" or following is None or not following.is_symbol("("):
            return False
        name = None
        if named:
            cursor.expect("CONSTRAINT")
            name = cursor.name("the name of a constraint")
        cursor.expect("CHECK")
        expression = _read_parenthesised(cursor)
        if name is None:
            number = len(self.checks) + 1
            while f"check_{number}" in self.checks:
                number += 1
            name = f"check_{number}"
        self._once(cursor, token, name in self.checks or name in self.keys)
        self.checks[name] = expression
        _read_enforcement(cursor).check_on(cursor)
        return True

    @staticmethod
    def _once(cursor: Cursor, token: Token | None, present: bool) -> None:
        if present:
            raise cursor.error(f"{token.word if token else 'the constraint'} is given twice", token)


def read_default(cursor: Cursor) -> str:
    """Return the expression after DEFAULT. A comma, a parenthesis or another clause of the column ends the expression.

    Raises:
        StatementSyntaxError: there is no expression.
        UnsupportedStatementError: the expression reads columns or tables.
    """
    start, depth = cursor.index, 0
    while (token := cursor.peek()) is not None:
        if depth == 0 and cursor.index > start:
            ends = token.is_symbol(",", ")") or token.word in _AFTER_DEFAULT
            if ends or cursor.at("NOT", "NULL") or cursor.at("NOT", "ENFORCED") or cursor.at("DISABLE"):
                break
        elif depth == 0 and token.is_symbol(",", ")"):
            break
        depth += token.is_symbol("(", "[") - token.is_symbol(")", "]")
        cursor.index += 1
    if cursor.index == start:
        raise cursor.expected("the value of DEFAULT")
    first, last = cursor.tokens[start], cursor.tokens[cursor.index - 1]
    text = cursor.text[first.start : last.end]
    if columns := _columns(cursor, text, first):
        raise cursor.unsupported(f"a DEFAULT reads no column, such as {columns[0]}; a text needs quotes", first)
    return text


def _read_parenthesised(cursor: Cursor) -> str:
    first = cursor.peek()
    cursor.expect_symbol("(")
    start, depth = cursor.index, 1
    while (token := cursor.peek()) is not None:
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth == 0:
            break
        cursor.index += 1
    if depth or cursor.index == start:
        raise cursor.error("this parenthesis is not closed, or nothing stands in it", first)
    text = cursor.text[cursor.tokens[start].start : cursor.tokens[cursor.index - 1].end]
    cursor.expect_symbol(")")
    if not _columns(cursor, text, first):
        raise cursor.unsupported("a CHECK compares columns of the table, and this one names none", first)
    if random := sorted(random_functions(text)):
        raise cursor.unsupported(f"a CHECK calls no function whose value is another with each call: {random[0]}", first)
    return text


def _columns(cursor: Cursor, text: str, first: Token | None) -> tuple[str, ...]:
    try:
        return expression_columns(text)
    except UnsupportedStatementError as error:
        raise cursor.unsupported(error.reason, first) from error


class _Enforcement(NamedTuple):
    """The meaning of the words after a constraint.

    ``is_off`` is true if the constraint is not enforced. ``token`` is the word for this, such as DISABLE. ``rely`` is
    true for RELY.
    """

    is_off: bool
    token: Token | None
    rely: bool

    def check_on(self, cursor: Cursor) -> None:
        """Refuse a constraint that is not enforced.

        Raises:
            UnsupportedStatementError: the constraint is not enforced.
        """
        if self.is_off:
            raise cursor.unsupported("a constraint that is not enforced is not kept; leave it out", self.token)


def _read_enforcement(cursor: Cursor) -> _Enforcement:
    """Return the meaning of the words ENABLE, DISABLE, VALIDATE, NOVALIDATE, [NOT] ENFORCED, RELY and NORELY.

    Raises:
        UnsupportedStatementError: the words demand that existing rows are checked, but no future rows.
    """
    off = validated = None
    rely = False
    while True:
        token = cursor.peek()
        if cursor.accept("DISABLE") or cursor.accept("NOT", "ENFORCED"):
            off = token
        elif (word := cursor.accept_one(*_ENFORCED)) is None:
            break
        elif word == "VALIDATE":
            validated = token
        elif word in ("RELY", "NORELY"):
            rely = word == "RELY"
    if off is not None and validated is not None:
        raise cursor.unsupported("rows are not compared with a constraint that is not enforced", validated)
    return _Enforcement(off is not None, off, rely)


def _read_name(cursor: Cursor) -> str:
    cursor.expect("CONSTRAINT")
    return normalise(cursor.name("the name of a constraint"))


def _read_kind(cursor: Cursor, *, of_column: bool) -> KeyKind | None:
    """Read the words of a key, such as PRIMARY KEY, and return its kind. If no key comes next, return None."""
    if cursor.at("PRIMARY", "KEY") and (of_column or cursor.at_symbol("(", ahead=2)):
        cursor.index += 2
        return KeyKind.PRIMARY_KEY
    if cursor.at("UNIQUE") and (of_column or cursor.at_symbol("(", ahead=1)):
        cursor.index += 1
        return KeyKind.UNIQUE
    if of_column and cursor.at("REFERENCES"):
        return KeyKind.FOREIGN_KEY
    if of_column and cursor.accept("FOREIGN", "KEY"):
        return KeyKind.FOREIGN_KEY
    if cursor.at("FOREIGN", "KEY") and cursor.at_symbol("(", ahead=2):
        cursor.index += 2
        return KeyKind.FOREIGN_KEY
    return None


def _free_name(key: Key, taken: Collection[str]) -> str:
    """Return a name for a constraint without a name. It is not among the names ``taken``."""
    first = key.kind.value.lower().replace(" ", "_")
    if key.kind is KeyKind.NOT_NULL:
        first = f"{key.columns[0]}_not_null"
    names = (first if number == 1 else f"{first}_{number}" for number in count(1))
    return next(name for name in names if name not in taken)


@lru_cache(maxsize=4096)
def expression_columns(text: str) -> tuple[str, ...]:
    """Return the columns that an expression of one row reads, in lower case.

    Raises:
        StatementSyntaxError: the text is not an expression.
        UnsupportedStatementError: the expression reads tables, aggregates rows, or calls arbitrary code.
    """
    from sqlglot import exp, parse_one
    from sqlglot.errors import SqlglotError

    depth = 0
    for token in tokenize(text):
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth < 0 or token.is_symbol(";"):
            raise unsupported_error(text, token.start, "this is not one expression")
    query = expression_query(text)
    no_part = (exp.Query, exp.Window, exp.AggFunc, exp.Star, exp.Placeholder)
    try:
        tree = parse_one(query.text, dialect="spark").expressions[0]
    except SqlglotError as error:
        raise unsupported_error(text, 0, "this expression is not understood") from error
    if query.references or query.code_functions or query.parameters or tree.find(*no_part) is not None:
        reason = "a constraint reads the columns of one row: no table, no group of rows, and no function that runs code"
        raise unsupported_error(text, 0, reason)
    names = (normalise(column.parts[0].name) for column in tree.find_all(exp.Column))
    return tuple(dict.fromkeys(names))


def expression_functions(text: str) -> tuple[FunctionCall, ...]:
    """Return the calls in an expression, except the calls of Spark's own functions."""
    return expression_query(text).functions


def expression_query(text: str) -> Query:
    """Return a query whose only column is the expression ``text``."""
    whole = f"SELECT ({text}\n)"
    return read_query(Cursor(whole, tokenize(whole), Markers(None)))


def constant_of(text: str) -> Literal | None:
    """Return the value of an expression if it is a constant, else None."""
    cursor = Cursor(text, tokenize(text), Markers(None))
    literal = read_constant(cursor)
    return literal if cursor.at_end else None
