"""A program: Airflow's HiveMetastoreHook and sensors, and the client of hive-metastore-client, call metastores.

Its arguments are the addresses of metastores, each with ``=`` between a name and the address. For each call it writes
one line of JSON: the metastore, the call, and its result or the class of its error.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore, ttypes

_CONNECTION = "metastore_of_a_test"
Call = tuple[str, Callable[[], object]]


def _table(name: str, *keys: str, kind: str = "MANAGED_TABLE") -> Any:
    orc = "org.apache.hadoop.hive.ql.io.orc"
    storage = ttypes.StorageDescriptor(
        cols=[ttypes.FieldSchema("id", "bigint", "the id"), ttypes.FieldSchema("name", "string", None)],
        inputFormat=f"{orc}.OrcInputFormat",
        outputFormat=f"{orc}.OrcOutputFormat",
        serdeInfo=ttypes.SerDeInfo(None, f"{orc}.OrcSerde", {}),
        bucketCols=[],
        sortCols=[],
        parameters={},
        numBuckets=-1,
    )
    return ttypes.Table(
        tableName=name,
        dbName="air",
        owner="ann",
        sd=storage,
        partitionKeys=[ttypes.FieldSchema(key, "string", None) for key in keys],
        parameters={},
        tableType=kind,
    )


def hook_calls() -> Iterator[Call]:
    """Yield calls of Airflow's hook and sensors."""
    from airflow.providers.apache.hive.hooks.hive import HiveMetastoreHook
    from airflow.providers.apache.hive.sensors.hive_partition import HivePartitionSensor
    from airflow.providers.apache.hive.sensors.named_hive_partition import NamedHivePartitionSensor

    add = ThriftHiveMetastore.Client.add_partition
    hook = HiveMetastoreHook(metastore_conn_id=_CONNECTION)
    client = hook.get_conn()
    values = [("2026-01-01", "a"), ("2026-01-02", "a"), ("2026-01-02", "b"), ("2026-01-03", "it's")]
    with client:
        client.create_database(ttypes.Database("air", None, None, {}))
        client.create_table(_table("p", "ds", "part"))
        client.create_table(_table("one", "ds"))
        client.create_table(_table("t"))
        for ds, part in values:
            storage = _table("p").sd
            add(client, ttypes.Partition([ds, part], "air", "p", 0, 0, storage, {}))
        add(client, ttypes.Partition(["2026-01-01"], "air", "one", 0, 0, _table("one").sd, {}))
    for table in ("p", "t", "missing"):
        yield f"table_exists {table}", lambda t=table: hook.table_exists(t, "air")
        yield f"table_exists of a full name {table}", lambda t=table: hook.table_exists(f"air.{t}")
        yield f"get_table {table}", lambda t=table: hook.get_table(t, "air").tableName
        yield f"columns of {table}", lambda t=table: [(c.name, c.type) for c in hook.get_table(t, "air").sd.cols]
        for most in (None, 1, 2):
            yield (
                f"get_partitions {table} {most}",
                lambda t=table, n=most: _sorted(
                    hook.get_partitions("air", t, **({} if n is None else {"partition_filter": f"ds = '2026-01-0{n}'"}))
                ),
            )
        for name in (
            *(
                "ds=2026-01-01/part=a",
                "ds=2026-01-09/part=a",
                "ds=2026-01-01",
                "part=a/ds=2026-01-01",
                "x=1/y=2",
                "junk",
            ),
            *("", "ds=2026-01-03/part=it's", "DS=2026-01-01/part=a"),
        ):
            yield (
                f"check_for_named_partition {table} {name}",
                lambda t=table, n=name: hook.check_for_named_partition("air", t, n),
            )
        for text in (
            *(
                "ds='2026-01-01'",
                "ds = '2026-01-01' and part = 'a'",
                "ds > '2026-01-01' or part = 'x'",
                "ds like '2026-.*'",
            ),
            *("ds = '2026-09-09'", "nope = '1'", "nonsense (", "", "ds='2026-01-01' and nope = '1'", "id = 1"),
            *("ds != '2026-01-01'", 'part = "it\'s"', "ds >= '2026-01-02' and ds <= '2026-01-02'", "(ds='2026-01-01')"),
        ):
            yield f"check_for_partition {table} {text}", lambda t=table, x=text: hook.check_for_partition("air", t, x)
            yield (
                f"HivePartitionSensor {table} {text}",
                lambda t=table, x=text: HivePartitionSensor(
                    task_id="s", table=t, schema="air", partition=x, metastore_conn_id=_CONNECTION
                ).poke({}),
            )
        for part, given in (("part", {"ds": "2026-01-02"}), ("ds", None), ("ds", {"part": "a"}), ("nope", {"ds": "1"})):
            yield (
                f"max_partition {table} {part} {given}",
                lambda t=table, f=part, g=given: hook.max_partition("air", t, f, g),
            )
    yield "max_partition of one key", lambda: hook.max_partition("air", "one")
    yield "get_databases", lambda: sorted(hook.get_databases())
    yield "get_databases of a pattern", lambda: sorted(hook.get_databases("a*"))
    yield "get_tables", lambda: sorted(each.tableName for each in hook.get_tables("air"))
    yield "get_tables of a pattern", lambda: sorted(each.tableName for each in hook.get_tables("air", "*p*"))
    yield "get_tables of a missing database", lambda: hook.get_tables("nowhere")
    for name in ("air.p/ds=2026-01-01/part=a", "air.p/ds=2026-01-09/part=a", "air.missing/ds=1", "nowhere.p/ds=1"):
        yield (
            f"NamedHivePartitionSensor {name}",
            lambda n=name: NamedHivePartitionSensor(
                task_id="s", partition_names=[n], metastore_conn_id=_CONNECTION
            ).poke({}),
        )
    for table, values_of in (
        ("p", ["2026-01-02", "b"]),
        ("p", ["2026-01-09", "b"]),
        ("p", ["1"]),
        ("t", []),
        ("no", []),
    ):
        yield (
            f"drop_partitions {table} {values_of}",
            lambda t=table, v=values_of: hook.drop_partitions(t, v, db="air"),
        )
    yield "get_partitions at the end", lambda: _sorted(hook.get_partitions("air", "p"))


def client_calls(address: str) -> Iterator[Call]:
    """Yield calls of hive-metastore-client."""
    from hive_metastore_client import HiveMetastoreClient
    from hive_metastore_client.builders import (
        ColumnBuilder,
        DatabaseBuilder,
        PartitionBuilder,
        SerDeInfoBuilder,
        StorageDescriptorBuilder,
        TableBuilder,
    )

    place = urlsplit(address)
    with HiveMetastoreClient(place.hostname, place.port) as client:
        columns = [ColumnBuilder("id", "bigint").build(), ColumnBuilder("name", "string", "its name").build()]
        keys = [ColumnBuilder("ds", "string").build(), ColumnBuilder("hr", "int").build()]
        orc = "org.apache.hadoop.hive.ql.io.orc"
        serde = SerDeInfoBuilder(serialization_lib=f"{orc}.OrcSerde").build()
        storage = StorageDescriptorBuilder(
            columns=columns,
            location=None,
            input_format=f"{orc}.OrcInputFormat",
            output_format=f"{orc}.OrcOutputFormat",
            serde_info=serde,
        ).build()

        def table(name: str, database: str = "cli") -> Any:
            return TableBuilder(
                table_name=name,
                db_name=database,
                owner="ann",
                storage_descriptor=storage,
                partition_keys=keys,
            ).build()

        def partitions(*values: tuple[str, str]) -> list[Any]:
            return [PartitionBuilder(list(each), "cli", "t", sd=storage).build() for each in values]

        def names(database: str = "cli", name: str = "t") -> list[str]:
            return [each.name for each in client.get_table(database, name).sd.cols]

        database = DatabaseBuilder("cli").build()
        for again in ("", " again"):
            yield f"create_database{again}", lambda: client.create_database(database)
            yield f"create_database_if_not_exists{again}", lambda: client.create_database_if_not_exists(database)
            yield f"create_table{again}", lambda: client.create_table(table("t"))
        yield "create_table of a missing database", lambda: client.create_table(table("t", "nowhere"))
        yield "create_external_table", lambda: client.create_external_table(table("e"))
        yield "get_table of an external one", lambda: client.get_table("cli", "e").tableType
        more = [ColumnBuilder("extra", "int").build(), ColumnBuilder("last", "double").build()]
        yield "add_columns_to_table", lambda: client.add_columns_to_table("cli", "t", more)
        yield "columns that were added", names
        yield "add_columns_to_table again", lambda: client.add_columns_to_table("cli", "t", more[:1])
        yield "add_columns_to_table of a missing one", lambda: client.add_columns_to_table("cli", "missing", more)
        yield "drop_columns_from_table", lambda: client.drop_columns_from_table("cli", "t", ["name", "extra"])
        yield "columns that are left", names
        yield "drop_columns_from_table of a missing one", lambda: client.drop_columns_from_table("cli", "t", ["nope"])
        parts = partitions(("2026-01-01", "1"), ("2026-01-01", "2"), ("2026-01-02", "1"))
        yield "add_partitions_to_table", lambda: client.add_partitions_to_table("cli", "t", parts[:2])
        yield "add_partitions_to_table again", lambda: client.add_partitions_to_table("cli", "t", parts[:2])
        yield "add_partitions_if_not_exists", lambda: client.add_partitions_if_not_exists("cli", "t", parts)
        yield "add_partitions of nothing", lambda: client.add_partitions_to_table("cli", "t", [])
        yield "get_partition_keys", lambda: client.get_partition_keys("cli", "t")
        yield "get_partition_keys_names", lambda: client.get_partition_keys_names("cli", "t")
        yield "get_partition_values_from_table", lambda: sorted(client.get_partition_values_from_table("cli", "t"))
        wanted = [["2026-01-01", "2"], ["2026-01-09", "9"]]
        yield "bulk_drop_partitions", lambda: client.bulk_drop_partitions("cli", "t", wanted[:1])
        yield "bulk_drop_partitions of a missing one", lambda: client.bulk_drop_partitions("cli", "t", wanted)
        yield "partitions that are left", lambda: sorted(client.get_partition_names("cli", "t", -1))
        yield "drop_table", lambda: client.drop_table("cli", "t", True)
        yield "drop_table again", lambda: client.drop_table("cli", "t", True)
        yield "drop_database with a table", lambda: client.drop_database("cli", True, False)
        yield "drop_database", lambda: client.drop_database("cli", True, True)


def _sorted(partitions: Any) -> list[Any]:
    return sorted(partitions, key=str)


def main() -> None:
    """Call each metastore, and write what it has answered."""
    for name, _, address in (each.partition("=") for each in sys.argv[1:]):
        place = urlsplit(address)
        os.environ[f"AIRFLOW_CONN_{_CONNECTION.upper()}"] = json.dumps(
            {
                "conn_type": "hive_metastore",
                "host": place.hostname,
                "port": place.port,
                "extra": {"auth_mechanism": "NOSASL"},
            }
        )
        for calls in (hook_calls(), client_calls(address)):
            for label, call in calls:
                try:
                    found = {"result": call()}
                except Exception as error:
                    found = {"error": type(error).__name__}
                sys.stdout.write(json.dumps({"metastore": name, "call": label, **found}, default=str) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
