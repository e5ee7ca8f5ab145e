from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hive_metastore import ttypes

from airflow_hivex.core.metastore import Metastore
from tests.hive_endpoint import Serving, hive_client, partition, table


def test_managed_table_without_transactions_owns_its_files(hive: Any, metastore: Metastore, tmp_path: Path) -> None:
    hive.create_table(table("default", "t"))
    stored = metastore.catalog.get_table("default", "t")
    assert stored.is_external
    assert stored.parameters["external.table.purge"] == "true"
    assert hive.get_table("default", "t").tableType == "MANAGED_TABLE"
    assert hive.get_tables_by_type("default", "*", "MANAGED_TABLE") == ["t"]
    assert hive.get_tables_by_type("default", "*", "EXTERNAL_TABLE") == []
    folder = tmp_path / "c1/default.db/t"
    (folder / "part-0").write_text("x")
    hive.drop_table("default", "t", True)
    assert not folder.exists()


def test_files_that_others_use_are_not_deleted(hive: Any, tmp_path: Path) -> None:
    purged = {"EXTERNAL": "TRUE", "external.table.purge": "true"}
    folder = tmp_path / "c1/files"
    described = table("default", "t", tableType="EXTERNAL_TABLE", parameters=purged, keys={"ds": "string"})
    described.sd.location = folder.as_uri()
    hive.create_table(described)
    places = {"above": ".", "whole": "x", "inside": "x/y", "alone": "z"}
    for value, place in places.items():
        added = partition("default", "t", value)
        added.sd.location = (folder / place).as_uri()
        hive.add_partition(added)
        (folder / place).mkdir(parents=True, exist_ok=True)
        (folder / place / "part-0").write_text(value)
    for value in ("above", "whole", "alone"):
        assert hive.drop_partition("default", "t", [value], True)
    assert {place: (folder / place / "part-0").exists() for place in places.values()} == {
        ".": True,
        "x": True,
        "x/y": True,
        "z": False,
    }
    nested = table("default", "nested", tableType="EXTERNAL_TABLE", parameters={"EXTERNAL": "TRUE"})
    nested.sd.location = (folder / "x").as_uri()
    hive.create_table(nested)
    hive.drop_table("default", "t", True)
    assert (folder / "x/part-0").exists()
    hive.drop_table("default", "nested", True)
    for _ in range(2):
        hive.create_table(described)
        hive.drop_table("default", "t", True)
        assert not folder.exists()


def test_external_table_keeps_its_files(hive: Any, tmp_path: Path) -> None:
    folder = tmp_path / "c1/files"
    folder.mkdir(parents=True)
    (folder / "part-0").write_text("x")
    described = table("default", "t", tableType="EXTERNAL_TABLE", parameters={"EXTERNAL": "TRUE"})
    described.sd.location = folder.as_uri()
    hive.create_table(described)
    assert hive.get_table("default", "t").tableType == "EXTERNAL_TABLE"
    hive.drop_table("default", "t", True)
    assert (folder / "part-0").exists()


def test_transactional_table_is_one_of_ours(hive: Any, metastore: Metastore) -> None:
    hive.create_table(table("default", "acid", parameters={"transactional": "true"}))
    with metastore.session(user="ann") as session:
        session.sql("INSERT INTO acid VALUES (1, 'a')")
        files = session.snapshot_files("acid")
    assert files
    described = table("default", "acid", parameters={"transactional": "true", "new": "1"})
    with pytest.raises(ttypes.MetaException, match="is transactional"):
        hive.alter_table("default", "acid", described)
    ids = metastore.transactions.valid_write_ids(["default.acid"], metastore.transactions.valid_txns())
    hive.alter_table_req(
        ttypes.AlterTableRequest(
            dbName="default", tableName="acid", table=described, validWriteIdList=str(ids["default.acid"])
        )
    )
    changed = metastore.catalog.get_table("default", "acid")
    assert changed.parameters["new"] == "1"
    hive.truncate_table("default", "acid", [])
    hive.drop_table("default", "acid", True)
    assert hive.get_all_tables("default") == []


def test_transactional_table_in_a_folder_with_files_is_refused(hive: Any, tmp_path: Path) -> None:
    """Spark writes the files of CREATE TABLE ... AS SELECT first, and sends their folder in one of two ways."""
    folder = tmp_path / "c1/default.db/t"
    folder.mkdir(parents=True)
    (folder / "part-0").write_text("x")
    fields = [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]
    schema = json.dumps({"type": "struct", "fields": fields})
    acid = {"transactional": "true", "spark.sql.sources.provider": "orc", "spark.sql.sources.schema": schema}
    placed, with_path = table("default", "t", parameters=acid), table("default", "t", parameters=acid)
    placed.sd.location = with_path.sd.serdeInfo.parameters["path"] = folder.as_uri()
    for described in (placed, with_path):
        with pytest.raises(ttypes.InvalidObjectException, match="has files, which no transaction"):
            hive.create_table(described)
    assert hive.get_all_tables("default") == []
    (folder / "part-0").unlink()
    hive.create_table(with_path)
    found = hive.get_table("default", "t")
    # Spark reads a data source without a place as an empty table.
    assert (found.sd.location, found.sd.serdeInfo.parameters.get("path")) == (None, None)
    assert not any(name.startswith("spark.sql.sources.") for name in found.parameters)


def test_tables_are_dropped_one_by_one_and_with_their_database(hive: Any, metastore: Metastore) -> None:
    """Clients of Hive drop each table of a database, and ask for it before."""
    hive.create_database(ttypes.Database("d", None, None, {}))
    with metastore.session(user="ann") as session:
        session.sql("CREATE TABLE d.acid (id INT)")
        session.sql("INSERT INTO d.acid VALUES (1)")
    hive.create_table(table("d", "plain"))
    assert hive.get_all_tables("d") == ["acid", "plain"]
    for name in hive.get_all_tables("d"):
        assert hive.get_table("d", name).tableName == name
        hive.drop_table("d", name, True)
    hive.drop_database("d", True, True)
    assert hive.get_all_databases() == ["default"]


def test_clients_that_drop_a_database_with_its_tables_drop_none_where_links_show_one(
    hive: Any, metastore: Metastore
) -> None:
    with metastore.session(user="ann") as session:
        for statement in (
            "CREATE DATABASE d",
            "CREATE DATABASE reports",
            *(f"CREATE TABLE d.{name} (id INT)" for name in "abz"),
            "USE reports",
            "CREATE LINK TO z@d",
        ):
            session.sql(statement)
    names = hive.get_all_tables("d")
    assert names == ["z", "a", "b"]
    with pytest.raises(ttypes.MetaException, match="z@d"):
        hive.drop_table("d", names[0], True)
    assert hive.get_all_tables("d") == names
    with metastore.session(user="ann") as session:
        session.sql("DROP LINK reports.z@d")
    assert hive.get_all_tables("d") == ["a", "b", "z"]


@pytest.mark.parametrize("kind", [{}, {"transactional_properties": "default"}])
def test_transactional_table_that_is_written_back_unchanged_is_accepted(
    hive: Any, metastore: Metastore, kind: dict[str, str]
) -> None:
    hive.create_table(table("default", "made", parameters={"transactional": "true"}))
    made = metastore.catalog.get_table("default", "made")
    storage = replace(made.storage, primary=replace(made.storage.primary, location=""))
    alone = {"transactional": "true", **kind}
    metastore.catalog.create_table(replace(made, name="t", parameters=alone, storage=storage))
    for parameters in (None, {"transactional": "true"}, {"transactional": "TRUE", "k": "v"}):
        ids = metastore.transactions.valid_write_ids(["default.t"], metastore.transactions.valid_txns())
        listed = str(ids["default.t"])
        found = hive.get_table_req(ttypes.GetTableRequest("default", "t", validWriteIdList=listed)).table
        found.parameters = found.parameters if parameters is None else parameters
        request = ttypes.AlterTableRequest(dbName="default", tableName="t", table=found, validWriteIdList=listed)
        hive.alter_table_req(request)
    found.parameters = {"transactional": "true", "transactional_properties": "insert_only"}
    ids = metastore.transactions.valid_write_ids(["default.t"], metastore.transactions.valid_txns())
    request.validWriteIdList = str(ids["default.t"])
    with pytest.raises(ttypes.InvalidOperationException, match="transactional_properties cannot be changed"):
        hive.alter_table_req(request)


@pytest.mark.parametrize(
    ("given", "error", "reason"),
    [
        ({"tableName": "a b"}, ttypes.InvalidObjectException, "letters, digits"),
        ({"tableName": ""}, ttypes.InvalidObjectException, "letters, digits"),
        ({"dbName": "missing"}, ttypes.InvalidObjectException, "missing"),
        ({"tableType": "MATERIALIZED_VIEW"}, ttypes.InvalidObjectException, "MATERIALIZED_VIEW"),
        ({"sd": None}, ttypes.InvalidObjectException, "no storage descriptor"),
        ({"keys": {"id": "int"}}, ttypes.InvalidObjectException, "column id twice"),
        ({"keys": {"k": "array<int>"}}, ttypes.InvalidObjectException, "partition key k"),
        ({"keys": {"k": "nonsense"}}, ttypes.InvalidObjectException, "nonsense"),
        (
            {"parameters": {"table_type": "ICEBERG", "transactional": "true"}},
            *(ttypes.InvalidObjectException, "other"),
        ),
        ({"parameters": {"compactor.spark.jars": "x.jar"}}, ttypes.InvalidObjectException, "compactor.spark.jars"),
    ],
)
def test_table_that_cannot_be_kept_is_refused(
    hive: Any, given: dict[str, Any], error: type[Exception], reason: str
) -> None:
    described = {"dbName": "default", "tableName": "t", **given}
    with pytest.raises(error, match=reason):
        hive.create_table(table(described.pop("dbName"), described.pop("tableName"), **described))
    assert hive.get_all_tables("default") == []


def test_location_outside_of_the_cluster_is_refused(hive: Any, tmp_path: Path) -> None:
    described = table("default", "t", tableType="EXTERNAL_TABLE")
    described.sd.location = f"file://{tmp_path}/elsewhere"
    with pytest.raises(ttypes.InvalidObjectException, match="elsewhere"):
        hive.create_table(described)


def test_renamed_table_keeps_columns_and_statistics(hive: Any, metastore: Metastore) -> None:
    hive.create_table(table("default", "t"))
    found = hive.get_table("default", "t")
    location = found.sd.location
    found.tableName = "u"
    found.parameters |= {"spark.sql.statistics.totalSize": "12", "spark.sql.statistics.numRows": "3"}
    found.sd.cols.append(ttypes.FieldSchema("extra", "int", "new"))
    hive.alter_table_with_environment_context("default", "t", found, None)
    renamed = hive.get_table("default", "u")
    assert renamed.sd.location == f"{location.removesuffix('/t')}/u"
    assert [each.name for each in renamed.sd.cols] == ["id", "name", "extra"]
    assert renamed.parameters["spark.sql.statistics.numRows"] == "3"
    with metastore.session(user="ann") as session:
        described = {row[0]: row[1] for row in session.sql("DESCRIBE EXTENDED u").rows}
    assert any("3" in str(value) for key, value in described.items() if "tatistics" in key or "numRows" in key)
    with pytest.raises(ttypes.InvalidOperationException):
        hive.alter_table("default", "t", found)


def test_external_table_and_partition_get_another_location(hive: Any, endpoint: Serving, tmp_path: Path) -> None:
    hive.create_table(table("default", "p", keys={"ds": "string"}))
    hive.add_partitions([partition("default", "p", each) for each in ("a", "b")])
    found = hive.get_table("default", "p")
    found.sd.location = f"{tmp_path}/c1/elsewhere"
    found.parameters["k"] = "v"
    hive.alter_table("default", "p", found)
    changed = hive.get_table("default", "p")
    assert (changed.sd.location, changed.parameters["k"]) == (f"file://{tmp_path}/c1/elsewhere", "v")
    part = hive.get_partition("default", "p", ["a"])
    # As in Hive, partitions stay where they are.
    assert part.sd.location == f"file://{tmp_path}/c1/default.db/p/ds=a"
    part.sd.location = f"file:{tmp_path}/c1/elsewhere/x"
    hive.alter_partitions("default", "p", [part])
    assert hive.get_partition("default", "p", ["a"]).sd.location == f"file://{tmp_path}/c1/elsewhere/x"
    for place in (f"file://{tmp_path}/c2/x", "file:///elsewhere", f"file://{tmp_path}/c1"):
        found.sd.location = part.sd.location = place
        with pytest.raises((ttypes.InvalidOperationException, ttypes.MetaException)):
            hive.alter_table("default", "p", found)
        with pytest.raises((ttypes.InvalidOperationException, ttypes.MetaException)):
            hive.alter_partition("default", "p", part)
    assert hive.get_table("default", "p").sd.location == changed.sd.location
    assert hive.get_partition("default", "p", ["a"]).sd.location == f"file://{tmp_path}/c1/elsewhere/x"


def test_location_of_a_copy_that_comes_back_moves_nothing(
    metastore: Metastore, endpoint: Serving, tmp_path: Path
) -> None:
    with hive_client(endpoint.port) as hive, hive_client(endpoint.port, "ann@c2") as other:
        hive.create_table(table("default", "p", keys={"ds": "string"}, tableType="EXTERNAL_TABLE"))
        hive.add_partition(partition("default", "p", "a"))
        metastore.catalog.register_copy("default", "p", "c2", ["ds=a"])
        seen = other.get_partition("default", "p", ["a"])
        assert seen.sd.location == f"file://{tmp_path}/c2/default.db/p/ds=a"
        seen.parameters["k"] = "v"
        other.alter_partition("default", "p", seen)
        found = other.get_partition("default", "p", ["a"])
        assert (found.sd.location, found.parameters["k"]) == (seen.sd.location, "v")
        assert hive.get_partition("default", "p", ["a"]).sd.location == f"file://{tmp_path}/c1/default.db/p/ds=a"


def test_files_of_a_transactional_table_do_not_move(hive: Any, metastore: Metastore) -> None:
    hive.create_table(table("default", "t", parameters={"transactional": "true"}))
    ids = metastore.transactions.valid_write_ids(["default.t"], metastore.transactions.valid_txns())
    listed = str(ids["default.t"])
    found = hive.get_table_req(ttypes.GetTableRequest("default", "t", validWriteIdList=listed)).table
    found.sd.location += "_elsewhere"
    request = ttypes.AlterTableRequest(dbName="default", tableName="t", table=found, validWriteIdList=listed)
    with pytest.raises(ttypes.InvalidOperationException, match="as its commits have written them"):
        hive.alter_table_req(request)


def test_table_is_renamed_into_another_database(hive: Any, metastore: Metastore, tmp_path: Path) -> None:
    for name in ("d", "full"):
        hive.create_database(ttypes.Database(name, None, None, {}))
    hive.create_table(table("default", "t", keys={"ds": "string"}))
    hive.add_partition(partition("default", "t", "a"))
    hive.create_table(table("full", "t"))
    found = hive.get_table("default", "t")
    location = f"file://{tmp_path}/c1/d.db/u"
    for database, error in (("missing", ttypes.InvalidOperationException), ("full", ttypes.InvalidOperationException)):
        found.dbName = database
        with pytest.raises(error, match=database):
            hive.alter_table("default", "t", found)
    found.dbName, found.tableName, found.sd.location = "d", "u", f"file://{tmp_path}/c1/elsewhere"
    hive.alter_table_with_environment_context("default", "t", found, None)
    assert hive.get_all_tables("default") == []
    assert hive.get_table("d", "u").sd.location == location
    assert hive.get_partition("d", "u", ["a"]).sd.location == f"{location}/ds=a"
    last = metastore.notification_log.events(after=0, limit=1000)[-1]
    assert (last.database, last.table) == ("d", "u")


def test_view_does_not_get_into_a_closed_namespace_that_does_not_see_its_tables(hive: Any) -> None:
    hive.create_table(table("default", "t"))
    hive.create_database(ttypes.Database("closed", None, None, {"hivex.namespace.mode": "true"}))
    view = table("default", "v", tableType="VIRTUAL_VIEW", viewOriginalText="x", viewExpandedText="select id from t")
    view.sd.cols = view.sd.cols[:1]
    hive.create_table(view)
    found = hive.get_table("default", "v")
    found.dbName = "closed"
    with pytest.raises(ttypes.MetaException, match="another namespace"):
        hive.alter_table("default", "v", found)
    assert hive.get_all_tables("closed") == []


def test_view_of_spark_comes_back_with_its_text(hive: Any, metastore: Metastore) -> None:
    hive.create_table(table("default", "t"))
    parameters = {
        "view.catalogAndNamespace.numParts": "2",
        "view.catalogAndNamespace.part.0": "spark_catalog",
        "view.catalogAndNamespace.part.1": "default",
    }
    view = table(
        "default",
        "v",
        tableType="VIRTUAL_VIEW",
        viewOriginalText="select id from t",
        viewExpandedText="select id from t",
        parameters=parameters,
    )
    view.sd.cols = view.sd.cols[:1]
    hive.create_table(view)
    found = hive.get_table("default", "v")
    assert (found.tableType, found.viewExpandedText, found.sd.location) == ("VIRTUAL_VIEW", "select id from t", None)
    assert {**found.parameters, **parameters} == found.parameters
    assert hive.get_tables_by_type("default", "*", "VIRTUAL_VIEW") == ["v"]
    assert "`default`.`t`" in str(metastore.catalog.get_table("default", "v").view_expanded_text)
    hive.drop_table("default", "v", True)
    assert hive.get_all_tables("default") == ["t"]


def test_view_of_a_closed_namespace_names_its_own_tables_only(hive: Any, metastore: Metastore) -> None:
    hive.create_table(table("default", "t"))
    hive.create_database(ttypes.Database("closed", None, None, {"hivex.namespace.mode": "true"}))
    view = table(
        "closed", "v", tableType="VIRTUAL_VIEW", viewOriginalText="x", viewExpandedText="select * from default.t"
    )
    with pytest.raises(ttypes.MetaException, match="closed"):
        hive.create_table(view)


@pytest.mark.parametrize(
    ("original", "expanded", "current"),
    [
        # Spark reads the original text, with the database that was its creator's.
        ("select id from t", "select id from t", "default"),
        ("select id from default.t", "select 1 as id", "closed"),
        ("select id from t", "select id from closed.t", "default"),
    ],
)
def test_view_of_spark_in_a_closed_namespace_names_its_own_tables_only(
    hive: Any, metastore: Metastore, original: str, expanded: str, current: str
) -> None:
    hive.create_table(table("default", "t"))
    hive.create_database(ttypes.Database("closed", None, None, {"hivex.namespace.mode": "true"}))
    parameters = {"view.catalogAndNamespace.numParts": "2", "view.catalogAndNamespace.part.1": current}
    texts = {"viewOriginalText": original, "viewExpandedText": expanded}
    view = table("closed", "v", tableType="VIRTUAL_VIEW", parameters=parameters, **texts)
    view.sd.cols = view.sd.cols[:1]
    with pytest.raises(ttypes.MetaException, match=r"default\.t belongs to another namespace"):
        hive.create_table(view)
    own = {"viewOriginalText": "select id from t", "viewExpandedText": "select id from t"}
    parameters = {**parameters, "view.catalogAndNamespace.part.1": "closed"}
    mine = table("closed", "v", tableType="VIRTUAL_VIEW", parameters=parameters, **own)
    mine.sd.cols = mine.sd.cols[:1]
    hive.create_table(mine)
    with pytest.raises(ttypes.MetaException, match=r"default\.t belongs to another namespace"):
        hive.alter_table("closed", "v", view)
    assert metastore.catalog.get_table("closed", "v").view_original_text == "select id from t"


def test_partitions_are_added_all_or_none(hive: Any, tmp_path: Path) -> None:
    hive.create_table(table("default", "p", keys={"ds": "string", "hr": "int"}))
    hive.add_partition(partition("default", "p", "a", "1"))
    with pytest.raises(ttypes.AlreadyExistsException):
        hive.add_partitions([partition("default", "p", "b", "1"), partition("default", "p", "a", "1")])
    assert hive.get_partition_names("default", "p", -1) == ["ds=a/hr=1"]
    request = ttypes.AddPartitionsRequest(
        "default",
        "p",
        [partition("default", "p", "b", "1"), partition("default", "p", "a", "1")],
        ifNotExists=True,
        needResult=True,
    )
    added = hive.add_partitions_req(request).partitions
    assert [each.values for each in added] == [["b", "1"]]
    assert (tmp_path / "c1/default.db/p/ds=b/hr=1").is_dir()
    for wrong in (["a"], ["a", "x"], ["a", "1", "2"]):
        with pytest.raises((ttypes.InvalidObjectException, ttypes.MetaException)):
            hive.add_partition(partition("default", "p", *wrong))
    assert len(hive.get_partition_names("default", "p", -1)) == 2
    assert hive.append_partition("default", "p", ["c", "1"]).values == ["c", "1"]
    assert hive.append_partition_by_name("default", "p", "ds=c/hr=2").values == ["c", "2"]


def test_partitions_are_altered_renamed_and_dropped(hive: Any, tmp_path: Path) -> None:
    hive.create_table(table("default", "p", keys={"ds": "string"}))
    hive.add_partitions([partition("default", "p", each) for each in ("a", "b", "__HIVE_DEFAULT_PARTITION__")])
    found = hive.get_partition("default", "p", ["a"])
    found.parameters["spark.sql.statistics.totalSize"] = "5"
    found.parameters["k"] = "v"
    hive.alter_partitions("default", "p", [found])
    assert hive.get_partition("default", "p", ["a"]).parameters["spark.sql.statistics.totalSize"] == "5"
    renamed = hive.get_partition("default", "p", ["a"])
    location = renamed.sd.location
    renamed.values = ["z"]
    hive.rename_partition("default", "p", ["a"], renamed)
    assert hive.get_partition("default", "p", ["z"]).sd.location == location
    (tmp_path / "c1/default.db/p/ds=b/part-0").write_text("x")
    assert hive.drop_partition("default", "p", ["b"], True)
    assert not (tmp_path / "c1/default.db/p/ds=b").exists()
    assert hive.drop_partition_by_name("default", "p", "ds=__HIVE_DEFAULT_PARTITION__", True)
    assert hive.get_partition_names("default", "p", -1) == ["ds=z"]
    with pytest.raises(ttypes.NoSuchObjectException):
        hive.drop_partition("default", "p", ["b"], True)


def test_database_with_tables_is_dropped_by_cascade_only(hive: Any, tmp_path: Path) -> None:
    hive.create_database(ttypes.Database("d1", "words", f"file://{tmp_path}/c1/wh/d1.db", {"k": "v"}))
    assert (tmp_path / "c1/wh/d1.db").is_dir()
    found = hive.get_database("d1")
    assert (found.description, found.parameters, found.locationUri) == (
        "words",
        {"k": "v"},
        f"file://{tmp_path}/c1/wh/d1.db",
    )
    found.parameters = {"k": "w"}
    hive.alter_database("d1", found)
    assert hive.get_database("d1").parameters == {"k": "w"}
    hive.create_table(table("d1", "t"))
    with pytest.raises(ttypes.InvalidOperationException, match="Database d1 is not empty. One or more tables exist."):  # noqa: RUF043
        hive.drop_database("d1", True, False)
    hive.drop_database("d1", True, True)
    assert hive.get_all_databases() == ["default"]
    assert not (tmp_path / "c1/wh/d1.db/t").exists()


def test_statistics_of_columns_of_external_tables_are_kept(hive: Any) -> None:
    hive.create_table(table("default", "t"))
    data = ttypes.ColumnStatisticsData(longStats=ttypes.LongColumnStatsData(1, 9, 2, 7))
    described = ttypes.ColumnStatisticsDesc(True, "default", "t")
    objects = [ttypes.ColumnStatisticsObj("id", "bigint", data)]
    assert hive.update_table_column_statistics(ttypes.ColumnStatistics(described, objects))
    found = hive.get_table_column_statistics("default", "t", "id").statsObj[0].statsData.longStats
    assert (found.lowValue, found.highValue, found.numNulls, found.numDVs) == (1, 9, 2, 7)
    request = ttypes.TableStatsRequest("default", "t", ["id", "name", "missing"])
    assert [each.colName for each in hive.get_table_statistics_req(request).tableStats] == ["id"]
    with pytest.raises(ttypes.NoSuchObjectException):
        hive.get_table_column_statistics("default", "t", "name")


def test_new_table_lies_on_the_cluster_of_its_database(hive: Any, metastore: Metastore, tmp_path: Path) -> None:
    with metastore.session() as session:
        session.sql("CREATE DATABASE moved WITH DBPROPERTIES ('hivex.cluster' = 'c2')")
    hive.create_table(table("moved", "t"))
    assert metastore.catalog.get_table("moved", "t").storage.primary.cluster == "c2"
    assert (tmp_path / "c2/moved.db/t").is_dir()


def of_data_source(name: str, path: Path, location: Path) -> Any:
    """Return an external table as Spark stores one that Hive does not read: its folder is a parameter of the SerDe."""
    schema = '{"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": true, "metadata": {}}]}'
    given = {"EXTERNAL": "TRUE", "spark.sql.sources.provider": "parquet", "spark.sql.sources.schema": schema}
    described = table("d", name, tableType="EXTERNAL_TABLE", parameters=given)
    described.sd.location = location.as_uri()
    described.sd.serdeInfo.parameters = {"path": f"file://{path}", "serialization.format": "1"}
    return described


def test_the_folder_of_a_data_source_is_checked_as_a_location_is(
    hive: Any, metastore: Metastore, tmp_path: Path
) -> None:
    root = tmp_path / "c1"
    (root / "theirs").mkdir(parents=True)
    (root / "linked").symlink_to(root / "theirs")
    (root / "outside").symlink_to(tmp_path)
    with metastore.session(user="ann") as session:
        session.sql("CREATE EXTERNAL TABLE theirs (id int) STORED AS ORC LOCATION 'theirs'")
        session.sql("CREATE DATABASE d WITH DBPROPERTIES ('hivex.namespace.mode' = 'true')")
    for place in ("linked", "outside/x", "a\tb", "x*y"):
        with pytest.raises(ttypes.InvalidObjectException):
            hive.create_table(of_data_source("t", root / place, root / "placeholder"))
    assert hive.get_all_tables("d") == []
    hive.create_table(of_data_source("t", root / "own", root / "placeholder"))
    assert metastore.catalog.get_table("d", "t").storage.primary.location == "own"


def test_databases_of_clients_follow_the_rules_of_databases(hive: Any, metastore: Metastore, tmp_path: Path) -> None:
    root = tmp_path / "c1"
    (root / "theirs").mkdir(parents=True)
    (root / "linked").symlink_to(root / "theirs")
    with metastore.session(user="ann") as session:
        session.sql("CREATE EXTERNAL TABLE theirs (id int) STORED AS ORC LOCATION 'theirs'")
    closed = {"hivex.namespace.mode": "true"}
    with pytest.raises(ttypes.InvalidObjectException, match="not apart from that of table default"):
        hive.create_database(ttypes.Database("d", None, (root / "linked").as_uri(), closed))
    with pytest.raises(ttypes.MetaException, match="no cluster 'nowhere'"):
        hive.create_database(ttypes.Database("d", None, None, {"hivex.cluster": "nowhere"}))
    hive.create_database(ttypes.Database("d", None, None, closed))
    for wrong in ({"hivex.cluster": "nowhere"}, {"hivex.namespace.mode": "maybe"}):
        described = hive.get_database("d")
        described.parameters = wrong
        with pytest.raises(ttypes.MetaException):
            hive.alter_database("d", described)
    assert metastore.catalog.get_database("d").parameters == closed


def test_clients_set_no_properties_that_the_warehouse_keeps_for_itself(
    hive: Any, metastore: Metastore, tmp_path: Path
) -> None:
    landing = tmp_path / "c1/landing"
    landing.mkdir(parents=True)
    given = {"EXTERNAL": "TRUE", "hivex.folder.moving": "landing"}
    hive.create_table(table("default", "t", tableType="EXTERNAL_TABLE", parameters=given))
    described = hive.get_table("default", "t")
    described.parameters |= given
    hive.alter_table("default", "t", described)
    assert "hivex.folder.moving" not in metastore.catalog.get_table("default", "t").parameters
    for name, value in (("hivex.check.c", "id > 0"), ("hivex.key.k", "x"), ("hivex.not.null", "id")):
        described = hive.get_table("default", "t")
        described.parameters[name] = value
        with pytest.raises(ttypes.InvalidOperationException, match="is set by DEFAULT, NOT NULL and CHECK"):
            hive.alter_table("default", "t", described)
