"""Operators."""

from __future__ import annotations
