"""Triggers, which run in the triggerer for sensors and operators."""

from __future__ import annotations
