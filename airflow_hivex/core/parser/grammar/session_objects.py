"""Variables of a session, and EXECUTE IMMEDIATE."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_hivex.core.parser.grammar.clauses import Parts
from airflow_hivex.core.parser.grammar.functions import skip_session
from airflow_hivex.core.parser.lexer.literals import read_constant, read_string
from airflow_hivex.core.parser.lexer.tokens import Cursor, Kind, Token
from airflow_hivex.core.parser.queries.pieces import Pieces
from airflow_hivex.core.parser.statements import DeclareVariable, ImmediateArgument, Query, SetVariables


def read_variable(cursor: Cursor) -> str:
    """Return the name of a variable, which must come next, with or without the schema ``session``."""
    skip_session(cursor)
    name = cursor.name("the name of a variable")
    if cursor.at_symbol("."):
        raise cursor.error(f"variable {name} belongs to the session; give it a name of one part")
    return name


def read_variables(cursor: Cursor) -> tuple[str, ...]:
    """Return the names in a list of variables, none of which occurs twice."""
    return tuple(cursor.different(lambda: read_variable(cursor), "variable "))


def make_declaration(parts: Parts) -> DeclareVariable:
    """Return the statement DECLARE VARIABLE."""
    column_type = parts["type"]
    pieces = Pieces(parts.cursor).add("SELECT " if column_type is None else "SELECT CAST((")
    pieces = pieces.copy_tokens(parts["default"]) if "default" in parts else pieces.add("NULL")
    query = (pieces if column_type is None else pieces.add(f") AS {column_type})")).read()
    return DeclareVariable(parts["names"], query, "or_replace" in parts)


def read_query_in_parentheses(cursor: Cursor) -> Query:
    """Return the query in parentheses at the end of the statement."""
    if not cursor.at_symbol("("):
        raise cursor.expected("'(' and a query")
    tokens, cursor.index = cursor.tokens[cursor.index :], len(cursor.tokens)
    return Pieces(cursor).copy_tokens(tokens).read()


def read_variable_values(cursor: Cursor) -> dict[str, Sequence[Token]]:
    """Return a dict from variable to the tokens of its value, for a list such as ``name = expression, ...``."""
    found: dict[str, Sequence[Token]] = {}
    for name in cursor.different(lambda: read_variable(cursor), "variable "):
        cursor.expect_symbol("=")
        found[name] = _expression(cursor)
    return found


def make_assignment(parts: Parts) -> SetVariables:
    """Return the statement SET VARIABLE."""
    if "query" in parts:
        return SetVariables(parts["names"], parts["query"], may_be_empty=True)
    defaults = tuple(
        name for name, value in parts["assigned"].items() if len(value) == 1 and value[0].word == "DEFAULT"
    )
    assigned = {name: value for name, value in parts["assigned"].items() if name not in defaults}
    if not assigned:
        return SetVariables((), defaults=defaults)
    pieces = Pieces(parts.cursor).add("SELECT ")
    for index, value in enumerate(assigned.values()):
        pieces.add(", (" if index else "(").copy_tokens(value).add(")")
    return SetVariables(tuple(assigned), pieces.read(), defaults=defaults)


def _expression(cursor: Cursor) -> Sequence[Token]:
    """Return the tokens up to the next comma outside of parentheses, or to the end."""
    start, depth = cursor.index, 0
    while not cursor.at_end and not (depth == 0 and cursor.at_symbol(",")):
        token = cursor.next("an expression")
        depth += token.is_symbol("(", "[") - token.is_symbol(")", "]")
    if cursor.index == start:
        raise cursor.expected("an expression")
    return cursor.tokens[start : cursor.index]


# -- EXECUTE IMMEDIATE -------------------------------------------------------------------


def read_statement_text(cursor: Cursor) -> str:
    """Return the text of a statement that comes next, as a string or as a ``:name`` marker."""
    token = cursor.peek()
    if not cursor.at_symbol(":"):
        return read_string(cursor, "a statement")
    literal = read_constant(cursor)
    if literal is None or not isinstance(literal.value, str | int):
        raise cursor.error("the marker has no text of a statement", token)
    return str(literal.value)


def read_arguments(cursor: Cursor) -> tuple[ImmediateArgument, ...]:
    """Return the arguments after USING: ``value [AS name], ...``, with or without parentheses."""
    in_parentheses = cursor.accept_symbol("(")
    found: list[ImmediateArgument] = []
    while not found or cursor.accept_symbol(","):
        token = cursor.peek()
        argument = _argument(cursor)
        if argument.name is not None and argument.name in [each.name for each in found]:
            raise cursor.error(f"the marker :{argument.name} has two values", token)
        found.append(argument)
    if in_parentheses:
        cursor.expect_symbol(")")
    return tuple(found)


def _argument(cursor: Cursor) -> ImmediateArgument:
    literal = read_constant(cursor)
    is_name = cursor.at_kind(Kind.WORD, Kind.QUOTED) or cursor.at_end
    variable = read_variable(cursor) if literal is None and is_name else None
    following = cursor.peek()
    is_read = literal is not None or is_name
    ends = following is None or following.is_symbol(",", ")") or following.word in ("AS", "INTO")
    if not (is_read and ends):
        reason = "a value behind USING is a constant or a variable; DECLARE a variable for the expression"
        raise cursor.unsupported(reason, following)
    name = cursor.identifier("the name of a marker") if cursor.accept("AS") else variable
    return ImmediateArgument(name, literal, variable)
