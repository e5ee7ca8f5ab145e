"""The page docs/reference/language.md: its rows, and the tables that its examples are about."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyarrow import orc

from airflow_hivex.core import Session

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "language.md"
WORKS, REFUSED, DOES_NOT_APPLY = "works", "refused", "does not apply"
_NUMBERS = count()
_ROW = re.compile(r"\| `(?P<text>.+?)` \| (?P<here>[^|]+?) \| (?P<note>.*?) ?\|")


class Example(NamedTuple):
    """A row of the page: a statement, what it does here, and what to do instead."""

    text: str
    here: str
    note: str


def examples() -> Iterator[Example]:
    for line in PAGE.read_text().splitlines():
        if line.startswith("| `"):
            found = _ROW.fullmatch(line.replace("\\|", "\0"))
            assert found is not None, line
            yield Example(*(found[part].replace("\0", "|") for part in ("text", "here", "note")))


def make_tables(session: Session, root: Path, text: str) -> None:
    """Make the tables of the page that a text names, in a new database, which becomes the current one."""
    # The write ids of a name go on when its table is dropped, and examples name versions.
    database = f"example_{next(_NUMBERS)}"
    session.sql("DROP DATABASE IF EXISTS other CASCADE")
    for name in (database, "other"):
        session.sql(f"CREATE DATABASE {name}")
    session.sql(f"USE {database}")
    words = set(re.findall(r"\w+", text))
    if words & {"t", "u"}:
        for name in words & {"t", "u"}:
            session.sql(f"CREATE TABLE {name} (id INT, v STRING) PARTITIONED BY (p INT)")
        session.sql(f"INSERT INTO {min(words & {'t', 'u'})} VALUES (1, 'a', 1), (2, 'b', 2)")
    if words & {"s", "w"}:
        kept = " TBLPROPERTIES ('hivex.history.retention' = '1h')" if "changes" in text.lower() else ""
        session.sql(f"CREATE TABLE s (id INT, v STRING){kept}")
        session.sql("INSERT INTO s VALUES (1, 'a')")
    if "i" in words:
        properties = "('transactional_properties' = 'insert_only')"
        session.sql(f"CREATE TABLE i (id INT, v STRING) STORED AS ORC TBLPROPERTIES {properties}")
    if "w" in words:
        session.sql("CREATE VIEW w AS SELECT id FROM s")
    if "e" in words:
        session.sql("CREATE EXTERNAL TABLE e (id INT) PARTITIONED BY (p INT) STORED AS PARQUET LOCATION 'files/e'")
        session.sql("ALTER TABLE e ADD PARTITION (p = 1)")
    if "LOAD" in words:
        (root / "in").mkdir(exist_ok=True)
        orc.write_table(pa.table({"id": pa.array([7], pa.int32()), "v": ["loaded"]}), root / "in" / "file.orc")
    if text in ("COMMIT", "ROLLBACK"):
        session.sql("START TRANSACTION")
