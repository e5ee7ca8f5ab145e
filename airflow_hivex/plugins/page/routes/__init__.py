"""The routes of the page, a module for each tab."""

from __future__ import annotations
