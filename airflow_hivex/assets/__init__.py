"""Assets: tables of the warehouse as Airflow names them."""

from __future__ import annotations
