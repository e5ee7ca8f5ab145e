from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.errors import (
    AlreadyExistsError,
    InvalidObjectError,
    InvalidOperationError,
    LocationOutsideClusterError,
    NoSuchDatabaseError,
    NoSuchPartitionError,
    NoSuchTableError,
    NotOnClusterError,
    UnknownClusterError,
)
from airflow_hivex.core.events.notification_log import EventType, NotificationLog
from airflow_hivex.core.model.objects import (
    ClusterStorageDescriptor,
    Column,
    Database,
    SortColumn,
    StorageDescriptor,
    Table,
    TableType,
)
from airflow_hivex.core.model.predicates import (
    And,
    ColumnReference,
    Comparison,
    In,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
    Unknown,
)
from airflow_hivex.core.store.engine import Store

DS = ColumnReference("ds")
HOUR = ColumnReference("hour")


def make_table(name: str = "t", **changes: object) -> Table:
    storage = StorageDescriptor(
        columns=(Column("id", "int", "the key"), Column("tags", "array<struct<a:int,b:decimal(10,2)>>")),
        primary=ClusterStorageDescriptor("c1", ""),
        num_buckets=4,
        bucket_columns=("id",),
        sort_columns=(SortColumn("id", ascending=False),),
        serde_parameters={"k": "v"},
    )
    return replace(
        Table("default", name, storage, parameters={"transactional": "true", "Mixed.Case": "Kept As Is"}, owner="me"),
        **changes,  # type: ignore[arg-type]
    )


@pytest.fixture
def events(catalog: ObjectStore) -> Table:
    """A table by day and hour, with six partitions."""
    keys = (Column("ds", "string"), Column("hour", "int"))
    table = catalog.create_table(make_table("events", partition_keys=keys))
    values = [("2013-01-01", 1), ("2013-01-01", 2), ("2013-01-02", 1), ("2013-01-02", 10), ("a/b=c %", 1), (None, 7)]
    catalog.add_partitions("default", "events", [catalog.new_partition(table, each) for each in values])
    return table


def test_table_comes_back_as_it_was_given(catalog: ObjectStore) -> None:
    created = catalog.create_table(make_table("T"))
    found = catalog.get_table("DEFAULT", "t")
    assert found == created
    assert found.storage == replace(make_table().storage, primary=ClusterStorageDescriptor("c1", "default.db/t"))
    assert found.parameters == {"transactional": "true", "Mixed.Case": "Kept As Is"}
    assert found.location.endswith("/c1/default.db/t")
    assert found.created_at is not None
    assert found.created_at.tzinfo is not None


def test_names_are_case_insensitive_and_unique(catalog: ObjectStore) -> None:
    catalog.create_table(make_table("Orders"))
    with pytest.raises(AlreadyExistsError, match=r"default\.orders"):
        catalog.create_table(make_table("ORDERS"))
    assert catalog.list_tables("Default") == ["orders"]


@pytest.mark.parametrize("name", ["", "a b", "a.b", "é", "x" * 129, "t@y"])
def test_names_that_are_none_are_refused(catalog: ObjectStore, name: str) -> None:
    with pytest.raises(InvalidObjectError):
        catalog.create_table(make_table(name))
    with pytest.raises(InvalidObjectError):
        catalog.create_database(Database(name))
    assert catalog.list_tables("default") == []


def test_missing_objects_are_distinguished(catalog: ObjectStore) -> None:
    with pytest.raises(NoSuchDatabaseError):
        catalog.get_table("nowhere", "t")
    with pytest.raises(NoSuchTableError):
        catalog.get_table("default", "t")
    with pytest.raises(NoSuchDatabaseError):
        catalog.create_table(make_table(database="nowhere"))
    with pytest.raises(NoSuchDatabaseError):
        catalog.list_tables("nowhere")
    with pytest.raises(NoSuchTableError):
        catalog.drop_table("default", "t")


def test_table_needs_a_known_cluster_and_a_place_inside_it(catalog: ObjectStore) -> None:
    def placed(cluster: str, location: str) -> Table:
        table = make_table()
        return replace(table, storage=replace(table.storage, primary=ClusterStorageDescriptor(cluster, location)))

    with pytest.raises(UnknownClusterError):
        catalog.create_table(placed("c9", ""))
    for location in ("file:///somewhere/else", "s3a://bucket/x", "../c2/x"):
        with pytest.raises(LocationOutsideClusterError):
            catalog.create_table(placed("c2", location))
    assert catalog.create_table(placed("c2", "my/place")).location.endswith("/c2/my/place")


def test_dropped_table_keeps_its_place_until_it_is_forgotten(catalog: ObjectStore) -> None:
    catalog.create_table(make_table())
    dropped = catalog.drop_table("default", "t")
    again = catalog.create_table(make_table())
    assert again.storage.primary.location == "default.db/t.v0000002"
    assert again.id != dropped.id
    catalog.forget_tables([dropped])
    assert catalog.create_table(make_table("u")).storage.primary.location == "default.db/u"
    assert catalog.get_table("default", "t") == again


def test_no_id_is_given_twice(catalog: ObjectStore, events: Table) -> None:
    # Who has an old one at hand, such as the queue of compactions, must not take the new one for it.
    catalog.add_partitions("default", "events", [catalog.new_partition(events, ["2013-01-03", 1])])
    dropped = catalog.drop_partitions("default", "events", ["ds=2013-01-03/hour=1"])
    catalog.forget_partitions(dropped)
    catalog.add_partitions("default", "events", [catalog.new_partition(events, ["2013-01-03", 1])])
    assert catalog.get_partition("default", "events", ["2013-01-03", "1"]).id not in (None, dropped[0].id)
    catalog.forget_tables([catalog.drop_table("default", "events")])
    again = catalog.create_table(make_table("events"))
    assert again.location == events.location
    assert again.id != events.id


def test_alter_changes_name_columns_and_parameters_but_not_the_place(catalog: ObjectStore) -> None:
    table = catalog.create_table(make_table())
    catalog.create_table(make_table("other"))
    storage = replace(table.storage, columns=(Column("id", "bigint"),))
    changed = catalog.alter_table("default", "t", replace(table, name="New", storage=storage, parameters={"a": "b"}))
    assert (changed.name, changed.columns, changed.parameters) == ("new", (Column("id", "bigint"),), {"a": "b"})
    assert changed.location == table.location
    with pytest.raises(NoSuchTableError):
        catalog.get_table("default", "t")
    with pytest.raises(AlreadyExistsError):
        catalog.alter_table("default", "new", replace(changed, name="other"))
    moved = replace(changed, storage=replace(changed.storage, primary=ClusterStorageDescriptor("c2", "x")))
    with pytest.raises(InvalidOperationError):
        catalog.alter_table("default", "new", moved)


def test_databases_live_and_die(catalog: ObjectStore) -> None:
    created = catalog.create_database(Database("Sales", description="d", parameters={"Owner": "x"}))
    assert (created.name, created.location, created.parameters) == ("sales", "sales.db", {"Owner": "x"})
    with pytest.raises(AlreadyExistsError):
        catalog.create_database(Database("SALES"))
    assert catalog.list_databases() == ["default", "sales"]
    assert catalog.list_databases("s*|x") == ["sales"]
    catalog.alter_database("sales", replace(created, description="new"))
    assert catalog.get_database("sales").description == "new"
    catalog.create_table(make_table(database="sales"))
    with pytest.raises(InvalidOperationError, match="1 tables; use CASCADE"):
        catalog.drop_database("sales")
    assert [table.name for table in catalog.drop_database("sales", cascade=True)] == ["t"]
    with pytest.raises(NoSuchDatabaseError):
        catalog.get_database("sales")
    with pytest.raises(InvalidOperationError):
        catalog.drop_database("default", cascade=True)


def test_partitions_are_named_as_in_hive(catalog: ObjectStore, events: Table) -> None:
    assert catalog.list_partition_names("default", "events") == [
        "ds=2013-01-01/hour=1",
        "ds=2013-01-01/hour=2",
        "ds=2013-01-02/hour=1",
        "ds=2013-01-02/hour=10",
        "ds=__HIVE_DEFAULT_PARTITION__/hour=7",
        "ds=a%2Fb%3Dc %25/hour=1",
    ]
    partition = catalog.get_partition("default", "events", ["a/b=c %", "01"])
    assert partition.values == ("a/b=c %", "1")
    assert partition.location.endswith("/c1/default.db/events/ds=a%2Fb%3Dc %25/hour=1")


@pytest.mark.parametrize(
    ("predicate", "hours"),
    [
        (Comparison(DS, "=", "2013-01-01"), {1, 2}),
        (Comparison(HOUR, "=", 1), {1}),
        (And((Comparison(DS, "=", "2013-01-02"), Comparison(HOUR, ">", 1))), {10}),
        (Comparison(HOUR, ">", 2), {10, 7}),
        (In(HOUR, (2, 10, 99)), {2, 10}),
        (In(HOUR, (2, None)), {2}),
        (Like(DS, "2013-%-02"), {1, 10}),
        (IsNull(DS), {7}),
        (Not(IsNull(DS)), {1, 2, 10}),
        (Or((Comparison(HOUR, "=", 7), Comparison(DS, "=", "a/b=c %"))), {7, 1}),
        (Comparison(DS, "<>", "2013-01-01"), {1, 10}),
        (Comparison(DS, "=", None), set()),
        (Comparison(HOUR, "=", "1"), {1}),
        (And((*(Comparison(DS, ">=", "2013"),) * 1500, Comparison(HOUR, "=", 2))), {2}),
        (Unknown(), {1, 2, 7, 10}),
    ],
)
def test_partitions_by_expression(catalog: ObjectStore, events: Table, predicate: Predicate, hours: set[int]) -> None:
    found = catalog.get_partitions_by_expr("default", "events", predicate)
    assert {int(partition.values[1]) for partition in found} == hours


def test_partitions_are_added_all_or_none(catalog: ObjectStore, events: Table) -> None:
    new = catalog.new_partition(events, ["2014-01-01", 1])
    existing = catalog.new_partition(events, ["2013-01-01", "01"])
    with pytest.raises(AlreadyExistsError, match="ds=2013-01-01/hour=1"):
        catalog.add_partitions("default", "events", [new, existing])
    assert len(catalog.list_partition_names("default", "events")) == 6
    added = catalog.add_partitions("default", "events", [new, existing, new], if_not_exists=True)
    assert added == ["ds=2014-01-01/hour=1"]


def test_partition_values_must_fit_their_keys(catalog: ObjectStore, events: Table) -> None:
    for values in (["2013-01-01"], ["2013-01-01", "noon"], ["x", 1, 2]):
        with pytest.raises(InvalidObjectError):
            catalog.new_partition(events, values)


def test_dropped_partition_can_be_added_again(catalog: ObjectStore, events: Table) -> None:
    with pytest.raises(NoSuchPartitionError, match="hour=99"):
        catalog.drop_partitions("default", "events", ["ds=2013-01-01/hour=1", "ds=2013-01-01/hour=99"])
    assert len(catalog.list_partition_names("default", "events")) == 6
    dropped = catalog.drop_partitions("default", "events", ["ds=2013-01-01/hour=1"])
    with pytest.raises(NoSuchPartitionError):
        catalog.get_partition("default", "events", ["2013-01-01", "1"])
    catalog.add_partitions("default", "events", [catalog.new_partition(events, ["2013-01-01", 1])])
    catalog.forget_partitions(dropped)
    assert catalog.get_partition("default", "events", ["2013-01-01", "1"]).id != dropped[0].id


def test_partition_calls_need_a_partitioned_table(catalog: ObjectStore) -> None:
    catalog.create_table(make_table())
    with pytest.raises(InvalidOperationError, match="no partition keys"):
        catalog.list_partition_names("default", "t")


def test_many_partitions_come_in_batches(catalog: ObjectStore) -> None:
    table = catalog.create_table(make_table("many", partition_keys=(Column("n", "int"),)))
    catalog.add_partitions("default", "many", [catalog.new_partition(table, [n]) for n in range(2500)])
    lists = list(catalog.get_partitions("default", "many", batch_size=1000))
    assert [len(each) for each in lists] == [1000, 1000, 500]
    assert {partition.values for each in lists for partition in each} == {(str(n),) for n in range(2500)}


def test_every_change_is_in_the_log_in_order(catalog: ObjectStore, store: Store, events: Table) -> None:
    catalog.drop_partitions("default", "events", ["ds=2013-01-01/hour=1"])
    catalog.drop_table("default", "events")
    log = NotificationLog(store).events()
    assert [event.type for event in log] == [
        EventType.CREATE_TABLE,
        EventType.COMMIT_TXN,
        EventType.ADD_PARTITION,
        EventType.COMMIT_TXN,
        EventType.DROP_PARTITION,
        EventType.COMMIT_TXN,
        EventType.DROP_TABLE,
        EventType.COMMIT_TXN,
    ]
    assert [event.id for event in log] == list(range(1, 9))
    assert log[4].message["partitions"] == ["ds=2013-01-01/hour=1"]
    assert [event.message["write_ids"] for event in log[1::2]] == [{"default.events": number} for number in range(1, 5)]
    assert all(change.txn_id == commit.txn_id for change, commit in zip(log[::2], log[1::2], strict=True))


def test_table_is_seen_from_clusters_that_hold_it(catalog: ObjectStore) -> None:
    table = make_table(type=TableType.EXTERNAL_TABLE, parameters={})
    catalog.create_table(replace(table, storage=replace(table.storage, primary=ClusterStorageDescriptor("c2", ""))))
    assert "/c2/" in catalog.get_table("default", "t").location
    with pytest.raises(NotOnClusterError, match="it is on c2"):
        catalog.get_table("default", "t", cluster="c1")
    with pytest.raises(UnknownClusterError):
        catalog.get_table("default", "t", cluster="c9")
    catalog.register_copy("default", "t", "c1", location="copies/t")
    # docs/reference/clusters.md, M3: a client that knows no clusters sees the default cluster's copy, once it is there.
    assert catalog.get_table("default", "t").location.endswith("/c1/copies/t")
    assert catalog.get_table("default", "t", cluster="c1").location.endswith("/c1/copies/t")
    assert "/c2/" in catalog.get_table("default", "t", cluster="c2").location
    catalog.unregister_copy("default", "t", "c1")
    assert "/c2/" in catalog.get_table("default", "t").location


def test_primary_cannot_be_its_own_copy(catalog: ObjectStore) -> None:
    catalog.create_table(make_table())
    with pytest.raises(InvalidOperationError, match="primary"):
        catalog.register_copy("default", "t", "c1")
    with pytest.raises(UnknownClusterError):
        catalog.register_copy("default", "t", "c9")
