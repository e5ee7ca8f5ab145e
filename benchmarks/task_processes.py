"""A worker of Airflow that forks task processes, and what these cost: ``python -m benchmarks.task_processes COUNT``.

As in Airflow, the parent has imported Airflow, and each task is a fork of it. Processor time and memory are those of
the tasks and all that they start, without what the tasks share with the parent.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import SimpleNamespace

import airflow.sdk
import airflow.sdk.execution_time.task_runner
import psutil

QUERY = "SELECT count(*), max(v) FROM t"
_INTERVAL_S = 0.1


class Meter:
    """Adds up the processor time of process trees, and the highest memory that they have had together."""

    def __init__(self, roots: list[int]) -> None:
        self._roots = roots
        self._seconds: dict[int, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._measure)
        self.peak_bytes = 0

    def __enter__(self) -> Meter:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def processor_s(self) -> float:
        """Seconds of all processes that were seen."""
        return sum(self._seconds.values())

    def _measure(self) -> None:
        while not self._stop.wait(_INTERVAL_S):
            size = 0
            for root in self._roots:
                try:
                    tree = [psutil.Process(root), *psutil.Process(root).children(recursive=True)]
                except psutil.Error:
                    continue
                size += sum(map(self._look, tree))
            self.peak_bytes = max(self.peak_bytes, size)

    def _look(self, process: psutil.Process) -> int:
        try:
            with process.oneshot():
                times = process.cpu_times()
                self._seconds[process.pid] = times.user + times.system
                return int(process.memory_full_info().uss)
        except (psutil.Error, OSError):
            return 0


def query() -> None:
    """Run the query as a task does."""
    from airflow_hivex.operators.query import HivexQueryOperator

    ti = SimpleNamespace(dag_id="d", task_id="t", run_id="r", try_number=1, map_index=-1)
    found = HivexQueryOperator(task_id="t", sql=QUERY).execute({"ti": ti})  # type: ignore[typeddict-item]
    assert found["rows"] == [[10, "v9"]], found


def forked(work: Callable[[], None]) -> int:
    """Return the process that does the work."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    except Exception:
        traceback.print_exc()
    finally:
        # Its Java process ends with it.
        os._exit(code)


def main() -> None:
    count = int(sys.argv[1])
    # As Airflow's LocalExecutor does before it forks: the garbage collector of a task leaves the shared memory alone.
    gc.collect()
    gc.freeze()
    began = time.perf_counter()
    children = [forked(query) for _ in range(count)]
    with Meter(children) as meter:
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        seconds = time.perf_counter() - began
    if any(codes):
        sys.exit(f"tasks have failed: {codes}")
    print(json.dumps({"seconds": seconds, "processor_s": meter.processor_s, "peak_bytes": meter.peak_bytes}))


if __name__ == "__main__":
    assert airflow.sdk
    main()
