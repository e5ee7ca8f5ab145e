"""Plugins: the parts of this provider that each process of Airflow loads."""

from __future__ import annotations
