from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from airflow_hivex.core.errors import JobCancelledError, UnsupportedJobTrackerError
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.plans import Plan
from airflow_hivex.core.runners.local import LocalRunner
from airflow_hivex.core.runners.registry import runner_for


@pytest.mark.parametrize("jobtracker", ["local", "local[2]", "local[*]", "local[2,3]"])
def test_local_job_trackers_run_in_the_process(jobtracker: str) -> None:
    assert runner_for(Cluster("c1", "file:///data/c1", jobtracker)) is runner_for(
        Cluster("c2", "file:///data/c2", jobtracker)
    )


@pytest.mark.parametrize("jobtracker", ["spark_default", "localhost"])
def test_other_job_trackers_are_refused(jobtracker: str) -> None:
    with pytest.raises(UnsupportedJobTrackerError, match="Cluster c1"):
        runner_for(Cluster("c1", "file:///data/c1", jobtracker))


def test_a_job_cancelled_before_it_began_never_runs() -> None:
    runner = LocalRunner("local[1]")
    runner.cancel("early")
    with pytest.raises(JobCancelledError):
        runner.run(Plan("early", "n", "SELECT 1"), "c1")


def test_the_folder_of_sparks_own_tables_is_this_processs_alone() -> None:
    program = (
        "from pathlib import Path\nfrom airflow_hivex.core.runners.local import _start_conf\n"
        "folder = Path(_start_conf('local')['spark.sql.warehouse.dir'])\n"
        "print(folder, oct(folder.stat().st_mode & 0o777))"
    )
    folders = [
        subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
        for _ in range(2)
    ]
    assert [mode for _, mode in folders] == ["0o700"] * 2
    assert folders[0][0] != folders[1][0]
    assert not any(Path(folder).exists() for folder, _ in folders)


def test_importing_the_data_planes_front_does_not_import_pyspark() -> None:
    program = (
        "import sys, airflow_hivex.core.runners.registry, airflow_hivex.core.job.values\n"
        "sys.exit('pyspark' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


# In a process of its own: Spark may run in this one already.
RUN = (
    "from airflow_hivex.core.errors import JobError\n"
    "from airflow_hivex.core.model.plans import Plan\n"
    "from airflow_hivex.core.runners.local import LocalRunner\n"
    "try:\n    LocalRunner('local[1]').run(Plan('t', 'n', 'SELECT 1'), 'c1')\n"
    "except JobError as error:\n    print(error)\n"
)


def test_a_missing_java_is_a_clear_error() -> None:
    found = subprocess.run(
        [sys.executable, "-c", RUN],
        check=True,
        capture_output=True,
        text=True,
        env={"JAVA_HOME": "/nowhere", "PATH": ""},
    )
    assert "Java 17" in found.stdout


def test_a_missing_java_is_known_before_a_job_is_sent() -> None:
    program = (
        "from airflow_hivex.core.runners.local import LocalRunner\n"
        "health = LocalRunner('local[1]').health('c1')\nprint(health.version, health.problem)"
    )
    for home, says in (("/nowhere", "cluster c1 failed: .*Java 17"), (os.environ.get("JAVA_HOME"), "None$")):
        env = {"PATH": os.environ["PATH"]} | ({} if home is None else {"JAVA_HOME": home})
        ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, env=env)
        assert re.search(says, ran.stdout)
        assert (version("pyspark") in ran.stdout) is (says == "None$")


@pytest.mark.parametrize("left", ["__version__ = '4.3.0'", ""], ids=["replaced by another release", "removed"])
def test_files_of_pyspark_that_another_package_changed_are_a_clear_error(left: str) -> None:
    spoilt = (
        "import sys, types\n"
        "spoilt = sys.modules['pyspark'] = types.ModuleType('pyspark')\n"
        f"exec({left!r}, vars(spoilt))\n"
    )
    found = subprocess.run([sys.executable, "-c", spoilt + RUN], check=True, capture_output=True, text=True)
    release = version("pyspark")
    assert f"--no-deps pyspark=={release} pyspark-client=={release}" in found.stdout
