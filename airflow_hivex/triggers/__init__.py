"""Triggers: the parts of sensors and operators that run in the triggerer."""

from __future__ import annotations
