"""Hooks: one Airflow connection is one metastore."""

from __future__ import annotations
