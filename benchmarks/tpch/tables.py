"""The eight tables, and where and how the warehouse has them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TpchTable:
    """A table's columns, its primary cluster, and how it is divided."""

    name: str
    cluster: str
    columns: str
    year: tuple[str, str] | None = None
    """The partition column, and the date that it has the year of."""
    buckets: str = ""

    @property
    def column_names(self) -> list[str]:
        return [column.split()[0] for column in self.columns.split(", ")]

    @property
    def select_list(self) -> str:
        """The selection of an INSERT from a source that has the columns of the specification."""
        names = ", ".join(self.column_names)
        return names if self.year is None else f"{names}, year({self.year[1]})"

    def create(self) -> str:
        """The statement that makes it."""
        partitions = "" if self.year is None else f" PARTITIONED BY ({self.year[0]} int)"
        properties = f" TBLPROPERTIES ('transactional' = 'true', 'hivex.cluster' = '{self.cluster}')"
        return f"CREATE TABLE {self.name} ({self.columns}){partitions}{self.buckets}{properties}"


TABLES = {
    table.name: table
    for table in (
        TpchTable("region", "c2", "r_regionkey bigint, r_name string, r_comment string"),
        TpchTable("nation", "c2", "n_nationkey bigint, n_name string, n_regionkey bigint, n_comment string"),
        TpchTable(
            "supplier",
            "c2",
            "s_suppkey bigint, s_name string, s_address string, s_nationkey bigint, s_phone string, "
            "s_acctbal decimal(15,2), s_comment string",
        ),
        TpchTable(
            "customer",
            "c2",
            "c_custkey bigint, c_name string, c_address string, c_nationkey bigint, c_phone string, "
            "c_acctbal decimal(15,2), c_mktsegment string, c_comment string",
            buckets=" CLUSTERED BY (c_custkey) INTO 4 BUCKETS",
        ),
        TpchTable(
            "part",
            "c2",
            "p_partkey bigint, p_name string, p_mfgr string, p_brand string, p_type string, p_size int, "
            "p_container string, p_retailprice decimal(15,2), p_comment string",
            buckets=" CLUSTERED BY (p_partkey) SORTED BY (p_partkey) INTO 2 BUCKETS",
        ),
        TpchTable(
            "partsupp",
            "c2",
            "ps_partkey bigint, ps_suppkey bigint, ps_availqty int, ps_supplycost decimal(15,2), ps_comment string",
        ),
        TpchTable(
            "orders",
            "c1",
            "o_orderkey bigint, o_custkey bigint, o_orderstatus string, o_totalprice decimal(15,2), o_orderdate date, "
            "o_orderpriority string, o_clerk string, o_shippriority int, o_comment string",
            year=("o_year", "o_orderdate"),
            buckets=" CLUSTERED BY (o_orderkey) INTO 2 BUCKETS",
        ),
        TpchTable(
            "lineitem",
            "c1",
            "l_orderkey bigint, l_partkey bigint, l_suppkey bigint, l_linenumber int, l_quantity decimal(15,2), "
            "l_extendedprice decimal(15,2), l_discount decimal(15,2), l_tax decimal(15,2), l_returnflag string, "
            "l_linestatus string, l_shipdate date, l_commitdate date, l_receiptdate date, l_shipinstruct string, "
            "l_shipmode string, l_comment string",
            year=("l_year", "l_shipdate"),
        ),
    )
}

SMALL = ("region", "nation", "supplier")
"""Of these, the other cluster has copies from the beginning."""
