from __future__ import annotations

from typing import Any

import pytest
from hive_metastore import ttypes

from airflow_hivex.core.metastore import Metastore
from tests.hive_endpoint import table

_COLUMNS = """id bigint NOT NULL, name string DEFAULT 'new' NOT NULL,
  CONSTRAINT positive CHECK (id > 0), CONSTRAINT both CHECK (id < 9 OR name <> 'x')"""


def requested(kind: Any, name: str, database: str = "default") -> Any:
    return kind(db_name=database, tbl_name=name, catName="hive")


def of(constraint: Any, *fields: str) -> tuple[Any, ...]:
    return tuple(getattr(constraint, each) for each in fields)


def not_null(name: str, column: str, **given: Any) -> Any:
    return ttypes.SQLNotNullConstraint("hive", "default", name, column, enable_cstr=True, **given)


def default(name: str, column: str, text: str, **given: Any) -> Any:
    return ttypes.SQLDefaultConstraint("hive", "default", name, column, text, enable_cstr=True, **given)


def check(name: str, text: str | None, called: str | None = None) -> Any:
    return ttypes.SQLCheckConstraint("hive", "default", name, None, text, called, enable_cstr=True)


def primary_key(name: str, column: str = "id", number: int = 1, *, enabled: bool = False) -> Any:
    return ttypes.SQLPrimaryKey("default", name, column, number, "key", enabled, False, True, "hive")


def acid(name: str = "t") -> Any:
    return table("default", name, parameters={"transactional": "true"})


def test_constraints_of_a_table_are_shown_to_clients(hive: Any, metastore: Metastore) -> None:
    with metastore.session() as session:
        session.sql(f"CREATE TABLE t ({_COLUMNS})")
        session.sql("CREATE DATABASE other")
        session.sql("USE other")
        session.sql("CREATE LINK TO t@default")
    found = hive.get_all_table_constraints(ttypes.AllTableConstraintsRequest("default", "T", "hive"))
    everything = found.allTableConstraints
    assert [of(each, "table_db", "table_name", "column_name", "nn_name") for each in everything.notNullConstraints] == [
        ("default", "t", "id", "id_not_null"),
        ("default", "t", "name", "name_not_null"),
    ]
    assert [of(each, "column_name", "default_value", "dc_name") for each in everything.defaultConstraints] == [
        ("name", "'new'", "name_default")
    ]
    assert [of(each, "column_name", "check_expression", "dc_name") for each in everything.checkConstraints] == [
        ("id", "id > 0", "positive"),
        (None, "id < 9 OR name <> 'x'", "both"),
    ]
    assert of(everything.notNullConstraints[0], "enable_cstr", "validate_cstr", "rely_cstr") == (True, True, True)
    assert (everything.primaryKeys, everything.foreignKeys, everything.uniqueConstraints) == ([], [], [])
    for call, kind, answer in (
        (hive.get_not_null_constraints, ttypes.NotNullConstraintsRequest, everything.notNullConstraints),
        (hive.get_default_constraints, ttypes.DefaultConstraintsRequest, everything.defaultConstraints),
        (hive.get_check_constraints, ttypes.CheckConstraintsRequest, everything.checkConstraints),
    ):
        (shown,) = vars(call(requested(kind, "t"))).values()
        assert shown == answer
        (shown,) = vars(call(requested(kind, "t", "@c2#default"))).values()
        assert {each.table_db for each in shown} == {"@c2#default"}
        (linked,) = vars(call(requested(kind, "t@default", "other"))).values()
        assert len(linked) == len(answer)
        with pytest.raises(ttypes.NoSuchObjectException):
            call(requested(kind, "missing"))


def test_table_is_created_with_the_constraints_of_a_client(hive: Any, metastore: Metastore) -> None:
    hive.create_table_with_constraints(
        acid(), [], [], [], [not_null("t", "ID")], [default("t", "name", "'new'")], [check("t", "id > 0")]
    )
    request = ttypes.CreateTableRequest(acid("u"), checkConstraints=[check("u", "id > 0", "Positive")])
    hive.create_table_req(request)
    with metastore.session() as session:
        assert session.sql("SHOW CREATE TABLE t").rows[0][0].splitlines()[1:4] == [
            "  `id` bigint NOT NULL,",
            "  `name` string DEFAULT 'new',",
            "  CONSTRAINT `check_1` CHECK (id > 0))",
        ]
        assert "CONSTRAINT `positive` CHECK (id > 0)" in session.sql("SHOW CREATE TABLE u").rows[0][0]


@pytest.mark.parametrize(
    ("given", "described", "reason"),
    [
        ([[primary_key("t", enabled=True)], [], [], [], [], []], acid(), "nothing enforces a PRIMARY KEY"),
        ([[], [], [], [not_null("t", "nope")], [], []], acid(), "has no column nope"),
        ([[], [], [], [], [default("t", "name", "id")], []], acid(), "it reads a column"),
        ([[], [], [], [], [default("t", "id", "'x'")], []], acid(), "is not a valid value"),
        ([[], [], [], [], [], [check("t", "id >")]], acid(), "not a valid expression"),
        ([[], [], [], [], [], [check("t", "id IN (SELECT 1)")]], acid(), "not a valid expression"),
        ([[], [], [], [], [], [check("t", None)]], acid(), "has no expression|it has no expression"),
        ([[], [], [], [], [], [check("t", "1 > 0")]], acid(), "compares no column"),
        ([[], [], [], [], [], [check("t", "id > 0", "a"), check("t", "id > 1", "A")]], acid(), "given twice"),
        ([[], [], [], [not_null("t", "id")], [], []], table("default", "t"), "rows of an external table"),
        ([[], [], [], [], [], []], table("default", "t", parameters={"hivex.not.null": "id"}), "is set by DEFAULT"),
    ],
)
def test_constraints_that_cannot_be_kept_are_refused(hive: Any, given: Any, described: Any, reason: str) -> None:
    with pytest.raises((ttypes.InvalidObjectException, ttypes.MetaException), match=reason):
        hive.create_table_with_constraints(described, *given)
    assert hive.get_all_tables("default") == []


def test_constraints_are_added_and_dropped_by_name(hive: Any, metastore: Metastore) -> None:
    hive.create_table(acid())
    hive.add_default_constraint(ttypes.AddDefaultConstraintRequest([default("t", "name", "'new'")]))
    with metastore.session() as session:
        session.sql(f"CREATE TABLE u ({_COLUMNS})")
    for call, request in (
        (hive.add_primary_key, ttypes.AddPrimaryKeyRequest([primary_key("t", enabled=True)])),
        (hive.add_default_constraint, ttypes.AddDefaultConstraintRequest([default("t", "name", "name")])),
        (hive.add_check_constraint, ttypes.AddCheckConstraintRequest([check("t", "id > 0"), check("u", "id > 0")])),
        (
            hive.add_not_null_constraint,
            ttypes.AddNotNullConstraintRequest([not_null("t", "missing")]),
        ),
    ):
        with pytest.raises(ttypes.MetaException):
            call(request)
    with pytest.raises(ttypes.NoSuchObjectException):
        hive.add_default_constraint(ttypes.AddDefaultConstraintRequest([default("missing", "id", "1")]))
    hive.drop_constraint(ttypes.DropConstraintRequest("default", "t", "NAME_default"))
    for name in ("name_not_null", "both", "id_not_null", "positive", "name_default"):
        hive.drop_constraint(ttypes.DropConstraintRequest("default", "u", name))
        with pytest.raises(ttypes.NoSuchObjectException, match="has no constraint"):
            hive.drop_constraint(ttypes.DropConstraintRequest("default", "u", name))
    for name in ("t", "u"):
        parameters = metastore.catalog.get_table("default", name).parameters
        assert not [each for each in parameters if each.startswith(("hivex.default", "hivex.check", "hivex.not"))]


def test_keys_that_nothing_enforces_are_kept_for_clients(hive: Any) -> None:
    off = {"enable_cstr": False, "validate_cstr": False, "rely_cstr": False}
    foreign = ttypes.SQLForeignKey("default", "p", "x", "default", "t", "id", 1, fk_name="child", **off)
    disabled = ttypes.SQLNotNullConstraint("hive", "default", "t", "id", "never", **off)
    keys = [primary_key("t", "name", 2), primary_key("t", "id", 1)]
    hive.create_table_with_constraints(acid(), keys, [foreign], [], [disabled], [], [])
    unique = [ttypes.SQLUniqueConstraint("hive", "default", "t", each, 1, **off) for each in ("id", "name")]
    hive.add_unique_constraint(ttypes.AddUniqueConstraintRequest(unique))
    found = hive.get_all_table_constraints(ttypes.AllTableConstraintsRequest("default", "t", "hive"))
    everything = found.allTableConstraints
    shown = hive.get_primary_keys(ttypes.PrimaryKeysRequest("default", "t", "hive")).primaryKeys
    assert shown == everything.primaryKeys
    assert [of(each, "column_name", "key_seq", "pk_name", "rely_cstr") for each in shown] == [
        ("id", 1, "key", True),
        ("name", 2, "key", True),
    ]
    shown = hive.get_foreign_keys(ttypes.ForeignKeysRequest("default", "p", "default", "t", "hive")).foreignKeys
    assert [of(each, "pkcolumn_name", "fkcolumn_name", "fk_name", "enable_cstr") for each in shown] == [
        ("x", "id", "child", False)
    ]
    other = ttypes.ForeignKeysRequest("default", "other", "default", "t", "hive")
    assert hive.get_foreign_keys(other).foreignKeys == []
    shown = hive.get_unique_constraints(requested(ttypes.UniqueConstraintsRequest, "t")).uniqueConstraints
    assert [of(each, "column_name", "uk_name") for each in shown] == [("id", "unique"), ("name", "unique_2")]
    assert [of(each, "nn_name", "enable_cstr") for each in everything.notNullConstraints] == [("never", False)]
    hive.drop_constraint(ttypes.DropConstraintRequest("default", "t", "KEY"))
    assert hive.get_primary_keys(ttypes.PrimaryKeysRequest("default", "t", "hive")).primaryKeys == []


def test_client_that_changes_a_table_keeps_its_constraints(hive: Any, metastore: Metastore) -> None:
    hive.create_table_with_constraints(acid(), [], [], [], [not_null("t", "id")], [], [])
    ids = metastore.transactions.valid_write_ids(["default.t"], metastore.transactions.valid_txns())["default.t"]
    changed = {"hivex.not.null": "name"}
    for parameters, is_refused in (({"new": "1"}, False), (changed, True)):
        request = ttypes.AlterTableRequest(
            dbName="default",
            tableName="t",
            table=table("default", "t", parameters={"transactional": "true", **parameters}),
            validWriteIdList=str(ids),
        )
        if is_refused:
            with pytest.raises(ttypes.InvalidOperationException, match="is set by DEFAULT, NOT NULL and CHECK"):
                hive.alter_table_req(request)
        else:
            hive.alter_table_req(request)
    assert metastore.catalog.get_table("default", "t").parameters["hivex.not.null"] == "id"
