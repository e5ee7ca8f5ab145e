"""A client that runs one statement of a warehouse."""

from __future__ import annotations

import json
import sys

from airflow_hivex.core import Metastore

if __name__ == "__main__":
    url, clusters, settings, statement = sys.argv[1:]
    given = json.loads(clusters), json.loads(settings)
    with Metastore.open(url, clusters=given[0], settings=given[1]) as metastore, metastore.session() as session:
        session.sql(statement)
