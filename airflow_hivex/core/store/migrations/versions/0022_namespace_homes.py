"""The metastores in which namespaces live."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the change."""
    op.create_table(
        "namespace_homes",
        sa.Column("namespace", sa.String(128), nullable=False),
        sa.Column("metastore", sa.Text(), nullable=False),
        sa.Column("noted_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("namespace"),
    )


def downgrade() -> None:
    """Undo it."""
    op.drop_table("namespace_homes")
