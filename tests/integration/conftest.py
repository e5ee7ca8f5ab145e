"""Fixtures of the tests that start Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.plans import Plan
from airflow_hivex.core.runners.registry import runner_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    """The Spark of this process, as the first job starts it."""
    runner_for(Cluster("c1", "file:///data/c1", "local[2]")).run(Plan("start", "start", "SELECT 1"), "c1")
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()
