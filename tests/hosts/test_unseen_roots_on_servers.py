"""A Spark Connect server that does not see the folder of its cluster: a statement is an error, and changes nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator

import pytest

from airflow_hivex.core import Metastore
from airflow_hivex.core.errors import RootUnseenError, WrittenRowsMissingError
from tests.connect_server import running_server
from tests.hosts.hidden_roots import MARKER, READS, WRITES, Hosts, check_refused, fill, host, skip_without_mounts

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

CASES = ("empty", "foreign")
"""Clusters whose root is an empty folder for the server, or another file system."""
BELOW = "below"
"""A cluster whose root the server sees, with an empty folder in place of one below it."""
STATEMENTS = {**READS, **{name: WRITES[name] for name in ("insert", "overwrite", "external", "external-overwrite")}}
LONG = pytest.mark.evidence(cases=2, among="statements on servers without the root of their cluster")


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    skip_without_mounts()
    folder = tmp_path_factory.mktemp("hosts")
    for name in (*CASES, "other", f"{BELOW}/outside"):
        (folder / name).mkdir(parents=True)
    (folder / "names").write_text("127.0.0.1 localhost server\n")
    hidden = (
        f"mount --bind {folder}/names /etc/hosts",
        f"mount -t tmpfs none {folder}/empty",
        f"mount -t tmpfs none {folder}/{BELOW}/outside",
        f"mount --bind {folder}/other {folder}/foreign",
    )
    with running_server(folder / "server", host("server", "; ".join(hidden))) as server:
        clusters = {
            name: {"filesystem": (folder / name).as_uri(), "jobtracker": server.url} for name in (*CASES, BELOW)
        }
        with Metastore.open(f"sqlite:///{folder}/m.db", clusters=clusters, default_cluster=BELOW) as metastore:
            found = Hosts(metastore, folder)
            for case in (*CASES, BELOW):
                fill(found, case)
            shutil.copytree(folder / "foreign", folder / "other", dirs_exist_ok=True)
            (folder / "other" / MARKER).write_text(json.dumps({"root": "another", "cluster": "foreign"}))
            yield found


@LONG
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_statement_is_refused_and_changes_nothing(hosts: Hosts, case: str, statement: str) -> None:
    text = STATEMENTS[statement].format(f"on_{case}", "")
    check_refused(hosts, case, None, lambda session: session.sql(text))


def test_rows_that_the_server_wrote_out_of_sight_are_missed(hosts: Hosts) -> None:
    before = hosts.contents(BELOW)
    for name in ("external", "external-overwrite"):
        with hosts.session(BELOW) as session, pytest.raises(WrittenRowsMissingError, match="1000 rows"):
            session.sql(WRITES[name].format(f"on_{BELOW}"))
    assert hosts.contents(BELOW) == before


def test_folder_that_is_empty_for_the_server_is_no_empty_table(hosts: Hosts) -> None:
    with hosts.session(BELOW) as session:
        with pytest.raises(RootUnseenError, match="outside/e"):
            session.sql(READS["external"].format(f"on_{BELOW}"))
        assert session.sql(READS["select"].format(f"on_{BELOW}")).rows == [(40,)]
