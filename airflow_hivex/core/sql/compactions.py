"""ALTER TABLE ... COMPACT, SHOW COMPACTIONS and ABORT COMPACTIONS. Source: docs/reference/compaction.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from airflow_hivex.core.errors import InvalidObjectError
from airflow_hivex.core.model.compaction import REQUESTABLE, CompactionState, CompactionType
from airflow_hivex.core.model.objects import SortColumn
from airflow_hivex.core.model.statements import AbortCompactions, Compact, Literal, ShowCompactions, TableName, Vacuum
from airflow_hivex.core.sql.clauses import once, read_id, read_ids, read_properties, read_static_partition
from airflow_hivex.core.sql.literals import read_integer, read_string
from airflow_hivex.core.sql.tokens import Cursor, Kind

T = TypeVar("T")

_OPTIMIZE_INSTEAD = {
    ("WHERE",): "PARTITION (...) names one partition",
    ("ZORDER",): "ALTER TABLE ... COMPACT 'rebalance' ORDER BY ... sorts the rows of a table",
    ("FULL",): "OPTIMIZE compacts all that is not compacted",
}


def read_compact(cursor: Cursor, table: TableName, partition: Mapping[str, Literal] | None) -> Compact:
    """Return the statement whose words up to COMPACT are read. The clauses may stand in any order."""
    token = cursor.peek()
    wanted = _named(cursor, "the type of the compaction, such as 'major'", CompactionType.read)
    if wanted not in REQUESTABLE:
        raise cursor.error("what can be asked for is 'major', 'minor' or 'rebalance'", token)
    return _read_clauses(cursor, Compact(table, wanted, partition))


def read_optimize(cursor: Cursor) -> Compact:
    """Return OPTIMIZE, whose word is read: a major compaction, of each partition where it names none.

    Raises:
        UnsupportedStatementError: it has a clause of other systems that means another thing.
    """
    cursor.accept("TABLE")
    table = cursor.table_name()
    partition = read_static_partition(cursor) if cursor.accept("PARTITION") else None
    for words, instead in _OPTIMIZE_INSTEAD.items():
        if cursor.at(*words):
            raise cursor.unsupported(f"OPTIMIZE ... {' '.join(words)} is not of this release; {instead}")
    return _read_clauses(cursor, Compact(table, CompactionType.MAJOR, partition, each_partition=True))


def read_vacuum(cursor: Cursor) -> Vacuum:
    """Return VACUUM, whose word is read.

    Raises:
        UnsupportedStatementError: it says which files stay.
    """
    if cursor.at_end:
        raise cursor.error("expected a table; `hivex compaction clean` deletes the needless files of all tables")
    cursor.accept("TABLE")
    table = cursor.table_name()
    token = cursor.peek()
    if cursor.accept_one("RETAIN", "LITE", "FULL", "USING") and token is not None:
        reason = "files that a transaction, or a version within hivex.history.retention, may read stay; leave it out"
        raise cursor.unsupported(f"VACUUM ... {token.word} is not of this release: {reason}", token)
    return Vacuum(table, cursor.accept("DRY", "RUN"))


def _read_clauses(cursor: Cursor, asked: Compact) -> Compact:
    wanted = asked.type
    found: dict[str, Any] = {}
    while not cursor.at_end:
        token = cursor.peek()
        clause, value = _compact_clause(cursor)
        once(cursor, token, clause in found)
        if clause in ("buckets", "order_by") and wanted is not CompactionType.REBALANCE:
            raise cursor.error(f"this clause is for COMPACT 'rebalance', not for '{wanted.name.lower()}'", token)
        found[clause] = value
    return replace(asked, **found)


def _compact_clause(cursor: Cursor) -> tuple[str, object]:
    if cursor.accept("AND", "WAIT"):
        return "wait", True
    if cursor.accept("CLUSTERED", "INTO"):
        return "buckets", _buckets(cursor)
    if cursor.accept("ORDER", "BY"):
        return "order_by", tuple(SortColumn(name, rises) for name, rises in _order(cursor, "a column"))
    if cursor.accept("POOL"):
        return "pool", read_string(cursor, "the name of a pool, a string")
    if cursor.accept("WITH", "OVERWRITE", "TBLPROPERTIES"):
        return "properties", read_properties(cursor)
    raise cursor.expected("AND WAIT, CLUSTERED INTO n BUCKETS, ORDER BY, POOL or WITH OVERWRITE TBLPROPERTIES (...)")


def _buckets(cursor: Cursor) -> int:
    token = cursor.peek()
    count = read_integer(cursor, "the number of buckets")
    if not 1 <= count < 2**31:
        raise cursor.error("that is not a valid number of buckets", token)
    cursor.expect("BUCKETS")
    return count


def read_show_compactions(cursor: Cursor) -> ShowCompactions:
    """Return the statement whose words SHOW COMPACTIONS are read."""
    found: dict[str, Any] = {}
    if cursor.accept_one("DATABASE", "SCHEMA"):
        found["database"] = cursor.database_name()
    elif cursor.at("COMPACTIONID") and cursor.at_symbol("=", "==", ahead=1):
        cursor.index += 2
        found["id"] = read_id(cursor, "a compaction")
    elif not cursor.at_end and not _at_clause(cursor):
        found["table"] = cursor.table_name()
        if cursor.accept("PARTITION"):
            found["partition"] = read_static_partition(cursor)
    while not cursor.at_end:
        token = cursor.peek()
        clause, value = _show_clause(cursor)
        once(cursor, token, clause in found)
        found[clause] = value
    return ShowCompactions(**found)


def _show_clause(cursor: Cursor) -> tuple[str, object]:
    if cursor.accept("POOL"):
        return "pool", read_string(cursor, "the name of a pool, a string")
    if cursor.accept("TYPE"):
        return "type", _named(cursor, "a type such as 'major'", CompactionType.read)
    if cursor.accept("STATUS"):
        return "state", _named(cursor, "a status such as 'initiated'", CompactionState.read)
    if cursor.accept("ORDER", "BY"):
        return "order_by", _order(cursor, "a column of SHOW COMPACTIONS")
    if cursor.accept("LIMIT"):
        return "limit", _limit(cursor)
    raise cursor.expected("POOL, TYPE, STATUS, ORDER BY or LIMIT")


def _limit(cursor: Cursor) -> int:
    token = cursor.peek()
    count = read_integer(cursor, "a number of rows")
    if count >= 2**63:
        raise cursor.error("that is not a valid number of rows", token)
    return count


def _at_clause(cursor: Cursor) -> bool:
    """Return whether a clause comes next, and not a table that is called like one."""
    if any(cursor.at(word) for word in ("POOL", "TYPE", "STATUS")):
        return cursor.at_kind(Kind.STRING, ahead=1)
    return cursor.at("ORDER", "BY") or (cursor.at("LIMIT") and cursor.at_kind(Kind.NUMBER, ahead=1))


def _order(cursor: Cursor, what: str) -> tuple[tuple[str, bool], ...]:
    found: dict[str, bool] = {}
    while True:
        token = cursor.peek()
        name = cursor.name(what)
        if name in found:
            raise cursor.error(f"{name} is named twice", token)
        found[name] = cursor.accept_one("ASC", "DESC") != "DESC"
        if not cursor.accept_symbol(","):
            return tuple(found.items())


def _named(cursor: Cursor, what: str, read: Callable[[str], T]) -> T:
    token = cursor.peek()
    text = read_string(cursor, what)
    try:
        return read(text)
    except InvalidObjectError as error:
        raise cursor.error(f"{error.kind} {error.name}: {error.reason}", token) from error


def read_abort_compactions(cursor: Cursor) -> AbortCompactions:
    """Return the statement whose words ABORT COMPACTIONS are read."""
    return AbortCompactions(read_ids(cursor, "a compaction"))
