"""A transactional Hive warehouse over several Spark clusters, for Apache Airflow."""

from __future__ import annotations

__version__ = "0.1.0"
