"""Calls as Trino, Iceberg and pyiceberg send them."""

from __future__ import annotations

from typing import Any

import pytest
from hive_metastore import ttypes

from airflow_hivex.core.errors import HivexError
from airflow_hivex.core.metastore import Metastore
from tests.hive_endpoint import hive_client, partition, serving, table


def test_unknown_parameters_have_the_default_of_the_client(hive: Any) -> None:
    assert hive.get_config_value("hive.metastore.thrift.uris", "none") == "none"
    assert hive.get_config_value("metastore.metadb.dir", "x") == "x"
    with pytest.raises(ttypes.ConfigValSecurityException):
        hive.get_config_value("javax.jdo.option.ConnectionPassword", "x")


def test_statistics_of_single_columns_are_deleted(hive: Any) -> None:
    hive.create_table(table("default", "p", keys={"k": "string"}))
    hive.add_partition(partition("default", "p", "a"))
    data = ttypes.ColumnStatisticsData(longStats=ttypes.LongColumnStatsData(1, 9, 2, 7))
    text = ttypes.ColumnStatisticsData(stringStats=ttypes.StringColumnStatsData(5, 2.5, 1, 3))
    objects = [ttypes.ColumnStatisticsObj("id", "bigint", data), ttypes.ColumnStatisticsObj("name", "string", text)]

    def described(part: str | None = None) -> Any:
        return ttypes.ColumnStatistics(ttypes.ColumnStatisticsDesc(part is None, "default", "p", part), objects)

    def columns() -> list[str]:
        found = hive.get_table_statistics_req(ttypes.TableStatsRequest("default", "p", ["id", "name"])).tableStats
        return [each.colName for each in found]

    hive.update_table_column_statistics(described())
    assert hive.delete_table_column_statistics("default", "p", "Id", None)
    assert columns() == ["name"]
    with pytest.raises(ttypes.NoSuchObjectException):
        hive.delete_table_column_statistics("default", "p", "id", None)
    assert hive.delete_table_column_statistics("default", "p", None, None)
    assert columns() == []
    hive.update_partition_column_statistics(described("k=a"))
    assert hive.delete_partition_column_statistics("default", "p", "k=a", "name", None)
    request = ttypes.PartitionsStatsRequest("default", "p", ["id", "name"], ["k=a"])
    (found,) = hive.get_partitions_statistics_req(request).partStats["k=a"]
    assert found.colName == "id"
    with pytest.raises(ttypes.NoSuchObjectException, match="k=missing"):
        hive.update_partition_column_statistics(described("k=missing"))
    with pytest.raises(ttypes.NoSuchObjectException, match="k=missing"):
        hive.delete_partition_column_statistics("default", "p", "k=missing", "name", None)


def test_tables_are_found_by_their_parameters(hive: Any) -> None:
    hive.create_table(table("default", "a", parameters={"Flag": "true"}))
    hive.create_table(table("default", "b", parameters={"flag": "false"}, owner="bob"))
    hive.create_table(table("default", "c"))

    def found(text: str, most: int = -1) -> list[str]:
        return list(hive.get_table_names_by_filter("default", text, most))

    of_flag = "hive_filter_field_params__flag"
    assert found(f'{of_flag} = "true"') == ["a"]
    assert found(f'{of_flag} LIKE "true"') == ["a"]
    assert found(f'{of_flag} <> "true" or hive_filter_field_owner__ = "ann"') == ["a", "b", "c"]
    assert found('hive_filter_field_owner__ = "ann"', 1) == ["a"]
    assert found("hive_filter_field_last_access__ > 0") == []
    with pytest.raises(ttypes.MetaException, match="nothing"):
        found('nothing = "x"')
    with pytest.raises(ttypes.UnknownDBException):
        hive.get_table_names_by_filter("missing", f'{of_flag} = "true"', -1)


def test_there_are_no_grants(hive: Any) -> None:
    request = ttypes.GetRoleGrantsForPrincipalRequest("ann", ttypes.PrincipalType.USER)
    assert hive.get_role_grants_for_principal(request).principalGrants == []
    assert hive.get_principals_in_role(ttypes.GetPrincipalsInRoleRequest("admin")).principalGrants == []


def test_partition_that_cannot_be_changed_is_refused_as_in_hive(hive: Any, metastore: Metastore) -> None:
    hive.create_table(table("default", "p", keys={"k": "string"}))
    with pytest.raises(ttypes.InvalidOperationException, match="k=missing"):
        hive.alter_partition("default", "p", partition("default", "p", "missing"))
    placed = partition("default", "p", "a")
    placed.sd.location = metastore.clusters.get("c1").uri("")
    with pytest.raises(ttypes.InvalidObjectException, match="no folder of its own"):
        hive.add_partition(placed)
    assert hive.get_partition_names("default", "p", -1) == []


def test_lock_of_another_user_is_the_own_one_of_its_client(metastore: Metastore) -> None:
    wanted = ttypes.LockComponent(3, 2, "default", "t", isTransactional=True)
    with (
        serving(metastore, lock_patience_s=0.2) as running,
        hive_client(running.port, None) as nameless,
        hive_client(running.port, "alice") as alice,
        hive_client(running.port, "alice") as pooled,
        hive_client(running.port, "bob") as bob,
    ):
        for locker, changer in ((nameless, nameless), (alice, pooled)):
            bob.create_table(table("default", "t", parameters={"transactional": "true"}))
            locked = locker.lock(ttypes.LockRequest(component=[wanted], user="process", hostname="h"))
            assert locked.state == ttypes.LockState.ACQUIRED
            with pytest.raises(ttypes.MetaException, match=r"could not be locked within .* process on h"):
                bob.drop_table("default", "t", True)
            changer.drop_table("default", "t", True)
            assert bob.get_all_tables("default") == []
            locker.unlock(ttypes.UnlockRequest(locked.lockid))


def test_change_of_a_table_that_has_changed_meanwhile_is_refused(hive: Any) -> None:
    hive.create_table(table("default", "t", tableType="EXTERNAL_TABLE", parameters={"metadata_location": "m0"}))

    def commit(before: str, after: str) -> None:
        described = hive.get_table("default", "t")
        described.parameters["metadata_location"] = after
        context = {"expected_parameter_key": "metadata_location", "expected_parameter_value": before}
        hive.alter_table_with_environment_context("default", "t", described, ttypes.EnvironmentContext(context))

    commit("m0", "m1")
    with pytest.raises(ttypes.MetaException, match=r"The table has been modified\. The parameter value for key"):
        commit("m0", "m2")
    assert hive.get_table("default", "t").parameters["metadata_location"] == "m1"


_ICEBERG = "org.apache.iceberg.mr.hive.HiveIceberg"
_TEXT_OUTPUT = "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat"
_TEXT_INPUT = "org.apache.hadoop.mapred.TextInputFormat"


@pytest.mark.parametrize(
    ("parameters", "classes", "serde", "sign"),
    [
        (
            {"table_type": "ICEBERG", "metadata_location": "m0"},
            ("org.apache.hadoop.mapred.FileInputFormat", "org.apache.hadoop.mapred.FileOutputFormat"),
            "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
            "table_type = ICEBERG",
        ),
        (
            {"storage_handler": f"{_ICEBERG}StorageHandler"},
            (f"{_ICEBERG}InputFormat", f"{_ICEBERG}OutputFormat"),
            f"{_ICEBERG}SerDe",
            "storage_handler",
        ),
        ({"spark.sql.sources.provider": "DELTA"}, (None, None), None, "provider = DELTA"),
        ({}, (_TEXT_INPUT, _TEXT_OUTPUT), "org.apache.hadoop.hive.serde2.RegexSerDe", "RegexSerDe"),
    ],
)
def test_table_of_another_engine_is_kept_for_its_clients(
    hive: Any,
    metastore: Metastore,
    parameters: dict[str, str],
    classes: tuple[str | None, str | None],
    serde: str | None,
    sign: str,
) -> None:
    described = table("default", "t", tableType="EXTERNAL_TABLE", parameters=dict(parameters), keys={"k": "string"})
    given = {"path": "file:///elsewhere", "input.regex": "(.*)"}
    described.sd.cols.append(ttypes.FieldSchema("at", "timestamp with local time zone", None))
    described.sd.inputFormat, described.sd.outputFormat = classes
    described.sd.serdeInfo = ttypes.SerDeInfo("t", serde, dict(given))
    hive.create_table(described)

    found = hive.get_table("default", "t")
    assert parameters.items() <= found.parameters.items()
    assert (found.sd.inputFormat, found.sd.outputFormat) == classes
    assert (found.sd.serdeInfo.serializationLib, found.sd.serdeInfo.parameters) == (serde, given)
    assert [each.type for each in (*found.sd.cols, *found.partitionKeys)] == [
        *("bigint", "string", "timestamp with local time zone", "string")
    ]
    found.parameters["metadata_location"] = "m1"
    hive.alter_table_with_environment_context("default", "t", found, ttypes.EnvironmentContext({}))
    changed = hive.get_table("default", "t")
    assert changed.parameters["metadata_location"] == "m1"
    assert changed.sd.serdeInfo.parameters == given
    hive.add_partition(partition("default", "t", "a", sd=ttypes.StorageDescriptor(**vars(changed.sd))))
    (part,) = hive.get_partitions("default", "t", -1)
    assert (part.sd.inputFormat, part.sd.serdeInfo.serializationLib) == (classes[0], serde)

    with metastore.session(user="ann") as session:
        for statement in (
            *("SELECT * FROM t", "SELECT count(*) FROM t", "INSERT INTO t SELECT 1, 'a', 'b'", "SHOW CREATE TABLE t"),
            *("CREATE TABLE u LIKE t", "CREATE TABLE u AS SELECT * FROM t", "ALTER TABLE t ADD COLUMNS (extra int)"),
            *("ANALYZE TABLE t COMPUTE STATISTICS", "ALTER TABLE t SET FILEFORMAT orc", "DELETE FROM t"),
            "ALTER TABLE t SET TBLPROPERTIES ('EXTERNAL'='FALSE', 'transactional'='true')",
            "ALTER TABLE t SET TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')",
        ):
            with pytest.raises(HivexError, match=sign):
                session.sql(statement)
        assert session.sql("SHOW TABLES").rows
        session.sql("ANALYZE TABLES COMPUTE STATISTICS NOSCAN")
        assert session.sql("DESCRIBE EXTENDED t").rows
        session.sql("ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')")
        session.sql("DROP TABLE t")


def test_view_of_trino_is_kept_for_trino(hive: Any, metastore: Metastore) -> None:
    text = "/* Presto View: eyJvcmlnaW5hbFNxbCI6IlNFTEVDVCAxIn0= */"
    described = table(
        "default", "v", tableType="VIRTUAL_VIEW", parameters={"presto_view": "true", "comment": "Presto View"}
    )
    described.viewOriginalText, described.viewExpandedText = text, "/* Presto View */"
    hive.create_table(described)
    found = hive.get_table("default", "v")
    assert (found.viewOriginalText, found.viewExpandedText) == (text, "/* Presto View */")
    assert hive.get_tables_by_type("default", ".*", "VIRTUAL_VIEW") == ["v"]
    assert hive.get_table_names_by_filter("default", 'hive_filter_field_params__presto_view = "true"', -1) == ["v"]
    found.viewOriginalText = "/* Presto View: AAAA */"
    hive.alter_table_with_environment_context("default", "v", found, ttypes.EnvironmentContext({}))
    assert hive.get_table("default", "v").viewOriginalText == "/* Presto View: AAAA */"
    with metastore.session(user="ann") as session:
        for statement in ("SELECT * FROM v", "SHOW CREATE TABLE v", "CREATE TABLE u AS SELECT * FROM v"):
            with pytest.raises(HivexError, match="another engine"):
                session.sql(statement)
        session.sql("DESCRIBE EXTENDED v")
        session.sql("DROP VIEW v")
    hive.create_database(ttypes.Database("closed", None, None, {"hivex.namespace.mode": "true"}))
    described.dbName = "closed"
    with pytest.raises(ttypes.InvalidObjectException, match="closed namespace"):
        hive.create_table(described)


def test_columns_are_read_by_requests_of_hive_4(hive: Any, metastore: Metastore) -> None:
    hive.create_table(table("default", "t", keys={"k": "string"}))
    fields = hive.get_fields_req(ttypes.GetFieldsRequest(dbName="default", tblName="t")).fields
    schema = hive.get_schema_req(ttypes.GetSchemaRequest(dbName="default", tblName="t")).fields
    assert [each.name for each in fields] == ["id", "name"]
    assert [each.name for each in schema] == ["id", "name", "k"]
    hive.create_table(table("default", "acid", parameters={"transactional": "true"}))
    with pytest.raises(ttypes.MetaException, match="no write id list"):
        hive.get_fields_req(ttypes.GetFieldsRequest(dbName="default", tblName="acid"))
    ids = metastore.transactions.valid_write_ids(["default.acid"], metastore.transactions.valid_txns())
    request = ttypes.GetFieldsRequest(dbName="default", tblName="acid", validWriteIdList=str(ids["default.acid"]))
    assert [each.name for each in hive.get_fields_req(request).fields] == ["id", "name"]
    with pytest.raises(ttypes.UnknownTableException):
        hive.get_schema_req(ttypes.GetSchemaRequest(dbName="default", tblName="missing"))


def test_partitions_are_read_in_groups_and_by_values_of_keys(hive: Any) -> None:
    hive.create_table(table("default", "p", keys={"ds": "string", "hr": "int"}))
    assert hive.get_partitions_pspec("default", "p", -1) == []
    hive.add_partitions([partition("default", "p", ds, hr) for ds in ("a", "b") for hr in ("1", "2", "10")])

    def names(specs: Any) -> list[list[str]]:
        (spec,) = specs
        assert (spec.dbName, spec.tableName) == ("default", "p")
        assert all(each.sd.location.startswith(spec.rootPath) for each in spec.partitionList.partitions)
        return [each.values for each in spec.partitionList.partitions]

    assert len(names(hive.get_partitions_pspec("default", "p", 4))) == 4
    assert names(hive.get_part_specs_by_filter("default", "p", 'ds = "a" and hr > 2', -1)) == [["a", "10"]]
    by_expr = hive.get_partitions_spec_by_expr(ttypes.PartitionsByExprRequest("default", "p", b"hr = 10"))
    assert (names(by_expr.partitionsSpec), by_expr.hasUnknownPartitions) == ([["a", "10"], ["b", "10"]], False)
    for mode, filters, found in (
        (ttypes.PartitionFilterMode.BY_NAMES, ["ds=b/hr=2", "ds=c/hr=2"], [["b", "2"]]),
        (ttypes.PartitionFilterMode.BY_VALUES, ["", "1"], [["a", "1"], ["b", "1"]]),
        (ttypes.PartitionFilterMode.BY_EXPR, ['ds = "b"', "hr < 2"], [["b", "1"]]),
    ):
        spec = ttypes.GetPartitionsFilterSpec(filterMode=mode, filters=filters)
        request = ttypes.GetPartitionsRequest(dbName="default", tblName="p", filterSpec=spec)
        assert names(hive.get_partitions_with_specs(request).partitionSpec) == found
    ds, hr = hive.get_table("default", "p").partitionKeys

    def rows(*keys: Any, **given: Any) -> list[list[str]]:
        request = ttypes.PartitionValuesRequest("default", "p", list(keys), **given)
        return [each.row for each in hive.get_partition_values(request).partitionValues]

    assert rows(ds) == [["a"], ["b"]]
    assert rows(ds, applyDistinct=False, filter="hr = 1") == [["a"], ["b"]]
    assert rows(hr, ds, partitionOrder=[ds], ascending=False, maxParts=1) == [["1", "b"]]
    with pytest.raises(ttypes.MetaException, match="no partition key nothing"):
        rows(ttypes.FieldSchema("nothing", "int", None))
    assert hive.aliveSince() > 0
    hive.create_table(table("default", "acid", parameters={"transactional": "true"}, keys={"k": "int"}))
    with pytest.raises(ttypes.MetaException, match="no write id list"):
        hive.get_partitions_pspec("default", "acid", -1)


def test_partition_keys_keep_their_names_and_the_values_of_their_partitions(hive: Any) -> None:
    hive.create_table(table("default", "p", keys={"ds": "string", "hr": "string"}))
    hive.add_partition(partition("default", "p", "2026-01-01", "7"))

    def keys(**types: str) -> Any:
        found = hive.get_table("default", "p")
        found.partitionKeys = [ttypes.FieldSchema(name, kind, None) for name, kind in types.items()]
        return found

    for changed in (keys(), keys(ds="string"), keys(day="string", hr="string"), keys(hr="string", ds="string")):
        with pytest.raises(ttypes.InvalidOperationException, match="partition keys can not be changed"):
            hive.alter_table("default", "p", changed)
    with pytest.raises(ttypes.InvalidOperationException, match="2026-01-01"):
        hive.alter_table("default", "p", keys(ds="int", hr="string"))
    hive.alter_table("default", "p", keys(ds="date", hr="int"))
    assert hive.get_partition_names("default", "p", -1) == ["ds=2026-01-01/hr=7"]
    assert [each.values for each in hive.get_partitions_by_filter("default", "p", "hr > 6", -1)] == [
        ["2026-01-01", "7"]
    ]


def test_name_of_a_partition_with_other_keys_names_no_partition(hive: Any) -> None:
    hive.create_table(table("default", "p", keys={"ds": "string", "hr": "int"}))
    hive.add_partition(partition("default", "p", "a", "1"))
    for name in ("x=a/y=1", "ds=a", "a/1", "ds=a/hr=one", "DS=a/hr=1"):
        with pytest.raises(ttypes.NoSuchObjectException):
            hive.get_partition_by_name("default", "p", name)
        with pytest.raises(ttypes.NoSuchObjectException):
            hive.drop_partition_by_name("default", "p", name, True)
    assert hive.get_partition_by_name("default", "p", "hr=1/ds=a").values == ["a", "1"]
    assert [each.values for each in hive.get_partitions_by_names("default", "p", ["x=a/y=1", "ds=a/hr=1"])] == [
        ["a", "1"]
    ]


def test_dropped_partitions_come_back_where_they_are_asked_for(hive: Any) -> None:
    hive.create_table(table("default", "p", keys={"ds": "string"}))
    for answers in (True, None, False):
        hive.add_partition(partition("default", "p", "a", parameters={"k": "v"}))
        spec = ttypes.RequestPartsSpec(names=["ds=a", "ds=missing"])
        request = ttypes.DropPartitionsRequest("default", "p", spec, True)
        if answers is not None:
            request = ttypes.DropPartitionsRequest("default", "p", spec, True, needResult=answers)
        found = hive.drop_partitions_req(request).partitions
        assert hive.get_partition_names("default", "p", -1) == []
        shown = None if found is None else [(each.values, each.parameters["k"]) for each in found]
        assert shown == (None if answers is False else [(["a"], "v")])


def test_keys_of_hive_are_kept_for_the_connection(hive: Any) -> None:
    key = "hive.metastore.disallow.incompatible.col.type.changes"
    assert hive.getMetaConf(key) == "true"
    hive.setMetaConf(key, "false")
    assert hive.getMetaConf(key) == hive.getMetaConf(key.removeprefix("hive.")) == "false"
    with pytest.raises(ttypes.MetaException, match="Invalid configuration key"):
        hive.setMetaConf("hive.nothing", "1")
    warehouse = hive.get_config_value("hive.metastore.warehouse.dir", "mine")
    assert hive.get_database("default").locationUri.rpartition("/")[0] == warehouse.rstrip("/")
