"""Plugins: what the processes of Airflow load of this provider."""

from __future__ import annotations
