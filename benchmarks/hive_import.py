"""The import of a table with 10,000 partitions from a real Hive Metastore 2.3, into SQLite and PostgreSQL.

The metastore runs on Derby in memory, in a process of its own. Each round imports into an empty database.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from airflow_hivex.core import Metastore
from airflow_hivex.core.imports.writing import ImportOutcome
from benchmarks.harness import Figure, interleave, within
from tests.acceptance.hive_objects import HiveObjects
from tests.hive_metastore import HiveServer, hive_client, hive_metastore
from tests.postgresql import start_durable_postgresql

PARTITIONS = 10_000
ROUNDS = 3
LIMIT_S = 60.0
COLUMNS = [(f"c{number}", "string") for number in range(20)]
KEYS = [("ds", "string"), ("hr", "int")]
_HOURS = 25
_APART = 1000
"""What is between the ids of a day and those of the next one; the first day has lower ones."""


def run(folder: Path) -> list[Figure]:
    """Seconds of the import, against a minute; per second are partitions."""
    with ExitStack() as stack:
        server = stack.enter_context(hive_metastore(folder / "warehouse"))
        fill(server, folder)
        postgresql = start_durable_postgresql()
        stack.callback(postgresql.stop)
        numbers = iter(range(1000))
        urls = {
            "SQLite": lambda: f"sqlite:///{folder / f'{next(numbers)}.db'}",
            "PostgreSQL": postgresql.create_database,
        }
        cases = {name: lambda url=url: _import(server, url(), folder) for name, url in urls.items()}
        seconds = interleave(cases, rounds=ROUNDS, warm_up=1)
    found = [within(f"import of {PARTITIONS:,} partitions, {name}", seconds[name], LIMIT_S) for name in urls]
    return [replace(each, count=PARTITIONS) for each in found]


def fill(server: HiveServer, folder: Path) -> None:
    """Make the table. The metastore adds the partitions of one day, and its database copies them for the others.

    Hive adds 10,000 partitions in minutes, which say nothing of the import.
    """
    with hive_client(server) as client:
        hive = HiveObjects(client, folder)
        hive.database("d")
        location = hive.table("d", "t", COLUMNS, keys=KEYS).as_uri()
        hive.partitions("d", "t", [(_day(0), str(hour)) for hour in range(_HOURS)], {"numRows": "10", "totalSize": "1"})
        days = ", ".join(f"({number}, '{_day(number)}')" for number in range(1, PARTITIONS // _HOURS))
        connection = server.jvm.java.sql.DriverManager.getConnection(server.database_url)
        try:
            statement = connection.createStatement()
            statement.execute("CREATE TABLE DAYS (D INT, NAME VARCHAR(9))")
            statement.execute(f"INSERT INTO DAYS VALUES {days}")
            for table, columns in _copied(f"{location}/ds=").items():
                names = ", ".join(f'"{name}"' for name in columns)
                values = ", ".join(value or f't."{name}"' for name, value in columns.items())
                # All texts are those above.
                copied = f'INSERT INTO "{table}" ({names}) SELECT {values} FROM "{table}" t, DAYS'
                statement.execute(f"{copied} WHERE {_OF_PARTITIONS[table]}")
        finally:
            connection.close()


def _day(number: int) -> str:
    return f"2024-{number:04d}"


_OF_PARTITIONS = {
    "SERDES": 't."SERDE_ID" IN (SELECT s."SERDE_ID" FROM "SDS" s, "PARTITIONS" p WHERE s."SD_ID" = p."SD_ID")',
    "SERDE_PARAMS": 't."SERDE_ID" IN (SELECT s."SERDE_ID" FROM "SDS" s, "PARTITIONS" p WHERE s."SD_ID" = p."SD_ID")',
    "SDS": 't."SD_ID" IN (SELECT p."SD_ID" FROM "PARTITIONS" p)',
    "PARTITIONS": "1 = 1",
    "PARTITION_PARAMS": f't."PART_ID" < {_APART}',
    "PARTITION_KEY_VALS": f't."PART_ID" < {_APART}',
}
"""Which rows of Hive's tables belong to the partitions of the first day."""


def _copied(folder: str) -> dict[str, dict[str, str]]:
    """The tables of Hive's schema that partitions are in: the columns, and the values of those that change."""
    start = len(folder) + len(_day(0)) + 1
    serde, sd, part = ({name: f't."{name}" + {_APART} * D'} for name in ("SERDE_ID", "SD_ID", "PART_ID"))
    key = 'CASE WHEN t."INTEGER_IDX" = 0 THEN NAME ELSE t."PART_KEY_VAL" END'
    return {
        "SERDES": serde | dict.fromkeys(("NAME", "SLIB"), ""),
        "SERDE_PARAMS": serde | dict.fromkeys(("PARAM_KEY", "PARAM_VALUE"), ""),
        "SDS": sd
        | serde
        | {"LOCATION": f"'{folder}' || NAME || SUBSTR(t.\"LOCATION\", {start})"}
        | dict.fromkeys(
            ("CD_ID", "INPUT_FORMAT", "OUTPUT_FORMAT", "IS_COMPRESSED", "IS_STOREDASSUBDIRECTORIES", "NUM_BUCKETS"), ""
        ),
        "PARTITIONS": part
        | sd
        | {"PART_NAME": f"'ds=' || NAME || SUBSTR(t.\"PART_NAME\", {len('ds=') + len(_day(0)) + 1})"}
        | dict.fromkeys(("CREATE_TIME", "LAST_ACCESS_TIME", "TBL_ID"), ""),
        "PARTITION_PARAMS": part | dict.fromkeys(("PARAM_KEY", "PARAM_VALUE"), ""),
        "PARTITION_KEY_VALS": part | {"PART_KEY_VAL": key} | dict.fromkeys(("INTEGER_IDX",), ""),
    }


def _import(server: HiveServer, url: str, folder: Path) -> None:
    clusters = {"c1": {"filesystem": folder.as_uri(), "jobtracker": "local[2]"}}
    with Metastore.open(url, clusters=clusters) as metastore:
        found = {each.name: each for each in metastore.import_from_hive(server.address)}
    assert (found["d.t"].outcome, found["d.t"].partitions) == (ImportOutcome.IMPORTED, PARTITIONS)
