"""One list with a statement of each kind that runs a job, and what it leaves behind, for each kind of runner.

``make test`` runs a share of the statements, and compacts one partition of each kind.
"""

from __future__ import annotations

from pathlib import Path

from airflow_hivex.core import Metastore, Session
from tests.evidence import drawn

PRELUDE = [
    "CREATE TABLE s (id int, v string)",
    "INSERT INTO s VALUES (1, 'one'), (2, 'two'), (3, NULL), (40, 'new')",
    "DECLARE lowest INT DEFAULT 2",
    "CREATE TEMPORARY VIEW above AS SELECT id, v FROM s WHERE id >= lowest",
    "CREATE TEMPORARY FUNCTION marked(v STRING) RETURNS STRING RETURN concat(v, '*')",
    "SET spark.sql.shuffle.partitions = 3",
]
STATEMENTS = [
    "INSERT INTO t SELECT CAST(id AS int), concat('v', id), timestamp'2024-05-01 10:00:00.123456',"
    " CAST(id % 2 AS string) FROM range(30)",
    "INSERT INTO t PARTITION (p = 'named') SELECT id, v, NULL FROM s",
    "INSERT INTO t VALUES (100, 'small', NULL, '0')",
    "UPDATE t SET v = concat(v, '!') WHERE id BETWEEN 5 AND 9",
    "DELETE FROM t WHERE id IN (SELECT id FROM s WHERE v IS NOT NULL) AND p <> 'named'",
    "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED AND t.id = 3 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v"
    " WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.v, NULL, 'merged')",
    "INSERT OVERWRITE t PARTITION (p) SELECT id + 1000, v, w, p FROM t WHERE p = '1'",
    "FROM s INSERT INTO t PARTITION (p = 'x') SELECT id, v, NULL INSERT INTO c SELECT id WHERE id > 2",
    "ALTER TABLE t PARTITION (p = 'x') RENAME TO PARTITION (p = 'Zürich')",
    "INSERT INTO o SELECT id, concat('ß', v) FROM s",
    "INSERT OVERWRITE o SELECT id + 1, v FROM o WHERE id > 1",
    "ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS",
    "INSERT INTO t SELECT id + 500 + lowest, marked(v), NULL, 'objects' FROM above",
]
INSERT_ONLY = "TBLPROPERTIES ('transactional' = 'true', 'transactional_properties' = 'insert_only')"
COMPACTIONS = ["minor", "major"]
# Each of the statements can run without the others.
_BEFORE = "INSERT INTO t VALUES (0, 'zero', NULL, 'x'), (7, 'seven', NULL, '1'), (8, 'eight', NULL, 'named')"
_STATEMENTS_DRAWN = 4


def results(metastore: Metastore, cluster: str, layout: str) -> list[object]:
    """What each statement of the list returns on a cluster, and what the tables have after it.

    They are in a database of the cluster's name. Rows have no order, so :func:`as_set` compares two runs.
    """
    found: list[object] = []
    with metastore.session() as session:
        session.sql(f"CREATE DATABASE on_{cluster}")
        session.sql(f"USE on_{cluster}")
        session.sql(f"USE CLUSTER {cluster}")
        properties = f"TBLPROPERTIES ('hivex.row.layout' = '{layout}')"
        for text in PRELUDE:
            session.sql(text)
        session.sql(f"CREATE TABLE t (id int, v varchar(20), w timestamp) PARTITIONED BY (p string) {properties}")
        session.sql(f"CREATE TABLE c CLUSTERED BY (id) INTO 2 BUCKETS {properties} AS SELECT id FROM s")
        session.sql(f"CREATE TABLE o (id int, v string) STORED AS PARQUET {INSERT_ONLY}")
        session.sql(_BEFORE)
        for text in drawn("statements of a runner", STATEMENTS, _STATEMENTS_DRAWN):
            done = session.sql(text)
            assert done.cluster in (cluster, None), text
            found.append((text, done.rows_written, done.rows_deleted, contents(session)))
        for kind in COMPACTIONS:
            session.sql("UPDATE t SET v = concat(v, '?') WHERE id % 3 = 0")
            session.sql("INSERT INTO t SELECT id, 'more', NULL, p FROM c CROSS JOIN (SELECT DISTINCT p FROM t)")
            names = [row[0] for row in session.sql("SHOW PARTITIONS t").rows]
            for name in drawn(f"partitions of a {kind} compaction", names, 1):
                assert metastore.compactor.request(f"on_{cluster}", "t", str(name), kind).is_accepted
                done_compaction = metastore.compactor.work("host-1")
                assert done_compaction is not None
                found.append((kind, name, done_compaction.state, done_compaction.error_message, contents(session)))
        found.append(session.sql("SELECT p, count(*), max(w) FROM t GROUP BY p ORDER BY p").rows)
    return found


def in_a_charset_of_java(metastore: Metastore, cluster: str, root: Path) -> tuple[list[tuple[object, ...]], bytes]:
    """The rows of files of Excel in Europe, as a job copies them; and the files that a job writes."""
    folder = root / "excel"
    folder.mkdir(parents=True)
    rows = "name;amount\r\nCafé „Zürich“ 5 €;1.234,50\r\n"
    (folder / "sales 2026.csv").write_bytes(rows.encode("windows-1252"))
    options = "header 'true', sep ';', encoding 'windows-1252', locale 'de-DE'"
    with metastore.session() as session:
        session.sql(f"USE CLUSTER {cluster}")
        columns = f"(name STRING, amount DECIMAL(10,2)) USING csv OPTIONS ({options})"
        session.sql(f"CREATE EXTERNAL TABLE excel {columns} LOCATION 'excel'")
        session.sql("CREATE TABLE bought AS SELECT * FROM excel")
        session.sql("CREATE EXTERNAL TABLE sent (name STRING) USING csv OPTIONS (encoding 'cp1252') LOCATION 'sent'")
        session.sql("INSERT INTO sent SELECT name FROM bought")
        assert session.sql("SELECT name FROM sent").rows == session.sql("SELECT name FROM excel").rows
        found = session.sql("SELECT * FROM bought").rows
    return found, b"".join(path.read_bytes() for path in (root / "sent").glob("[!._]*"))


def contents(session: Session) -> list[tuple[object, ...]]:
    return session.sql(
        "SELECT 't' AS k, id, v, w, p FROM t UNION ALL SELECT 'c', id, '', NULL, '' FROM c"
        " UNION ALL SELECT 'o', id, v, NULL, '' FROM o"
    ).rows


def as_set(found: list[object]) -> list[object]:
    return [(*row[:-1], sorted(map(repr, row[-1]))) if isinstance(row, tuple) else row for row in found]
