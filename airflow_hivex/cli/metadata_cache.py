"""``hivex metastore cache``: the caches of all processes that follow the notification log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hivex.cli.output import printer
from airflow_hivex.core.session import Result

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping

    from airflow_hivex.core.metastore import Metastore

COLUMNS = ("host", "process", "started", "seen", "lag", "tables", "used_bytes", "max_bytes", "hits", "misses")


def show_caches(metastore: Metastore, options: argparse.Namespace, report: Callable[[str], None]) -> int:
    """Print one row a process: its lag in events, its memory, its hits, and its misses by reason."""
    current = metastore.notification_log.current_event_id()
    rows: list[tuple[object, ...]] = [
        (
            each.host,
            each.process_id,
            each.started_at,
            each.seen_at,
            max(0, current - each.event_id),
            each.counts.get("tables"),
            each.counts.get("used_bytes"),
            each.counts.get("most_bytes"),
            _hits(each.counts),
            _misses(each.counts),
        )
        for each in metastore.registered_caches()
    ]
    printer(options.format)(Result(list(COLUMNS), rows))
    report(f"the newest event of the notification log is {current}")
    return 0


def _hits(counts: Mapping[str, Any]) -> str:
    return ", ".join(f"{kind}: {count}" for kind, count in sorted(counts.get("hits", {}).items()))


def _misses(counts: Mapping[str, Any]) -> str:
    return ", ".join(f"{each['kind']} {each['reason']}: {each['count']}" for each in counts.get("misses", ()))
