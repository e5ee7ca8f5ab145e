from __future__ import annotations

from typing import Any

import pytest
from hive_metastore import ttypes

from airflow_hivex.core.metastore import Metastore
from tests.hive_endpoint import Serving, hive_client, table

LOAD_DONE = 1


def test_mark_is_seen_by_other_clients_and_names_its_keys_in_any_order(hive: Any, endpoint: Serving) -> None:
    hive.create_table(table("default", "t", keys={"ds": "string", "hr": "int"}))
    hive.markPartitionForEvent("default", "t", {"hr": "1", "ds": "a/b"}, LOAD_DONE)
    with hive_client(endpoint.port) as other:
        assert other.isPartitionMarkedForEvent("default", "t", {"ds": "a/b", "hr": "1"}, LOAD_DONE)
        assert not other.isPartitionMarkedForEvent("default", "t", {"ds": "a", "hr": "1"}, LOAD_DONE)


def test_partitions_of_transactional_tables_are_marked(hive: Any, metastore: Metastore) -> None:
    with metastore.session() as session:
        session.sql("CREATE TABLE m (id INT) PARTITIONED BY (ds STRING)")
    hive.markPartitionForEvent("default", "m", {"ds": "a"}, LOAD_DONE)
    assert hive.isPartitionMarkedForEvent("default", "m", {"ds": "a"}, LOAD_DONE)


def test_links_and_other_events_are_refused(hive: Any) -> None:
    hive.create_table(table("default", "t", keys={"ds": "string"}))
    for ask in (hive.markPartitionForEvent, hive.isPartitionMarkedForEvent):
        with pytest.raises(ttypes.MetaException, match="by the name of the source"):
            ask("default", "t@b", {"ds": "a"}, LOAD_DONE)
        with pytest.raises(ttypes.MetaException, match=r"2 is not a valid event.*1 \(LOAD_DONE\)"):
            ask("default", "t", {"ds": "a"}, 2)
        with pytest.raises(ttypes.InvalidPartitionException, match="are: ds; given are: ds, hr"):
            ask("default", "t", {"ds": "a", "hr": "1"}, LOAD_DONE)
