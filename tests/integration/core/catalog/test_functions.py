from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.errors import (
    AlreadyExistsError,
    HivexError,
    InvalidObjectError,
    InvalidOperationError,
    InvalidTextError,
    NoSuchDatabaseError,
    NoSuchFunctionError,
)
from airflow_hivex.core.events.notification_log import NotificationLog
from airflow_hivex.core.model.objects import Database, OwnerType
from airflow_hivex.core.model.permanent_functions import FunctionResource, PermanentFunction, ResourceType
from airflow_hivex.core.store.engine import Store

JAR = FunctionResource(ResourceType.JAR, "hdfs:///udf/é.jar")
FUNCTION = PermanentFunction("Sales", "Hex", "org.example.Hex", (JAR,), owner="ann", owner_type=OwnerType.ROLE)


@pytest.fixture(autouse=True)
def databases(catalog: ObjectStore) -> None:
    for name in ("sales", "other"):
        catalog.create_database(Database(name))


def test_function_keeps_all_that_it_was_created_with(catalog: ObjectStore) -> None:
    created = catalog.create_function(FUNCTION)
    assert replace(created, created_at=None) == replace(FUNCTION, database="sales", name="hex")
    assert created.created_at is not None
    assert catalog.get_function("SALES", "HEX") == created
    with pytest.raises(AlreadyExistsError, match=r"sales\.hex"):
        catalog.create_function(replace(FUNCTION, name="HEX"))
    assert catalog.create_function(replace(FUNCTION, database="other")).full_name == "other.hex"


def test_altered_function_keeps_its_creation_and_may_have_another_name(catalog: ObjectStore, store: Store) -> None:
    created = catalog.create_function(FUNCTION)
    catalog.create_function(replace(FUNCTION, name="taken"))
    changed = catalog.alter_function("sales", "hex", PermanentFunction("other", "h2", "org.example.Other"))
    assert changed == PermanentFunction("other", "h2", "org.example.Other", created_at=created.created_at)
    with pytest.raises(NoSuchFunctionError):
        catalog.get_function("sales", "hex")
    with pytest.raises(AlreadyExistsError):
        catalog.alter_function("other", "h2", replace(FUNCTION, name="taken"))
    with pytest.raises(NoSuchDatabaseError):
        catalog.alter_function("other", "h2", replace(FUNCTION, database="nope"))
    assert catalog.get_function("other", "h2") == changed
    assert catalog.drop_function("other", "h2") == changed
    events = [(each.type.value, each.database) for each in NotificationLog(store).events(0)]
    assert events[-4:] == [
        ("CREATE_FUNCTION", "sales"),
        ("CREATE_FUNCTION", "sales"),
        ("ALTER_FUNCTION", "other"),
        ("DROP_FUNCTION", "other"),
    ]


def test_functions_are_listed_by_database_and_pattern(catalog: ObjectStore) -> None:
    for database, name in (("sales", "b"), ("sales", "a1"), ("sales", "a2"), ("other", "a3")):
        catalog.create_function(replace(FUNCTION, database=database, name=name))
    assert catalog.list_functions("sales") == ["a1", "a2", "b"]
    assert catalog.list_functions("sales", "A*|x") == ["a1", "a2"]
    assert [each.full_name for each in catalog.get_functions(pattern="a*")] == ["other.a3", "sales.a1", "sales.a2"]
    assert catalog.get_functions("nope") == []
    with pytest.raises(NoSuchDatabaseError):
        catalog.list_functions("nope")


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (replace(FUNCTION, name="a.b"), InvalidObjectError),
        (replace(FUNCTION, class_name=""), InvalidObjectError),
        (replace(FUNCTION, class_name="a\0b"), InvalidTextError),
        (replace(FUNCTION, class_name="a" * 4001), HivexError),
        (replace(FUNCTION, owner="a" * 129), HivexError),
        (replace(FUNCTION, resources=(FunctionResource(ResourceType.FILE, ""),)), InvalidObjectError),
        (replace(FUNCTION, database="nope"), NoSuchDatabaseError),
    ],
)
def test_function_that_cannot_be_stored_is_refused(
    catalog: ObjectStore, function: PermanentFunction, error: type[HivexError]
) -> None:
    with pytest.raises(error):
        catalog.create_function(function)
    assert catalog.get_functions() == []


def test_database_with_functions_is_dropped_by_cascade_only(catalog: ObjectStore, store: Store) -> None:
    catalog.create_function(FUNCTION)
    with pytest.raises(InvalidOperationError, match="1 functions"):
        catalog.drop_database("sales")
    assert catalog.drop_database("sales", cascade=True) == []
    assert catalog.get_functions() == []
    types = [each.type.value for each in NotificationLog(store).events(0)]
    assert types[-2:] == ["DROP_FUNCTION", "DROP_DATABASE"]


def test_no_function_is_left_without_its_database(catalog: ObjectStore, store: Store) -> None:
    """Databases are dropped while functions are created in them."""

    def create(number: int) -> str:
        try:
            return catalog.create_function(replace(FUNCTION, database=f"d{number}")).full_name
        except NoSuchDatabaseError:
            return ""

    numbers = range(5)
    for number in numbers:
        catalog.create_database(Database(f"d{number}"))
    with ThreadPoolExecutor(2) as others:
        created = others.map(create, numbers)
        for number in numbers:
            catalog.drop_database(f"d{number}", cascade=True)
        names = [name for name in created if name]
    assert catalog.get_functions() == []
    dropped = [
        each.message["object"] for each in NotificationLog(store).events(0) if each.type.value == "DROP_FUNCTION"
    ]
    assert [f"{each['database']}.{each['name']}" for each in dropped] == names
