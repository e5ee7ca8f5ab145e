"""A stream that numbers its batches and keeps its place in a file, as a checkpoint does. Not a test itself.

It dies, as by kill -9, where it reaches a named point of the metastore for the given time.
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import count
from pathlib import Path

from airflow_hivex.core import Metastore


def main(url: str, clusters: str, checkpoint: str, batches: str, point: str, times: str) -> None:
    """Write batches of four rows from the checkpoint's on, until all are written or the point is reached."""
    reached = count(1)

    def die(name: str) -> None:
        if name == point and next(reached) == int(times):
            os.kill(os.getpid(), signal.SIGKILL)

    place = Path(checkpoint)
    with Metastore.open(url, clusters=clusters, fault=die) as metastore, metastore.session(user="stream") as session:
        done = int(place.read_text()) if place.exists() else 0
        while done < int(batches):
            with session.transaction_batch("events", 5, app_id="stream") as batch:
                while batch.remaining and done < int(batches):
                    batch.write([(done * 4 + row, "x") for row in range(4)], batch_id=done)
                    done += 1
                    place.write_text(str(done))


if __name__ == "__main__":
    main(*sys.argv[1:])
