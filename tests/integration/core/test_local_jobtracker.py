"""The one cluster of a metastore without configured clusters, and how it reaches Spark. No Spark."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import psutil
import pytest

from airflow_hivex.core import Metastore
from airflow_hivex.core.errors import HivexError
from airflow_hivex.core.runners import connect_server


def jobtracker(url: str, setting: str) -> str:
    with Metastore.open(url, settings={"hivex.local.jobtracker": setting}) as metastore:
        return metastore.clusters.get("local").jobtracker


@pytest.mark.parametrize("given", ["local[3]", "sc://localhost:15010"])
def test_the_setting_is_its_jobtracker(sqlite_url: str, given: str) -> None:
    assert jobtracker(sqlite_url, given) == given


def test_auto_is_the_server_of_this_user_while_it_answers(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        monkeypatch.setattr(connect_server, "DEFAULT_PORT", port)
        assert jobtracker(sqlite_url, "auto") == "local[*]"
        began = psutil.Process().create_time()
        known = {"port": port, "pid": os.getpid(), "began": began, "master": "local[*]", "token": "secret"}
        (connect_server.folder_of(port, make=True) / "server.json").write_text(json.dumps(known))
        assert jobtracker(sqlite_url, "auto") == f"sc://localhost:{port}"
    assert jobtracker(sqlite_url, "auto") == "local[*]"


def test_another_word_is_refused_as_that_of_a_configured_cluster(sqlite_url: str) -> None:
    with pytest.raises(HivexError, match="jobtracker"):
        jobtracker(sqlite_url, "sc://")
