"""The disks of a host."""

from __future__ import annotations

import subprocess
import sys

from pyspark import cloudpickle

from airflow_hivex.core.job import mounts

_WITHOUT_PACKAGE = """
import pickle, sys
sys.modules["airflow_hivex"] = None
print(pickle.load(sys.stdin.buffer)("/"))
"""


def test_tasks_need_nothing_of_this_package() -> None:
    cloudpickle.register_pickle_by_value(mounts)  # type: ignore[no-untyped-call]
    try:
        taken = cloudpickle.dumps(mounts.is_own_disk)  # type: ignore[no-untyped-call]
    finally:
        cloudpickle.unregister_pickle_by_value(mounts)  # type: ignore[no-untyped-call]
    run = subprocess.run([sys.executable, "-c", _WITHOUT_PACKAGE], input=taken, capture_output=True, check=False)
    assert run.returncode == 0, run.stderr.decode()
    assert run.stdout.decode().strip() == str(mounts.is_own_disk("/"))
