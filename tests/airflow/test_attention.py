"""The reports of the warehouse about its state to people and metrics."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import BaseNotifier
from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger
from airflow.sdk.observability import stats

from airflow_hivex.core.model.locks import DataOperation, LockComponent, LockType
from airflow_hivex.hooks.hivex import HivexHook
from airflow_hivex.notifications.attention import HivexAttentionNotifier
from airflow_hivex.operators.compaction import HivexHousekeepingOperator
from tests.integration.test_documentation import blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow.sdk import Context

DOCS = Path(__file__).parents[2] / "docs"

pytestmark = pytest.mark.airflow


class Kept(BaseNotifier):
    template_fields = ("text",)

    def __init__(self, texts: list[str]) -> None:
        super().__init__()
        self.text = "{{ hivex_attention }}"
        self.texts = texts

    def notify(self, context: Context) -> None:
        self.texts.append(self.text)


class Gauges(NoStatsLogger):
    """A logger of metrics that keeps the last value of each gauge."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}

    def gauge(self, stat: str, value: float, *arguments: Any, **options: Any) -> None:  # type: ignore[override]
        self.values[stat] = value


@pytest.fixture
def gauges() -> Iterator[dict[str, float]]:
    from airflow.sdk.observability.metrics.stats_utils import get_stats_factory

    found = Gauges()
    stats.initialize(factory=lambda: found, export_legacy_names=False)  # type: ignore[arg-type,return-value]
    yield found.values
    stats.initialize(factory=get_stats_factory(), export_legacy_names=True)


def test_notifier_reports_old_transactions_and_failed_compactions_only(warehouse: dict[str, Any]) -> None:
    metastore = HivexHook().get_metastore()
    texts: list[str] = []
    notifier = HivexAttentionNotifier(notifiers=[Kept(texts)], open_for=timedelta(0))
    notifier({})
    assert texts == []
    (txn_id,) = metastore.transactions.open(agent_info="load.orders run 1")
    HivexAttentionNotifier(notifiers=[Kept(texts)])({})
    assert texts == []
    notifier({})
    (text,) = texts
    assert text.startswith(f"Transaction {txn_id} of load.orders run 1 is open since ")
    metastore.abort(txn_id)
    HivexHook().run("CREATE TABLE t (id INT)")
    metastore.compactor.request("default", "t", type="major")
    entry = metastore.compactor.queue.next_entry("worker-1")
    assert entry is not None
    metastore.compactor.queue.mark_failed(entry, "disk full")
    notifier({})
    assert texts[1:] == [f"Compaction {entry.id} of default.t has failed: disk full"]
    HivexAttentionNotifier(notifiers=[Kept(texts)], failed_within=timedelta(0))({})
    assert len(texts) == 2


def test_notifier_reports_quotas_from_their_warning_level_on(warehouse: dict[str, Any]) -> None:
    metastore = HivexHook().get_metastore()
    HivexHook().run("CREATE DATABASE shop; CREATE TABLE shop.sales (id INT); INSERT INTO shop.sales VALUES (1)")
    (used,) = (each.used_bytes for each in metastore.capacity.show("shop"))
    texts: list[str] = []
    notifier = HivexAttentionNotifier(notifiers=[Kept(texts)])
    metastore.capacity.set_quota("shop", used * 2)
    notifier({})
    assert texts == []
    metastore.capacity.set_quota("shop", used * 2, warning_percent=50)
    notifier({})
    assert texts == [f"Namespace shop holds {used:,} of {used * 2:,} bytes on cluster c1, 50 % of its quota."]


def test_housekeeping_sends_the_numbers_of_the_metastore(
    warehouse: dict[str, Any], gauges: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = HivexHook()
    hook.run("CREATE DATABASE shop; CREATE TABLE shop.sales (id INT); INSERT INTO shop.sales VALUES (1)")
    metastore = hook.get_metastore()
    metastore.replicator.replicate("shop.sales", "c2")
    metastore.compactor.request("shop", "sales", type="major")
    first, second = metastore.transactions.open(2)
    component = LockComponent("shop", "sales", type=LockType.EXCLUSIVE, operation=DataOperation.UPDATE)
    metastore.locks.acquire([component], first)
    metastore.locks.acquire([component], second, wait=False)
    monkeypatch.setenv("AIRFLOW__HIVEX__METRICS", "False")
    HivexHousekeepingOperator(task_id="t").execute({})
    assert gauges == {}
    monkeypatch.delenv("AIRFLOW__HIVEX__METRICS")
    HivexHousekeepingOperator(task_id="t").execute({})
    assert gauges["hivex.transactions.open"] == 2
    assert gauges["hivex.locks.waiting"] == 1
    assert gauges["hivex.compactions.initiated"] == 1
    assert gauges["hivex.namespaces.shop.c1.bytes"] > 0
    assert gauges["hivex.cache.misses"] >= 0
    assert (gauges["hivex.replication.c2.lag_s"], gauges["hivex.replication.c2.lagging_tables"]) == (0, 0)
    assert "hivex.replication.c1.lag_s" not in gauges


def test_dashboard_and_page_have_all_metrics_under_their_names(
    warehouse: dict[str, Any], gauges: dict[str, float]
) -> None:
    hook = HivexHook()
    hook.run("CREATE TABLE t (id INT); INSERT INTO t VALUES (1)")
    metastore = hook.get_metastore()
    metastore.replicator.replicate("t", "c2")
    hook.run("INSERT INTO t VALUES (2)")
    HivexHousekeepingOperator(task_id="t").execute({})
    (lagging,) = (each for each in metastore.replicator.copies("t") if not each.is_primary)
    assert lagging.lag_ms is not None
    assert 0 < gauges["hivex.replication.c2.lag_s"] <= lagging.lag_ms / 1000
    assert gauges["hivex.replication.c2.lagging_tables"] == 1
    dashboard = json.loads((DOCS / "dashboards" / "grafana.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    names = (name for query in queries for name in re.findall(r"\$\{prefix\}_hivex_(?:\w|\.\+|\(\.\+\))+", query))
    shown = {name.replace("${prefix}", "airflow") for name in names}
    # As the exporter of StatsD names them, with Airflow's prefix.
    sent = {f"airflow.{name}".replace(".", "_") for name in gauges}
    assert [name for name in shown if not any(re.fullmatch(name, each) for each in sent)] == []
    assert [name for name in sent if not any(re.fullmatch(each, name) for each in shown)] == []
    page = (DOCS / "reference" / "metrics.md").read_text()
    listed = [re.sub(r"<[a-z]+>", "[^.]+", name) for name in re.findall(r"`(hivex\.[a-z_.<>]+)`", page)]
    states = {name.rpartition(".")[2] for name in gauges if ".compactions." in name}
    assert [state for state in states if f"`{state}`" not in page] == []
    assert [name for name in listed if not any(re.fullmatch(name, each) for each in gauges)] == []
    assert [name for name in gauges if not any(re.fullmatch(each, name) for each in listed)] == []


def test_example_of_the_page_is_a_dag() -> None:
    (block,) = blocks(DOCS / "how-to" / "metrics-and-notifications.md", "python")
    names: dict[str, Any] = {}
    exec(block, names)
    (callback,) = names["dag"].get_task("housekeeping").on_success_callback
    assert isinstance(callback, HivexAttentionNotifier)
