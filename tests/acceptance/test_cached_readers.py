"""Readers with a cache next to writers, compactions and the cleaner in other processes. No Spark is started."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_hivex.core import Metastore
from airflow_hivex.core.cache.cached_store import CachedStore
from airflow_hivex.core.errors import HivexError, NoSuchPartitionError, NoSuchTableError
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.write_ids import ValidWriteIdList
from tests import evidence
from tests.acceptance.changing_process import change_at_random
from tests.compacted_warehouse import CompactedWarehouse
from tests.conftest import Counts
from tests.processes import ClientProcess

READS = evidence.amount("HIVEX_CACHED_READS", 30, 1000)
TABLES = ("t", "p", "again")
Clusters = dict[str, dict[str, str]]


@pytest.mark.evidence
def test_cached_readers_have_the_rows_and_objects_of_the_database(
    metastore_url: str, clusters: Clusters, tmp_path: Path, counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HIVEX_RAWSTORE_IMPL", raising=False)
    plain_settings = {"metastore.rawstore.impl": "ObjectStore"}
    with (
        Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", settings=plain_settings) as plain,
        Metastore.open(metastore_url, clusters=clusters, default_cluster="c1") as cached,
        Metastore.open(metastore_url, clusters=clusters, default_cluster="c1") as late,
    ):
        assert isinstance(late.catalog, CachedStore)
        # It never hears of the changes, as if its follower were always late.
        late.catalog.follow = lambda: None
        with plain.session(user="test") as session:
            for statement in ("t (a bigint)", "again (a bigint)", "p (a bigint) PARTITIONED BY (ds string)"):
                session.sql(f"CREATE TABLE {statement}")
        rows = compared = 0
        changing = ClientProcess(
            change_at_random, metastore_url, clusters, tmp_path, evidence.SEED, tmp_path / "done", log=tmp_path / "log"
        )
        with changing:
            for number in range(READS):
                assert changing.is_alive, changing.error()
                table = TABLES[number % len(TABLES)]
                rows += compare_rows(plain, cached, tmp_path, table)
                compared += compare_objects(plain, cached, table) + compare_objects(plain, late, table)
            (tmp_path / "stop").touch()
            assert changing.wait(60) == 0, changing.error()
        for table in TABLES:
            compare_rows(plain, cached, tmp_path, table)
            assert compare_objects(plain, cached, table)
            assert compare_objects(plain, late, table)
    steps = int((tmp_path / "done").read_text())
    counts["reads of a cache while others change tables"] = {"rows": rows, "objects": compared, "changes": steps}


def compare_rows(plain: Metastore, cached: Metastore, root: Path, table: str) -> int:
    """Compare the rows that two sessions of one transaction see, of which one has a cache; returns their number."""
    (txn_id,) = plain.transactions.open()
    try:
        with plain.session(user="plain", txn_id=txn_id) as session:
            try:
                expected = CompactedWarehouse(plain, root).read(session, table)
            except NoSuchTableError:
                # It has another name just now, or none.
                return 0
            # The lock of that read keeps the definition as it is.
            with cached.session(user="cached", txn_id=txn_id) as other:
                assert CompactedWarehouse(cached, root).read(other, table) == expected
            return len(expected)
    finally:
        plain.transactions.abort(txn_id)


def compare_objects(plain: Metastore, cached: Metastore, table: str) -> int:
    """Compare what the catalogs answer for a list, where the database has the same before and after."""
    name, full = ("default", table), f"default.{table}"
    compared = 0
    reads: list[Callable[[Metastore, tuple[object, ...]], object]] = [
        lambda metastore, ids: metastore.catalog.get_table(*name, *ids),  # type: ignore[arg-type]
    ]
    if table == "p":
        reads += [
            lambda metastore, ids: metastore.catalog.list_partition_names(*name, None, *ids),  # type: ignore[arg-type]
            lambda metastore, ids: metastore.catalog.get_partitions_by_expr(*name, None, *ids),  # type: ignore[arg-type]
            lambda metastore, ids: metastore.catalog.get_partition(*name, ["2"], *ids),  # type: ignore[arg-type]
        ]
    for read in reads:
        try:
            first = list_of(plain, full)
            before = answer(lambda read=read: read(plain, ()))  # type: ignore[misc]
            ids = list_of(plain, full)
        except NoSuchTableError:
            continue
        for given in (ids,) if table == "t" else (str(ids), ids):
            found = answer(lambda read=read, given=given: read(cached, (given,)))  # type: ignore[misc]
            after = answer(lambda read=read: read(plain, ()))  # type: ignore[misc]
            # What was added and dropped in between is the same before and after, but for its write ids.
            if after == before and str(answer(lambda: list_of(plain, full))) == str(first):
                if isinstance(given, str):
                    # Copies and compactions come to a reader with a text later, as they have no write id.
                    found, expected = without_version(found), without_version(before)
                else:
                    expected = before
                assert found == expected, f"as of {given}"
                compared += 1
    return compared


def list_of(plain: Metastore, full_name: str) -> ValidWriteIdList:
    """The current write id list of a table."""
    return plain.transactions.valid_write_ids([full_name], plain.transactions.valid_txns())[full_name]


def without_version(found: object) -> object:
    """A table but for its version, which rises with each change that has no write id."""
    return replace(found, version=0) if isinstance(found, StoredTable) else found


def answer(read: Callable[[], object]) -> object:
    """What a read returns, or its error."""
    try:
        return read()
    except (NoSuchTableError, NoSuchPartitionError) as error:
        return error.code
    except HivexError as error:
        raise AssertionError(str(error)) from error
