"""What ships to a cluster is what a job imports there, and no more."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import airflow_hivex
from airflow_hivex.core.job.channel import fingerprint
from airflow_hivex.core.runners.shipping import archive, shipped_files

# Every module that is shipped, in a process that has nothing else of the package.
IMPORT_ALL = """
import importlib, sys
for module in sys.argv[1:]:
    importlib.import_module(module)
import airflow_hivex
print(airflow_hivex.__file__)
print(*sorted(name for name in sys.modules if name.partition(".")[0] == "airflow_hivex"))
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def module_of(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def test_shipped_files_import_nothing_else_of_the_package(tmp_path: Path) -> None:
    files = shipped_files()
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    modules = [module_of(name) for name in files]
    ran = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, *modules],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
    )
    assert ran.returncode == 0, ran.stderr
    home, imported, all_names = ran.stdout.splitlines()
    assert Path(home).is_relative_to(tmp_path)
    assert imported.split() == sorted(modules)
    assert not {"airflow", "alembic", "cachetools", "fsspec", "pandas", "sqlalchemy", "sqlglot"} & {*all_names.split()}


def test_a_job_needs_all_values_that_are_shipped() -> None:
    program = "import sys, airflow_hivex.core.job.job, airflow_hivex.core.job.values\nprint(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    values = {module_of(name) for name in shipped_files() if "/core/job/" not in name}
    assert values <= {*ran.stdout.split()}


def test_the_fingerprint_distinguishes_files() -> None:
    files = shipped_files()
    assert fingerprint(files) == fingerprint(dict(reversed(files.items())))
    name, content = next(iter(files.items()))
    others = [
        {**files, name: content + b"#"},
        {**files, "airflow_hivex/new.py": b""},
        {other: data for other, data in files.items() if other != name},
    ]
    assert len({fingerprint(each) for each in [files, *others]}) == 4


@pytest.mark.parametrize("left_out", ["core/session.py", "core/runners/local.py", "core/commands/", "core/store/"])
def test_the_clients_side_is_not_shipped(left_out: str) -> None:
    assert not [name for name in shipped_files() if left_out in name]


# In a process whose package is in a file.
CHECK = """
import sys
from airflow_hivex.core.job import channel
print(channel.problem_with(sys.argv[1]))
"""


@pytest.mark.parametrize(
    ("path", "expected", "says"),
    [
        ("archive", "the fingerprint", "^None$"),
        ("archive", "another", "other files of airflow_hivex than its client has sent"),
        ("package", "the fingerprint", "runs the package airflow_hivex of .*not the files that its client has sent"),
    ],
)
def test_a_driver_runs_the_files_of_its_client_or_nothing(tmp_path: Path, path: str, expected: str, says: str) -> None:
    data, found = archive()
    (tmp_path / "archive").write_bytes(data)
    (tmp_path / "package").symlink_to(Path(airflow_hivex.__file__).parents[1])
    ran = subprocess.run(
        [sys.executable, "-c", CHECK, found if expected == "the fingerprint" else expected],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(tmp_path / path)},
        cwd=tmp_path,
    )
    assert ran.returncode == 0, ran.stderr
    assert re.search(says, ran.stdout)
