"""Sensors: tasks that wait for an event or a state in the metastore."""

from __future__ import annotations
