"""A program: Spark with its own Hive support runs a list of statements against one metastore after the other.

Its arguments are a folder, ``all`` or ``share``, and the address of each metastore, with ``=`` between the name of a
folder below and the address. For each statement it writes one line of JSON: the metastore, the statement, and its
rows or its error.
"""

from __future__ import annotations

import json
import shutil
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

STATEMENTS = """
show databases
create database d1
describe database extended d1
use d1
show tables
create table d1.h_orc (id bigint, name string) stored as orc
create table d1.ds_pq (id bigint, name string) using parquet
create table d1.h_part (id bigint, name string) partitioned by (ds string, hr int) stored as orc
create table d1.ds_part (id bigint, name string, ds string, hr int) using parquet partitioned by (ds, hr)
create external table d1.ext (id bigint) stored as parquet location '{folder}/ext'
create table d1.lines (id int, name string) using csv options (header 'true', sep ';')
create table d1.nested (id int, s struct<A: int, b: array<map<string, decimal(5,2)>>>, v varchar(5)) using json
create table d1.text (id int, name string) row format delimited fields terminated by '|'
create table d1.h_orc (id int) stored as orc
insert into d1.h_orc values (1,'a'),(2,'b')
insert into d1.ds_pq values (1,'a'),(2,'b')
insert into d1.lines values (1,'a;b')
insert into d1.nested values (1, named_struct('A', 1, 'b', array(map('k', 1.5BD))), 'x')
insert into d1.text values (1,'a'),(2,null)
select * from d1.h_orc order by id
select * from d1.ds_pq order by id
select * from d1.lines
select * from d1.nested
select * from d1.text order by id
insert into d1.h_part partition (ds='2026-01-01', hr=1) values (1,'a')
insert overwrite table d1.h_part partition (ds='2026-01-01', hr=1) values (2,'b')
insert into d1.h_part partition (ds, hr) values (1,'x','2026-01-02',1),(2,'y','2026-01-02',2),(3,'z','2026-01-03',1)
insert into d1.ds_part partition (ds='2026-01-01', hr=1) values (1,'a')
insert into d1.ds_part values (1,'x','2026-01-02',1),(2,'y','2026-01-02',2),(4,'n',null,3)
insert overwrite table d1.ds_part partition (ds, hr) values (9,'x','2026-01-02',1)
select * from d1.h_part where ds = '2026-01-02' and hr > 1
select * from d1.h_part where ds in ('2026-01-02','2026-01-03') order by id
select * from d1.h_part where ds like '%-02' order by id
select * from d1.h_part order by id
select * from d1.ds_part where ds = '2026-01-02'
select * from d1.ds_part order by id
show partitions d1.h_part
show partitions d1.h_part partition (ds='2026-01-02')
show partitions d1.ds_part
alter table d1.h_part add partition (ds='2026-02-01', hr=3)
alter table d1.h_part add if not exists partition (ds='2026-02-01', hr=3) partition (ds='2026-02-02', hr=3)
alter table d1.h_part add partition (ds='2026-02-01', hr=3)
alter table d1.h_part partition (ds='2026-02-01', hr=3) rename to partition (ds='2026-02-09', hr=9)
alter table d1.h_part partition (ds='2026-01-03', hr=1) rename to partition (ds='2026-01-04', hr=4)
select * from d1.h_part where ds = '2026-01-04'
alter table d1.h_part drop partition (ds='2026-02-02', hr=3)
alter table d1.h_part drop if exists partition (ds='2026-12-02', hr=3)
alter table d1.h_part drop partition (ds='2026-12-02', hr=3)
msck repair table d1.h_part
select count(*) from d1.h_part where ds = '2026-03-01'
alter table d1.h_orc set tblproperties ('k'='v')
alter table d1.h_orc unset tblproperties ('k')
alter table d1.h_orc add columns (extra int)
alter table d1.h_orc rename to d1.h_orc2
select * from d1.h_orc2 order by id
insert into d1.h_orc2 values (3,'c',9)
select * from d1.h_orc2 where extra = 9
alter table d1.ds_pq rename to d1.ds_pq2
select * from d1.ds_pq2 order by id
insert into d1.ds_pq2 values (3,'c')
select count(*) from d1.ds_pq2
analyze table d1.h_orc2 compute statistics
analyze table d1.h_part partition (ds='2026-01-02') compute statistics
analyze table d1.ds_pq2 compute statistics for all columns
describe extended d1.ds_pq2 id
create view d1.v1 as select id from d1.ds_pq2
select * from d1.v1 order by id
alter view d1.v1 as select id, name from d1.ds_pq2
select * from d1.v1 order by id
describe extended d1.h_part
describe formatted d1.ds_part
describe extended d1.h_part partition (ds='2026-01-02', hr=1)
show create table d1.h_part
show create table d1.ds_part
show create table d1.v1
show tables in d1
show table extended in d1 like '*'
show views in d1
show tblproperties d1.h_orc2
truncate table d1.h_orc2
select count(*) from d1.h_orc2
truncate table d1.ds_part partition (ds='2026-01-01', hr=1)
select count(*) from d1.ds_part
select * from d1.missing
create table d1.ctas stored as orc as select * from d1.ds_pq2
create table d1.ctas2 using orc as select * from d1.ds_pq2
select * from d1.ctas order by id
create function d1.f1 as 'org.apache.hadoop.hive.ql.udf.UDFHex' using jar '{folder}/empty.jar'
select d1.f1(255), F1(254)
create function d1.f1 as 'org.apache.hadoop.hive.ql.udf.UDFBin'
create function if not exists d1.f1 as 'org.apache.hadoop.hive.ql.udf.UDFBin'
describe function d1.f1
create or replace function d1.f1 as 'org.apache.hadoop.hive.ql.udf.UDFBin' using jar '{folder}/empty.jar'
select d1.f1(5)
create function d1.twice(x int) returns int return 2 * x
select d1.twice(21)
show user functions in d1
drop function d1.nope
drop function if exists d1.nope
drop function d1.f1
select d1.f1(5)
show user functions in d1 like 't*'
drop view d1.v1
drop table d1.h_orc2
drop table d1.h_part
drop table d1.ds_part
drop table if exists d1.nope
drop table d1.nope
drop database d1
drop database d1 cascade
show databases
create database d2
create table d2.t using parquet as select 1 as id
create table d2.t_new stored as orc as select 2 as id
alter table d2.t rename to d2.t_old
alter table d2.t_new rename to d2.t
select * from d2.t
select * from d2.t_old
create table d2.t_new (id int) using parquet
insert into d2.t_new values (3)
alter table d2.t rename to d2.x
alter table d2.t_old rename to d2.t
alter table d2.x rename to d2.t_old
select * from d2.t
select * from d2.t_old
select * from d2.t_new
drop table d2.t
create table d2.t using orc as select 4 as id
alter table d2.t rename to d2.t_2
select * from d2.t_2
create table d2.p using parquet partitioned by (ds) as select 5 as id, 'a' as ds
alter table d2.p rename to d2.p_2
insert into d2.p_2 values (6, 'b')
select * from d2.p_2 order by id
show partitions d2.p_2
drop database d2 cascade
""".strip().splitlines()


SHARE = (*range(1, 8), 14, 19, 24, 26, 30, 36, 37, 87, 88, 109, 110)
"""The numbers of a few statements that need no others."""


def run(address: str, folder: Path, statements: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the result of each statement."""
    warehouse = folder / "warehouse"
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.sql.catalogImplementation", "hive")
        .config("spark.hadoop.hive.metastore.uris", address)
        .config("spark.hadoop.hive.exec.dynamic.partition.mode", "nonstrict")
        .config("spark.sql.warehouse.dir", warehouse.as_uri())
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    (folder / "ext").mkdir()
    with zipfile.ZipFile(folder / "empty.jar", "w"):
        pass
    for statement in statements:
        if statement.startswith("msck"):
            of_table = warehouse / "d1.db/h_part"
            shutil.copytree(of_table / "ds=2026-01-02/hr=1", of_table / "ds=2026-03-01/hr=7")
        found: dict[str, Any] = {"statement": statement}
        try:
            rows = spark.sql(statement.format(folder=folder)).collect()
            found["rows"] = [[str(value) for value in row] for row in rows]
        except PySparkException as error:
            # Spark 3.5 has the name that Spark 4 replaces.
            condition = getattr(error, "getCondition", None) or error.getErrorClass
            found["error"] = condition() or str(error).splitlines()[0]
        yield found
    spark.stop()
    SparkSession._instantiatedSession = None  # noqa: SLF001


def main(folder: str, amount: str, *metastores: str) -> None:
    statements = STATEMENTS if amount == "all" else [STATEMENTS[number] for number in SHARE]
    for given in metastores:
        name, _, address = given.partition("=")
        place = Path(folder) / name
        place.mkdir(exist_ok=True)
        for found in run(address, place, statements):
            sys.stdout.write(json.dumps({"metastore": name, **found}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
