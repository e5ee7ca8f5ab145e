"""The metastore database: its schema, its migrations and its database transactions."""

from __future__ import annotations

import logging

# Set before alembic is imported: it logs its plug-ins then, and its context whenever a metastore is opened.
for _name in ("alembic.runtime.plugins", "alembic.runtime.migration"):
    logging.getLogger(_name).setLevel(logging.WARNING)
