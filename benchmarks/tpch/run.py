"""The whole benchmark: load, refresh, route, ask; every step is timed and verified."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import RoutingError
from benchmarks.harness import interleave
from benchmarks.tpch.queries import NUMBERS, query, tables_of
from benchmarks.tpch.report import Timings
from benchmarks.tpch.warehouse import KEYS, PlainSpark, TpchWarehouse, cluster_properties

LOADS = (("region", "nation"), ("supplier",), ("customer",), ("part",), ("partsupp",), ("orders",), ("lineitem",))


def run(folder: Path, scale: float, streams: int, rounds: int) -> Timings:
    """Run all steps; an ``AssertionError`` reports a wrong result."""
    timings = Timings()
    with Metastore.open(
        f"sqlite:///{folder / 'tpch.db'}", clusters=cluster_properties(folder), default_cluster="c1"
    ) as metastore:
        warehouse = TpchWarehouse(metastore, folder, scale, streams)
        with warehouse.session() as session:
            session.sql("SELECT 1")
            plain = PlainSpark(warehouse)
            warehouse.create(session)
            load(warehouse, session, plain, timings)
            warehouse.copy_small()
            routed = ask_routes(warehouse, session)
            timings.note(f"with copies of the small tables {len(routed)} of {len(NUMBERS)} queries can be routed")
            for stream in range(1, streams - 1):
                timings.add(f"RF1 and RF2, stream {stream}", seconds(lambda s=stream: warehouse.refresh(session, s)))
                warehouse.verify(session, KEYS)
            timings.add(
                f"RF1 and RF2, streams {streams - 1} and {streams} at once, with a reader",
                seconds(lambda: refresh_beside_reader(warehouse, (streams - 1, streams))),
            )
            warehouse.verify(session)
            for name in KEYS:
                plain.write(name)
            warehouse.copy("customer", "part", "partsupp")
            for number in NUMBERS:
                time_query(warehouse, session, plain, number, scale, rounds, timings)
            for line in show_stale_copy(warehouse, session).splitlines():
                timings.note(line)
    return timings


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def load(warehouse: TpchWarehouse, session: Session, plain: PlainSpark, timings: Timings) -> None:
    """Fill all tables, as plain Spark does for comparison, and verify them."""
    for names in LOADS:
        ours = seconds(lambda names=names: warehouse.load(session, *names))
        theirs = seconds(lambda names=names: [plain.write(name) for name in names])
        timings.add(f"load {' and '.join(names)}", ours, theirs)
    warehouse.verify(session)


def refresh_beside_reader(warehouse: TpchWarehouse, streams: tuple[int, ...]) -> None:
    """Run streams at the same time; a transaction that began before sees none of it until it ends."""
    with warehouse.session("reader") as reader, ThreadPoolExecutor(len(streams)) as pool:
        reader.sql("START TRANSACTION READ ONLY")
        before = {name: warehouse.found(reader, name) for name in KEYS}
        begin = threading.Barrier(len(streams))

        def refresh(stream: int) -> None:
            with warehouse.session(f"stream {stream}") as own:
                begin.wait(60)
                warehouse.refresh(own, stream)

        running = [pool.submit(refresh, stream) for stream in streams]
        while True:
            ended = all(future.done() for future in running)
            for name, found in before.items():
                assert warehouse.found(reader, name) == found, f"{name} changed in the reader's snapshot"
            if ended:
                break
        for future in running:
            future.result()
        reader.sql("COMMIT")
        warehouse.verify(reader, before)


def ask_routes(warehouse: TpchWarehouse, session: Session) -> list[int]:
    """The queries that some cluster can run now: those whose tables one cluster has, and no others."""
    routed = []
    for number in NUMBERS:
        possible = warehouse.places(tables_of(number))
        route = session.explain(query(number, 1.0))
        assert (route.cluster in possible) if possible else (route.cluster is None), f"Q{number}: {route.describe()}"
        if possible:
            routed.append(number)
    return routed


def check_query(
    warehouse: TpchWarehouse, session: Session, plain: PlainSpark, number: int, scale: float
) -> tuple[str | None, int]:
    """See to it that a query brings what it brings on plain Spark; the cluster that ran it, and how many rows."""
    text = query(number, scale)
    result, expected = session.sql(text), plain.query(text, tables_of(number))
    assert result.cluster in warehouse.places(tables_of(number)), f"Q{number} ran on {result.cluster}"
    assert result.rows == expected, f"Q{number}: {result.rows[:3]} ... instead of {expected[:3]} ..."
    return result.cluster, len(expected)


def time_query(
    warehouse: TpchWarehouse,
    session: Session,
    plain: PlainSpark,
    number: int,
    scale: float,
    rounds: int,
    timings: Timings,
) -> None:
    cluster, count = check_query(warehouse, session, plain, number, scale)
    text, names = query(number, scale), tables_of(number)
    cases = {"ours": lambda: session.sql(text), "plain": lambda: plain.query(text, names)}
    found = interleave(cases, rounds=rounds, warm_up=0)
    medians = {name: statistics.median(values) for name, values in found.items()}
    timings.add(f"Q{number} on {cluster}, {count} rows", medians["ours"], medians["plain"])


def show_stale_copy(warehouse: TpchWarehouse, session: Session) -> str:
    """Change a table that has a copy: who needs the copy is refused with the reason, until it is copied again.

    Returns that reason.
    """
    text = query(15, 1.0)
    assert session.sql(text).cluster == "c1"
    session.sql("UPDATE supplier SET s_comment = 'changed' WHERE s_suppkey = 1")
    warehouse.changed("supplier")
    ask_routes(warehouse, session)
    try:
        session.sql(text)
    except RoutingError as error:
        reason = str(error)
    else:
        raise AssertionError("a query was run on a copy that lags")
    assert "supplier (primary c2) is there, but behind its primary" in reason, reason
    assert session.sql("SELECT count(*) FROM supplier WHERE s_comment = 'changed'").rows == [(1,)]
    warehouse.copy("supplier")
    assert session.sql(text).cluster == "c1"
    assert len(ask_routes(warehouse, session)) == len(NUMBERS)
    session.sql("USE CLUSTER c1")
    assert session.sql("SELECT count(*) FROM supplier WHERE s_comment = 'changed'").rows == [(1,)]
    session.sql("USE CLUSTER")
    return reason
