"""Run the scenarios, print what each has found, and return 1 if one of them has found a fault."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
import traceback
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.table import Table

from airflow_hivex.core import Metastore
from tests.airflow_trial.installation import Installation
from tests.airflow_trial.scenarios import SCENARIOS, Trial
from tests.connect_server import running_server


def main() -> int:
    """Run the scenarios that are named, by default all."""
    parser = argparse.ArgumentParser(prog="make airflow-trial", description=__doc__)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"of: {', '.join(SCENARIOS)}")
    parser.add_argument("--keep", action="store_true", help="keep the folder with all logs")
    options = parser.parse_args()
    wanted = options.scenarios or list(SCENARIOS)
    if unknown := [name for name in wanted if name not in SCENARIOS]:
        parser.error(f"no scenario {unknown[0]!r}; have {', '.join(SCENARIOS)}")
    console = Console(soft_wrap=True)
    folder = Path(tempfile.mkdtemp(prefix="hivex-airflow-trial-"))
    results: list[tuple[str, str, str, float]] = []
    connect = ExitStack()
    server = connect.enter_context(running_server(folder / "state", **{"spark.driver.memory": "1g"}))
    clusters = {
        name: {"filesystem": (folder / name).as_uri(), "jobtracker": jobtracker}
        for name, jobtracker in (("c1", "local[2]"), ("c2", server.url))
    }
    installation = Installation(folder, clusters, XDG_STATE_HOME=str(folder / "state"))
    try:
        with console.status("Starting Airflow: database, api-server, scheduler, dag-processor, triggerer ..."):
            installation.start()
        with Metastore.open(
            installation.metastore_url,
            clusters=installation.clusters,
            default_cluster="c1",
            settings={"hive.txn.timeout": 20},
        ) as metastore:
            trial = Trial(installation, metastore, server)
            trial.prepare()
            for name in wanted:
                started = time.monotonic()
                try:
                    with console.status(f"{name} ..."):
                        found = SCENARIOS[name](trial)
                        trial.check_settled()
                    results.append((name, "passed", found, time.monotonic() - started))
                except Exception as error:
                    (folder / f"{name}.error").write_text(traceback.format_exc())
                    results.append((name, "FAILED", f"{type(error).__name__}: {error}", time.monotonic() - started))
                console.print(f"{results[-1][1]}  {name}: {results[-1][2]} ({results[-1][3]:.0f} s)", markup=False)
    finally:
        installation.stop()
        connect.close()
        if options.keep or any(result[1] != "passed" for result in results):
            console.print(f"Logs: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    table = Table("scenario", "result", "found", "seconds")
    for name, result, found, seconds in results:
        table.add_row(name, result, found, f"{seconds:.0f}")
    console.print(table)
    failed = sum(result[1] != "passed" for result in results)
    console.print(f"{len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
