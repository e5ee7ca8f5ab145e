"""The changes of tables between their versions, in random histories."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc

from airflow_hivex.core import Metastore, Session
from tests import evidence
from tests.acceptance.changed_table import ChangedTable, Row, Rows, keys_of
from tests.conftest import Counts

pytestmark = [
    pytest.mark.spark,
    pytest.mark.evidence,
    pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True),
]

_WITHOUT_CODE = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""For a few rows, generating code takes longer than it saves."""


@pytest.fixture
def metastore(metastore_url: str, clusters: dict[str, dict[str, str]]) -> Iterator[Metastore]:
    slim = {name: {**each, "spark_conf": _WITHOUT_CODE} for name, each in clusters.items()}
    with Metastore.open(metastore_url, clusters=slim, default_cluster="c1") as metastore:
        yield metastore


def test_changes_make_the_later_version_of_the_earlier_one(
    metastore: Metastore, session: Session, tmp_path: Path, counts: Counts
) -> None:
    found = Counter[str]()
    for number in range(evidence.amount("HIVEX_CHANGED_TABLES", share=1, whole=1600)):
        chance = random.Random(f"{evidence.SEED} {number}")
        is_converted = chance.random() < 0.5
        create = _converted if is_converted else _managed
        rows, keys = create(session, tmp_path, f"t{number}", chance)
        table = ChangedTable(metastore, session, f"t{number}", keys, rows, chance)
        found += table.play()
        found["of converted tables"] += is_converted
        session.sql(f"DROP TABLE {table.table}")
    counts["Changes applied to versions"] = found


def _managed(session: Session, folder: Path, table: str, chance: random.Random) -> tuple[Rows, int]:
    keys = chance.randrange(3)
    sql = f"CREATE TABLE {table} (id int, name string)"
    sql += f" PARTITIONED BY ({keys_of(keys)})" if keys else ""
    sql += " CLUSTERED BY (id) INTO 2 BUCKETS" if chance.random() < 0.3 else ""
    sql += f" TBLPROPERTIES ('hivex.row.layout' = '{chance.choice(('flat', 'hive'))}')"
    session.sql(sql)
    return Counter(), keys


def _converted(session: Session, folder: Path, table: str, chance: random.Random) -> tuple[Rows, int]:
    """Plain files, with rows of the same ids in several partitions."""
    keys = chance.randrange(3)
    parted = f" PARTITIONED BY ({keys_of(keys)})" if keys else ""
    session.sql(f"CREATE EXTERNAL TABLE {table} (id int, name string){parted} STORED AS ORC LOCATION '{table}'")
    places: dict[str, Row] = {"": ()}
    if keys == 1:
        places = {"ds=a": ("a",), "ds=b c%2Fd": ("b c/d",), "ds=__HIVE_DEFAULT_PARTITION__": (None,)}
    elif keys == 2:
        places = {"ds=a/hr=1": ("a", 1), "ds=a/hr=2": ("a", 2), "ds=ü%3D1/hr=__HIVE_DEFAULT_PARTITION__": ("ü=1", None)}
    rows: Rows = Counter()
    for place, partition in places.items():
        for name in chance.sample(("000000_0", "000000_0_copy_1", "000001_0", "part-00000-1b-c000.orc"), 2):
            ids = [chance.randrange(12) for _ in range(chance.randint(1, 4))]
            path = folder / "c1" / table / place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            orc.write_table(pa.table({"id": pa.array(ids, pa.int32()), "name": ["plain"] * len(ids)}), str(path))
            rows.update((each, "plain", *partition) for each in ids)
    if keys:
        session.sql(f"MSCK REPAIR TABLE {table}")
    layout = chance.choice(("flat", "hive"))
    session.sql(
        f"ALTER TABLE {table} SET TBLPROPERTIES "
        f"('EXTERNAL' = 'FALSE', 'transactional' = 'true', 'hivex.row.layout' = '{layout}')"
    )
    return rows, keys
