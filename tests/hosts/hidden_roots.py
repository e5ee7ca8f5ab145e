"""A warehouse whose folders are out of sight of some processes of its Spark, and what each statement does then.

The processes have mounts, and a name, of their own, as hosts have.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from airflow_hivex.core import Metastore
from airflow_hivex.core.errors import RootUnseenError
from airflow_hivex.core.session import Session

MARKER = "_hivex_root.json"
READS = {
    "select": "SELECT count(*) FROM {}.t",
    "external": "SELECT count(*) FROM {}.e",
}
WRITES = {
    "insert": "INSERT INTO {0}.t SELECT id, 'lost' FROM range(1000)",
    "overwrite": "INSERT OVERWRITE {0}.t SELECT id, 'lost' FROM range(1000)",
    "partitions": "INSERT INTO {0}.p SELECT id, id % 3 FROM range(1000)",
    "update": "UPDATE {0}.t SET v = 'lost' WHERE id < 10",
    "delete": "DELETE FROM {0}.t WHERE id < 10",
    "merge": "MERGE INTO {0}.t t USING (SELECT id FROM range(5000)) s ON t.id = s.id WHEN MATCHED THEN DELETE "
    "WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'lost')",
    "several": "FROM range(1000) INSERT INTO {0}.t SELECT id, 'lost' INSERT INTO {0}.p SELECT id, 1",
    "table": "CREATE TABLE {0}.made AS SELECT id FROM range(1000)",
    "insert-only": "INSERT INTO {0}.i SELECT id, 'lost' FROM range(1000)",
    "external": "INSERT INTO {0}.e SELECT id, 'lost' FROM range(1000)",
    "external-overwrite": "INSERT OVERWRITE {0}.e SELECT id, 'lost' FROM range(1000)",
    "text": "INSERT INTO {0}.c SELECT id, 'lost' FROM range(1000)",
    "directory": "INSERT OVERWRITE DIRECTORY '{1}/exported' STORED AS PARQUET SELECT id FROM range(1000)",
}


@dataclass
class Hosts:
    """A warehouse; each case has a cluster with its root in a folder of that name."""

    metastore: Metastore
    folder: Path

    def session(self, case: str) -> Session:
        session = self.metastore.session()
        session.sql(f"USE CLUSTER {case}")
        return session

    def root(self, case: str) -> Path:
        return self.folder / case

    def contents(self, case: str) -> dict[str, list[tuple[object, ...]]]:
        """Return the rows of all tables of a case, which this process reads without Spark."""
        with self.metastore.session() as session:
            names = [row[0] for row in session.sql(f"SHOW TABLES IN on_{case}").rows]
            return {
                str(name): sorted(tuple(row.values()) for row in session.to_arrow(f"on_{case}.{name}").to_pylist())
                for name in names
                if name != "c"
            }


def host(name: str, lines: str) -> list[str]:
    """Return the beginning of a command that runs it on a host with that name, and with the mounts that lines make."""
    return ["unshare", "-m", "-u", "bash", "-c", f'set -e; hostname {name}; {lines}; exec "$@"', "bash"]


def skip_without_mounts() -> None:
    """Skip the test where this process may not make hosts."""
    command = [*host("h", "mount -t tmpfs none /mnt"), "true"]
    if shutil.which("unshare") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("this user may not make mount namespaces")


def fill(hosts: Hosts, case: str) -> None:
    """Make the tables of a case with rows that this process writes without Spark."""
    rows = ", ".join(f"({number}, 'kept')" for number in range(20))
    with hosts.metastore.session() as session:
        session.sql(f"CREATE DATABASE on_{case}")
        at = f"'hivex.cluster'='{case}'"
        session.sql(f"CREATE TABLE on_{case}.t (id bigint, v string) TBLPROPERTIES ({at})")
        session.sql(f"CREATE TABLE on_{case}.p (id bigint) PARTITIONED BY (k bigint) TBLPROPERTIES ({at})")
        only = f"{at}, 'transactional_properties'='insert_only'"
        session.sql(f"CREATE TABLE on_{case}.i (id bigint, v string) STORED AS PARQUET TBLPROPERTIES ({only})")
        for name, stored_as in (("e", "PARQUET"), ("c", "TEXTFILE")):
            place = hosts.root(case) / "outside" / name
            session.sql(
                f"CREATE EXTERNAL TABLE on_{case}.{name} (id bigint, v string) STORED AS {stored_as} "
                f"LOCATION '{place.as_uri()}' TBLPROPERTIES ({at})"
            )
        session.sql(f"INSERT INTO on_{case}.t VALUES {rows}")
        session.sql(f"INSERT INTO on_{case}.t VALUES {rows}")
    (hosts.root(case) / "outside" / "e").mkdir(parents=True, exist_ok=True)
    kept = pa.table({"id": pa.array([1, 2], pa.int64()), "v": ["kept", "kept"]})
    parquet.write_table(kept, hosts.root(case) / "outside" / "e" / "kept.parquet")


def check_refused(hosts: Hosts, case: str, blind: Collection[str] | None, run: Callable[[Session], object]) -> None:
    """Ensure that a statement names one of the blind hosts, if they are known, and changes nothing."""
    before = hosts.contents(case)
    with hosts.session(case) as session, pytest.raises(RootUnseenError) as raised:
        run(session)
    assert raised.value.cluster == case
    assert blind is None or raised.value.host in blind
    assert str(hosts.root(case)) in str(raised.value)
    assert hosts.contents(case) == before
    assert not (hosts.root(case) / "exported").exists()
