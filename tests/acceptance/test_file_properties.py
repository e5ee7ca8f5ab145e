"""Table properties and options that say how files are written, such as ``orc.compress``."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import orc, parquet

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import InvalidObjectError

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)]

INSERT_ONLY = "'transactional' = 'true', 'transactional_properties' = 'insert_only'"


def compressions(root: Path, files: str) -> set[str]:
    """What the files of a table are compressed with."""
    found = list((root / "c1" / "default.db" / "t").glob(files))
    assert found
    return {orc.ORCFile(path).compression for path in found}


@pytest.mark.parametrize("table_layout", ["flat", "hive"])
def test_every_writer_compresses_as_the_table_says(
    metastore: Metastore, session: Session, tmp_path: Path, table_layout: str
) -> None:
    session.sql(
        f"CREATE TABLE t (id bigint, v string) TBLPROPERTIES ('hivex.row.layout' = '{table_layout}', "
        "'orc.compress' = 'SNAPPY', 'orc.stripe.size' = '1048576')"
    )
    session.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    session.sql("INSERT INTO t SELECT id, 'c' FROM range(3, 5)")
    session.sql("UPDATE t SET v = 'd' WHERE id = 1")
    assert compressions(tmp_path, "*delta_*/bucket_*") == {"SNAPPY"}
    session.sql("ALTER TABLE t SET TBLPROPERTIES ('orc.compress' = 'NONE')")
    session.sql("INSERT INTO t SELECT 5, 'e'")
    assert compressions(tmp_path, "delta_*/bucket_*") == {"SNAPPY", "UNCOMPRESSED"}
    metastore.compactor.request("default", "t", type="major", properties={"tblprops.orc.compress": "lz4"})
    entry = metastore.compactor.work()
    assert entry is not None
    assert compressions(tmp_path, "base_*/bucket_*") == {"LZ4"}
    assert session.sql("SELECT * FROM t ORDER BY id").rows == [(1, "d"), (2, "b"), (3, "c"), (4, "c"), (5, "e")]


def test_insert_only_tables_of_each_format_have_their_own(session: Session, tmp_path: Path) -> None:
    session.sql(
        f"CREATE TABLE t (id int) STORED AS parquet TBLPROPERTIES ({INSERT_ONLY}, 'parquet.compression' = 'GZIP')"
    )
    session.sql("INSERT INTO t VALUES (1)")
    (file,) = (tmp_path / "c1" / "default.db" / "t").glob("delta_*/0*")
    assert parquet.ParquetFile(file).metadata.row_group(0).column(0).compression == "GZIP"
    session.sql("DROP TABLE t")
    session.sql(f"CREATE TABLE t (id int) USING orc OPTIONS (compression 'zlib') TBLPROPERTIES ({INSERT_ONLY})")
    session.sql("INSERT INTO t VALUES (1)")
    assert compressions(tmp_path, "delta_*/0*") == {"ZLIB"}


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ("'orc.compress' = 'lzo'", "compressed with lzo"),
        ("'orc.compress' = ''", "orc.compress"),
        ("'orc.stripe.size' = '64 MB'", "orc.stripe.size=64 MB"),
        ("'ORC.row.index.stride' = '5'", "at least 1000"),
    ],
)
def test_what_no_writer_understands_is_refused(
    metastore: Metastore, session: Session, properties: str, reason: str
) -> None:
    with pytest.raises(InvalidObjectError, match=reason):
        session.sql(f"CREATE TABLE t (id int) TBLPROPERTIES ({properties})")
    session.sql("CREATE TABLE t (id int)")
    with pytest.raises(InvalidObjectError, match=reason):
        session.sql(f"ALTER TABLE t SET TBLPROPERTIES ({properties})")
    assert not any(name.lower().startswith("orc.") for name in metastore.catalog.get_table("default", "t").parameters)
