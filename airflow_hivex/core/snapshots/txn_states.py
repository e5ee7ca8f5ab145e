"""The conditions that a transaction is open, or aborted, as indexes of both databases answer them."""

from __future__ import annotations

from sqlalchemy import and_, literal_column

from airflow_hivex.core.store.schema import txns

# Written out, so that both databases see that the index of unsettled transactions answers it. PostgreSQL concludes
# the second half from the first one; SQLite uses a partial index only for a query that has its condition.
_IS_UNSETTLED = txns.c.state != literal_column("'c'")
IS_OPEN = and_(txns.c.state == literal_column("'o'"), _IS_UNSETTLED)
IS_ABORTED = and_(txns.c.state == literal_column("'a'"), _IS_UNSETTLED)
