"""Locks, write sets and completed components."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_WAITING = sa.text("state = 'w'")
_BLOCKED = sa.text("blocked_by_lock_id IS NOT NULL")
_OPEN = sa.text("state = 'o'")


def upgrade() -> None:
    """Make the change."""
    op.create_table(
        "locks",
        sa.Column("lock_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("internal_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("txn_id", sa.BigInteger(), nullable=False),
        sa.Column("database", sa.String(length=128), nullable=False),
        sa.Column("table", sa.String(length=128), nullable=False),
        sa.Column("partition", sa.Text(), nullable=False),
        sa.Column("full_table", sa.Text(), nullable=False),
        sa.Column("resource", sa.Text(), nullable=False),
        sa.Column("type", sa.String(length=1), nullable=False),
        sa.Column("strictness", sa.Integer(), nullable=False),
        sa.Column("operation", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=1), nullable=False),
        sa.Column("requested_ms", sa.BigInteger(), nullable=False),
        sa.Column("heartbeat_ms", sa.BigInteger(), nullable=False),
        sa.Column("acquired_ms", sa.BigInteger(), nullable=True),
        sa.Column("user", sa.String(length=128), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("agent_info", sa.Text(), nullable=True),
        sa.Column("blocked_by_lock_id", sa.BigInteger(), nullable=True),
        sa.Column("blocked_by_internal_id", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("lock_id", "internal_id", name=op.f("pk_locks")),
    )
    op.create_index("ix_locks_database", "locks", ["database", "strictness"])
    op.create_index("ix_locks_full_table", "locks", ["full_table", "strictness"])
    op.create_index("ix_locks_resource", "locks", ["resource", "strictness"])
    op.create_index("ix_locks_txn_id", "locks", ["txn_id"])
    op.create_index("ix_locks_waiting", "locks", ["txn_id"], sqlite_where=_WAITING, postgresql_where=_WAITING)
    op.create_index(
        "ix_locks_blocked_by_lock_id",
        "locks",
        ["blocked_by_lock_id"],
        sqlite_where=_BLOCKED,
        postgresql_where=_BLOCKED,
    )
    op.create_table(
        "completed_txn_components",
        sa.Column("id", _ID, nullable=False),
        sa.Column("txn_id", sa.BigInteger(), nullable=False),
        sa.Column("table_id", _ID, nullable=False),
        sa.Column("partition", sa.Text(), nullable=True),
        sa.Column("write_id", sa.BigInteger(), nullable=True),
        sa.Column("updates", sa.Boolean(), nullable=False),
        sa.Column("committed_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"], name=op.f("fk_completed_txn_components_table_id_tables")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_completed_txn_components")),
    )
    op.create_index(
        "ix_completed_txn_components_table_id_partition", "completed_txn_components", ["table_id", "partition"]
    )
    op.create_table(
        "write_set",
        sa.Column("id", _ID, nullable=False),
        sa.Column("table_id", _ID, nullable=False),
        sa.Column("partition", sa.Text(), nullable=True),
        sa.Column("txn_id", sa.BigInteger(), nullable=False),
        sa.Column("commit_id", sa.BigInteger(), nullable=False),
        sa.Column("operation", sa.String(length=1), nullable=False),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"], name=op.f("fk_write_set_table_id_tables")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_write_set")),
    )
    op.create_index("ix_write_set_table_id_commit_id", "write_set", ["table_id", "commit_id"])
    op.create_index("ix_write_set_commit_id", "write_set", ["commit_id"])
    op.add_column("txns", sa.Column("reason_code", sa.Integer(), nullable=True))
    op.add_column("txns", sa.Column("min_open_id", sa.BigInteger(), nullable=True))
    op.add_column("txns", sa.Column("ended_ms", sa.BigInteger(), nullable=True))
    op.create_index("ix_txns_min_open_id", "txns", ["min_open_id"], sqlite_where=_OPEN, postgresql_where=_OPEN)
    # Of those that are open now, none can have begun before the lowest of them.
    txns = sa.table("txns", sa.column("id"), sa.column("state"), sa.column("min_open_id"))
    lowest = sa.select(sa.func.min(txns.c.id)).where(txns.c.state == "o").scalar_subquery()
    op.execute(sa.update(txns).where(txns.c.state == "o").values(min_open_id=lowest))
    counters = sa.table("counters", sa.column("name"), sa.column("value"))
    op.bulk_insert(counters, [{"name": "lock", "value": 0}])


def downgrade() -> None:
    """Undo it. Locks are lost, so no transaction may be open."""
    counters = sa.table("counters", sa.column("name"))
    op.execute(sa.delete(counters).where(counters.c.name == "lock"))
    op.drop_index("ix_txns_min_open_id", table_name="txns")
    op.drop_column("txns", "ended_ms")
    op.drop_column("txns", "min_open_id")
    op.drop_column("txns", "reason_code")
    op.drop_table("write_set")
    op.drop_table("completed_txn_components")
    op.drop_table("locks")
