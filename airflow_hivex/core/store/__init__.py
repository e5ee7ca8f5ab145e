"""The metastore database: one schema, its migrations, and transactions on it."""

from __future__ import annotations

import logging

# Before alembic is imported: it tells of its own plug-ins then, and at each opening of a metastore of its context.
for _name in ("alembic.runtime.plugins", "alembic.runtime.migration"):
    logging.getLogger(_name).setLevel(logging.WARNING)
