"""A client that changes a row of the metastore database, says so, and does not commit until its input ends."""

from __future__ import annotations

import sys

from sqlalchemy import Connection, update

from airflow_hivex.core.settings import Settings
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.schema import counters


def change(connection: Connection) -> None:
    connection.execute(update(counters).where(counters.c.name == "txn").values(value=counters.c.value + 1))
    sys.stdout.write("changed\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    Store(sys.argv[1], settings=Settings({"hivex.database.timeout": sys.argv[2]})).write(change)
