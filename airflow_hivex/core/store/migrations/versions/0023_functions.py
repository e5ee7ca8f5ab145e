"""Permanent functions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the change."""
    op.create_table(
        "functions",
        sa.Column("id", _ID, nullable=False),
        sa.Column("database_id", _ID, nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("class_name", sa.Text(), nullable=False),
        sa.Column("resources", sa.JSON(), nullable=False),
        sa.Column("owner", sa.String(128), nullable=True),
        sa.Column("owner_type", sa.String(16), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["database_id"], ["databases.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("database_id", "name"),
    )


def downgrade() -> None:
    """Undo it."""
    op.drop_table("functions")
