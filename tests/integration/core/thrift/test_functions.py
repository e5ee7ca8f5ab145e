from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hive_metastore import ttypes

from airflow_hivex.core.metastore import Metastore
from airflow_hivex.core.model import permanent_functions
from tests.hive_endpoint import Serving


def function(database: str, name: str, **given: Any) -> Any:
    """A function of a client."""
    described = {"className": "org.example.Hex", "ownerName": "ann", "ownerType": 1, "functionType": 1, **given}
    return ttypes.Function(functionName=name, dbName=database, **described)


def test_functions_are_kept_as_hive_keeps_them(hive: Any) -> None:
    resources = [ttypes.ResourceUri(1, "hdfs:///a.jar"), ttypes.ResourceUri(2, "b"), ttypes.ResourceUri(3, "c.zip")]
    hive.create_function(function("default", "Hex", resourceUris=resources))
    hive.create_function(function("default", "other"))
    found = hive.get_function("default", "HEX")
    assert (found.functionName, found.dbName, found.className, found.functionType) == (
        *("hex", "default", "org.example.Hex"),
        1,
    )
    assert found.resourceUris == resources
    assert (found.ownerName, found.ownerType, found.createTime > 0) == ("ann", 1, True)
    # A client of Spark reads the list of each function.
    assert hive.get_function("default", "other").resourceUris == []
    assert hive.get_functions("default", "*") == ["hex", "other"]
    assert hive.get_functions("default", "h*|x") == ["hex"]
    assert hive.get_functions("nope", "*") == []
    assert hive.get_all_functions().functions == [found, hive.get_function("default", "other")]
    hive.alter_function("default", "hex", function("default", "hex", className="org.example.New"))
    changed = hive.get_function("default", "hex")
    assert (changed.className, changed.resourceUris, changed.createTime) == ("org.example.New", [], found.createTime)
    hive.drop_function("default", "hex")
    assert hive.get_functions("default", "*") == ["other"]


def test_answers_have_the_name_of_the_database_as_the_client_gave_it(hive: Any) -> None:
    hive.create_function(function("@c2#default", "f"))
    assert hive.get_function("@c2#default", "f").dbName == "@c2#default"
    assert hive.get_functions("@c2#default", "*") == hive.get_functions("default", "*") == ["f"]


def test_refused_functions_have_the_exceptions_of_hive(hive: Any, metastore: Metastore) -> None:
    hive.create_function(function("default", "f"))
    for call, given, exception in (
        (hive.create_function, (function("default", "F"),), ttypes.AlreadyExistsException),
        (hive.create_function, (function("nope", "f"),), ttypes.NoSuchObjectException),
        (hive.create_function, (function("default", "a.b"),), ttypes.InvalidObjectException),
        (hive.create_function, (function("default", "g", className=None),), ttypes.InvalidObjectException),
        (hive.create_function, (function("default", "g", functionType=7),), ttypes.InvalidObjectException),
        (
            hive.create_function,
            (function("default", "g", resourceUris=[ttypes.ResourceUri(9, "x")]),),
            ttypes.InvalidObjectException,
        ),
        (hive.get_function, ("default", "g"), ttypes.NoSuchObjectException),
        (hive.drop_function, ("default", "g"), ttypes.NoSuchObjectException),
        (hive.alter_function, ("default", "g", function("default", "g")), ttypes.MetaException),
    ):
        with pytest.raises(exception):
            call(*given)
    assert [each.name for each in metastore.catalog.get_functions()] == ["f"]
    hive.create_database(ttypes.Database(name="d1", parameters={}))
    hive.create_function(function("d1", "f"))
    with pytest.raises(ttypes.InvalidOperationException, match="One or more functions exist"):
        hive.drop_database("d1", True, False)
    hive.drop_database("d1", True, True)


def sql_function(database: str, current: str, **properties: str) -> Any:
    """A function of SQL as Spark stores it, in two parts."""
    known = {"catalogAndNamespace.part.1": current, "sqlFunction.returnType": "INT"}
    text = json.dumps({**known, **{f"sqlFunction.{name}": value for name, value in properties.items()}})
    resources = [ttypes.ResourceUri(2, f"{number:03d}{part}") for number, part in enumerate((text[:40], text[40:]))]
    return function(database, "f", className="sqlFunction.", resourceUris=resources[::-1])


def test_function_of_sql_in_a_closed_namespace_reads_its_own_tables_only(hive: Any) -> None:
    hive.create_database(ttypes.Database("closed", None, None, {"hivex.namespace.mode": "true"}))
    own = sql_function("closed", "closed", query="select max(a) from t")
    for foreign in (
        sql_function("closed", "default", query="select max(a) from t"),
        sql_function("closed", "closed", query="select max(a) from default.t"),
        sql_function("closed", "closed", expression="x + (select max(a) from default.t)"),
    ):
        with pytest.raises(ttypes.MetaException, match=r"default\.t belongs to another namespace") as raised:
            hive.create_function(foreign)
        assert "create the function again" in raised.value.message
    unread = sql_function("closed", "closed", query="select from from")
    with pytest.raises(ttypes.InvalidObjectException, match="cannot be read"):
        hive.create_function(unread)
    assert hive.get_functions("closed", "*") == []
    hive.create_function(own)
    with pytest.raises(ttypes.MetaException, match="belongs to another namespace"):
        hive.alter_function("closed", "f", foreign)
    assert hive.get_function("closed", "f").resourceUris == own.resourceUris
    # Without tables, and in a namespace that is not closed.
    hive.alter_function("closed", "f", sql_function("closed", "default", expression="2 * x"))
    hive.create_function(sql_function("default", "closed", query="select max(a) from t"))


def test_functions_are_imported_from_a_metastore_of_hive(
    hive: Any, endpoint: Serving, sqlite_url: str, properties: dict[str, Any]
) -> None:
    resources = [ttypes.ResourceUri(1, "hdfs:///a.jar")]
    hive.create_database(ttypes.Database("d1", None, None, {}))
    hive.create_function(function("d1", "hexed", resourceUris=resources))
    hive.create_function(function("default", "same"))
    address = f"thrift://127.0.0.1:{endpoint.port}"
    with Metastore.open(sqlite_url, clusters=properties, default_cluster="c1") as target:

        def outcomes(**given: Any) -> dict[str, str]:
            found = target.import_from_hive(address, cluster="c1", **given)
            return {each.name: each.outcome.value for each in found if each.kind == "function"}

        assert outcomes(dry_run=True) == {"d1.hexed": "planned", "default.same": "planned"}
        assert target.catalog.get_functions() == []
        assert outcomes(tables="*") == {}
        assert outcomes() == {"d1.hexed": "imported", "default.same": "imported"}
        hive.alter_function("default", "same", function("default", "same", className="org.example.New"))
        assert outcomes() == {"d1.hexed": "present", "default.same": "differs"}
        found = target.catalog.get_function("d1", "hexed")
        assert (found.class_name, found.owner) == ("org.example.Hex", "ann")
        assert [each.uri for each in found.resources] == ["hdfs:///a.jar"]


def test_functions_are_imported_with_a_namespace(
    hive: Any, metastore: Metastore, sqlite_url: str, tmp_path: Path
) -> None:
    clusters = {"c3": {"filesystem": (tmp_path / "c3").as_uri(), "jobtracker": "local[1]"}}
    hive.create_database(ttypes.Database("d1", None, None, {}))
    hive.create_function(function("d1", "hexed"))
    hive.create_function(sql_function("d1", "d1", expression="x + 1", inputParam="x INT"))
    with Metastore.open(sqlite_url, clusters=clusters, default_cluster="c3") as target:
        imported = target.import_namespace(metastore, "d1", into="d2")
        assert {each.name: each.outcome.value for each in imported} == {
            "d2": "imported",
            "d2.f": "imported",
            "d2.hexed": "imported",
        }
        found = target.catalog.get_function("d2", "f")
        assert permanent_functions.sql_function(found) == permanent_functions.SqlFunction("d2", "x INT", "INT", "x + 1")
        again = target.import_namespace(metastore, "d1", into="d2")
        assert {each.outcome.value for each in again} == {"differs"}


def test_long_query_of_a_function_is_kept(hive: Any) -> None:
    resources = [ttypes.ResourceUri(2, "000" + "x" * 4000)]
    hive.create_function(function("default", "f", resourceUris=resources))
    assert hive.get_function("default", "f").resourceUris == resources
