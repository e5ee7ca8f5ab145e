"""The metastore database: one schema, its migrations, and transactions on it."""

from __future__ import annotations

import logging

# Before alembic is imported: it logs its own plug-ins then, and its context at each opening of a metastore.
for _name in ("alembic.runtime.plugins", "alembic.runtime.migration"):
    logging.getLogger(_name).setLevel(logging.WARNING)
