"""SHOW CAPACITY, and ALTER DATABASE ... SET and UNSET QUOTA."""

from __future__ import annotations

from airflow_hivex.core.execution.context import Result, StatementContext
from airflow_hivex.core.namespaces.capacity import DEFAULT_WARNING_PERCENT
from airflow_hivex.core.parser.statements import SetQuota, ShowCapacity

_AMOUNTS = ("owned_bytes", "owned_rows", "secondary_bytes", "obsolete_bytes")
_TOTALS = (
    "namespace",
    "cluster",
    *_AMOUNTS,
    "linked_bytes",
    "growth_7d_bytes",
    "quota_bytes",
    "warning_percent",
    "status",
)


def show_capacity(context: StatementContext, statement: ShowCapacity) -> Result:
    """SHOW CAPACITY: one row for each namespace and cluster; BY splits it by table or link, format, or age."""
    capacity = context.services.capacity
    asked = (statement.database, statement.cluster)
    if statement.by is not None:
        shares = {"TABLE": capacity.by_table, "FORMAT": capacity.by_format, "AGE": capacity.by_age}[statement.by](
            *asked
        )
        columns = ["namespace", "cluster", statement.by.lower(), *_AMOUNTS]
        found: list[tuple[object, ...]] = [
            (each.namespace, each.cluster, each.name, *(getattr(each.amounts, name) for name in _AMOUNTS))
            for each in shares
        ]
        if statement.by != "TABLE":
            return Result(columns, found)
        found = [(*row, 0) for row in found]
        found += [
            (each.namespace, each.cluster, each.link, *(0 for _ in _AMOUNTS), each.size_bytes)
            for each in capacity.by_link(*asked)
        ]
        # The links of a namespace and cluster stand behind its tables.
        return Result([*columns, "linked_bytes"], sorted(found, key=lambda row: (str(row[0]), str(row[1]))))
    rows: list[tuple[object, ...]] = [
        (
            each.namespace,
            each.cluster,
            *(getattr(each.amounts, name) for name in _AMOUNTS),
            each.linked_bytes,
            each.growth_7d_bytes,
            None if each.quota is None else each.quota.size_bytes,
            None if each.quota is None else each.quota.warning_percent,
            each.status,
        )
        for each in capacity.show(*asked)
    ]
    return Result(list(_TOTALS), rows)


def set_quota(context: StatementContext, statement: SetQuota) -> Result:
    """ALTER DATABASE ... SET and UNSET QUOTA."""
    capacity = context.services.capacity
    if statement.size_bytes is None:
        capacity.drop_quota(statement.database, statement.cluster)
    else:
        percent = DEFAULT_WARNING_PERCENT if statement.warning_percent is None else statement.warning_percent
        capacity.set_quota(statement.database, statement.size_bytes, statement.cluster, percent)
    return Result()
