"""A process that inserts rows until it is killed; the parent test decides when. Not a test itself."""

from __future__ import annotations

import sys

from airflow_hivex.core import Metastore


def tell(step: str) -> None:
    """Let the parent know."""
    sys.stdout.write(step + "\n")
    sys.stdout.flush()


def main(url: str, clusters: str) -> None:
    """Open the warehouse, warm Spark up, then insert 200,000 rows a statement, telling each step."""
    with Metastore.open(url, clusters=clusters) as metastore, metastore.session(user="killed") as session:
        session.sql("SELECT 1")
        tell("ready")
        while sys.stdin.readline():
            tell("begin")
            session.sql("INSERT INTO t SELECT id, cast(id % 3 AS string) FROM range(200000)")
            tell("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
