"""The command line: ``hivex``."""

from __future__ import annotations
