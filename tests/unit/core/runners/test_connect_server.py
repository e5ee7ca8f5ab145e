"""Spark Connect servers of this machine, as far as none has to run for it."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict
from pathlib import Path

import psutil
import pytest

from airflow_hivex.core.errors import SparkServerError
from airflow_hivex.core.runners import connect_server
from airflow_hivex.core.runners.connect_server import Server


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv(connect_server.TOKEN_VARIABLE, raising=False)
    return tmp_path


def noted(port: int, began: float) -> Server:
    """What is noted of a server: this process stands for its one."""
    server = Server(port, os.getpid(), began, "local[2]", "a-token")
    folder = connect_server.folder_of(port, make=True)
    (folder / "server.json").write_text(json.dumps(asdict(server)))
    return server


def test_a_process_that_runs_is_known_and_its_token_found() -> None:
    server = noted(15002, psutil.Process().create_time())
    assert connect_server.known_server(15002) == server
    assert connect_server.with_token("sc://127.0.0.1") == "sc://localhost:15002/;token=a-token"
    assert (
        connect_server.with_token("sc://localhost:15002/;user_id=me")
        == "sc://localhost:15002/;user_id=me;token=a-token"
    )


@pytest.mark.parametrize(
    "url", ["sc://localhost:15003", "sc://spark.example.com:15002", "sc://localhost:15002/;token=other"]
)
def test_other_servers_do_not_get_the_token(url: str) -> None:
    noted(15002, psutil.Process().create_time())
    assert connect_server.with_token(url) == url


def test_a_later_process_of_the_same_number_is_not_taken_for_the_server() -> None:
    noted(15002, psutil.Process().create_time() - 100)
    assert connect_server.known_server(15002) is None
    assert not connect_server.stop(15002)
    assert psutil.Process().is_running()


def test_a_note_that_was_cut_off_is_none() -> None:
    (connect_server.folder_of(15002, make=True) / "server.json").write_text('{"port": 15')
    assert connect_server.known_server(15002) is None


def test_a_folder_that_others_can_write_to_is_refused() -> None:
    connect_server.folder_of(15002, make=True).chmod(0o777)
    with pytest.raises(SparkServerError, match="only this user can write to"):
        connect_server.start(15002)


def test_a_port_of_another_program_is_refused() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SparkServerError, match=f"Port {port} cannot be used.*--port"):
            connect_server.start(port)
    assert connect_server.known_server(port) is None
