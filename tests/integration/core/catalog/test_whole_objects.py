from __future__ import annotations

import itertools
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select

from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.errors import InvalidObjectError, NoSuchPartitionError
from airflow_hivex.core.model.objects import (
    ClusterStorageDescriptor,
    Column,
    OwnerType,
    Partition,
    SerDe,
    Skew,
    SortColumn,
    StorageDescriptor,
    StoredPartition,
    StoredTable,
    Table,
    TableType,
)
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.schema import partitions, storage_descriptors, tables

TYPES = (
    "int",
    "BIGINT",
    "decimal(10, 2)",
    "DECIMAL( 38 , 18 )",
    "varchar(20)",
    "timestamp with local time zone",
    "interval_day_time",
    "uniontype<int,string>",
    "struct<A:Int,`b c`:array<map<string,double>>>",
    "binary",
)
TEXTS = (
    "",
    "plain",
    "a 'quoted' \"one\"",
    "back\\slash",
    "new\nline\tand tab",
    "été ☃",
    "x" * 5000,
    "${hiveconf:a}",
)
CLASSES = (
    "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat",
    "org.apache.hadoop.mapred.TextInputFormat",
    "com.example.Own$Format",
)
NAMES = ("id", "Name", "amount", "c 4", "ünï", "_c0")


class Shapes:
    """Makes objects with anything that Hive's structures can hold, the same ones for the same number."""

    def __init__(self, number: int) -> None:
        self._random = random.Random(number)

    def _maybe(self, *values: object) -> object:
        return self._random.choice((None, *values))

    def _some(self, values: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self._random.sample(values, self._random.randint(0, len(values))))

    def _properties(self) -> dict[str, str]:
        keys = ("a", "A", "serialization.format", "spark.sql.sources.schema.part.0", "k " * 3, "ключ")
        return {key: self._random.choice(TEXTS) for key in self._some(keys)}

    def _time(self) -> datetime | None:
        moment = datetime(1960 + self._random.randint(0, 100), 2, 28, tzinfo=UTC)
        return None if self._random.random() < 0.3 else moment + timedelta(milliseconds=self._random.randint(1, 10**9))

    def columns(self) -> tuple[Column, ...]:
        comment = self._random.choice
        return tuple(
            Column(name, self._random.choice(TYPES), comment((None, *TEXTS))) for name in ("id", *self._some(NAMES[1:]))
        )

    def skew(self, columns: tuple[Column, ...]) -> Skew | None:
        if self._random.random() < 0.4:
            return None
        names = tuple(column.name for column in columns)[:2]
        values = tuple(tuple(self._random.choice(TEXTS) for _ in names) for _ in range(self._random.randint(0, 3)))
        return Skew(names, values, {each: f"list_bucketing/{i}" for i, each in enumerate(values)})

    def storage(self, location: str = "") -> StorageDescriptor:
        columns = self.columns()
        names = tuple(column.name for column in columns)
        return StorageDescriptor(
            columns=columns,
            primary=ClusterStorageDescriptor("c1", location),
            format=self._random.choice(("orc", "parquet", "csv", "textfile", "com.example.source")),
            serde_parameters=self._properties(),
            num_buckets=self._random.choice((-1, 0, 1, 4095)),
            bucket_columns=self._some(names),
            sort_columns=tuple(SortColumn(name, self._random.random() < 0.5) for name in self._some(names)),
            input_format=self._maybe(*CLASSES),  # type: ignore[arg-type]
            output_format=self._maybe(*CLASSES),  # type: ignore[arg-type]
            serde=SerDe(*(self._maybe(*CLASSES, *TEXTS) for _ in range(6))),  # type: ignore[arg-type]
            parameters=self._properties(),
            compressed=self._random.random() < 0.5,
            skew=self.skew(columns),
            stored_as_sub_directories=self._random.random() < 0.5,
        )

    def table(self) -> Table:
        kind = self._random.choice(list(TableType))
        is_view = kind is TableType.VIRTUAL_VIEW
        keys = self._random.choice(((), (Column("ds", "string", "day"), Column("hour", "int"))))
        return Table(
            "default",
            "t",
            self.storage("" if is_view else "somewhere/t"),
            partition_keys=() if is_view else keys,
            type=kind,
            parameters=self._properties() | ({"transactional": "true"} if kind is TableType.MANAGED_TABLE else {}),
            owner=self._random.choice((None, "etl", "a b@c")),
            comment=self._random.choice((None, *TEXTS)),
            created_at=self._time(),
            view_original_text="SELECT 1 AS `a`" if is_view else None,
            view_expanded_text="SELECT 1 AS `a` -- é" if is_view else None,
            owner_type=self._random.choice(list(OwnerType)),
            last_accessed_at=self._time(),
            retention=self._random.choice((0, 7, 2**31 - 1)),
        )

    def partition(self, catalog: ObjectStore, table: Table, number: int) -> Partition:
        bare = catalog.new_partition(table, [self._random.choice(("2024-02-29", "a/b=c %", "é")), number])
        own = None if self._random.random() < 0.2 else self.storage(f"elsewhere/{number}")
        return replace(
            bare,
            location=f"elsewhere/{number}" if own is None else "",
            parameters=self._properties(),
            created_at=self._time(),
            storage=own,
            last_accessed_at=self._time(),
        )


def as_given(found: Table | Partition, given: Table | Partition) -> Table | Partition:
    """What was found, without the parts that the catalog adds to a new object."""
    created_at = found.created_at if given.created_at is not None else None
    value = found.definition if isinstance(found, (StoredTable, StoredPartition)) else found
    return replace(value, location=given.location, created_at=created_at)


@pytest.mark.parametrize("number", range(50))
def test_objects_of_any_shape_come_back_equal(catalog: ObjectStore, store: Store, number: int) -> None:
    shapes = Shapes(number)
    given = shapes.table()
    catalog.create_table(given)
    found = catalog.get_table("default", "t")
    assert as_given(found, given) == given
    if given.is_partitioned:
        wanted = [shapes.partition(catalog, found, each) for each in range(4)]
        catalog.add_partitions("default", "t", wanted)
        back = {partition.name: partition for batch in catalog.get_partitions("default", "t") for partition in batch}
        assert [as_given(back[each.name], each) for each in wanted] == wanted
        assert catalog.get_partition("default", "t", wanted[0].values) == back[wanted[0].name]
    changed = replace(shapes.table(), type=given.type, created_at=given.created_at)
    changed = replace(changed, storage=replace(changed.storage, primary=found.storage.primary))
    catalog.alter_table("default", "t", changed)
    assert as_given(catalog.get_table("default", "t"), changed) == changed

    catalog.forget_tables([catalog.drop_table("default", "t")])
    with store.read() as connection:
        for rows in (tables, partitions, storage_descriptors):
            assert connection.execute(select(func.count()).select_from(rows)).scalar_one() == 0, rows.name


def test_dropped_partition_leaves_no_storage_descriptor_behind(catalog: ObjectStore, store: Store) -> None:
    shapes = Shapes(0)
    table = catalog.create_table(Table("default", "t", shapes.storage("t"), partition_keys=(Column("p", "int"),)))
    own = [replace(catalog.new_partition(table, [i]), storage=shapes.storage(f"at/{i}")) for i in range(3)]
    catalog.add_partitions("default", "t", own)
    # Those that are there already keep what they have.
    assert catalog.add_partitions("default", "t", own, if_not_exists=True) == []
    catalog.forget_partitions(catalog.drop_partitions("default", "t", ["p=1", "p=2"]))
    with store.read() as connection:
        assert connection.execute(select(func.count()).select_from(storage_descriptors)).scalar_one() == 2


def test_altered_partitions_come_back_equal_where_they_were(catalog: ObjectStore, store: Store) -> None:
    shapes = Shapes(0)
    table = catalog.create_table(Table("default", "t", shapes.storage("t"), partition_keys=(Column("p", "int"),)))
    storages = (None, shapes.storage("own/1"), shapes.storage("own/2"))
    for number, (before, after) in enumerate(itertools.product(storages, repeat=2)):
        catalog.add_partitions("default", "t", [replace(catalog.new_partition(table, [number]), storage=before)])
        found = catalog.get_partition("default", "t", [str(number)])
        place = ClusterStorageDescriptor("c1", f"t/p={number}" if before is None else before.primary.location)
        wanted = replace(
            found,
            parameters={"changed": "yes"},
            storage=None if after is None else replace(after, primary=place),
            last_accessed_at=datetime(2024, 5, 6, tzinfo=UTC),
        )
        (stored,) = catalog.alter_partitions("default", "t", [replace(wanted, location="elsewhere")])
        assert stored == wanted
        assert catalog.get_partition("default", "t", [str(number)]) == wanted
    with store.read() as connection:
        own = select(func.count()).select_from(storage_descriptors)
        # That of the table, and two of three new ones.
        assert connection.execute(own).scalar_one() == 1 + 6


def test_partitions_are_altered_all_or_none(catalog: ObjectStore) -> None:
    table = catalog.create_table(Table("default", "t", Shapes(0).storage("t"), partition_keys=(Column("p", "int"),)))
    catalog.add_partitions("default", "t", [catalog.new_partition(table, [1])])
    version = catalog.get_table("default", "t").version
    one, two = (replace(catalog.new_partition(table, [each]), parameters={"a": "b"}) for each in (1, 2))
    with pytest.raises(NoSuchPartitionError):
        catalog.alter_partitions("default", "t", [one, two])
    with pytest.raises(InvalidObjectError, match="twice"):
        catalog.alter_partitions("default", "t", [one, one])
    assert catalog.get_partition("default", "t", ["1"]).parameters == {}
    assert catalog.get_table("default", "t").version == version
    catalog.alter_partitions("default", "t", [one])
    assert catalog.get_table("default", "t").version > version


def test_partition_lies_on_the_cluster_of_its_table(catalog: ObjectStore) -> None:
    shapes = Shapes(0)
    table = catalog.create_table(Table("default", "t", shapes.storage("t"), partition_keys=(Column("p", "int"),)))
    elsewhere = replace(shapes.storage(), primary=ClusterStorageDescriptor("c2", "p"))
    with pytest.raises(InvalidObjectError, match="c1"):
        catalog.add_partitions("default", "t", [replace(catalog.new_partition(table, [1]), storage=elsewhere)])


def test_time_without_a_zone_is_refused(catalog: ObjectStore) -> None:
    table = Table("default", "t", Shapes(0).storage(), created_at=datetime(2024, 1, 1))  # noqa: DTZ001
    with pytest.raises(InvalidObjectError, match="time zone"):
        catalog.create_table(table)
