"""The queue of compactions and their history."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_ACTIVE = sa.text("state IN ('i', 'w')")


def _columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("table_id", _ID, nullable=False),
        sa.Column("database", sa.String(length=128), nullable=False),
        sa.Column("table", sa.String(length=128), nullable=False),
        sa.Column("partition", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=1), nullable=False),
        sa.Column("type", sa.String(length=1), nullable=False),
        sa.Column("properties", sa.JSON(), nullable=False),
        sa.Column("pool", sa.String(length=128), nullable=True),
        sa.Column("buckets", sa.Integer(), nullable=True),
        sa.Column("order_by", sa.Text(), nullable=True),
        sa.Column("run_as", sa.String(length=128), nullable=True),
        sa.Column("initiator_id", sa.String(length=255), nullable=True),
        sa.Column("initiator_version", sa.String(length=64), nullable=True),
        sa.Column("enqueued_ms", sa.BigInteger(), nullable=False),
        sa.Column("worker_id", sa.String(length=255), nullable=True),
        sa.Column("worker_version", sa.String(length=64), nullable=True),
        sa.Column("started_ms", sa.BigInteger(), nullable=True),
        sa.Column("highest_write_id", sa.BigInteger(), nullable=True),
        sa.Column("txn_id", sa.BigInteger(), nullable=True),
        sa.Column("next_txn_id", sa.BigInteger(), nullable=True),
        sa.Column("committed_ms", sa.BigInteger(), nullable=True),
        sa.Column("cleaner_started_ms", sa.BigInteger(), nullable=True),
        sa.Column("retry_retention_ms", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("job_id", sa.String(length=255), nullable=True),
    ]


def upgrade() -> None:
    """Make the change."""
    op.create_table("compaction_queue", *_columns(), sa.PrimaryKeyConstraint("id", name=op.f("pk_compaction_queue")))
    op.create_index(
        "uq_compaction_queue_active",
        "compaction_queue",
        ["table_id", "partition"],
        unique=True,
        sqlite_where=_ACTIVE,
        postgresql_where=_ACTIVE,
    )
    op.create_index("ix_compaction_queue_state", "compaction_queue", ["state", "pool", "id"])
    op.create_index("ix_compaction_queue_table_id_partition", "compaction_queue", ["table_id", "partition"])
    op.create_table(
        "completed_compactions",
        *_columns(),
        sa.Column("ended_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_completed_compactions")),
    )
    op.create_index(
        "ix_completed_compactions_table_id_partition", "completed_compactions", ["table_id", "partition", "id"]
    )
    op.create_index("ix_completed_compactions_state", "completed_compactions", ["state"])
    counters = sa.table("counters", sa.column("name"), sa.column("value"))
    op.bulk_insert(counters, [{"name": "compaction", "value": 0}])


def downgrade() -> None:
    """Undo it. The queue and the history are lost."""
    counters = sa.table("counters", sa.column("name"))
    op.execute(sa.delete(counters).where(counters.c.name == "compaction"))
    op.drop_table("completed_compactions")
    op.drop_table("compaction_queue")
