"""SQLAlchemy's engine over a warehouse, as programs use it: frames, reflection, transactions, errors."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import sqlalchemy as sa
from sqlalchemy import exc

from airflow_hivex.core import dbapi
from airflow_hivex.sqlalchemy import MAP, STRING, STRUCT, TINYINT
from tests.dialect import register
from tests.integration.test_documentation import blocks
from tests.waiting import wait_until

pytestmark = pytest.mark.spark
MORNING = datetime.fromisoformat("2024-01-01 05:00:00")
register()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"hivex:///{tmp_path}/metastore.db"


@pytest.fixture
def engine(url: str) -> Iterator[sa.Engine]:
    engine = sa.create_engine(url)
    yield engine
    engine.dispose()


def inserts(engine: sa.Engine, table: str) -> list[int]:
    with engine.connect() as connection:
        found = connection.execute(sa.text(f"DESCRIBE HISTORY {table}")).all()
        return [row[6] for row in found if row[5] == "INSERT"]


def test_frames_go_to_a_table_by_one_commit_and_come_back_equal(engine: sa.Engine) -> None:
    frame = pd.DataFrame(
        {
            "id": [1, 2, 3],
            "note": ["it's", None, "b\\n"],
            "amount": [1.5, None, 0.1],
            "at": pd.Series(["2024-01-01 10:00:00.123456", None, "1900-01-01 00:00:00.5"], dtype="datetime64[ns]"),
            "day": [date(2024, 1, 1), None, date(1900, 1, 1)],
            "exact": [Decimal("1.50"), None, Decimal("-2.25")],
            "is_new": [True, False, None],
        }
    )
    types = {"exact": sa.Numeric(10, 2), "is_new": sa.Boolean()}
    # The index of a frame asks for an index of the table, which has no place in the warehouse.
    assert frame.to_sql("frames", engine, dtype=types) == 3
    found = pd.read_sql("SELECT * FROM frames ORDER BY id", engine, index_col="index", coerce_float=False)
    pd.testing.assert_frame_equal(found, frame, check_names=False, check_dtype=False)
    for method in (None, "multi"):
        frame.to_sql("frames", engine, if_exists="append", method=method)
    assert inserts(engine, "frames") == [3, 3, 3]
    query = sa.text("SELECT max(id) AS id FROM frames WHERE note = :note")
    assert pd.read_sql(query, engine, params={"note": "it's"})["id"].tolist() == [1]
    frame[["id"]].to_sql("frames", engine, if_exists="replace", index=False)
    assert [column["name"] for column in sa.inspect(engine).get_columns("frames")] == ["id"]


def test_reflection_has_what_the_definition_said(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        connection.execute(sa.schema.CreateSchema("shop"))
    metadata = sa.MetaData(schema="shop")
    sa.Table("customers", metadata, sa.Column("id", sa.BigInteger, primary_key=True))
    sales = sa.Table(
        "sales",
        metadata,
        sa.Column("id", sa.BigInteger, primary_key=True),
        sa.Column("customer", sa.BigInteger, sa.ForeignKey("shop.customers.id", name="of_customer")),
        sa.Column("code", sa.String(8), server_default="new", comment="it's a code"),
        sa.Column("amount", sa.Numeric(10, 2), nullable=False),
        sa.Column("size", TINYINT),
        sa.Column("at", sa.DateTime),
        sa.Column("instant", sa.DateTime(timezone=True)),
        sa.Column("tags", sa.ARRAY(STRING)),
        sa.Column("counts", MAP(STRING(), sa.Integer())),
        sa.Column("place", STRUCT(("x", sa.Float()), ("name of", sa.String()))),
        sa.Column("day", sa.Date),
        sa.UniqueConstraint("code", name="one_code"),
        sa.CheckConstraint("amount > 0", name="is_paid"),
        comment="all sales",
        hivex_partitioned_by=["day"],
        hivex_properties={"owner team": "shop"},
    )
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE VIEW shop.large AS SELECT id FROM shop.sales WHERE amount > 100"))

    inspector = sa.inspect(engine)
    assert inspector.get_schema_names() == ["default", "shop"]
    assert (inspector.get_table_names("shop"), inspector.get_view_names("shop")) == (["customers", "sales"], ["large"])
    assert inspector.has_table("Sales", "shop")
    assert not inspector.has_table("sales")
    assert not inspector.has_table("sales", "nowhere")
    columns = {column["name"]: column for column in inspector.get_columns("sales", "shop")}
    compiled = {name: str(column["type"].compile(engine.dialect)) for name, column in columns.items()}
    assert compiled == {
        "id": "BIGINT",
        "customer": "BIGINT",
        "code": "VARCHAR(8)",
        "amount": "DECIMAL(10, 2)",
        "size": "TINYINT",
        "at": "TIMESTAMP_NTZ",
        "instant": "TIMESTAMP",
        "tags": "ARRAY<STRING>",
        "counts": "MAP<STRING, INT>",
        "place": "STRUCT<x: DOUBLE, `name of`: STRING>",
        "day": "DATE",
    }
    assert (columns["code"]["default"], columns["code"]["comment"]) == ("'new'", "it's a code")
    assert [name for name, column in columns.items() if not column["nullable"]] == ["id", "amount"]
    assert [name for name, column in columns.items() if column.get("partition")] == ["day"]
    assert inspector.get_pk_constraint("sales", "shop")["constrained_columns"] == ["id"]
    (foreign,) = inspector.get_foreign_keys("sales", "shop")
    assert (foreign["name"], foreign["referred_schema"], foreign["referred_table"]) == (
        "of_customer",
        "shop",
        "customers",
    )
    assert inspector.get_unique_constraints("sales", "shop") == [{"name": "one_code", "column_names": ["code"]}]
    assert [check["name"] for check in inspector.get_check_constraints("sales", "shop")] == ["is_paid"]
    assert inspector.get_table_comment("sales", "shop") == {"text": "all sales"}
    assert inspector.get_indexes("sales", "shop") == []
    assert "amount > 100" in inspector.get_view_definition("large", "shop")

    # A reflected table makes the same one again.
    reflected = sa.MetaData()
    sa.Table("sales", reflected, schema="shop", autoload_with=engine).to_metadata(reflected, name="copied").create(
        engine
    )
    assert sa.inspect(engine).get_table_options("copied", "shop") == {"hivex_partitioned_by": ["day"]}
    with engine.begin() as connection:
        row = {"id": 1, "amount": Decimal("2.50"), "day": date(2024, 1, 1), "at": MORNING}
        connection.execute(sales.insert(), [row, row | {"id": 2, "day": None}])
        found = connection.execute(sa.select(sales.c.id, sales.c.code, sales.c.at).order_by(sales.c.id)).all()
    assert found == [(1, "new", MORNING), (2, "new", MORNING)]


def test_rows_of_a_block_are_there_after_its_commit_and_never_after_a_rollback(engine: sa.Engine) -> None:
    table = sa.Table("t", sa.MetaData(), sa.Column("a", sa.Integer), sa.Column("order", sa.String))
    table.create(engine)
    with engine.begin() as connection:
        result = connection.execute(table.insert(), [{"a": n, "order": f"o{n}"} for n in range(5)])
        assert result.rowcount == 5
        assert connection.execute(table.update().where(table.c.a > 2).values(order="x")).rowcount == 2
        assert connection.execute(table.delete().where(table.c.a == 0)).rowcount == 1
    with engine.connect() as connection:
        connection.execute(table.insert().values(a=9))
        connection.rollback()
    counting = sa.select(sa.func.count()).select_from(table)
    with engine.connect() as connection:
        assert connection.get_isolation_level() == "SNAPSHOT"
        assert connection.scalar(counting) == 4
        query = sa.select(table.c.order).order_by(table.c.a)
        assert connection.scalars(query.limit(2).offset(1)).all() == ["o2", "x"]
        assert connection.scalars(query.offset(3)).all() == ["x"]
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(table.insert().values(a=9))
    with engine.connect() as connection:
        assert connection.get_isolation_level() == "SNAPSHOT"
        assert connection.scalar(counting) == 5


def test_errors_are_those_of_sqlalchemy_with_the_error_of_the_warehouse_in_it(engine: sa.Engine) -> None:
    table = sa.Table("t", sa.MetaData(), sa.Column("a", sa.Integer, nullable=False), sa.Column("b", sa.String))
    table.create(engine)
    with engine.connect() as connection:
        with pytest.raises(exc.ProgrammingError, match="nothing does not exist") as caught:
            connection.execute(sa.text("SELECT * FROM nothing"))
        assert isinstance(caught.value.orig, dbapi.Error)
        with pytest.raises(exc.IntegrityError, match="NOT NULL of column a"):
            connection.execute(table.insert().values(b="x"))
        with pytest.raises(exc.NotSupportedError, match="it locks no rows"):
            connection.execute(sa.select(table).with_for_update())
        with pytest.raises(exc.InvalidRequestError, match="no savepoints"):
            connection.begin_nested()
    with pytest.raises(exc.NoSuchTableError):
        sa.Table("nothing", sa.MetaData(), autoload_with=engine)
    with pytest.raises(exc.CompileError, match="UniqueConstraint"):
        sa.Index("one", table.c.a, unique=True).create(engine)


def test_a_statement_is_stopped_by_another_thread(engine: sa.Engine) -> None:
    from airflow_hivex.core.runners.running_jobs import count_jobs

    caught: list[BaseException] = []
    with engine.connect() as connection:
        connection.execute(sa.text("SELECT 1"))
        running: Any = connection.connection.dbapi_connection

        def run() -> None:
            try:
                connection.execute(sa.text("SELECT count(*) FROM range(3000000000000) WHERE sin(id) > 2"))
            except exc.DBAPIError as error:
                caught.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        wait_until(lambda: count_jobs("local") > 0)
        running.cancel()
        thread.join(60)
    assert len(caught) == 1


def test_a_connection_starts_where_its_url_says(url: str, engine: sa.Engine) -> None:
    with engine.begin() as connection:
        connection.execute(sa.schema.CreateSchema("shop"))
    of_shop = sa.create_engine(f"{url}?database=shop&cluster=local&user=ann&hive.txn.timeout=400")
    with of_shop.begin() as connection:
        assert of_shop.dialect.default_schema_name == "shop"
        connection.execute(sa.text("CREATE TABLE t (a INT)"))
        owner = connection.execute(sa.text("DESCRIBE EXTENDED t")).all()
    of_shop.dispose()
    assert ("Owner", "ann", "") in owner
    assert sa.inspect(engine).get_table_names("shop") == ["t"]


def test_examples_of_the_page_run(url: str) -> None:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "sqlalchemy.md"
    first, second = blocks(page, "python")
    names: dict[str, Any] = {}
    exec(first.replace("hivex:////data/metastore.db", url), names)
    assert names["notes"].values.tolist() == [[2, None]]
    assert names["tables"] == ["notes"]
    exec(second, names)
    with names["engine"].begin() as connection:
        connection.execute(sa.schema.CreateSchema("shop"))
        names["metadata"].create_all(connection)
    names["engine"].dispose()
