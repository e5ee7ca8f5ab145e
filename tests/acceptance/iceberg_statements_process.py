"""A program: Spark with Iceberg's HiveCatalog, which locks tables, runs statements against metastores.

Its arguments are a folder, the jars of Iceberg with commas between, and the address of each metastore, with ``=``
between the name of a folder below and the address. For each statement it writes one line of JSON: the metastore, the
statement, and its rows or its error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

STATEMENTS = """
create namespace ice.d1
show namespaces in ice
create table ice.d1.t (id bigint, name string) using iceberg
create table ice.d1.t (id bigint) using iceberg
insert into ice.d1.t values (1,'a'),(2,'b'),(3,'c')
select * from ice.d1.t order by id
update ice.d1.t set name = 'z' where id = 2
delete from ice.d1.t where id = 1
create table ice.d1.s using iceberg as select 3L id, 'm' name union all select 4L, 'n'
merge into ice.d1.t using ice.d1.s on t.id = s.id when matched then update set * when not matched then insert *
select * from ice.d1.t order by id
alter table ice.d1.t add columns (extra int)
alter table ice.d1.t rename column extra to more
alter table ice.d1.t alter column more type bigint
alter table ice.d1.t drop column more
alter table ice.d1.t set tblproperties ('k'='v')
alter table ice.d1.t unset tblproperties ('k')
describe table extended ice.d1.t
show create table ice.d1.t
create table ice.d1.p (id bigint, ds string) using iceberg partitioned by (ds, bucket(4, id))
insert into ice.d1.p values (1,'2026-01-01'),(2,'2026-01-02')
insert overwrite ice.d1.p select 3, '2026-01-03'
alter table ice.d1.p add partition field truncate(2, ds)
select * from ice.d1.p order by id
create table ice.d1.c using iceberg as select * from ice.d1.t
create or replace table ice.d1.c using iceberg as select id from ice.d1.t
replace table ice.d1.c using iceberg as select name from ice.d1.t
select * from ice.d1.c order by 1
create or replace table ice.d1.new using iceberg as select 1 as one
alter table ice.d1.t create branch b1
insert into ice.d1.t.branch_b1 values (9,'branch')
select * from ice.d1.t version as of 'b1' order by id
alter table ice.d1.t create tag t1
call ice.system.rewrite_data_files(table => 'd1.t')
call ice.system.expire_snapshots(table => 'd1.t', older_than => timestamp '2001-01-01 00:00:00')
call ice.system.rewrite_manifests('d1.t')
select operation from ice.d1.t.snapshots order by committed_at limit 3
create view ice.d1.v as select id from ice.d1.t
select * from ice.d1.v order by id
show views in ice.d1
drop view ice.d1.v
alter table ice.d1.new rename to ice.d1.old
show tables in ice.d1
select * from ice.d1.missing
drop table ice.d1.missing
drop table if exists ice.d1.missing
create table ice.nowhere.t (id bigint) using iceberg
insert into ice.nowhere.t values (1)
alter namespace ice.d1 set properties ('a'='b')
describe namespace extended ice.d1
drop namespace ice.d1
truncate table ice.d1.p
drop table ice.d1.p
drop table ice.d1.c purge
drop table ice.d1.old
drop table ice.d1.s
drop table ice.d1.t
drop namespace ice.d1
show namespaces in ice
""".strip().splitlines()


def run(address: str, folder: Path, jars: str) -> Iterator[dict[str, Any]]:
    """Yield the result of each statement."""
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars", jars)
        .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        .config("spark.sql.catalog.ice", "org.apache.iceberg.spark.SparkCatalog")
        .config("spark.sql.catalog.ice.type", "hive")
        .config("spark.sql.catalog.ice.uri", address)
        .config("spark.sql.catalog.ice.warehouse", (folder / "warehouse").as_uri())
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    try:
        for statement in STATEMENTS:
            try:
                rows = [[str(value) for value in row] for row in spark.sql(statement).collect()]
                yield {"statement": statement, "rows": rows}
            except PySparkException as error:
                yield {"statement": statement, "error": f"{type(error).__name__} {error.getErrorClass()}"}
            except Py4JJavaError as error:
                yield {"statement": statement, "error": error.java_exception.getClass().getName()}
    finally:
        spark.stop()


def main() -> None:
    """Run the statements against each metastore."""
    folder, jars, *metastores = sys.argv[1:]
    for name, _, address in (each.partition("=") for each in metastores):
        for found in run(address, Path(folder) / name, jars):
            sys.stdout.write(json.dumps({"metastore": name, **found}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
