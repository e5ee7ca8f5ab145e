"""Plugins of Airflow."""

from __future__ import annotations
