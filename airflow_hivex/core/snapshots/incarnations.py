"""The incarnation of a metastore: a number that changes when its database was restored from a backup.

Transaction ids, write ids, versions and event ids go on from the backup, so that they repeat those of changes that the
restore has lost. What a process remembers is of use in the same incarnation only. A snapshot has the incarnation.
"""

from __future__ import annotations

import secrets

from sqlalchemy import BigInteger, Connection, ScalarSelect, cast, insert, literal_column, select, update

from airflow_hivex.core.store.schema import counters

_IS_OURS = counters.c.name == literal_column("'incarnation'")


def read() -> ScalarSelect[int]:
    """Return the incarnation as a part of a statement, NULL before the first restore."""
    return select(cast(counters.c.value, BigInteger)).where(_IS_OURS).scalar_subquery()


def begin(connection: Connection) -> None:
    """Begin another incarnation, in the caller's transaction. At most two round trips."""
    number = secrets.randbits(62) + 1
    if not connection.execute(update(counters).where(_IS_OURS).values(value=number)).rowcount:
        connection.execute(insert(counters).values(name="incarnation", value=number))
