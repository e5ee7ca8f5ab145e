"""Stores that answer late or wrong: each writer ends right or with an error that leaves the rows as they were."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from airflow_hivex.core import Metastore
from airflow_hivex.core.errors import HivexError
from tests.hosts.faulty_folder import READ_FAULTS, WRITE_FAULTS, FaultyFolder, faulty_folder
from tests.hosts.faulty_warehouse import WRITERS, rows_of, state_of
from tests.hosts.hidden_roots import READS, Hosts, fill, run_all

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

UNKNOWABLE = (("external", "missing"), ("text", "missing"), ("text", "short"))
"""The rows of an external table are those of the files that its folder lists, and text has no mark of its end."""
CLUSTERS = ("good", "good_copy", "bad", "bad_copy")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyFolder]:
    with faulty_folder(tmp_path_factory.mktemp("store")) as folder:
        yield folder


@pytest.fixture
def hosts(store: FaultyFolder, tmp_path: Path) -> Iterator[Hosts]:
    """The same tables twice on the faulty folder: ``bad`` is used under a fault, and ``good`` without one."""
    folder = store.path / tmp_path.name
    for name in CLUSTERS:
        (folder / name).mkdir(parents=True)
    clusters = {name: {"filesystem": (folder / name).as_uri(), "jobtracker": "local[2]"} for name in CLUSTERS}
    url = f"sqlite:///{tmp_path}/m.db"
    with Metastore.open(url, clusters=clusters, default_cluster="good") as metastore:
        found = Hosts(metastore, folder, clusters, url)
        for case in ("good", "bad"):
            fill(found, case)
        yield found


@pytest.mark.evidence(cases=3, among="writers on a folder that answers late or wrong")
@pytest.mark.parametrize("fault", WRITE_FAULTS)
@pytest.mark.parametrize("writer", WRITERS)
def test_a_writer_loses_nothing(hosts: Hosts, store: FaultyFolder, writer: str, fault: str) -> None:
    before = state_of(hosts, "bad")
    WRITERS[writer](hosts, "good")
    failed: HivexError | None = None
    with store.fault(fault):
        try:
            WRITERS[writer](hosts, "bad")
        except HivexError as error:
            failed = error
    if failed is not None:
        assert state_of(hosts, "bad") == before
        WRITERS[writer](hosts, "bad")
    assert rows_of(hosts, "bad") == rows_of(hosts, "good")


@pytest.mark.evidence(cases=2, among="readers of a folder that answers late or wrong")
@pytest.mark.parametrize(("reader", "fault"), [each for each in product(READS, READ_FAULTS) if each not in UNKNOWABLE])
def test_a_reader_does_not_lose_rows(hosts: Hosts, store: FaultyFolder, reader: str, fault: str) -> None:
    found: object

    def read(case: str) -> object:
        with hosts.session(case) as session:
            run_all(session, READS[reader].format(f"on_{case}"))
            return session.sql(READS[reader].format(f"on_{case}").split("; ")[-1]).rows

    with store.fault(fault):
        try:
            found = read("bad")
        except HivexError as error:
            found = error
    assert isinstance(found, HivexError) or found == read("good")
    assert read("bad") == read("good")
