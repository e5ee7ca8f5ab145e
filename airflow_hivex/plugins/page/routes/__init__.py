"""The routes of the page: one module for each tab."""

from __future__ import annotations
