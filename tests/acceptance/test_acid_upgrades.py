"""An insert-only table that becomes full ACID: all rows, earlier versions, and changes after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import InvalidObjectError, InvalidOperationError

pytestmark = pytest.mark.spark

DEFAULT = "SET TBLPROPERTIES ('transactional_properties' = 'default')"


def rows(session: Session, sql: str) -> list[tuple[object, ...]]:
    return session.sql(sql).rows


@pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)
def test_insert_only_table_becomes_full_acid(
    metastore_url: str, clusters: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    settings = {"hivex.history.retention": 3600}
    with (
        Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", settings=settings) as metastore,
        metastore.session(user="tester") as session,
    ):
        session.sql(
            "CREATE TABLE t (id int, v string) PARTITIONED BY (p int) STORED AS ORC "
            "TBLPROPERTIES ('transactional_properties' = 'insert_only')"
        )
        session.sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)")
        session.sql("INSERT INTO t VALUES (3, 'c', 1)")
        session.sql("ALTER TABLE t ADD PARTITION (p = 9)")
        with pytest.raises(InvalidOperationError):
            session.sql("DELETE FROM t WHERE id = 1")
        assert session.sql(f"ALTER TABLE t {DEFAULT}").rows_written == 3
        assert not metastore.catalog.get_table("default", "t").is_insert_only
        assert rows(session, "SELECT id, v, p FROM t ORDER BY id") == [(1, "a", 1), (2, "b", 2), (3, "c", 1)]
        (base,) = (tmp_path / "c1" / "default.db" / "t" / "p=1").glob("base_*")
        session.sql("UPDATE t SET v = 'changed' WHERE id = 3")
        session.sql("DELETE FROM t WHERE id = 2")
        session.sql("INSERT INTO t VALUES (4, 'd', 9)")
        assert rows(session, "SELECT id, v FROM t ORDER BY id") == [(1, "a"), (3, "changed"), (4, "d")]
        assert rows(session, "SELECT id FROM t VERSION AS OF 2 ORDER BY id") == [(1,), (2,)]
        assert session.to_arrow("t", columns=["id"], filter="p = 1").num_rows == 2
        assert len(session.changes("t", since=int(base.name.removeprefix("base_"))).rows) == 4
        with pytest.raises(InvalidOperationError, match="is from before it was full ACID"):
            session.changes("t", since=2)
        assert rows(session, "SHOW LOCKS") == []
        session.sql("CREATE TABLE csv (id int) USING csv")
        with pytest.raises(InvalidObjectError, match="full ACID table is stored as ORC, not csv"):
            session.sql(f"ALTER TABLE csv {DEFAULT}")
