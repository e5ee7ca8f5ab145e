"""The state of a metastore as gauges of Airflow's metrics."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from airflow.sdk import conf

from airflow_hivex.core.errors import HivexError

if TYPE_CHECKING:
    from airflow_hivex.core.metastore import Metastore


log = logging.getLogger(__name__)


def read_metrics(metastore: Metastore) -> dict[str, float]:
    """Return a dict from the name of a gauge to its current value in a metastore. About ten round trips."""
    from airflow_hivex.core.clock import to_datetime
    from airflow_hivex.core.model.compaction import CompactionState
    from airflow_hivex.core.model.locks import LockState
    from airflow_hivex.core.model.transactions import TxnState

    now_ms = metastore.services.clock()
    now = to_datetime(now_ms).timestamp()
    started = [each.started_at.timestamp() for each in metastore.transactions.show() if each.state is TxnState.OPEN]
    states = Counter(entry.state for entry in metastore.compactor.show())
    numbers: dict[str, float] = {
        "transactions.open": len(started),
        "transactions.oldest_s": max(0.0, now - min(started)) if started else 0,
        "locks.waiting": sum(lock.state is LockState.WAITING for lock in metastore.locks.show()),
    }
    numbers |= {f"compactions.{state.name.lower()}": states[state] for state in CompactionState}
    for use in metastore.capacity.show():
        numbers[f"namespaces.{use.namespace}.{use.cluster}.bytes"] = use.used_bytes
    for lag in metastore.catalog_listing.copy_lags():
        lag_s = 0 if lag.oldest_ms is None else max(0, now_ms - lag.oldest_ms) / 1000
        numbers[f"replication.{lag.cluster}.lag_s"] = lag_s
        numbers[f"replication.{lag.cluster}.lagging_tables"] = lag.lagging_tables
    if metastore.cache is not None:
        cache = metastore.cache.state()
        numbers |= {"cache.hits": sum(cache.hits.values()), "cache.misses": sum(cache.misses.values())}
    return {f"{PREFIX}.{name}": number for name, number in numbers.items()}


def send_metrics(metastore: Metastore) -> None:
    """Send the gauges of a metastore to Airflow's metrics, unless ``[hivex] metrics`` is false. Log a failure."""
    if not conf.getboolean("hivex", "metrics", fallback=True):
        return
    from airflow.sdk.observability import stats

    try:
        numbers = read_metrics(metastore)
    except HivexError as error:
        log.warning("The metrics of the metastore were not sent: %s", error)
        return
    for name, number in numbers.items():
        stats.gauge(stats.normalize_name_for_stats(name, log_warning=False), number)


PREFIX = "hivex"


class Gauge(NamedTuple):
    """The name, unit and meaning of a gauge. A word in angle brackets stands for a name, such as a cluster's name."""

    name: str
    unit: str
    value: str


GAUGES = (
    Gauge("transactions.open", "", "open transactions"),
    Gauge("transactions.oldest_s", "seconds", "the age of the oldest open transaction; 0 without one"),
    Gauge("locks.waiting", "", "locks that wait"),
    Gauge(
        "compactions.<state>",
        "",
        "compactions in each state: `initiated`, `working`, `ready_for_cleaning`, `succeeded`, `failed`, `refused`, "
        "`aborted` and `did_not_initiate`; the ended ones as long as the history keeps them",
    ),
    Gauge("namespaces.<namespace>.<cluster>.bytes", "bytes", "bytes that count for the quota of the namespace"),
    Gauge(
        "replication.<cluster>.lag_s",
        "seconds",
        "the lag of copies on the cluster: the age of the oldest files that one of them lacks; 0 if all are current",
    ),
    Gauge("replication.<cluster>.lagging_tables", "", "tables of which a copy on the cluster lacks files"),
    Gauge("cache.hits", "", "reads that the cache of metadata has answered in the process of the task"),
    Gauge("cache.misses", "", "reads of the process of the task that the database has answered"),
)
