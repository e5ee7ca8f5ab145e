"""Clauses that several statements share: partition specifications, property lists and lists of ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_hivex.core.errors import UnsupportedStatementError
from airflow_hivex.core.model.predicates import And, ColumnReference, Comparison, IsNull, Not, Predicate
from airflow_hivex.core.model.write_ids import MAX_ID
from airflow_hivex.core.parser.lexer.advice import STATEMENT_WORDS, instead, meant
from airflow_hivex.core.parser.lexer.literals import read_constant, read_string, unquote
from airflow_hivex.core.parser.lexer.tokens import Cursor, Kind, Token
from airflow_hivex.core.parser.statements import Literal


@dataclass(frozen=True, slots=True)
class Parts:
    """The result of reading a SYNTAX line: a dict from field to value, and a dict from field to first token's index.

    A field that does not occur in the text is not in the dicts.
    """

    cursor: Cursor
    values: Mapping[str, Any]
    places: Mapping[str, int]
    first: Token
    """The first token that the SYNTAX line has read."""

    def __contains__(self, field: str) -> bool:
        """Return whether a field has a value."""
        return field in self.values

    def __getitem__(self, field: str) -> Any:
        """Return the value of a field, or None."""
        return self.values.get(field)

    def token(self, field: str) -> Token:
        """Return the first token of the value of a field."""
        return self.cursor.tokens[self.places[field]]


_COMPARISONS = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def read_partition(cursor: Cursor) -> dict[str, Literal | None]:
    """Return a dict from key to value for a partition such as ``(ds='x', hr)``. A key without a value has None."""
    cursor.expect_symbol("(")
    found: dict[str, Literal | None] = {}
    for key in cursor.different(lambda: cursor.name("a partition column"), "partition column "):
        has_value = cursor.accept_symbol("=") or cursor.accept_symbol("==")
        found[key] = read_value(cursor, f"a constant for {key}") if has_value else None
    cursor.expect_symbol(")")
    return found


def read_static_partition(cursor: Cursor) -> dict[str, Literal]:
    """Return a dict from key to value for a partition such as ``(ds='x', hr=1)``. Each key must have a value."""
    first = cursor.peek()
    found: dict[str, Literal] = {}
    for key, literal in read_partition(cursor).items():
        if literal is None:
            raise cursor.error(f"partition column {key} needs a value here", first)
        found[key] = literal
    return found


def read_partition_predicate(cursor: Cursor, *, any_value: bool = False) -> Predicate:
    """Return the predicate of conditions such as ``(ds < '2013', hr = 1)``. NULL means the default partition.

    If ``any_value`` is true, a key without a value is allowed, and matches all values.
    """
    cursor.expect_symbol("(")
    found: list[Predicate] = []
    while True:
        column = ColumnReference(cursor.name("a partition column"))
        operator = cursor.peek()
        if any_value and operator is not None and operator.is_symbol(",", ")"):
            found.append(Not(And((IsNull(column), Not(IsNull(column))))))
        else:
            if operator is None or not operator.is_symbol(*_COMPARISONS):
                raise cursor.expected("one of = <> < <= > >=")
            cursor.index += 1
            found.append(_comparison(cursor, column, _COMPARISONS[operator.text]))
        if not cursor.accept_symbol(","):
            break
    cursor.expect_symbol(")")
    return found[0] if len(found) == 1 else And(tuple(found))


def _comparison(cursor: Cursor, column: ColumnReference, operator: str) -> Predicate:
    token = cursor.peek()
    value = read_value(cursor, f"a constant for {column.name}").value
    if isinstance(value, bytes):
        raise cursor.error("a binary value cannot be compared here", token)
    if value is not None:
        return Comparison(column, operator, value)
    if operator not in ("=", "<>"):
        raise cursor.error("NULL can be compared by = and <> only", token)
    return IsNull(column) if operator == "=" else Not(IsNull(column))


def read_value(cursor: Cursor, what: str) -> Literal:
    """Return the constant that must come next, before a comma or parenthesis."""
    literal = read_constant(cursor)
    if literal is None:
        raise cursor.expected(what)
    if not cursor.at_symbol(",", ")"):
        raise cursor.expected("',' or ')'")
    return literal


def read_properties(cursor: Cursor) -> dict[str, str]:
    """Return the properties in ``('key' = 'value', other.key = 1, ...)``. Numbers and booleans become texts."""
    cursor.expect_symbol("(")
    found: dict[str, str] = {}
    for key in cursor.different(lambda: read_property_key(cursor), "property "):
        if not cursor.accept_symbol("="):
            cursor.accept_symbol("==")
        found[key] = _property_value(cursor, key)
    cursor.expect_symbol(")")
    return found


def read_property_keys(cursor: Cursor) -> tuple[str, ...]:
    """Return the keys in ``('key', other.key, ...)``."""
    cursor.expect_symbol("(")
    found = [read_property_key(cursor)]
    while cursor.accept_symbol(","):
        found.append(read_property_key(cursor))
    cursor.expect_symbol(")")
    return tuple(dict.fromkeys(found))


def read_property_key(cursor: Cursor) -> str:
    """Return the key that comes next: a string, or words with points between them. Its case is not changed."""
    if cursor.at_kind(Kind.STRING):
        # Two strings in a row are a key and its value: = may be left out.
        return unquote(cursor.next("a property"))
    parts = [cursor.identifier("a property")]
    while cursor.accept_symbol("."):
        parts.append(cursor.identifier("a property"))
    return ".".join(parts)


def _property_value(cursor: Cursor, key: str) -> str:
    if cursor.at_kind(Kind.STRING):
        return read_string(cursor, "a value")
    if cursor.at("TRUE") or cursor.at("FALSE"):
        return cursor.next("a value").text.lower()
    sign = "-" if cursor.accept_symbol("-") else ""
    if cursor.at_kind(Kind.NUMBER):
        return sign + cursor.next("a value").text
    raise cursor.expected(f"a value for property {key}")


def read_parentheses(cursor: Cursor) -> Sequence[Token]:
    """Return the tokens of the list that comes next, including its parentheses."""
    first, start = cursor.peek(), cursor.index
    cursor.expect_symbol("(")
    depth = 1
    while (token := cursor.peek()) is not None:
        depth += token.is_symbol("(") - token.is_symbol(")")
        cursor.index += 1
        if depth == 0:
            return cursor.tokens[start : cursor.index]
    raise cursor.error("this parenthesis is not closed", first)


def read_ids(cursor: Cursor, what: str) -> tuple[int, ...]:
    """Return the ids in a list such as ``3 1 2`` or ``3, 1, 2``, each once. The list must end the statement."""
    found = [read_id(cursor, what)]
    while not cursor.at_end:
        cursor.accept_symbol(",")
        found.append(read_id(cursor, what))
    return tuple(dict.fromkeys(found))


def read_id(cursor: Cursor, what: str) -> int:
    """Return the id that must come next."""
    first = cursor.peek()
    literal = read_constant(cursor)
    value = None if literal is None else literal.value
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_ID:
        return value
    if first is None:
        found = "the statement ends here"
    else:
        last = first if literal is None else cursor.tokens[cursor.index - 1]
        found = f"found {cursor.text[first.start : last.end]}"
    raise cursor.error(f"expected the id of {what}, a whole number from 1 on, but {found}", first)


def once(cursor: Cursor, token: Token | None, present: object) -> None:
    """Refuse the clause at ``token`` if the same clause is already ``present``."""
    if present:
        raise cursor.error(f"{token.text if token else 'the clause'} is given twice", token)


def unsupported_statement(cursor: Cursor, first: Token, second: Iterable[str] = ()) -> UnsupportedStatementError:
    """Return the error for an unsupported statement, with the first words of the statement.

    ``second`` are the words that can follow the first word. If the second word is similar to one of them, the error
    suggests this word.
    """
    words = [first.word]
    ahead = cursor.tokens.index(first) + 1
    for token in cursor.tokens[ahead : ahead + 3]:
        # No name comes after SHOW.
        if token.word not in STATEMENT_WORDS and not (words == ["SHOW"] and token.word):
            break
        words.append(token.word)
    beginning = " ".join(words)
    advice = instead(beginning) or (meant(words[1], second) if len(words) > 1 else "")
    return cursor.unsupported(f"{beginning} is not a statement of this release{advice}", first)
