"""Statements of compaction are read exactly; nonsense is refused where it stands."""

from __future__ import annotations

import pytest

from airflow_hivex.core.errors import StatementSyntaxError, UnsupportedStatementError
from airflow_hivex.core.model.compaction import CompactionState, CompactionType
from airflow_hivex.core.model.objects import SortColumn
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import (
    AbortCompactions,
    Compact,
    Literal,
    ShowCompactions,
    Statement,
    TableName,
    Vacuum,
)

T = TableName("t")
MAJOR, MINOR, REBALANCE = CompactionType.MAJOR, CompactionType.MINOR, CompactionType.REBALANCE


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ALTER TABLE t COMPACT 'major'", Compact(T, MAJOR)),
        ("alter table Db.T compact 'MINOR';", Compact(TableName("t", "db"), MINOR)),
        ('ALTER TABLE t COMPACT "Rebalance"', Compact(T, REBALANCE)),
        (
            "ALTER TABLE t PARTITION (ds = '2013', hr = 7) COMPACT 'major' AND WAIT",
            Compact(T, MAJOR, {"ds": Literal("2013", "string"), "hr": Literal(7, "int")}, wait=True),
        ),
        ("ALTER TABLE t COMPACT 'minor' POOL 'Etl'", Compact(T, MINOR, pool="Etl")),
        (
            "ALTER TABLE t COMPACT 'rebalance' AND WAIT CLUSTERED INTO 8 BUCKETS ORDER BY a DESC, `B` POOL 'p' "
            "WITH OVERWRITE TBLPROPERTIES ('compactor.x' = '1', tblprops.y = 2)",
            Compact(
                T,
                REBALANCE,
                wait=True,
                buckets=8,
                order_by=(SortColumn("a", ascending=False), SortColumn("b")),
                pool="p",
                properties={"compactor.x": "1", "tblprops.y": "2"},
            ),
        ),
        (
            "ALTER TABLE t COMPACT 'major' WITH OVERWRITE TBLPROPERTIES ('a' = 'b') POOL 'p'",
            Compact(T, MAJOR, pool="p", properties={"a": "b"}),
        ),
        ("OPTIMIZE t", Compact(T, MAJOR, each_partition=True)),
        (
            "OPTIMIZE TABLE Db.t PARTITION (ds = 1) POOL 'p' AND WAIT",
            Compact(TableName("t", "db"), MAJOR, {"ds": Literal(1, "int")}, wait=True, pool="p", each_partition=True),
        ),
        ("VACUUM db.t", Vacuum(TableName("t", "db"))),
        ("VACUUM TABLE t DRY RUN", Vacuum(T, dry_run=True)),
        ("SHOW COMPACTIONS", ShowCompactions()),
        ("SHOW COMPACTIONS t", ShowCompactions(table=T)),
        ("SHOW COMPACTIONS db.t", ShowCompactions(table=TableName("t", "db"))),
        ("SHOW COMPACTIONS DATABASE Db", ShowCompactions(database="db")),
        ("SHOW COMPACTIONS SCHEMA db LIMIT 3", ShowCompactions(database="db", limit=3)),
        ("SHOW COMPACTIONS compactionid = 7", ShowCompactions(id=7)),
        ("SHOW COMPACTIONS compactionid", ShowCompactions(table=TableName("compactionid"))),
        ("SHOW COMPACTIONS pool", ShowCompactions(table=TableName("pool"))),
        ("SHOW COMPACTIONS type type 'major'", ShowCompactions(table=TableName("type"), type=MAJOR)),
        (
            "SHOW COMPACTIONS status status 'working'",
            ShowCompactions(table=TableName("status"), state=CompactionState.WORKING),
        ),
        (
            "SHOW COMPACTIONS t PARTITION (ds = 1) POOL 'p' TYPE 'MINOR' STATUS 'ready for cleaning' "
            "ORDER BY starttime DESC, tabname LIMIT 10",
            ShowCompactions(
                table=T,
                partition={"ds": Literal(1, "int")},
                pool="p",
                type=MINOR,
                state=CompactionState.READY_FOR_CLEANING,
                order_by=(("starttime", False), ("tabname", True)),
                limit=10,
            ),
        ),
        ("SHOW COMPACTIONS TYPE 'abort_cleanup'", ShowCompactions(type=CompactionType.ABORT_CLEANUP)),
        ("SHOW COMPACTIONS STATUS 'Attempted'", ShowCompactions(state=CompactionState.DID_NOT_INITIATE)),
        ("SHOW COMPACTIONS ORDER BY dbname", ShowCompactions(order_by=(("dbname", True),))),
        ("ABORT COMPACTIONS 7", AbortCompactions((7,))),
        ("ABORT COMPACTIONS 3 1, 3 2;", AbortCompactions((3, 1, 2))),
    ],
)
def test_statement_is_read(text: str, expected: Statement) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("ALTER TABLE t COMPACT", 22, "expected the type of the compaction"),
        ("ALTER TABLE t COMPACT major", 23, "found major"),
        ("ALTER TABLE t COMPACT 'full'", 23, "'major', 'minor', 'rebalance'"),
        ("ALTER TABLE t COMPACT 'abort_cleanup'", 23, "'major', 'minor' or 'rebalance'"),
        ("ALTER TABLE t COMPACT 'major' ORDER BY a", 31, "for COMPACT 'rebalance'"),
        ("ALTER TABLE t COMPACT 'minor' CLUSTERED INTO 2 BUCKETS", 31, "for COMPACT 'rebalance'"),
        ("ALTER TABLE t COMPACT 'rebalance' CLUSTERED INTO 0 BUCKETS", 50, "not a valid number of buckets"),
        ("ALTER TABLE t COMPACT 'rebalance' CLUSTERED INTO 2", 51, "expected BUCKETS"),
        ("ALTER TABLE t COMPACT 'rebalance' ORDER BY a, a", 47, "a is named twice"),
        ("ALTER TABLE t COMPACT 'major' AND WAIT AND WAIT", 40, "given twice"),
        ("ALTER TABLE t COMPACT 'major' POOL p", 36, "the name of a pool, a string"),
        ("ALTER TABLE t COMPACT 'major' WITH TBLPROPERTIES ('a' = 'b')", 36, "expected OVERWRITE TBLPROPERTIES"),
        ("ALTER TABLE t COMPACT 'major' NOW", 31, "found NOW"),
        ("ALTER TABLE t PARTITION (ds) COMPACT 'major'", 25, "needs a value"),
        ("OPTIMIZE t ORDER BY a", 12, "for COMPACT 'rebalance'"),
        ("OPTIMIZE t LIMIT 1", 12, "expected PARTITION, AND WAIT, CLUSTERED INTO"),
        ("VACUUM", 7, "`hivex compaction clean` deletes"),
        ("VACUUM t DRY", 13, "expected RUN"),
        ("SHOW COMPACTIONS TYPE 'full'", 23, "'abort_cleanup'"),
        ("SHOW COMPACTIONS STATUS 'done'", 25, "'ready for cleaning'"),
        ("SHOW COMPACTIONS LIMIT 1 LIMIT 2", 26, "given twice"),
        ("SHOW COMPACTIONS t LIMIT 'a'", 26, "a number of rows"),
        ("SHOW COMPACTIONS compactionid = 'a'", 33, "the id of a compaction"),
        ("SHOW COMPACTIONS t u", 20, "POOL, TYPE, STATUS, ORDER BY, LIMIT or the end of the statement"),
        ("ABORT COMPACTIONS", 18, "the id of a compaction"),
        ("ABORT COMPACTIONS 0", 19, "the id of a compaction"),
        ("ABORT COMPACTIONS 1,", 21, "the statement ends here"),
    ],
)
def test_nonsense_is_refused_where_it_stands(text: str, column: int, reason: str) -> None:
    with pytest.raises(StatementSyntaxError) as error:
        read(text)
    assert reason in error.value.reason
    assert error.value.column == column
    assert not isinstance(error.value, UnsupportedStatementError)


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("OPTIMIZE t WHERE ds = 1", 12, "PARTITION (...) names one partition"),
        ("OPTIMIZE t ZORDER BY (a)", 12, "COMPACT 'rebalance' ORDER BY"),
        ("OPTIMIZE t FULL", 12, "compacts all"),
        ("VACUUM t RETAIN 168 HOURS", 10, "may read stay"),
        ("VACUUM t LITE", 10, "may read stay"),
    ],
)
def test_clauses_of_other_systems_are_refused(text: str, column: int, reason: str) -> None:
    with pytest.raises(UnsupportedStatementError) as error:
        read(text)
    assert reason in error.value.reason
    assert error.value.column == column


@pytest.mark.parametrize(
    "text", ["ALTER TABLE t@y COMPACT 'major'", "OPTIMIZE t@y", "VACUUM t@y", "SHOW COMPACTIONS t@y"]
)
def test_link_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedStatementError, match="links are read only"):
        read(text)
