"""Sensors: tasks that wait for something in the metastore."""

from __future__ import annotations
