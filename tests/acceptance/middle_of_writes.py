"""Statements that write, what they make of a table's rows, and the moment when a process is in the middle of it."""

from __future__ import annotations

import hashlib
import os
import resource
import signal
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from airflow_hivex.core import Metastore, Session
from tests import evidence

ROWS = 20_000
_LAYOUTS = ("flat", "hive")
LAYOUTS = evidence.drawn("layouts", _LAYOUTS, 2 if evidence.does_all("HIVEX_EVERY_FAULT") else 1)
Rows = list[tuple[int, str, str]]


def create(table: str, layout: str) -> str:
    """The statement that makes a table for the others."""
    columns = "(id bigint, v string) PARTITIONED BY (k string)"
    return f"CREATE TABLE {table} {columns} TBLPROPERTIES ('hivex.row.layout' = '{layout}')"


def many() -> Rows:
    """The rows that the INSERT brings: texts that hardly compress, in a small partition and a large one."""
    return [(i, f"{i * 2654435761 % 2**32:08x}" * 3, "1" if i % 50 else "0") for i in range(ROWS)]


_MANY = (
    "SELECT id, repeat(lower(lpad(hex(id * 2654435761 % 4294967296), 8, '0')), 3) AS v, "
    f"if(id % 50 = 0, '0', '1') AS k FROM range(0, {ROWS}, 1, 2)"
)
# It is shuffled, so that no reader knows the order of its rows when they are computed again.
_SOURCE = f"(SELECT /*+ REPARTITION(3, id) */ id FROM range({ROWS // 2}, {ROWS * 3 // 2}, 1, 4)) s"


def _merged(rows: Rows) -> Rows:
    source = set(range(ROWS // 2, ROWS * 3 // 2))
    kept = [(i, "m" if i in source else v, k) for i, v, k in rows if i not in source or i % 5]
    return kept + [(i, "n", "1") for i in source - {i for i, _, _ in rows}]


STATEMENTS: dict[str, tuple[str, Callable[[Rows], Rows]]] = {
    "INSERT": (f"INSERT INTO {{t}} {_MANY}", lambda rows: rows + many()),
    "UPDATE": (
        "UPDATE {t} SET v = concat(v, 'u') WHERE id % 4 < 3",
        lambda rows: [(i, f"{v}u" if i % 4 < 3 else v, k) for i, v, k in rows],
    ),
    "DELETE": (
        "DELETE FROM {t} WHERE crc32(string(id)) % 3 = 0",
        lambda rows: [row for row in rows if zlib.crc32(str(row[0]).encode()) % 3],
    ),
    "MERGE": (
        f"MERGE INTO {{t}} t USING {_SOURCE} ON t.id = s.id WHEN MATCHED AND s.id % 5 = 0 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET v = 'm' WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'n', '1')",
        _merged,
    ),
    "INSERT OVERWRITE": (
        "INSERT OVERWRITE {t} SELECT id + 1, concat(k, sha2(string(id), 256)), k FROM {t}",
        lambda rows: [(i + 1, k + hashlib.sha256(str(i).encode()).hexdigest(), k) for i, _, k in rows],
    ),
    # All rows are read before any is replaced.
    "multi-table INSERT": (
        "FROM (SELECT id, sha2(v, 256) AS v, k FROM {t}) s INSERT INTO {other} SELECT -id, v, k WHERE k = '0' "
        "INSERT OVERWRITE TABLE {t} SELECT -id, v, k",
        lambda rows: [(-i, hashlib.sha256(v.encode()).hexdigest(), k) for i, v, k in rows],
    ),
}
"""A statement for each kind, to be tried one after the other, with what it makes of the rows of table ``{t}``.

The last one takes the rows of partition 0 to table ``{other}`` as well.
"""
TRIED = {
    name: STATEMENTS[name]
    for name in ("INSERT", *evidence.drawn("statements", [name for name in STATEMENTS if name != "INSERT"], 2))
}
"""Those that a run tries: the one that brings the rows, and some that change them."""


def in_other(rows: Rows) -> Rows:
    """Return the rows of table ``{other}`` after them, if these are the rows of table ``{t}``."""
    return [row for row in rows if row[2] == "0"] if "multi-table INSERT" in TRIED else []


def held(metastore: Metastore, session: Session, root: Path) -> list[Any]:
    """What decides the rows of all tables, without Spark: files, also invisible ones, and running work."""
    found: list[Any] = [metastore.locks.show(), sorted(metastore.transactions.valid_txns().open_ids)]
    for (name,) in session.sql("SHOW TABLES").rows:
        found += session.sql(f"SHOW PARTITIONS {name}").rows
        found += sorted((each.uri, each.size_bytes) for each in session.snapshot_files(str(name)).files)
    # The folders of a table and of a partition may be there without any.
    made = ("base_", "delta_", "delete_delta_", "_")
    tree = (path for path in root.rglob("*") if path.is_file() or path.name.startswith(made))
    return found + sorted(str(path) for path in tree)


def has_attempts(folder: Path) -> bool:
    """Whether there are files of tasks that have not ended below a table's folder: looking at that takes little."""
    # Folders may go away under it.
    with suppress(OSError):
        attempts = "_staging*/_temporary/*/_temporary/*"
        # The staging folder of an external table lies in a hidden one.
        return any(True for pattern in (attempts, f"_hivex_*/{attempts}") for _ in folder.glob(pattern))
    return False


def is_writing(process: int, folder: Path) -> bool:
    """Whether a process has a file open that a task writes for the table of this folder."""
    with suppress(OSError), os.scandir(f"/proc/{process}/fd") as descriptors:
        for descriptor in descriptors:
            with suppress(OSError):
                file = os.readlink(descriptor)  # noqa: PTH115 - a path for each takes five times as long
                if file.startswith((f"{folder}/_staging", f"{folder}/_hivex_")) and "/_temporary/" in file:
                    return True
    return False


@contextmanager
def stopped_while_writing(process: int, folder: Path) -> Iterator[bool]:
    """Stop a process for the block if it is in the middle of a write to a table, and return whether it is."""
    if not has_attempts(folder) or not is_writing(process, folder):
        yield False
        return
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGSTOP)
    try:
        # It went on until now.
        yield is_writing(process, folder)
    finally:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGCONT)


def limit_files(process: int, size_bytes: int) -> None:
    """Let a process write no longer files from now on, as on a disk that is full; -1 for as long as they may be."""
    _, most = resource.prlimit(process, resource.RLIMIT_FSIZE)
    resource.prlimit(process, resource.RLIMIT_FSIZE, (most if size_bytes < 0 else size_bytes, most))
