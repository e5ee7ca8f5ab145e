"""Notifiers: callbacks that inform people about the state of the warehouse."""

from __future__ import annotations
