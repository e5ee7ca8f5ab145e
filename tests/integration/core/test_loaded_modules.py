"""What a process loads: small work starts quickly because it loads no library that it does not use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from airflow_hivex.core import Metastore

_PROGRAM = """
import sys
from airflow_hivex.core import Metastore
with Metastore.open(sys.argv[1]) as metastore:
    if sys.argv[2:]:
        with metastore.session() as session:
            for statement in sys.argv[2:]:
                session.sql(statement)
loaded = set(sys.modules)
print(len(loaded), *sorted({name.partition(".")[0] for name in loaded}))
"""
_HEAVY = {"airflow", "alembic", "numpy", "pandas", "pendulum", "pyarrow", "pygments", "pyspark", "rich", "sqlglot"}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:///{tmp_path_factory.mktemp('loaded')}/metastore.db"
    with Metastore.open(url) as metastore, metastore.session() as session:
        session.sql("CREATE TABLE t (id bigint)")
    return url


def loaded(url: str, *statements: str) -> tuple[int, set[str]]:
    command = [sys.executable, "-c", _PROGRAM, url, *statements]
    # Elsewhere the parts of the tests' environment, such as coverage, would count.
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3])
    number, *names = done.stdout.split()
    return int(number), set(names)


def test_an_opened_metastore_loads_half_of_the_modules(url: str) -> None:
    number, names = loaded(url)
    assert names.isdisjoint(_HEAVY)
    assert number < 600


def test_statements_without_a_query_load_no_reader_of_queries_and_no_arrow(url: str) -> None:
    number, names = loaded(url, "SHOW TABLES", "DESCRIBE TABLE t", "SHOW LOCKS", "DROP TABLE IF EXISTS u")
    assert names.isdisjoint(_HEAVY)
    assert number < 760
