from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hive_metastore import ttypes

from airflow_hivex.core.metastore import Metastore
from airflow_hivex.core.model.objects import MOVING_FOLDER
from tests import evidence
from tests.hive_endpoint import Serving, hive_client, partition, serving, table


def folder_of(hive: Any, database: str, name: str) -> Path:
    return Path(hive.get_table(database, name).sd.location.removeprefix("file://"))


def create(hive: Any, name: str, database: str = "default", **given: Any) -> None:
    """Create a managed table as Spark does, with a file that has the table's first name."""
    hive.create_table(table(database, name, **given))
    (folder_of(hive, database, name) / "rows").write_text(name)


def rename(hive: Any, name: str, new: str, database: str = "default", new_database: str | None = None) -> None:
    found = hive.get_table(database, name)
    found.dbName, found.tableName = new_database or database, new
    hive.alter_table_with_environment_context(database, name, found, None)


def rows(hive: Any, name: str, database: str = "default") -> str:
    return (folder_of(hive, database, name) / "rows").read_text()


def test_tables_are_swapped_by_renames_and_the_old_name_is_free(hive: Any, tmp_path: Path) -> None:
    warehouse = tmp_path / "c1" / "default.db"
    create(hive, "t")
    create(hive, "t_new")
    for old, new in (("t", "t_old"), ("t_new", "t")):
        # Spark refuses a rename to a name whose folder is there.
        assert not (warehouse / new).exists()
        rename(hive, old, new)
    assert (rows(hive, "t"), rows(hive, "t_old")) == ("t_new", "t")
    assert folder_of(hive, "default", "t") == warehouse / "t"
    assert not (warehouse / "t_new").exists()
    create(hive, "t_new")
    for old, new in (("t", "x"), ("t_old", "t"), ("x", "t_old")):
        assert not (warehouse / new).exists()
        rename(hive, old, new)
    assert [rows(hive, name) for name in ("t", "t_old", "t_new")] == ["t", "t_new", "t_new"]
    hive.drop_table("default", "t_old", True)
    assert not (warehouse / "t_old").exists()
    rename(hive, "t", "t_old")
    assert rows(hive, "t_old") == "t"
    assert sorted(each.name for each in warehouse.iterdir()) == ["t_new", "t_old"]


def test_partitions_follow_their_table_into_another_database(hive: Any, metastore: Metastore, tmp_path: Path) -> None:
    hive.create_database(ttypes.Database("d", None, None, {}))
    create(hive, "p_1", keys={"ds": "string"})
    apart = partition("default", "p_1", "apart")
    apart.sd.location = f"file://{tmp_path}/c1/apart"
    hive.add_partitions([partition("default", "p_1", "a"), apart])
    (tmp_path / "c1/default.db/p_1/ds=a/rows").write_text("a")
    rename(hive, "p_1", "q", new_database="d")
    found = {each.values[0]: each.sd.location for each in hive.get_partitions("d", "q", -1)}
    assert found == {"a": f"file://{tmp_path}/c1/d.db/q/ds=a", "apart": f"file://{tmp_path}/c1/apart"}
    assert (tmp_path / "c1/d.db/q/ds=a/rows").read_text() == "a"
    rename(hive, "q", "p_1", database="d", new_database="default")
    assert hive.get_partition("default", "p_1", ["a"]).sd.location == f"file://{tmp_path}/c1/default.db/p_1/ds=a"


def test_tables_with_places_of_their_own_stay_there(hive: Any, metastore: Metastore, tmp_path: Path) -> None:
    given = table("default", "placed")
    given.sd.location = f"file://{tmp_path}/c1/place"
    hive.create_table(given)
    hive.create_table(table("default", "ext", tableType="EXTERNAL_TABLE", parameters={"EXTERNAL": "TRUE"}))
    for name in ("placed", "ext"):
        location = hive.get_table("default", name).sd.location
        rename(hive, name, f"{name}_2")
        assert hive.get_table("default", f"{name}_2").sd.location == location


def test_rename_never_takes_a_folder_with_files_of_others(hive: Any, tmp_path: Path) -> None:
    create(hive, "t")
    stray = tmp_path / "c1" / "default.db" / "u"
    stray.mkdir()
    (stray / "rows").write_text("of others")
    rename(hive, "t", "u")
    assert rows(hive, "u") == "t"
    assert folder_of(hive, "default", "u").name == "u.v0000002"
    assert (stray / "rows").read_text() == "of others"
    rename(hive, "u", "t")
    assert folder_of(hive, "default", "t").name == "t"


def test_rename_that_fails_leaves_the_folder_in_its_place(hive: Any, tmp_path: Path) -> None:
    create(hive, "t")
    create(hive, "u")
    with pytest.raises(ttypes.InvalidOperationException, match="exists already"):
        rename(hive, "t", "u")
    found = hive.get_table("default", "t")
    found.tableName = "v"
    expected = {"expected_parameter_key": "k", "expected_parameter_value": "other"}
    with pytest.raises(ttypes.MetaException):
        hive.alter_table_with_environment_context("default", "t", found, ttypes.EnvironmentContext(expected))
    assert (rows(hive, "t"), rows(hive, "u")) == ("t", "u")
    assert MOVING_FOLDER not in hive.get_table("default", "t").parameters
    assert sorted(each.name for each in (tmp_path / "c1" / "default.db").iterdir()) == ["t", "u"]


def test_sql_moves_the_folder_of_a_table_that_spark_has_made(hive: Any, metastore: Metastore, tmp_path: Path) -> None:
    create(hive, "t")
    with metastore.session(user="ann") as session:
        session.sql("ALTER TABLE t RENAME TO u")
    assert rows(hive, "u") == "t"
    assert folder_of(hive, "default", "u") == tmp_path / "c1/default.db/u"


@pytest.mark.parametrize("is_moved", [False, True], ids=["before the move", "after the move"])
def test_folder_of_a_killed_rename_is_moved_back(
    hive: Any, endpoint: Serving, metastore: Metastore, tmp_path: Path, is_moved: bool
) -> None:
    create(hive, "t")
    place = folder_of(hive, "default", "t")
    found = metastore.catalog.get_table("default", "t")
    noted = {**found.parameters, MOVING_FOLDER: "default.db/u"}
    metastore.catalog.alter_table("default", "t", replace(found, parameters=noted))
    if is_moved:
        place.rename(place.parent / "u")
    endpoint.stop()
    with serving(metastore) as running, hive_client(running.port) as client:
        assert rows(client, "t") == "t"
        assert metastore.catalog.tables_with_moving_folders() == []
        rename(client, "t", "u")
        assert rows(client, "u") == "t"


def test_no_table_is_lost_in_random_renames(hive: Any, metastore: Metastore, tmp_path: Path, counts: Any) -> None:
    chance = random.Random(evidence.SEED)
    hive.create_database(ttypes.Database("d", None, None, {}))
    known: dict[tuple[str, str], str] = {}
    names = [(database, name) for database in ("default", "d") for name in ("a", "b", "c")]
    steps = evidence.amount("HIVEX_RANDOM_RENAMES", 60, 2000)
    for step in range(steps):
        database, name = chance.choice(names)
        if (database, name) not in known:
            hive.create_table(table(database, name))
            (folder_of(hive, database, name) / "rows").write_text(str(step))
            known[database, name] = str(step)
        elif chance.random() < 0.2:
            hive.drop_table(database, name, True)
            del known[database, name]
        else:
            new = chance.choice(names)
            if new == (database, name):
                continue
            if new in known:
                with pytest.raises(ttypes.InvalidOperationException):
                    rename(hive, name, new[1], database, new[0])
            else:
                rename(hive, name, new[1], database, new[0])
                known[new] = known.pop((database, name))
        assert {each: rows(hive, each[1], each[0]) for each in known} == known
        folders = {tuple(each.parts[-2:]) for each in (tmp_path / "c1").glob("*.db/*")}
        assert folders == {(f"{each[0]}.db", each[1]) for each in known}
    counts["renames of tables through the Hive Metastore endpoint"] = {"steps": steps}
