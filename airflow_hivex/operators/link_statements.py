"""Links that the statements of a task have created or altered: their inlets and asset events.

CREATE, ALTER and DROP LINK declare the same as the operators of ``operators/links.py``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_hivex.core.errors import HivexError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow.sdk import BaseOperator, Context

    from airflow_hivex.core.parser.inspection import Inspection
    from airflow_hivex.core.session import Result, Session
    from airflow_hivex.hooks.warehouse import WarehouseHook

log = logging.getLogger(__name__)

_CREATED = "CREATE LINK"
_ADDED = "ALTER LINK ADD PARTITION"
_KINDS = (_CREATED, _ADDED, "ALTER LINK DROP PARTITION", "ALTER LINK SET LINKPROPERTIES")


class LinkChange(NamedTuple):
    """A statement that has created or altered the link ``table@namespace`` of a database.

    ``shown`` are the partitions that the event of the link's asset names; None for no event.
    """

    database: str
    link: str
    source: str
    shown: list[str] | None = None


def link_change(hook: WarehouseHook, session: Session, statement: str, result: Result, try_number: int) -> list[Any]:
    """Return the changes of a statement that has run, in JSON's types: none or one.

    A second try finds changes of the first one, whose events may have been lost, so that it sends them. A failure is
    logged: the link has changed.
    """
    inspection = session.inspect(statement)[0]
    if inspection.kind not in _KINDS:
        return []
    try:
        return [list(_change(hook, session, inspection, result, is_retry=try_number > 1))]
    except HivexError as error:
        log.warning("The event of a link is not sent: %s", error)
        return []


def _change(
    hook: WarehouseHook, session: Session, inspection: Inspection, result: Result, *, is_retry: bool
) -> LinkChange:
    used = next(use for use in inspection.outputs if use.namespace)
    database, name = used.database or session.database, f"{used.name}@{used.namespace}"
    links = hook.get_metastore().links
    link = links.get(database, name)
    source = links.source(link)
    shown: list[str] | None = None
    # A statement that has found the link has no transaction. A link to a table with partitions shows none at first.
    if inspection.kind == _CREATED and (result.txn_id is not None or is_retry) and not source.is_partitioned:
        shown = []
    elif inspection.kind == _ADDED and (result.truncated or is_retry):
        shown = links.partitions(database, name)
    elif inspection.kind == _ADDED and result.rows:
        shown = [str(row[0]) for row in result.rows]
    return LinkChange(link.name.database, link.name.in_database, source.full_name, shown)


def declare_links(
    operator: BaseOperator, context: Context, hivex_conn_id: str, changes: Iterable[Any], *, with_events: bool
) -> None:
    """Declare the sources of links as inlets, and links that show more rows than before as outlets with an event."""
    from airflow_hivex.assets.hivex import table_uri
    from airflow_hivex.operators.asset_events import declare_tables, send_event

    shown: dict[tuple[str, str, str], set[str]] = {}
    for each in changes:
        change = LinkChange(*each)
        declare_tables(operator, hivex_conn_id, [change.source])
        if change.shown is not None:
            shown.setdefault((change.database, change.link, change.source), set()).update(change.shown)
    for (database, link, source), partitions in shown.items() if with_events else ():
        send_event(operator, context, table_uri(hivex_conn_id, database, link), {"source": source}, partitions)
