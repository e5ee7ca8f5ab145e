"""All tests that SQLAlchemy has for dialects. ``test_suite.py`` runs them in a process of their own."""

from __future__ import annotations

from sqlalchemy.testing.suite import *  # noqa: F403
