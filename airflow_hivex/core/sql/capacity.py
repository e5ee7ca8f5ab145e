"""SHOW CAPACITY, and ALTER DATABASE ... SET QUOTA."""

from __future__ import annotations

import re

from airflow_hivex.core.errors import InvalidParametersError
from airflow_hivex.core.model.sizes import size_of
from airflow_hivex.core.model.statements import PlacedName, SetQuota, ShowCapacity
from airflow_hivex.core.sql.databases import DATABASE_WORDS, read_cluster
from airflow_hivex.core.sql.literals import read_string
from airflow_hivex.core.sql.tokens import Cursor, Kind

_PERCENT = re.compile(r"[1-9][0-9]?|100")

_GROUPS = ("TABLE", "FORMAT", "AGE")


def read_show_capacity(cursor: Cursor) -> ShowCapacity:
    """Return the statement whose words up to CAPACITY are read."""
    database = cursor.database_name() if cursor.accept_one(*DATABASE_WORDS) else None
    by = _group(cursor)
    cluster = read_cluster(cursor) if cursor.accept("CLUSTER") else None
    return ShowCapacity(database, cluster, by or _group(cursor))


def _group(cursor: Cursor) -> str | None:
    if not cursor.accept("BY"):
        return None
    group = cursor.accept_one(*_GROUPS)
    if group is None:
        raise cursor.expected("TABLE, FORMAT or AGE")
    return group


def at_quota(cursor: Cursor) -> bool:
    """Return whether a name and SET QUOTA or UNSET QUOTA come next."""
    operation, quota = cursor.peek(1), cursor.peek(2)
    return operation is not None and operation.word in ("SET", "UNSET") and quota is not None and quota.word == "QUOTA"


def read_quota(cursor: Cursor) -> SetQuota:
    """Return the statement whose words up to DATABASE are read."""
    database = cursor.database_name()
    is_set = cursor.accept_one("SET", "UNSET") == "SET"
    cursor.expect("QUOTA")
    if not is_set:
        return SetQuota(database, None, None, _on_cluster(cursor))
    size = _size(cursor)
    percent = _percent(cursor) if cursor.accept("WARNING") else None
    return SetQuota(database, size, percent, _on_cluster(cursor))


def _size(cursor: Cursor) -> int:
    token = cursor.peek()
    if cursor.at_kind(Kind.STRING):
        text = read_string(cursor, "a size")
    elif cursor.at_kind(Kind.NUMBER):
        text = cursor.next("a size").text
    else:
        raise cursor.expected("a size, such as 1000000 or '10 GB'")
    try:
        return size_of(text)
    except InvalidParametersError as error:
        raise cursor.error(str(error).rstrip("."), token) from error


def _percent(cursor: Cursor) -> int:
    token = cursor.peek()
    text = cursor.next("a percentage").text
    if not _PERCENT.fullmatch(text):
        raise cursor.error(f"{text} is not a valid percentage; give a whole number from 1 to 100", token)
    cursor.accept_symbol("%")
    return int(text)


def _on_cluster(cursor: Cursor) -> PlacedName | None:
    if not cursor.accept("ON"):
        return None
    cursor.expect("CLUSTER")
    return read_cluster(cursor)
