"""FROM source INSERT INTO a SELECT ... INSERT INTO b SELECT ...: what it reads and writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from airflow_hivex.core.model.statements import MultiInsert, TableReference
from airflow_hivex.core.sql.clauses import read_partition
from airflow_hivex.core.sql.queries import read_query
from airflow_hivex.core.sql.tokens import Cursor


def at_multi_insert(cursor: Cursor) -> bool:
    """Whether an INSERT follows the FROM that stands here."""
    return cursor.at("FROM") and next(_inserts(cursor), None) is not None


def read_multi_insert(cursor: Cursor) -> MultiInsert:
    """The statement that begins with FROM here.

    Raises:
        StatementSyntaxError: it is not SQL.
        UnsupportedStatementError: it reads or writes what is not a table of the warehouse.
    """
    starts = [*_inserts(cursor), len(cursor.tokens)]
    source = cursor.tokens[cursor.index : starts[0]]
    targets = []
    references: dict[int, TableReference] = {}
    for start, end in pairwise(starts):
        branch = Cursor(cursor.text, cursor.tokens[start:end], cursor.markers, cursor.database)
        branch.expect("INSERT")
        if branch.accept_one("INTO", "OVERWRITE") is None:
            raise branch.expected("INTO or OVERWRITE")
        branch.accept("TABLE")
        targets.append(branch.own_table_name("INSERT"))
        if branch.accept("PARTITION"):
            read_partition(branch)
        if not branch.at("SELECT"):
            raise branch.expected("SELECT")
        # Each branch is the query FROM source SELECT ..., as Spark writes it too.
        rest = branch.tokens[branch.index :]
        query = read_query(Cursor(cursor.text, [*source, *rest], cursor.markers, cursor.database))
        for reference in query.references:
            seen = references.get(reference.start, reference)
            # What only some branches filter out is still read by the others.
            filters = tuple(each for each in reference.filters if each in seen.filters)
            references[reference.start] = replace(reference, filters=filters)
    cursor.index = len(cursor.tokens)
    return MultiInsert(tuple(targets), tuple(references[start] for start in sorted(references)))


def _inserts(cursor: Cursor) -> Iterator[int]:
    """Where the words INSERT stand that are not within parentheses."""
    depth = 0
    for index, token in enumerate(cursor.tokens):
        if token.is_symbol("("):
            depth += 1
        elif token.is_symbol(")"):
            depth -= 1
        elif depth == 0 and index > cursor.index and token.word == "INSERT":
            yield index
