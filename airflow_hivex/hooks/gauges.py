"""The gauges that the housekeeping sends: their names, and what their values mean."""

from __future__ import annotations

from typing import NamedTuple

PREFIX = "hivex"


class Gauge(NamedTuple):
    """A gauge. Words in angle brackets stand for names, such as that of a cluster."""

    name: str
    unit: str
    value: str


GAUGES = (
    Gauge("transactions.open", "", "open transactions"),
    Gauge("transactions.oldest_s", "seconds", "the age of the oldest open transaction; 0 if there is none"),
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
