"""Assets: tables of the warehouse, and their URIs in Airflow."""

from __future__ import annotations
