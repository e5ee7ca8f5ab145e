"""The roots of the clusters' file systems, known by a marker file in each."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the change."""
    op.create_table(
        "cluster_roots",
        sa.Column("cluster", sa.String(128), primary_key=True),
        sa.Column("root_id", sa.String(36), nullable=False),
        sa.Column("is_marked", sa.Boolean(), nullable=False),
        sa.Column("registered_ms", sa.BigInteger(), nullable=False),
    )


def downgrade() -> None:
    """Undo it; an upgrade refuses roots that are marked until they are accepted."""
    op.drop_table("cluster_roots")
