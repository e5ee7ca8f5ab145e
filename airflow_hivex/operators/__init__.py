"""Operators: one module per job."""

from __future__ import annotations
