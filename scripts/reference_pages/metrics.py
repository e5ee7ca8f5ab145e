"""The page of metrics, from the table of gauges and that of the Hive Metastore endpoint."""

from __future__ import annotations

from airflow_hivex.core.thrift.server import METRICS
from airflow_hivex.hooks.metrics import GAUGES, PREFIX
from scripts.reference_pages.markdown import cell, table

_INTRODUCTION = """\
# Metrics

<!-- Written by `make format` from airflow_hivex/hooks/metrics.py and airflow_hivex/core/thrift/server.py. -->

## Gauges of Airflow

`HivexHousekeepingOperator` sends them after each round, with Airflow's own metrics and under the prefix of these.
[See the state of the warehouse in metrics and notifications](../how-to/metrics-and-notifications.md) has the
configuration and a dashboard. A name in angle brackets stands for that of a namespace, a cluster or a state.
"""
_ENDPOINT = """
## Metrics of the Hive Metastore endpoint

`hivex metastore serve --http-port PORT` answers `/metrics` in the text form of Prometheus
([serve clients of Hive](../how-to/hive-clients.md#watch-it)). The label `method` is the name of a call, and `outcome`
is `ok` or the class of the error. A name, or a label, is there as soon as a call has been counted.
"""


def page() -> str:
    """Return the page."""
    gauges = [(f"`{PREFIX}.{each.name}`", each.unit, cell(each.value)) for each in GAUGES]
    served = [
        (f"`{name}`", each.kind, ", ".join(f"`{label}`" for label in each.labels), cell(each.value))
        for name, each in METRICS.items()
    ]
    return "\n".join(
        [
            _INTRODUCTION,
            table(("gauge", "unit", "value"), gauges) + _ENDPOINT,
            table(("metric", "kind", "labels", "value"), served),
        ]
    )
