"""The clause SKEWED BY of CREATE TABLE. Source: Hive's grammar, tableSkewed."""

from __future__ import annotations

from airflow_hivex.core.model.objects import Skew
from airflow_hivex.core.parser.lexer.literals import read_constant
from airflow_hivex.core.parser.lexer.tokens import Cursor


def read_skew(cursor: Cursor) -> Skew:
    """Return the clause behind SKEWED: ``BY (a, b) ON ((1, 'x'), (2, 'y'))``, or ``BY (a) ON (1, 2)``.

    Raises:
        StatementSyntaxError: it is not such a clause, or values or columns are named twice.
        UnsupportedStatementError: rows are to be stored in directories by these values.
    """
    cursor.expect("BY")
    columns = cursor.names("a column")
    cursor.expect("ON")
    cursor.expect_symbol("(")
    values: list[tuple[str, ...]] = []
    while True:
        token = cursor.peek()
        found = _read_values(cursor)
        if len(found) != len(columns):
            raise cursor.error(f"expected {len(columns)} values in parentheses, one for each column", token)
        if found in values:
            raise cursor.error("values are named twice", token)
        values.append(found)
        if not cursor.accept_symbol(","):
            break
    cursor.expect_symbol(")")
    if cursor.at("STORED", "AS", "DIRECTORIES"):
        raise cursor.unsupported("rows are not stored in directories by their values here; leave the clause out")
    return Skew(columns, tuple(values))


def _read_values(cursor: Cursor) -> tuple[str, ...]:
    if not cursor.accept_symbol("("):
        return (_read_value(cursor),)
    values = [_read_value(cursor)]
    while cursor.accept_symbol(","):
        values.append(_read_value(cursor))
    cursor.expect_symbol(")")
    return tuple(values)


def _read_value(cursor: Cursor) -> str:
    """Return the text of a constant, as Hive keeps it: a number or a word as it was written."""
    start = cursor.peek()
    literal = read_constant(cursor)
    if start is None or literal is None or literal.value is None:
        raise cursor.error("expected a text or a number", start)
    if isinstance(literal.value, str):
        return literal.value
    last = cursor.peek(-1)
    sign = "-" if start.is_symbol("-") else ""
    return sign + last.text.lower() if last is not None else sign
