"""SQLite gives no id of a table, partition or directory twice, as PostgreSQL does not.

Without that it gives the id of the newest one again once its row is gone, and who still has the old id at hand, such as
a compaction in the queue, would take the new one for it.
"""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_TABLES = ("tables", "partitions", "directories")


def upgrade() -> None:
    """Make the change."""
    _recreate(gives_once=True)


def downgrade() -> None:
    """Undo it."""
    _recreate(gives_once=False)


def _recreate(*, gives_once: bool) -> None:
    if op.get_context().dialect.name != "sqlite":
        return
    for table in _TABLES:
        with op.batch_alter_table(table, recreate="always", table_kwargs={"sqlite_autoincrement": gives_once}):
            pass
