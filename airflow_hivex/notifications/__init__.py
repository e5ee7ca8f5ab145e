"""Notifiers: callbacks that tell people about the state of the warehouse."""

from __future__ import annotations
