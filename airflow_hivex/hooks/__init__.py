"""Hooks. Each Airflow connection of type ``hivex`` describes one metastore."""

from __future__ import annotations
