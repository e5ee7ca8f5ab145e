"""The sensor of quotas, as Airflow runs it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_hivex.hooks.hivex import HivexHook
from airflow_hivex.sensors.capacity import HivexQuotaSensor
from airflow_hivex.triggers.capacity import HivexQuotaTrigger
from tests.airflow.runs import context

if TYPE_CHECKING:
    from airflow_hivex.core.metastore import Metastore

pytestmark = pytest.mark.airflow


@pytest.fixture
def metastore(warehouse: dict[str, Any]) -> Metastore:
    found = HivexHook().get_metastore()
    with found.session() as session:
        session.sql("CREATE TABLE t (id INT)")
        session.sql("INSERT INTO t VALUES (1)")
    return found


def look(**arguments: Any) -> Any:
    return HivexQuotaSensor(task_id="wait", **arguments).poke(context()).xcom_value


def test_sensor_waits_until_a_quota_has_reached_its_warning_level(metastore: Metastore) -> None:
    (before,) = metastore.capacity.show("default")
    quota = metastore.capacity.set_quota("default", before.used_bytes * 3, warning_percent=50)
    assert look(namespace="default") is None
    assert look(percent="30")["quotas"][0]["used_percent"] == 33.3
    trigger = HivexQuotaTrigger(hivex_conn_id="hivex_default", poll_interval=0.05)
    path, arguments = trigger.serialize()
    assert path.endswith("HivexQuotaTrigger")

    def insert() -> None:
        with metastore.session() as session:
            session.sql("INSERT INTO t VALUES (2)")

    async def waits() -> Any:
        waiting = asyncio.ensure_future(anext(HivexQuotaTrigger(**arguments).run()))
        await asyncio.to_thread(insert)
        return (await asyncio.wait_for(waiting, 30)).payload

    (quota_facts,) = asyncio.run(waits())["answer"]["quotas"]
    assert quota_facts == look(cluster=quota.cluster)["quotas"][0]
    (after,) = metastore.capacity.show("default")
    assert quota_facts == {
        "namespace": "default",
        "cluster": quota.cluster,
        "status": "warning",
        "used_bytes": after.used_bytes,
        "quota_bytes": quota.size_bytes,
        "warning_percent": 50,
        "used_percent": 66.7,
        "largest_tables": ["t"],
    }


def test_sensor_without_anything_to_wait_for_fails(metastore: Metastore) -> None:
    for arguments, match in (
        ({}, "no quota to wait for"),
        ({"namespace": "nothing"}, "nothing"),
        ({"cluster": "c9"}, "c9"),
        ({"percent": "many"}, "percent = 'many'"),
        ({"percent": -1}, "percent = -1"),
        ({"percent": "nan"}, "percent = 'nan'"),
    ):
        with pytest.raises(AirflowFailException, match=match):
            look(**arguments)
