"""Decorators: tasks from functions."""

from __future__ import annotations
