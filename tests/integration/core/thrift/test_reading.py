from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hive_metastore import ttypes
from thrift.Thrift import TApplicationException

from airflow_hivex.core.metastore import Metastore
from tests import evidence
from tests.hive_endpoint import Serving, hive_client, partition, serving, table


def make_partitioned(hive: Any, database: str = "default", name: str = "p") -> None:
    hive.create_table(table(database, name, keys={"ds": "string", "hr": "int"}))
    hive.add_partitions([partition(database, name, f"2026-01-0{day}", str(hour)) for day in (1, 2) for hour in (1, 2)])


def values(found: list[Any]) -> list[list[str]]:
    return [each.values for each in found]


def test_table_comes_back_as_it_was_created(hive: Any, tmp_path: Path) -> None:
    hive.create_table(table("default", "T", parameters={"k": "v", "spark.sql.create.version": "4.3.0"}))
    found = hive.get_table("DEFAULT", "t")
    assert (found.dbName, found.tableName, found.tableType, found.owner) == ("default", "t", "MANAGED_TABLE", "ann")
    assert [(each.name, each.type) for each in found.sd.cols] == [("id", "bigint"), ("name", "string")]
    assert found.sd.location == f"file://{tmp_path}/c1/default.db/t"
    assert (tmp_path / "c1/default.db/t").is_dir()
    assert found.parameters["k"] == "v"
    assert found.parameters["spark.sql.create.version"] == "4.3.0"
    assert int(found.parameters["transient_lastDdlTime"]) > 0
    assert found.sd.inputFormat.endswith("OrcInputFormat")
    assert found.sd.serdeInfo.serializationLib.endswith("OrcSerde")


def test_missing_objects_have_the_exceptions_of_hive(hive: Any) -> None:
    with pytest.raises(ttypes.NoSuchObjectException):
        hive.get_table("default", "missing")
    with pytest.raises(ttypes.NoSuchObjectException):
        hive.get_database("missing")
    assert hive.get_all_tables("missing") == []
    hive.create_table(table("default", "t"))
    with pytest.raises(ttypes.AlreadyExistsException):
        hive.create_table(table("default", "t"))


def test_partitions_are_found_by_values_names_and_filters(hive: Any) -> None:
    make_partitioned(hive)
    found = hive.get_partition("default", "p", ["2026-01-01", "2"])
    assert found.values == ["2026-01-01", "2"]
    assert found.sd.location.endswith("/p/ds=2026-01-01/hr=2")
    assert hive.get_partition_by_name("default", "p", "ds=2026-01-01/hr=2").values == found.values
    assert len(hive.get_partitions("default", "p", -1)) == 4
    assert len(hive.get_partitions("default", "p", 3)) == 3
    assert hive.get_partition_names("default", "p", 1) == ["ds=2026-01-01/hr=1"]
    assert values(hive.get_partitions_ps("default", "p", ["", "2"], -1)) == [["2026-01-01", "2"], ["2026-01-02", "2"]]
    named = ["ds=2026-01-02/hr=1", "ds=2026-01-09/hr=1", "hr=2/ds=2026-01-01"]
    assert values(hive.get_partitions_by_names("default", "p", named)) == [["2026-01-01", "2"], ["2026-01-02", "1"]]
    for text, count in {
        'ds = "2026-01-01"': 2,
        'ds != "2026-01-01" and hr >= 2': 1,
        '(ds = "2026-01-01" or hr = 2)': 3,
        "(hr) in (1, 7)": 2,
        '(ds) not in ("2026-01-01")': 2,
        'ds like ".*-02"': 2,
        "": 4,
    }.items():
        assert len(hive.get_partitions_by_filter("default", "p", text, -1)) == count, text
        # Again, from memory.
        assert len(hive.get_partitions_by_filter("default", "p", text, -1)) == count, text
    with pytest.raises(ttypes.MetaException, match="parsing partition filter"):
        hive.get_partitions_by_filter("default", "p", "ds = = 1", -1)
    with pytest.raises(ttypes.NoSuchObjectException):
        hive.get_partition("default", "p", ["2026-01-09", "2"])


def test_expression_of_java_gets_all_partitions_and_says_so(hive: Any) -> None:
    make_partitioned(hive)
    request = ttypes.PartitionsByExprRequest("default", "p", b"\xac\xed\x00\x05")
    found = hive.get_partitions_by_expr(request)
    assert (len(found.partitions), found.hasUnknownPartitions) == (4, True)
    found = hive.get_partitions_by_expr(ttypes.PartitionsByExprRequest("default", "p", b"hr = 1"))
    assert (len(found.partitions), found.hasUnknownPartitions) == (2, False)


def test_repeated_reads_come_from_memory_until_something_changes(hive: Any, endpoint: Serving) -> None:
    hive.create_table(table("default", "t", tableType="EXTERNAL_TABLE"))
    first = hive.get_table("default", "t")
    while 'calls_from_memory_total{method="get_table"}' not in endpoint.server.metrics.text():
        # The entry is read again when the cache learns of the creation.
        assert hive.get_table("default", "t") == first
    first.parameters["new"] = "yes"
    hive.alter_table("default", "t", first)
    assert hive.get_table("default", "t").parameters["new"] == "yes"
    hive.drop_table("default", "t", False)
    with pytest.raises(ttypes.NoSuchObjectException):
        hive.get_table("default", "t")


def test_transactional_table_needs_a_write_id_list(hive: Any, metastore: Metastore) -> None:
    with metastore.session(user="ann") as session:
        session.sql("CREATE TABLE acid (id INT, note STRING)")
        session.sql("INSERT INTO acid VALUES (1, 'a')")
    # A client asks for a table before it drops it, and reads no files of one without a location.
    for found in (
        hive.get_table("default", "acid"),
        hive.get_table_req(ttypes.GetTableRequest("default", "acid")).table,
    ):
        assert (found.sd.location, found.accessType) == (None, 1)
        assert [each.name for each in found.sd.cols] == ["id", "note"]
    assert hive.get_all_tables("default") == ["acid"]
    listed = hive.get_valid_write_ids(ttypes.GetValidWriteIdsRequest(["default.acid"])).tblValidWriteIds[0]
    text = f"default.acid:{listed.writeIdHighWaterMark}:{listed.minOpenWriteId}::"
    for _ in range(2):
        found = hive.get_table_req(ttypes.GetTableRequest("default", "acid", validWriteIdList=text)).table
        assert found.parameters["transactional"] == "true"
    other = text.replace("acid", "other")
    with pytest.raises(ttypes.MetaException, match="not a list of table"):
        hive.get_table_req(ttypes.GetTableRequest("default", "acid", validWriteIdList=other))
    hive.drop_table("default", "acid", True)
    assert hive.get_all_tables("default") == []


def test_list_of_tables_has_transactional_ones_without_their_place(hive: Any, metastore: Metastore) -> None:
    with metastore.session(user="ann") as session:
        session.sql("CREATE TABLE acid (id INT, note STRING)")
    hive.create_table(table("default", "plain", tableType="EXTERNAL_TABLE"))
    names = ["plain", "acid", "nope"]
    plain = hive.get_table("default", "plain")
    for found in (
        hive.get_table_objects_by_name("default", names),
        hive.get_table_objects_by_name_req(ttypes.GetTablesRequest("default", names)).tables,
    ):
        assert found[0] == plain
        assert (found[1].tableName, found[1].sd.location, found[1].accessType) == ("acid", None, 1)
        assert [column.name for column in found[1].sd.cols] == ["id", "note"]
        assert len(found) == 2
    capable = [
        {"capabilities": ttypes.ClientCapabilities([ttypes.ClientCapability.INSERT_ONLY_TABLES])},
        {"processorCapabilities": ["HIVEFULLACIDREAD"]},
    ]
    for given in capable:
        found = hive.get_table_objects_by_name_req(ttypes.GetTablesRequest("default", names, **given)).tables
        assert found[1].sd.location.endswith("/default.db/acid")


def test_client_that_names_no_cluster_sees_the_default_location(
    endpoint: Serving, metastore: Metastore, tmp_path: Path
) -> None:
    with hive_client(endpoint.port) as hive:
        hive.create_table(table("@c2#default", "t", tableType="EXTERNAL_TABLE"))
        found = hive.get_table("default", "t")
        # Not on the default cluster: the primary's location.
        assert found.sd.location == f"file://{tmp_path}/c2/default.db/t"
        assert found.sd.parameters["hivex.cluster"] == "c2"
        assert found.sd.parameters["hivex.cluster.is.primary"] == "true"
        echoed = hive.get_table("@c2#default", "t")
        assert (echoed.dbName, echoed.sd.location) == ("@c2#default", found.sd.location)
        with pytest.raises(ttypes.NoSuchObjectException, match="has no copy on cluster c1"):
            hive.get_table("@c1#default", "t")
        hive.setMetaConf("hivex.cluster", "c1")
        assert hive.getMetaConf("hivex.cluster") == "c1"
        with pytest.raises(ttypes.NoSuchObjectException, match="cluster c1"):
            hive.get_table("default", "t")
        assert hive.get_table("@c2#default", "t").sd.location == found.sd.location
        with pytest.raises(ttypes.MetaException):
            hive.setMetaConf("hive.other", "1")
        with pytest.raises(ttypes.MetaException, match="c9"):
            hive.setMetaConf("hivex.cluster", "c9")
    with hive_client(endpoint.port, "ann@c2") as hive:
        assert hive.get_table("default", "t").sd.location == found.sd.location
        hive.create_table_with_environment_context(
            table("default", "u"), ttypes.EnvironmentContext({"hivex.cluster": "c1"})
        )
        assert metastore.catalog.get_table("default", "u").storage.primary.cluster == "c1"
        hive.create_table(table("default", "v"))
        assert metastore.catalog.get_table("default", "v").storage.primary.cluster == "c2"
    with serving(metastore, "c1") as of_c1, hive_client(of_c1.port) as hive:
        with pytest.raises(ttypes.NoSuchObjectException, match="cluster c1"):
            hive.get_table("default", "t")
        assert hive.get_database("default").locationUri == f"file://{tmp_path}/c1/default.db"
        assert hive.get_table("default", "u").sd.parameters["hivex.cluster"] == "c1"


def test_link_is_listed_and_described_as_a_table(hive: Any, metastore: Metastore) -> None:
    with metastore.session(user="ann") as session:
        session.sql("CREATE DATABASE y")
        session.sql("CREATE TABLE y.t (id INT)")
        session.sql("CREATE DATABASE x")
        session.sql("USE x")
        session.sql("CREATE LINK TO t@y")
    assert hive.get_all_tables("x") == ["t@y"]
    assert hive.get_tables("x", "t*") == ["t@y"]
    with pytest.raises(ttypes.MetaException, match="transactional"):
        hive.get_table("x", "t@y")
    ids = metastore.transactions.valid_write_ids(["y.t"], metastore.transactions.valid_txns())["y.t"]
    found = hive.get_table_req(ttypes.GetTableRequest("x", "t@y", validWriteIdList=str(ids))).table
    assert (found.dbName, found.tableName, found.parameters["hivex.link"]) == ("x", "t@y", "y.t")
    with pytest.raises(ttypes.MetaException, match="is a link"):
        hive.drop_table("x", "t@y", True)


def test_tables_of_other_formats_are_data_sources_for_spark(hive: Any, metastore: Metastore, tmp_path: Path) -> None:
    with metastore.session(user="ann") as session:
        session.sql(
            f"CREATE TABLE csv_table (id INT, tags ARRAY<STRING>, s STRUCT<a: INT, b: VARCHAR(3)>) USING json "
            f"LOCATION '{tmp_path}/c1/files'"
        )
    found = hive.get_table("default", "csv_table")
    assert found.tableType == "EXTERNAL_TABLE"
    assert found.parameters["EXTERNAL"] == "TRUE"
    assert found.parameters["spark.sql.sources.provider"] == "json"
    assert '"elementType":"string"' in found.parameters["spark.sql.sources.schema.part.0"]
    assert found.sd.serdeInfo.parameters["path"] == found.sd.location


def test_unknown_method_is_named_and_the_connection_lives_on(hive: Any) -> None:
    with pytest.raises(TApplicationException) as raised:
        hive.get_type("int")
    assert raised.value.type == TApplicationException.UNKNOWN_METHOD
    assert "get_type" in str(raised.value.message)
    assert "default" in hive.get_all_databases()


def test_framed_clients_are_served_on_the_same_port(endpoint: Serving) -> None:
    with hive_client(endpoint.port, framed=True) as hive:
        hive.create_table(table("default", "t"))
        assert hive.get_table("default", "t").tableName == "t"


MANY = evidence.amount("HIVEX_ENDPOINT_PARTITIONS", 600, 10_000)


@pytest.mark.evidence
def test_many_partitions_are_added_read_and_named(hive: Any, endpoint: Serving) -> None:
    hive.create_table(table("default", "many", keys={"n": "int"}))
    for start in range(0, MANY, 2_500):
        numbers = range(start, min(start + 2_500, MANY))
        hive.add_partitions([partition("default", "many", str(n)) for n in numbers])
    assert len(hive.get_partition_names("default", "many", -1)) == MANY
    names = [f"n={n}" for n in range(MANY)]
    for _ in range(2):
        assert len(hive.get_partitions_by_names("default", "many", names)) == MANY
    assert len(hive.get_partitions_by_filter("default", "many", f"n >= {MANY - 10}", -1)) == 10
    with hive_client(endpoint.port) as other:
        assert len(other.get_partitions("default", "many", -1)) == MANY
