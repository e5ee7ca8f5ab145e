"""A script of what pyiceberg's HiveCatalog does with namespaces and tables, its locks among it.

It runs on any Hive Metastore, so that the results of two servers can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from hive_metastore import ttypes
from pyiceberg.catalog.hive import HiveCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
    WaitingForLockException,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

Call = tuple[str, Callable[[HiveCatalog], object]]
ERRORS = (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
    WaitingForLockException,
    ValueError,
)


def run(catalog: HiveCatalog, root: str) -> list[tuple[str, str]]:
    """Return the results of all calls, with what each call is. ``root`` is the folder of the metastore's files."""
    return [(label, _shown(catalog, call).replace("file://", "file:").replace(root, "")) for label, call in _calls()]


def _shown(catalog: HiveCatalog, call: Callable[[HiveCatalog], object]) -> str:
    try:
        found = call(catalog)
    except ERRORS as error:
        return type(error).__name__
    return str(sorted(found, key=str) if isinstance(found, list) else found)


def _rows(name: str, **given: Any) -> Callable[[HiveCatalog], object]:
    return lambda c: c.load_table(name).scan(**given).to_arrow().sort_by("id").to_pylist()


def _appending(name: str, *ids: int, times: int = 1) -> Callable[[HiveCatalog], object]:
    def append(catalog: HiveCatalog) -> int:
        table = catalog.load_table(name)
        for _ in range(times):
            table.append(pa.table({"id": pa.array(ids, pa.int64()), "ds": [f"d{each % 2}" for each in ids]}))
        return len(catalog.load_table(name).snapshots())

    return append


def _outdated(name: str) -> Callable[[HiveCatalog], object]:
    def append(catalog: HiveCatalog) -> None:
        first, second = catalog.load_table(name), catalog.load_table(name)
        with first.update_schema() as update:
            update.add_column("more", LongType())
        with second.update_schema() as update:
            update.add_column("less", LongType())

    return append


def _locked(name: str) -> Callable[[HiveCatalog], object]:
    def append(catalog: HiveCatalog) -> object:
        database, table = name.split(".")
        with catalog._client as client:  # noqa: SLF001 - pyiceberg has no public way to take its lock
            lock = client.lock(catalog._create_lock_request(database, table))  # noqa: SLF001
            other = HiveCatalog("other", **{**catalog.properties, "lock-check-max-wait-time": "0.1"})
            try:
                return _appending(name, 100)(other)
            finally:
                client.unlock(ttypes.UnlockRequest(lock.lockid))

    return append


def _calls() -> Iterator[Call]:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "ds", StringType()))
    by_day = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "ds"))
    yield "namespaces", lambda c: c.list_namespaces()
    yield "create a namespace", lambda c: c.create_namespace("shop", {"comment": "what is sold", "quality": "raw"})
    yield "create it again", lambda c: c.create_namespace("shop")
    yield "namespaces with it", lambda c: c.list_namespaces()
    yield "namespaces below it", lambda c: c.list_namespaces("shop")
    yield "its properties", lambda c: sorted(c.load_namespace_properties("shop").items())
    yield "change its properties", lambda c: c.update_namespace_properties("shop", {"quality"}, {"level": "2"})
    yield "its changed properties", lambda c: sorted(c.load_namespace_properties("shop").items())
    yield "properties of a missing one", lambda c: c.load_namespace_properties("nowhere")
    yield "drop a missing one", lambda c: c.drop_namespace("nowhere")
    yield "create a table", lambda c: c.create_table("shop.sales", schema, properties={"k": "v"}).schema()
    yield "create a table with partitions", lambda c: c.create_table("shop.days", schema, partition_spec=by_day).spec()
    yield "create a table again", lambda c: c.create_table("shop.sales", schema)
    yield "create a table if it does not exist", lambda c: c.create_table_if_not_exists("shop.sales", schema).schema()
    yield "create a table in a missing namespace", lambda c: c.create_table("nowhere.sales", schema)
    yield "tables", lambda c: c.list_tables("shop")
    yield "tables of a missing namespace", lambda c: c.list_tables("nowhere")
    yield "whether a table exists", lambda c: c.table_exists("shop.sales")
    yield "whether a missing table exists", lambda c: c.table_exists("shop.missing")
    yield "load a table", lambda c: c.load_table("shop.sales").location()
    yield "load a missing table", lambda c: c.load_table("shop.missing")
    for name in ("shop.sales", "shop.days"):
        yield f"append to {name}", _appending(name, 1, 2, 3)
        yield f"append to {name} more often", _appending(name, 4, times=3)
        yield f"rows of {name}", _rows(name)
        yield f"some rows of {name}", _rows(name, row_filter="ds = 'd1'")
    yield "delete rows", lambda c: c.load_table("shop.days").delete("ds = 'd1'")
    yield "rows that are left", _rows("shop.days")
    yield "overwrite rows", lambda c: c.load_table("shop.sales").overwrite(pa.table({"id": [9], "ds": ["z"]}))
    yield "rows that were overwritten", _rows("shop.sales")
    yield "a commit after another one", _outdated("shop.sales")
    yield "columns after it", lambda c: c.load_table("shop.sales").schema().column_names
    yield "append to a table that another client locks", _locked("shop.days")
    yield "append after it", _appending("shop.days", 7)
    yield "rename a table", lambda c: c.rename_table("shop.sales", "shop.sold").name()
    yield "rename a missing table", lambda c: c.rename_table("shop.sales", "shop.other").name()
    yield "rename to the name of another table", lambda c: c.rename_table("shop.sold", "shop.days").name()
    yield "rename to a missing namespace", lambda c: c.rename_table("shop.sold", "nowhere.sold").name()
    yield "tables after renames", lambda c: c.list_tables("shop")
    yield "delete from a renamed table", lambda c: c.load_table("shop.sold").delete("id = 9")
    yield "rows of a renamed table", _rows("shop.sold")
    yield "create a table of the former name", lambda c: c.create_table("shop.sales", schema).schema()
    yield (
        "register a table",
        lambda c: c.register_table("shop.known", c.load_table("shop.days").metadata_location).name(),
    )
    yield "rows of a registered table", _rows("shop.known")
    yield "drop a namespace with tables", lambda c: c.drop_namespace("shop")
    yield "drop a missing table", lambda c: c.drop_table("shop.missing")
    for name in ("sales", "sold", "known", "days"):
        yield f"drop {name}", lambda c, n=name: c.drop_table(f"shop.{n}")
    yield "drop a table again", lambda c: c.drop_table("shop.sales")
    yield "tables after drops", lambda c: c.list_tables("shop")
    yield "create, fill and drop a table in a transaction", _in_transaction
    yield "drop a namespace", lambda c: c.drop_namespace("shop")
    yield "namespaces after it", lambda c: c.list_namespaces()


def _in_transaction(catalog: HiveCatalog) -> object:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "ds", StringType()))
    with catalog.create_table_transaction("shop.made", schema) as transaction:
        transaction.append(pa.table({"id": [1], "ds": ["a"]}))
    rows = _rows("shop.made")(catalog)
    catalog.drop_table("shop.made")
    return rows
