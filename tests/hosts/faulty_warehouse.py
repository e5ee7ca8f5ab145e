"""A warehouse with the same tables on a faulty folder and on a disk, and its writers."""

from __future__ import annotations

from collections.abc import Callable

from pyarrow import dataset
from pyarrow import fs as pafs

from airflow_hivex.core.errors import JobError
from airflow_hivex.core.model.compaction import CompactionState
from tests.hosts.hidden_roots import WRITES, Hosts, run_all

Writer = Callable[[Hosts, str], None]
"""Runs one writer on the tables of a case."""


def _statement(text: str) -> Writer:
    def run(hosts: Hosts, case: str) -> None:
        with hosts.session(case) as session:
            run_all(session, text.format(f"on_{case}", hosts.uri(case), case))

    return run


def _rows(hosts: Hosts, case: str) -> None:
    with hosts.session(case) as session:
        session.insert_rows(f"on_{case}.t", [(number, "new") for number in range(100)])


def _compaction(kind: str) -> Writer:
    def run(hosts: Hosts, case: str) -> None:
        with hosts.metastore.session() as session:
            session.sql(f"ALTER TABLE on_{case}.t COMPACT '{kind}'")
        done = hosts.metastore.compactor.work()
        assert done is not None
        if done.state is CompactionState.FAILED:
            raise JobError("", done.error_message or "")

    return run


WRITERS: dict[str, Writer] = {
    **{name: _statement(text) for name, text in WRITES.items()},
    "values": _statement("INSERT INTO {0}.p VALUES (3, 1), (4, 2), (5, 3), (6, 4), (7, NULL)"),
    "external-values": _statement("INSERT INTO {0}.e VALUES (3, 'new')"),
    "rows": _rows,
    "copy": _statement("REPLICATE TABLE {0}.p TO CLUSTER {2}_copy"),
    "minor": _compaction("minor"),
    "major": _compaction("major"),
}


def state_of(hosts: Hosts, case: str) -> dict[str, object]:
    """The tables of a case with their properties, and the files of other programs, without hidden ones."""
    found = hosts.contents(case)
    files = [each for each in found["files"] if not any(part[0] in "_." for part in str(each[0]).split("/")[1:])]
    return {**found, "files": files}


def rows_of(hosts: Hosts, case: str) -> dict[str, object]:
    """The rows of all tables of a case, of the folder of an export, and of the copies on the second cluster."""
    found: dict[str, object] = {
        name: rows for name, rows in hosts.contents(case).items() if name != "files" and not name.endswith("properties")
    }
    files = hosts.files(case)
    is_exported = files.get_file_info("exported").type is not pafs.FileType.NotFound
    exported = dataset.dataset("exported", filesystem=files, format="parquet") if is_exported else None
    found["exported"] = None if exported is None else exported.count_rows()
    if hosts.metastore.catalog.get_table(f"on_{case}", "p").storage.secondaries:
        with hosts.session(f"{case}_copy") as session:
            found["copy"] = sorted(tuple(row.values()) for row in session.to_arrow(f"on_{case}.p").to_pylist())
    return found
