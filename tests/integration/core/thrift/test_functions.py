from __future__ import annotations

from typing import Any

import pytest
from hive_metastore import ttypes

from airflow_hivex.core.metastore import Metastore


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
