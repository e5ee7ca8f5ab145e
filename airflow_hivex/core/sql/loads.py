"""LOAD DATA."""

from __future__ import annotations

from airflow_hivex.core.model.statements import LoadData
from airflow_hivex.core.sql.clauses import read_static_partition
from airflow_hivex.core.sql.literals import read_string
from airflow_hivex.core.sql.tokens import Cursor


def read_load(cursor: Cursor) -> LoadData:
    """Return the statement whose word LOAD is read.

    Raises:
        StatementSyntaxError: it is not SQL, or a partition column has no value.
        UnsupportedStatementError: it loads into a link, or names another format than the table's.
    """
    cursor.expect("DATA")
    is_local = cursor.accept("LOCAL")
    cursor.expect("INPATH")
    path = read_string(cursor, "a path")
    overwrite = cursor.accept("OVERWRITE")
    cursor.expect("INTO", "TABLE")
    target = cursor.table_name()
    static = read_static_partition(cursor) if cursor.accept("PARTITION") else {}
    if cursor.at("INPUTFORMAT"):
        raise cursor.unsupported("LOAD DATA takes ORC files, as the table's are; make an external table of others")
    return LoadData(target, path, is_local, overwrite, static)
