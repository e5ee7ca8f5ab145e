"""Temporary views, tables, functions and variables of a session, and EXECUTE IMMEDIATE."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from airflow_hivex.core.parser.grammar.tables import read_create_table
from airflow_hivex.core.parser.grammar.views import read_create_view
from airflow_hivex.core.parser.lexer.advice import instead
from airflow_hivex.core.parser.lexer.literals import read_constant, read_string
from airflow_hivex.core.parser.lexer.tokens import Cursor, Kind, Token
from airflow_hivex.core.parser.lexer.types import read_type
from airflow_hivex.core.parser.queries.pieces import Pieces
from airflow_hivex.core.parser.queries.reader import code_functions
from airflow_hivex.core.parser.statements import (
    CreateTable,
    CreateTableLike,
    CreateTemporaryFunction,
    CreateTemporaryView,
    DeclareVariable,
    DropTemporaryFunction,
    DropVariable,
    ExecuteImmediate,
    ImmediateArgument,
    Query,
    SetVariables,
    Statement,
)

TEMPORARY = ("TEMPORARY", "TEMP")
_NAME = re.compile(r"[a-z_]\w*", re.ASCII)
QUERY_WORDS = ("SELECT", "WITH", "VALUES", "FROM", "TABLE")


def read_create_temporary(
    cursor: Cursor, *, or_replace: bool
) -> CreateTemporaryView | CreateTemporaryFunction | CreateTable | CreateTableLike:
    """Return the statement whose words up to TEMPORARY are read.

    Raises:
        StatementSyntaxError: the text is not SQL.
        UnsupportedStatementError: the object is of another kind, or the statement reads files or runs a Java class.
    """
    kind = cursor.peek()
    if cursor.accept("VIEW"):
        return _create_view(cursor, or_replace=or_replace)
    if cursor.accept("FUNCTION"):
        return _create_function(cursor, or_replace=or_replace)
    if not or_replace and cursor.accept("MACRO"):
        return _create_macro(cursor)
    external = cursor.at("EXTERNAL", "TABLE") and cursor.accept("EXTERNAL")
    if cursor.accept("TABLE"):
        if or_replace:
            raise cursor.error("a temporary table is not replaced; drop it by DROP TABLE first", kind)
        return _create_table(cursor, external=external)
    word = "" if kind is None else kind.word
    raise cursor.unsupported(f"CREATE TEMPORARY {word} is not a statement of this release", cursor.tokens[0])


def _create_view(cursor: Cursor, *, or_replace: bool) -> CreateTemporaryView:
    words = [token.word for token in cursor.tokens]
    if "USING" in words and "AS" not in words[: words.index("USING")]:
        reason = "a temporary view of files is not supported; make an external table of them"
        raise cursor.unsupported(reason, cursor.tokens[0])
    read = read_create_view(cursor, or_replace=or_replace)
    if read.view.database is not None or read.view.namespace is not None:
        raise cursor.error(f"the temporary view {read.view} belongs to the session; give it a name of one part")
    return CreateTemporaryView(read.view, read.query, read.columns, read.or_replace, read.if_not_exists, read.comment)


def _create_table(cursor: Cursor, *, external: bool) -> CreateTable | CreateTableLike:
    read = read_create_table(cursor, external=external)
    new = read if isinstance(read, CreateTable) else read.new
    if new.table.database is not None:
        raise cursor.error(f"the temporary table {new.table} belongs to the session; give it a name of one part")
    new = replace(new, temporary=True)
    return new if isinstance(read, CreateTable) else replace(read, new=new)


def _create_function(cursor: Cursor, *, or_replace: bool) -> CreateTemporaryFunction:
    """Read ``[IF NOT EXISTS] name (parameter type, ...) RETURNS type RETURN expression``."""
    first = cursor.tokens[0]
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    if if_not_exists and or_replace:
        raise cursor.error("OR REPLACE and IF NOT EXISTS do not go together")
    name = _name_of_function(cursor)
    if cursor.at("AS"):
        reason = (
            "a temporary function of a class is not supported; write its body in SQL: f(x INT) RETURNS INT RETURN x"
        )
        raise cursor.unsupported(reason, first)
    if not cursor.at_symbol("("):
        raise cursor.expected("'(' and parameters")
    start = cursor.offset()
    body = cursor.tokens[body_of_function(cursor) :]
    text = cursor.text[start : body[-1].end]
    return _function(cursor, name, text, body, or_replace=or_replace, if_not_exists=if_not_exists)


def _create_macro(cursor: Cursor) -> CreateTemporaryFunction:
    """Read ``name (parameter type, ...) expression``: a function with this body, which replaces an earlier one."""
    name = _name_of_function(cursor)
    start = cursor.offset()
    _parameters(cursor)
    end, body = cursor.tokens[cursor.index - 1].end, cursor.tokens[cursor.index :]
    if not body:
        raise cursor.expected("an expression")
    text = f"{cursor.text[start:end]} RETURN {cursor.text[body[0].start : body[-1].end]}"
    return _function(cursor, name, text, body, or_replace=True)


def _name_of_function(cursor: Cursor) -> str:
    _skip_session(cursor)
    token = cursor.peek()
    name = cursor.name("the name of a function")
    if not _NAME.fullmatch(name):
        raise cursor.error(f"`{name}` is not a valid name of a function; it has letters, digits and _", token)
    if cursor.at_symbol("."):
        raise cursor.error(f"the temporary function {name} belongs to the session; give it a name of one part")
    return name


def _parameters(cursor: Cursor) -> None:
    cursor.expect_symbol("(")
    depth = 1
    while depth:
        token = cursor.next("')'")
        depth += token.is_symbol("(") - token.is_symbol(")")


def _function(
    cursor: Cursor, name: str, text: str, body: Sequence[Token], *, or_replace: bool, if_not_exists: bool = False
) -> CreateTemporaryFunction:
    query = query_of_body(cursor, body)
    if query.references:
        reason = "a temporary function reads no tables; give it their values as arguments, or use a temporary view"
        raise cursor.unsupported(reason, body[0])
    if query.parameters:
        marker = sorted(query.parameters)[0]
        reason = f"a function is kept without values for markers; write a constant for :{marker}"
        raise cursor.unsupported(reason, body[0])
    # Defaults of parameters may call functions, too.
    query = replace(query, code_functions=code_functions(cursor.tokens))
    cursor.index = len(cursor.tokens)
    return CreateTemporaryFunction(name, text, query, or_replace, if_not_exists)


def body_of_function(cursor: Cursor) -> int:
    """Return the index of the first token behind RETURN.

    Raises:
        UnsupportedStatementError: the language of the function is not SQL.
        StatementSyntaxError: the function has no body.
    """
    depth = 0
    for index in range(cursor.index, len(cursor.tokens)):
        token = cursor.tokens[index]
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth == 0 and token.word == "LANGUAGE" and cursor.tokens[index + 1 : index + 2]:
            language = cursor.tokens[index + 1]
            if language.word != "SQL":
                reason = f"the language of a function is SQL; {language.text} is not supported"
                raise cursor.unsupported(reason, language)
        if depth == 0 and token.word == "RETURN" and index + 1 < len(cursor.tokens):
            return index + 1
    cursor.index = len(cursor.tokens)
    raise cursor.expected("RETURN and an expression")


def query_of_body(cursor: Cursor, tokens: Sequence[Token]) -> Query:
    """Return an expression, or a query, as a query."""
    pieces = Pieces(cursor)
    if tokens[0].word not in QUERY_WORDS:
        pieces.add("SELECT ")
    return pieces.copy_tokens(tokens).read()


def read_drop_temporary(cursor: Cursor) -> Statement:
    """Return the statement whose words DROP TEMPORARY are read.

    Raises:
        UnsupportedStatementError: the object is of another kind.
    """
    kind = cursor.peek()
    if cursor.accept_one("VARIABLE", "VAR", "FUNCTION", "MACRO") is None:
        word = "" if kind is None else kind.word
        advice = "; DROP VIEW drops a temporary view" if word == "VIEW" else instead("DROP TEMPORARY")
        reason = f"DROP TEMPORARY {word} is not a statement of this release{advice}"
        raise cursor.unsupported(reason, cursor.tokens[0])
    if_exists = cursor.accept("IF", "EXISTS")
    if kind is not None and kind.word in ("FUNCTION", "MACRO"):
        _skip_session(cursor)
        return DropTemporaryFunction(cursor.name("the name of a function"), if_exists)
    return DropVariable(_variable(cursor), if_exists)


# -- variables ---------------------------------------------------------------------------


def read_declare(cursor: Cursor) -> DeclareVariable:
    """Return the statement whose word DECLARE is read."""
    or_replace = cursor.accept("OR", "REPLACE")
    following = cursor.peek(1)
    # Without a type behind it, the word is the name itself.
    if following is not None and not following.is_symbol("=") and following.word != "DEFAULT":
        cursor.accept_one("VARIABLE", "VAR")
    names = _variables(cursor)
    has_type = not (cursor.at_end or cursor.at("DEFAULT") or cursor.at_symbol("="))
    column_type = read_type(cursor) if has_type else None
    default: Sequence[Token] = ()
    if cursor.accept("DEFAULT") or cursor.accept_symbol("="):
        default = cursor.tokens[cursor.index :]
        if not default:
            raise cursor.expected("an expression")
        cursor.index = len(cursor.tokens)
    elif column_type is None:
        raise cursor.expected("a type or DEFAULT")
    pieces = Pieces(cursor).add("SELECT " if column_type is None else "SELECT CAST((")
    pieces = pieces.copy_tokens(default) if default else pieces.add("NULL")
    query = (pieces if column_type is None else pieces.add(f") AS {column_type})")).read()
    return DeclareVariable(names, query, or_replace)


def read_set_variables(cursor: Cursor) -> SetVariables:
    """Return the statement whose words SET VARIABLE are read."""
    if cursor.at_symbol("("):
        names = cursor.names("a variable")
        cursor.expect_symbol("=")
        if not cursor.at_symbol("("):
            raise cursor.expected("'(' and a query")
        query = Pieces(cursor).copy_tokens(cursor.tokens[cursor.index :]).read()
        cursor.index = len(cursor.tokens)
        return SetVariables(names, query, may_be_empty=True)
    assigned: dict[str, Sequence[Token]] = {}
    defaults: list[str] = []
    while True:
        token = cursor.peek()
        name = _variable(cursor)
        if name in assigned or name in defaults:
            raise cursor.error(f"variable {name} is named twice", token)
        cursor.expect_symbol("=")
        value = _expression(cursor)
        if len(value) == 1 and value[0].word == "DEFAULT":
            defaults.append(name)
        else:
            assigned[name] = value
        if not cursor.accept_symbol(","):
            break
    if not assigned:
        return SetVariables((), defaults=tuple(defaults))
    pieces = Pieces(cursor).add("SELECT ")
    for index, value in enumerate(assigned.values()):
        pieces.add(", (" if index else "(").copy_tokens(value).add(")")
    return SetVariables(tuple(assigned), pieces.read(), defaults=tuple(defaults))


def _expression(cursor: Cursor) -> Sequence[Token]:
    """Read the tokens up to the next comma outside of parentheses, or to the end."""
    start, depth = cursor.index, 0
    while not cursor.at_end and not (depth == 0 and cursor.at_symbol(",")):
        token = cursor.next("an expression")
        depth += token.is_symbol("(", "[") - token.is_symbol(")", "]")
    if cursor.index == start:
        raise cursor.expected("an expression")
    return cursor.tokens[start : cursor.index]


def _variable(cursor: Cursor) -> str:
    """Return the name of a variable, which the schema ``session`` may qualify."""
    _skip_session(cursor)
    name = cursor.name("the name of a variable")
    if cursor.at_symbol("."):
        raise cursor.error(f"variable {name} belongs to the session; give it a name of one part")
    return name


def _variables(cursor: Cursor) -> tuple[str, ...]:
    """Return a list of different names of variables."""
    names: list[str] = []
    while not names or cursor.accept_symbol(","):
        token = cursor.peek()
        name = _variable(cursor)
        if name in names:
            raise cursor.error(f"variable {name} is named twice", token)
        names.append(name)
    return tuple(names)


def _skip_session(cursor: Cursor) -> None:
    """Read the schema of the objects of a session, ``session.`` or ``system.session.``, if it comes next."""
    for schema in ("SYSTEM", "SESSION"):
        if cursor.at(schema) and cursor.at_symbol(".", ahead=1):
            cursor.index += 2


# -- EXECUTE IMMEDIATE -------------------------------------------------------------------


def read_execute(cursor: Cursor) -> ExecuteImmediate:
    """Return the statement whose word EXECUTE is read."""
    cursor.expect("IMMEDIATE")
    text, variable = _text(cursor)
    into: tuple[str, ...] = ()
    using: tuple[ImmediateArgument, ...] = ()
    while not cursor.at_end:
        if not into and cursor.accept("INTO"):
            into = _variables(cursor)
        elif not using and cursor.accept("USING"):
            using = _arguments(cursor)
        else:
            raise cursor.expected("INTO, USING or the end of the statement")
    return ExecuteImmediate(text, variable, into, using)


def _text(cursor: Cursor) -> tuple[str | None, str | None]:
    """Return the text of a statement, or the variable that has it."""
    token = cursor.peek()
    if cursor.at_kind(Kind.STRING):
        return read_string(cursor, "a statement"), None
    if cursor.at_symbol(":"):
        literal = read_constant(cursor)
        if literal is None or not isinstance(literal.value, str | int):
            raise cursor.error("the marker has no text of a statement", token)
        return str(literal.value), None
    return None, _variable(cursor)


def _arguments(cursor: Cursor) -> tuple[ImmediateArgument, ...]:
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
    variable = _variable(cursor) if literal is None and is_name else None
    following = cursor.peek()
    is_read = literal is not None or is_name
    ends = following is None or following.is_symbol(",", ")") or following.word in ("AS", "INTO")
    if not (is_read and ends):
        reason = "a value behind USING is a constant or a variable; DECLARE a variable for the expression"
        raise cursor.unsupported(reason, following)
    name = cursor.identifier("the name of a marker") if cursor.accept("AS") else variable
    return ImmediateArgument(name, literal, variable)
