"""What spark-submit is given, without starting it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_hivex.core.errors import JobError
from airflow_hivex.core.runners import submission
from airflow_hivex.core.runners.submission import Submission

CONF = {
    "spark.hadoop.fs.s3a.secret.key": r"K7MDENG\wJalrXUt",
    "spark.executor.memory": "2g",
    "spark.executor.defaultJavaOptions": "-Xss4m",
    "spark.submit.pyFiles": "s3a://lib/more.zip",
    "spark.sql.ansi.enabled": "false",
}


@pytest.fixture
def made() -> Iterator[Submission]:
    found = Submission("spark://h:7077", CONF, "c1")
    yield found
    found.remove()
    assert not found.folder.exists()


def properties(of: Submission) -> dict[str, str]:
    lines = (of.folder / "spark.properties").read_text().splitlines()
    return {key: value for key, _, value in (line.partition("=") for line in lines)}


def test_the_arguments_are_names_of_files_and_the_folder_is_this_users_alone(made: Submission) -> None:
    assert "K7MDENG" not in " ".join(made.command)
    assert made.folder.stat().st_mode & 0o777 == 0o700
    made.forget_configuration()
    assert not [path for path in made.folder.iterdir() if b"K7MDENG" in path.read_bytes()]


def test_configuration_of_the_cluster_counts_except_for_that_of_a_session(made: Submission) -> None:
    found = properties(made)
    assert found["spark.hadoop.fs.s3a.secret.key"] == r"K7MDENG\\wJalrXUt"
    assert found["spark.executor.memory"] == "2g"
    assert found["spark.executor.defaultJavaOptions"] == "-Duser.timezone=UTC -Xss4m"
    assert found["spark.submit.pyFiles"] == f"{made.folder}/airflow_hivex.zip,s3a://lib/more.zip"
    assert found["spark.master"] == "spark://h:7077"
    assert "spark.sql.ansi.enabled" not in found


def test_executors_of_a_vanished_driver_end_soon_unless_the_cluster_says_otherwise(made: Submission) -> None:
    name = "spark.executor.heartbeat.maxFailures"
    assert properties(made)[name] == "6"
    other = Submission("spark://h:7077", {name: "60"}, "c1")
    assert properties(other)[name] == "60"
    other.remove()


@pytest.mark.parametrize(
    ("master", "conf", "given", "python"),
    [
        ("spark://127.0.0.1:7077", {}, None, sys.executable),
        ("spark://127.0.0.1:7077", {}, "/opt/python", "/opt/python"),
        ("spark://h:7077", {}, None, None),
        ("yarn", {}, "/opt/python", "/opt/python"),
    ],
)
def test_the_python_of_executors(
    master: str, conf: dict[str, str], given: str | None, python: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if given is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", given)
    made = Submission(master, conf, "c1")
    made.remove()
    assert made.environment.get("PYSPARK_PYTHON") == python


def test_a_long_name_of_the_folder_for_temporary_files_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    made = Submission("yarn", {}, "c1")
    made.remove()
    assert len(str(made.socket)) < 108
    assert not list(folder.iterdir())


def test_a_spark_home_without_spark_submit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(JobError, match=f"SPARK_HOME is {tmp_path}, which has no bin/spark-submit"):
        submission.spark_home("c1")


def test_the_release_is_that_of_the_files() -> None:
    from importlib.metadata import version

    assert submission.release_of(submission.spark_home("c1")) == version("pyspark")


def test_a_driver_elsewhere_is_refused() -> None:
    submission.check_deploy_mode({"spark.submit.deployMode": "client"}, "c1")
    with pytest.raises(JobError, match=r"spark\.submit\.deployMode is 'cluster'"):
        submission.check_deploy_mode({"spark.submit.deployMode": "cluster"}, "c1")


@pytest.mark.parametrize("text", ["soon", "-1", "0", "nan", "1e30"])
def test_a_time_out_that_is_not_a_number_of_seconds_is_refused(text: str) -> None:
    with pytest.raises(JobError, match="not a number of seconds"):
        submission.timeout({submission.IDLE_TIMEOUT: text}, submission.IDLE_TIMEOUT, "c1")
