"""UPDATE, DELETE and MERGE: each becomes queries that find the rows to change, and compute the assigned values.

A query is composed of pieces of the user's text. An error in a query is reported at its place in the user's text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from airflow_hivex.core.model.plans import CLAUSE, SOURCE_ROW, SOURCE_STRUCT, assigned_name
from airflow_hivex.core.parser.grammar.clauses import Parts, read_parentheses
from airflow_hivex.core.parser.grammar.views import quoted
from airflow_hivex.core.parser.lexer.tokens import Cursor, Kind, Token, name_of
from airflow_hivex.core.parser.queries.pieces import Pieces
from airflow_hivex.core.parser.queries.versions import at_changes, at_version, read_changes, read_version
from airflow_hivex.core.parser.statements import (
    ChangeAction,
    ChangeClause,
    ChangeQuery,
    ChangeRows,
    Query,
    TableName,
)

_SOURCE = "__merge_source"
_JOINED = "MERGE INTO ... USING source ON ... WHEN MATCHED THEN UPDATE SET ... joins the table with a source"
_NO_ALIAS = ("USING", "ON", "SET", "WHERE", "WHEN")


def make_changes(parts: Parts) -> ChangeRows:
    """Return the statement UPDATE, DELETE or MERGE.

    Raises:
        StatementSyntaxError: the parts are not SQL, or a column is assigned twice.
        UnsupportedStatementError: a field of a struct is assigned, or a sub-query reads an object that is not a table.
    """
    if "whens" in parts:
        return _merge(parts)
    cursor, target = parts.cursor, parts["target"]
    clause = ChangeClause(ChangeAction.DELETE)
    values: Sequence[Sequence[Token]] = ()
    if "assignments" in parts:
        columns, values = _assigned(cursor, parts["assignments"], target)
        for tokens in values:
            _refuse_from(cursor, tokens)
        from airflow_hivex.core.parser.queries.results import constant_texts

        texts = constant_texts(cursor, values)
        clause = ChangeClause(ChangeAction.UPDATE, columns, defaults=_defaults(values), texts=texts)
    text = _Pieces(cursor).add(f"SELECT {target.quoted}.*, 0 AS `{CLAUSE}`")
    # Within CASE a value cannot multiply its row, as explode() would.
    text.add_values(0, values, "CASE WHEN TRUE THEN ")
    text.add(" FROM ")
    at = text.copy(target.start, target.end)
    if "where" in parts:
        text.add_condition("WHERE", parts["where"])
    matched = _change_query(text.read(), (clause,), target=at)
    return ChangeRows(clause.action.name, target.table, matched)


def _merge(parts: Parts) -> ChangeRows:
    cursor, target, source = parts.cursor, parts["target"], parts["source"]
    whens: dict[str, list[_When]] = {"MATCHED": [], "NOT MATCHED": [], "NOT MATCHED BY SOURCE": []}
    for given in parts["whens"]:
        kind, when = _when(given, target, source)
        before = whens[kind][-1] if whens[kind] else None
        if before is not None and before.condition is None:
            raise cursor.error(f"only the last WHEN {kind} can go without a condition", when.token)
        whens[kind].append(when)

    text = _Pieces(cursor).add(f"SELECT {target.quoted}.*, {source.quoted}.`{SOURCE_ROW}`")
    text.add_clauses(whens["MATCHED"], source)
    text.add(" FROM ")
    at = text.copy(target.start, target.end)
    text.add(" JOIN ")
    source_at = text.add_source(source)
    text.add_condition("ON", parts["on"])
    matched = _change_query(text.read(), [each.clause for each in whens["MATCHED"]], target=at, source=source_at)

    text = _Pieces(cursor).add(f"SELECT *, monotonically_increasing_id() AS `{SOURCE_ROW}`").add(" FROM ")
    text.copy(source.start, source.end)
    whole_source = text.read()

    unmatched = by_source = None
    if whens["NOT MATCHED"]:
        text = _Pieces(cursor).add(f"SELECT {source.quoted}.`{SOURCE_ROW}`")
        text.add_clauses(whens["NOT MATCHED"], source)
        text.add(" FROM ")
        source_at = text.add_source(source)
        unmatched = _change_query(text.read(), [each.clause for each in whens["NOT MATCHED"]], source=source_at)
    if whens["NOT MATCHED BY SOURCE"]:
        text = _Pieces(cursor).add(f"SELECT {target.quoted}.*")
        text.add_clauses(whens["NOT MATCHED BY SOURCE"], None)
        text.add(" FROM ")
        at = text.copy(target.start, target.end)
        by_source = _change_query(text.read(), [each.clause for each in whens["NOT MATCHED BY SOURCE"]], target=at)
    return ChangeRows("MERGE", target.table, matched, whole_source, unmatched, by_source, "evolves" in parts)


# -- parts of a statement -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChangedTable:
    """The target, the table that a statement changes.

    ``name`` is the alias of the table, or its name if it has no alias. ``quoted`` is the qualifier of the table's
    columns. ``start`` and ``end`` are the place of the table name and the alias in the text.
    """

    table: TableName
    name: str
    start: int
    end: int
    quoted: str

    @classmethod
    def read(cls, cursor: Cursor) -> ChangedTable:
        """Return the target that comes next, with its alias if it has one."""
        start = cursor.offset()
        table = cursor.table_name()
        alias = _alias(cursor)
        qualifier = quoted(alias) if alias else _whole(table)
        return cls(table, alias or table.name, start, cursor.tokens[cursor.index - 1].end, qualifier)


@dataclass(frozen=True, slots=True)
class MergeSource:
    """A MERGE's source: a table, a function such as ``range(5)``, or a query in parentheses, with its alias.

    ``is_query`` is true if the source is not a table. ``quoted`` is the qualifier of the source's columns in the
    queries for the clauses. ``names`` are the qualifiers of the source's columns that the user can write.
    """

    quoted: str
    names: frozenset[str]
    start: int
    end: int
    is_query: bool

    @classmethod
    def read(cls, cursor: Cursor) -> MergeSource:
        """Return the source that comes next.

        Raises:
            StatementSyntaxError: no table, function or query in parentheses comes next, or a query has no alias.
        """
        start = cursor.offset()
        if cursor.at_symbol("("):
            read_parentheses(cursor)
            alias = _alias(cursor)
            if alias is None:
                raise cursor.expected("an alias for the source")
            _column_names(cursor)
            return cls(quoted(alias), frozenset({alias}), start, cursor.tokens[cursor.index - 1].end, is_query=True)
        table = cursor.table_name()
        is_function = cursor.at_symbol("(")
        if is_function:
            read_parentheses(cursor)
        has_changes = not is_function and at_changes(cursor)
        if has_changes:
            read_changes(cursor)
        elif not is_function and at_version(cursor):
            read_version(cursor)
        alias = _alias(cursor)
        # The stored rows have the new names of the columns already.
        is_renamed = alias is not None and _column_names(cursor)
        is_query = is_function or has_changes or is_renamed
        qualifier = quoted(alias or table.name) if alias or is_query else _whole(table)
        names = {alias} if alias else {table.name} if is_query else _names(table, cursor.database)
        return cls(qualifier, frozenset(names), start, cursor.tokens[cursor.index - 1].end, is_query=is_query)


@dataclass(frozen=True, slots=True)
class _When:
    token: Token
    condition: Sequence[Token] | None
    clause: ChangeClause
    values: Sequence[Sequence[Token]] = ()


def _when(parts: Parts, target: ChangedTable, source: MergeSource) -> tuple[str, _When]:
    from airflow_hivex.core.parser.queries.results import constant_texts

    cursor, token, condition = parts.cursor, parts.first, parts["condition"]
    is_by_source = "by_source" in parts
    kind = "NOT MATCHED BY SOURCE" if is_by_source else "NOT MATCHED" if "is_new" in parts else "MATCHED"
    action = ChangeAction.INSERT if "is_new" in parts else ChangeAction.UPDATE
    if "is_end" in parts:
        return kind, _When(token, condition, ChangeClause(ChangeAction.DELETE))
    if "by_name" in parts:
        if is_by_source:
            raise cursor.error("there is no source whose columns * could mean here", token)
        return kind, _When(token, condition, ChangeClause(action, by_name=True))
    if "values" in parts:
        columns, values = parts["columns"], parts["values"].values
        if columns is not None and len(columns) != len(values):
            reason = f"{len(columns)} columns are named, and {len(values)} values given"
            raise cursor.error(reason, parts["values"].closing)
    else:
        columns, values = _assigned(cursor, parts["assignments"], target)
    clause = ChangeClause(
        action,
        columns,
        len(values) if columns is None else 0,
        defaults=_defaults(values),
        copied=() if columns is None or is_by_source else _copied(columns, values, source),
        texts=constant_texts(cursor, values),
    )
    return kind, _When(token, condition, clause, values)


class InsertedValues(NamedTuple):
    """The tokens of each value in the parentheses after VALUES, and the closing parenthesis."""

    values: Sequence[Sequence[Token]]
    closing: Token


def read_inserted_values(cursor: Cursor) -> InsertedValues:
    """Return the values of a row that a MERGE inserts.

    Raises:
        StatementSyntaxError: no list in parentheses comes next.
    """
    cursor.expect_symbol("(")
    values = []
    while True:
        values.append(_value(cursor, ")"))
        if not cursor.accept_symbol(","):
            break
    cursor.expect_symbol(")")
    return InsertedValues(values, cursor.tokens[cursor.index - 1])


class Assignment(NamedTuple):
    """``column = value``: the parts of the column's name, its first token, and the tokens of the value."""

    parts: tuple[str, ...]
    token: Token
    value: Sequence[Token]


def assignments_before(word: str) -> Callable[[Cursor], list[Assignment]]:
    """Return a function that reads assignments, such as ``a = 1, t.b = c + 1``, up to ``word``."""

    def read(cursor: Cursor) -> list[Assignment]:
        found: list[Assignment] = []
        while not found or cursor.accept_symbol(","):
            start = cursor.index
            parts = [cursor.name("a column")]
            while cursor.accept_symbol("."):
                parts.append(cursor.name("a column"))
            if not cursor.accept_symbol("=") and not cursor.accept_symbol("=="):
                raise cursor.expected("'='")
            found.append(Assignment(tuple(parts), cursor.tokens[start], _value(cursor, None, word)))
        return found

    return read


def condition_before(*words: str) -> Callable[[Cursor], Sequence[Token]]:
    """Return a function that reads a condition up to one of ``words``, or to the end."""
    return lambda cursor: _until(cursor, "a condition", *words)


def _assigned(
    cursor: Cursor, given: Sequence[Assignment], target: ChangedTable
) -> tuple[tuple[str, ...], list[Sequence[Token]]]:
    """Return the columns of assignments, and the tokens of their values."""
    columns: list[str] = []
    own = {target.name} | _names(target.table, cursor.database)
    for parts, token, _ in given:
        if len(parts) > 1 and ".".join(parts[:-1]) not in own:
            raise cursor.unsupported("only a whole column can be assigned, not a field of one", token)
        if parts[-1] in columns:
            raise cursor.error(f"{parts[-1]} is assigned twice", token)
        columns.append(parts[-1])
    return tuple(columns), [each.value for each in given]


def _value(cursor: Cursor, closing: str | None, *words: str) -> Sequence[Token]:
    """Return the tokens of one value: up to a comma, the closing parenthesis or one of ``words``."""
    return _until(cursor, "a value", *words, symbols=(",", *((closing,) if closing else ())))


def _refuse_from(cursor: Cursor, tokens: Sequence[Token]) -> None:
    """Refuse UPDATE ... FROM, which other databases have.

    Raises:
        UnsupportedStatementError: the word FROM follows a value, and does not belong to IS DISTINCT FROM.
    """
    depth = 0
    for before, token in pairwise(tokens):
        depth += before.is_symbol("(", "[") - before.is_symbol(")", "]")
        if depth == 0 and token.word == "FROM" and before.word != "DISTINCT":
            raise cursor.unsupported(f"UPDATE has no FROM; {_JOINED}", token)


def _copied(columns: Sequence[str], values: Sequence[Sequence[Token]], source: MergeSource) -> tuple[str, ...]:
    """Return the columns that get the value of the source's column of the same name."""
    found = []
    for column, tokens in zip(columns, values, strict=True):
        while len(tokens) > 1 and tokens[0].is_symbol("(") and tokens[-1].is_symbol(")"):
            tokens = tokens[1:-1]
        name = "".join(
            name_of(token).lower() if token.kind in (Kind.WORD, Kind.QUOTED) else token.text for token in tokens
        )
        if name == column.lower() or name in {f"{each.lower()}.{column.lower()}" for each in source.names}:
            found.append(column)
    return tuple(found)


def _defaults(values: Sequence[Sequence[Token]]) -> tuple[int, ...]:
    return tuple(number for number, tokens in enumerate(values) if _is_default(tokens))


def _is_default(tokens: Sequence[Token]) -> bool:
    return len(tokens) == 1 and tokens[0].word == "DEFAULT"


def _until(cursor: Cursor, what: str, *words: str, symbols: Sequence[str] = ()) -> Sequence[Token]:
    """Return the tokens before the first of ``words`` and ``symbols``.

    Words and symbols inside of parentheses, brackets or CASE ... END are ignored.
    """
    start, depth = cursor.index, 0
    while (token := cursor.peek()) is not None:
        if depth == 0 and (token.word in words or token.is_symbol(*symbols)):
            break
        if token.is_symbol("(", "[") or token.word == "CASE":
            depth += 1
        elif token.is_symbol(")", "]") or (token.word == "END" and depth):
            depth -= 1
        if depth < 0:
            break
        cursor.index += 1
    if cursor.index == start:
        raise cursor.expected(what)
    if depth < 0 and ")" not in symbols:
        raise cursor.error("this parenthesis was not opened")
    if depth > 0:
        raise cursor.error("a parenthesis, or a CASE, is not closed", cursor.tokens[start])
    return cursor.tokens[start : cursor.index]


def _alias(cursor: Cursor) -> str | None:
    given = cursor.accept("AS")
    token = cursor.peek()
    if token is None or (not given and token.word in _NO_ALIAS) or token.kind not in (Kind.WORD, Kind.QUOTED):
        if given:
            raise cursor.expected("an alias")
        return None
    return cursor.name("an alias")


def _column_names(cursor: Cursor) -> bool:
    """Read the column names in parentheses after an alias, and return True. If no list comes next, return False."""
    if not cursor.at_symbol("("):
        return False
    cursor.names("a column")
    return True


def _whole(table: TableName) -> str:
    """Return the name of a table or link in backquotes, with the qualifiers that the statement gives."""
    database = "" if table.database is None else f"{quoted(table.database)}."
    link = "" if table.namespace is None else f"@{quoted(table.namespace)}"
    return f"{database}{quoted(table.name)}{link}"


def _names(table: TableName, database: str | None) -> set[str]:
    """Return the qualifiers that can stand before columns of a table or link without an alias.

    ``database`` is the current database.
    """
    own = table.name if table.namespace is None else f"{table.name}@{table.namespace}"
    return {table.name, own, f"{table.database or database}.{own}"}


def _change_query(
    query: Query, clauses: Sequence[ChangeClause], *, target: int | None = None, source: int | None = None
) -> ChangeQuery:
    places = {reference.start: index for index, reference in enumerate(query.references)}
    return ChangeQuery(
        query,
        tuple(clauses),
        None if target is None else places[target],
        None if source is None else places[source],
    )


# -- the query's text ---------------------------------------------------------------------


class _Pieces(Pieces):
    """The text of a query that returns rows to change or to insert, with the values that the clauses assign."""

    def add_source(self, source: MergeSource) -> int:
        """Add the source to FROM, and return its place in the text of the query."""
        if not source.is_query:
            return self.copy(source.start, source.end)
        at = len(self.text)
        self.add(f"{_SOURCE} AS {source.quoted}")
        return at

    def add_condition(self, word: str, tokens: Sequence[Token]) -> None:
        """Add WHERE or ON with its condition in parentheses, in which a further clause, such as LIMIT, is an error."""
        self.add(f" {word} (").copy_tokens(tokens).add(")")

    def add_values(self, clause: int, values: Sequence[Sequence[Token]], when: str) -> None:
        for number, tokens in enumerate(values):
            self.add(f", {when}(")
            # The job knows the default value.
            self.add("NULL") if _is_default(tokens) else self.copy_tokens(tokens)
            self.add(f") END AS `{assigned_name(clause, number)}`")

    def add_clauses(self, whens: Sequence[_When], source: MergeSource | None) -> None:
        """Add columns to the query: the number of the clause that applies to a row, and the values of each clause.

        The columns of a clause that does not apply to a row are NULL.
        """
        if not whens:
            self.add(f", CAST(NULL AS INT) AS `{CLAUSE}`")
            return
        self.add(", CASE")
        for number, when in enumerate(whens):
            self.add(" WHEN ")
            if when.condition is None:
                self.add("TRUE")
            else:
                self.add("(").copy_tokens(when.condition).add(")")
            self.add(f" THEN {number}")
        self.add(f" END AS `{CLAUSE}`")
        for number, when in enumerate(whens):
            self.add_values(number, when.values, f"CASE WHEN `{CLAUSE}` = {number} THEN ")
        if source is not None and any(when.clause.by_name for when in whens):
            self.add(f", struct({source.quoted}.*) AS `{SOURCE_STRUCT}`")
