"""An unmodified Spark, with its own Hive client, works on the endpoint as on a real Hive Metastore 2.3."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from airflow_hivex.core.metastore import Metastore
from tests import evidence, spark_options
from tests.acceptance import hive_calls, hive_object_calls
from tests.hive_endpoint import hive_client, serving
from tests.hive_metastore import hive_client as patient_client
from tests.hive_metastore import hive_metastore

ALL = evidence.does_all("HIVEX_EVERY_SPARK_STATEMENT")

_SHOWN_OTHERWISE = (
    # Hive gathers numbers of files when it stores a table or partition.
    r"numFiles=\d+, |, totalSize=\d+|Statistics: [^\\]*\\n",
    r"transient_lastDdlTime=\d+|'transient_lastDdlTime' = '\d+'",
    r"\w{3} \w{3} \d\d \d\d:\d\d:\d\d \w+ \d{4}",
    r"\b17\d{8}\b",
)


def shown(found: dict[str, Any], folder: Path) -> str:
    """The result of a statement without what is another one each time, or deliberately not Hive's."""
    text = json.dumps([found.get("rows"), found.get("error")])
    text = re.sub(rf"(file:)?/*{re.escape(str(folder).lstrip('/'))}", "FOLDER", text)
    for pattern in _SHOWN_OTHERWISE:
        text = re.sub(pattern, "", text)
    return text


@pytest.mark.spark
@pytest.mark.evidence(cases=1, among="long scenarios")
@pytest.mark.timeout(1200)
def test_spark_gets_the_results_of_a_real_hive_metastore(sqlite_url: str, tmp_path: Path, counts: Any) -> None:
    for name in ("hive", "ours"):
        (tmp_path / name).mkdir()
    cluster = {"c1": {"filesystem": (tmp_path / "ours").as_uri(), "jobtracker": "local[1]"}}
    with ExitStack() as stack:
        metastore = stack.enter_context(Metastore.open(sqlite_url, clusters=cluster))
        running = stack.enter_context(serving(metastore))
        metastores = [f"ours=thrift://127.0.0.1:{running.port}"]
        if ALL:
            hive = stack.enter_context(hive_metastore(tmp_path / "hive" / "warehouse"))
            metastores.append(f"hive={hive.address}")
        program = Path(__file__).with_name("hive_statements_process.py")
        made = subprocess.run(
            [sys.executable, str(program), str(tmp_path), "all" if ALL else "share", *metastores],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, spark_options.VARIABLE: spark_options.java_options(), "SPARK_LOCAL_IP": "127.0.0.1"},
            check=True,
        )
    results: dict[str, list[dict[str, Any]]] = {"ours": [], "hive": []}
    for line in made.stdout.splitlines():
        found = json.loads(line)
        results[found["metastore"]].append(found)
    ours = {each["statement"]: each for each in results["ours"]}
    for each in results["ours"]:
        outcome = each.get("error") or f"{len(each['rows'])} rows"
        sys.stdout.write(f"{each['statement']}: {outcome}\n")
    assert ours["select * from d1.h_orc order by id"]["rows"] == [["1", "a"], ["2", "b"]]
    assert ours["select * from d1.h_part where ds = '2026-01-02' and hr > 1"]["rows"] == [["2", "y", "2026-01-02", "2"]]
    assert ours["show databases"]["rows"] == [["default"]]
    differing = [
        (mine["statement"], shown(mine, tmp_path / "ours"), shown(theirs, tmp_path / "hive"))
        for mine, theirs in zip(results["ours"], results["hive"], strict=ALL)
        if shown(mine, tmp_path / "ours") != shown(theirs, tmp_path / "hive")
    ]
    assert differing == []
    counts["statements of Spark on the Hive Metastore endpoint"] = {"statements": len(results["ours"])}


RECORDED = Path(__file__).with_name("hive_calls_answers.json")
"""The answers of a real Hive Metastore 2.3."""
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "hive-metastore-calls.md"


RECORDED_OBJECTS = Path(__file__).with_name("hive_object_calls_answers.json")


def recorded(path: Path = RECORDED) -> list[tuple[str, str]]:
    return [(call, answer) for call, answer in json.loads(path.read_text())]


def test_calls_of_transactions_are_answered_as_by_hive_or_listed(
    postgresql_url: str, tmp_path: Path, counts: Any
) -> None:
    cluster = {"c1": {"filesystem": (tmp_path / "ours").as_uri(), "jobtracker": "local[1]"}}
    with (
        Metastore.open(postgresql_url, clusters=cluster, settings={"hivex.lock.matrix": "2.3"}) as metastore,
        serving(metastore) as running,
        hive_client(running.port) as client,
    ):
        hive_calls.make_tables(client)
        answers = hive_calls.run(client)
    assert len(answers) > 200
    assert [call for call, _ in answers] == [call for call, _ in recorded()]
    differing = {
        call: (answer, theirs)
        for (call, answer), (_, theirs) in zip(answers, recorded(), strict=True)
        if answer != theirs
    }
    section = PAGE.read_text().partition("## Deliberate differences")[2].partition("Calls about tables")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    listed = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    assert set(differing) == listed, differing
    counts["calls compared with those of a Hive Metastore 2.3"] = {"calls": len(answers)}


def test_calls_of_objects_have_the_answers_and_exceptions_of_hive_or_are_listed(
    postgresql_url: str, tmp_path: Path, counts: Any
) -> None:
    cluster = {"c1": {"filesystem": (tmp_path / "ours").as_uri(), "jobtracker": "local[1]"}}
    with (
        Metastore.open(postgresql_url, clusters=cluster) as metastore,
        serving(metastore) as running,
        hive_client(running.port) as client,
    ):
        answers = hive_object_calls.run(client)
    theirs = recorded(RECORDED_OBJECTS)
    assert [call for call, _ in answers] == [call for call, _ in theirs]
    differing = {}
    for (call, answer), (_, hive) in zip(answers, theirs, strict=True):
        is_refused = answer.endswith("Exception") and answer != "TApplicationException"
        if answer != hive and not (hive_object_calls.is_internal_error(hive) and is_refused):
            differing[call] = (answer, hive)
    is_listed = [re.compile(each) for each in hive_object_calls.DELIBERATE]
    assert {call: each for call, each in differing.items() if not any(one.fullmatch(call) for one in is_listed)} == {}
    assert [one.pattern for one in is_listed if not any(map(one.fullmatch, differing))] == []
    counts["calls of objects compared with those of a Hive Metastore 2.3"] = {"calls": len(answers)}


@pytest.mark.skipif(not evidence.IS_WHOLE, reason="the answers of a real Hive Metastore are recorded")
def test_answers_of_a_real_hive_metastore_are_those_that_were_recorded(tmp_path: Path) -> None:
    with hive_metastore(tmp_path / "warehouse") as hive, hive_client(hive.port) as client:
        hive_calls.make_tables(client)
        assert hive_calls.run(client) == recorded()
    # Without the time that it waits before it repeats a call in vain.
    hasty = {"hive.hmshandler.retry.interval": "1ms", "hive.hmshandler.retry.attempts": "1"}
    with hive_metastore(tmp_path / "objects" / "warehouse", hasty) as hive, patient_client(hive, 4000) as client:
        assert hive_object_calls.run(client) == recorded(RECORDED_OBJECTS)
