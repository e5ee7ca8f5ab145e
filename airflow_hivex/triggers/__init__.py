"""Triggers: what sensors wait with in the triggerer."""

from __future__ import annotations
