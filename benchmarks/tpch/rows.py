"""The rows, made by tpchgen and by the rules of the refresh functions, and their sums as pyarrow finds them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.tpch.tables import TABLES

Sums = Mapping[str, int | Decimal]
"""Of each column, and how many rows there are (``rows``)."""

_GAP = 8
"""Of each 32 keys the first eight are orders of the database, the next eight of the refresh functions."""


def generate(folder: Path, scale: float) -> None:
    """Make all tables, each as Parquet files in ``folder/<cluster>/source/<table>``."""
    program = Path(sys.executable).with_name("tpchgen-cli")
    for cluster in sorted({table.cluster for table in TABLES.values()}):
        names = ",".join(table.name for table in TABLES.values() if table.cluster == cluster)
        where = folder / cluster / "source"
        where.mkdir(parents=True)
        options = (f"--scale-factor={scale}", f"--tables={names}", "--parts=1", "--quiet", f"--output-dir={where}")
        subprocess.run([str(program), "parquet", *options], check=True)


def generated(folder: Path, table: str) -> pa.Table:
    """The rows of a table as they were made."""
    found = pq.read_table(folder / TABLES[table].cluster / "source" / table)
    plain = [
        field.with_type(pa.string()) if pa.types.is_string_view(field.type) else field.remove_metadata()
        for field in found.schema
    ]
    return found.cast(pa.schema(plain))


def make_refreshes(folder: Path, scale: float, streams: int) -> Mapping[str, pa.Table]:
    """Make the rows that refresh streams 1 to ``streams`` insert and the keys of the orders that they delete.

    Each inserts and deletes one order of each thousand (scale * 1,500). The keys of the new ones are those of the
    deleted ones plus 8, in gaps that the database has for them; their rows are like those of orders elsewhere, with
    other prices. They lie in ``folder/c1/refresh`` and are returned too: ``orders``, ``lineitem``
    and ``deleted``, each with the column ``stream``.

    Source: TPC-H specification 3.0.1, clauses 2.5 to 2.7 and 4.2.3 (O_ORDERKEY); dbgen, mk_sparse.
    """
    orders, lineitem = generated(folder, "orders"), generated(folder, "lineitem")
    keys = np.sort(orders["o_orderkey"].to_numpy())
    count = streams * max(1, round(1500 * scale))
    if 2 * count > len(keys):
        raise ValueError(f"{streams} streams are too many for {len(keys)} orders")
    stream = np.repeat(np.arange(1, streams + 1, dtype=np.int32), count // streams)
    deleted = keys[:count]
    models = keys[len(keys) // 2 :][:count]

    lines = lineitem.filter(pc.is_in(lineitem["l_orderkey"], pa.array(models)))
    at = np.searchsorted(models, lines["l_orderkey"].to_numpy())
    price = _cents(lines["l_extendedprice"]) + 1 + at % 100
    lines = _with(lines, "l_orderkey", deleted[at] + _GAP)
    lines = _with(lines, "l_extendedprice", _decimals(price))
    discounted = price * (100 - _cents(lines["l_discount"])) // 100
    charged = discounted * (100 + _cents(lines["l_tax"])) // 100

    heads = orders.filter(pc.is_in(orders["o_orderkey"], pa.array(models)))
    order = np.searchsorted(models, heads["o_orderkey"].to_numpy())
    heads = _with(heads, "o_orderkey", deleted[order] + _GAP)
    totals = np.zeros(count, dtype=np.int64)
    np.add.at(totals, at, charged)
    heads = _with(heads, "o_totalprice", _decimals(totals[order]))

    made = {
        "orders": heads.append_column("stream", pa.array(stream[order])),
        "lineitem": lines.append_column("stream", pa.array(stream[at])),
        "deleted": pa.table({"orderkey": deleted, "stream": stream}),
    }
    for name, rows in made.items():
        where = folder / "c1" / "refresh" / name
        where.mkdir(parents=True)
        pq.write_table(rows, where / "rows.parquet")
    return made


def sums(rows: pa.Table) -> Sums:
    """The number of rows, and a sum of each column: of numbers, of days since 1970, of characters."""
    return {"rows": rows.num_rows, **{name: _sum(rows[name]) for name in rows.column_names}}


def sums_query(table: str) -> str:
    """The query that brings the same, column by column."""
    measures = []
    for column in TABLES[table].columns.split(", "):
        name, kind = column.split()
        value = {"string": f"length({name})", "date": f"datediff({name}, DATE '1970-01-01')"}.get(kind, name)
        measures.append(f"sum({value})")
    return f"SELECT count(*), {', '.join(measures)} FROM {table}"


def _sum(column: pa.ChunkedArray) -> int | Decimal:
    kind = column.type
    if pa.types.is_string(kind):
        column = pc.utf8_length(column)
    elif pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_decimal(kind):
        column = column.cast(pa.decimal128(38, kind.scale))
    return pc.sum(column).as_py() or 0


def _cents(column: pa.ChunkedArray) -> np.ndarray:
    return pc.multiply(column, pa.scalar(Decimal(100))).cast(pa.int64()).to_numpy()


def _decimals(cents: np.ndarray) -> pa.Array:
    return pa.array([Decimal(int(value)).scaleb(-2) for value in cents], pa.decimal128(15, 2))


def _with(rows: pa.Table, name: str, values: np.ndarray | pa.Array) -> pa.Table:
    index = rows.schema.get_field_index(name)
    return rows.set_column(index, name, values if isinstance(values, pa.Array) else pa.array(values))
