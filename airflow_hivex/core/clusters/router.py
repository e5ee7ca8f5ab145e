"""The choice of the cluster that runs a statement, by the copies of the tables and the health of the clusters.

Source: docs/reference/clusters.md. The comments cite its rules by number (R7, S2).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from airflow_hivex.core.model.clusters import USABLE, Health
from airflow_hivex.core.model.routes import Candidate, Lack, Route, RouteInput, RouteOutput

NAMES_SHOWN = 10


def choose_cluster(
    inputs: Sequence[RouteInput],
    outputs: Sequence[RouteOutput],
    *,
    clusters: Collection[str],
    default: str,
    pinned: str | None = None,
    use_default: bool = False,
    health: Callable[[str], Health] = lambda _: USABLE,
) -> Route:
    """Return the route of a statement: the cluster that runs it, and all tried clusters with the reasons against each.

    Args:
        inputs: the tables that the statement reads, in order of appearance.
        outputs: the tables that the statement writes; a table that it creates is ignored (R7).
        clusters: the names in hive.cluster.properties.
        default: hive.default.cluster.name.
        pinned: the cluster of USE CLUSTER, which is the only candidate (S2).
        use_default: hive.use.default.cluster: if the statement writes no existing table, the default cluster is the
            only candidate.
        health: returns the health of a cluster. An unusable cluster is treated like a cluster without a copy.

    Returns:
        A route. Its ``cluster`` is None if no candidate can run the statement; ``reason`` has the reason.
    """
    read = _by_table(inputs)
    written = [output for output in outputs if output.primary is not None]
    candidates: list[Candidate] = []
    for cluster, why in _proposed(read, written, default, pinned, use_default):
        candidates.append(Candidate(cluster, why, tuple(_lacks(cluster, read, written, clusters, health))))
        if not candidates[-1].lacks:
            return Route(cluster, _success(candidates), tuple(candidates))
    alternative = None
    if not written and pinned is None:
        # A secondary is never a candidate by itself (R11), but the user may choose it by USE CLUSTER.
        tried = {candidate.cluster for candidate in candidates}
        complete = (name for name in clusters if name not in tried)
        alternative = next((name for name in complete if not any(_lacks(name, read, (), clusters, health))), None)
    return Route(None, _failure(candidates, written, pinned, alternative), tuple(candidates), alternative)


def _by_table(inputs: Iterable[RouteInput]) -> list[RouteInput]:
    """Return one input for each table. If a statement reads a table several times, its inputs are merged."""
    found: dict[str, RouteInput] = {}
    for one in inputs:
        seen = found.get(one.table)
        found[one.table] = one if seen is None else _merged(seen, one)
    return list(found.values())


def _merged(a: RouteInput, b: RouteInput) -> RouteInput:
    partitions = tuple(dict.fromkeys(a.partitions + b.partitions))
    nothing: frozenset[str | None] = frozenset()
    present, stale = (
        {cluster: one.get(cluster, nothing) | two.get(cluster, nothing) for cluster in (*one, *two)}
        for one, two in ((a.present, b.present), (a.stale, b.stale))
    )
    return replace(a, partitions=partitions, present=present, stale=stale)


def _proposed(
    read: Sequence[RouteInput], written: Sequence[RouteOutput], default: str, pinned: str | None, use_default: bool
) -> list[tuple[str, str]]:
    """Return the clusters to try, in this order, each with the reason why it is tried."""
    if pinned is not None:
        return [(pinned, "USE CLUSTER")]
    if written:
        reasons = ((output.primary, f"primary of {output.table}, which is written") for output in written)
        return _distinct(reasons)
    if use_default:
        return [(default, "hive.use.default.cluster")]
    if read:
        return _distinct((one.primary, f"primary of {one.table}") for one in read)
    return [(default, "default cluster, as no table is read or written")]


def _distinct(proposals: Iterable[tuple[str | None, str]]) -> list[tuple[str, str]]:
    found: dict[str, str] = {}
    for cluster, why in proposals:
        if cluster is not None:
            found.setdefault(cluster, why)
    return list(found.items())


def _lacks(
    cluster: str,
    read: Iterable[RouteInput],
    written: Iterable[RouteOutput],
    clusters: Collection[str],
    health: Callable[[str], Health],
) -> Iterable[Lack]:
    if cluster not in clusters:
        yield Lack("", "not configured", cluster)
        return
    for output in written:
        if output.primary is not None and output.primary != cluster:
            yield Lack(output.table, "not primary", output.primary)
    for one in read:
        if one.primary != cluster:
            yield from _missing_copies(cluster, one)
    # The health comes last: a caller that reads only the first lack does not check clusters that lack a table.
    problem = health(cluster).problem
    if problem is not None:
        yield Lack("", "not usable", cluster, problem=str(problem), may_pass=problem.retryable)


def _missing_copies(cluster: str, one: RouteInput) -> Iterable[Lack]:
    present = one.present.get(cluster, frozenset())
    if present.issuperset(one.partitions):
        return
    stale = one.stale.get(cluster, frozenset())
    absent = dict.fromkeys(name for name in one.partitions if name not in present)
    for reason, names in (
        ("missing", [name for name in absent if name not in stale]),
        ("stale", [name for name in absent if name in stale]),
    ):
        if not names:
            continue
        named = [name for name in names if name is not None]
        yield Lack(one.table, reason, one.primary, tuple(named[:NAMES_SHOWN]), len(named))


def _success(tried: Sequence[Candidate]) -> str:
    *before, chosen = tried
    reason = f"The statement runs on cluster {chosen.cluster} ({chosen.why})."
    if before:
        names = ", ".join(candidate.cluster for candidate in before)
        reason += f" Tried before, without success: {names}."
    return reason


def _failure(
    candidates: Sequence[Candidate], written: Sequence[RouteOutput], pinned: str | None, alternative: str | None
) -> str:
    primaries = dict.fromkeys(output.primary for output in written)
    if len(primaries) > 1:
        named = ", ".join(f"{output.table} (primary {output.primary})" for output in written)
        return f"The statement writes tables of different primary clusters: {named}. Write them one by one."
    if pinned is not None:
        return (
            f"The session is pinned to cluster {pinned}, which cannot run the statement. USE CLUSTER without a name, "
            "or a task or session without cluster=, lets the warehouse choose."
        )
    is_unusable = any(candidate.is_unusable for candidate in candidates)
    if written:
        lacking = (
            "which cannot be used now. Retry once it can"
            if is_unusable
            else ("which lacks something. Register a current copy of it there")
        )
        return (
            f"The statement writes {written[0].table} and so must run on its primary cluster {written[0].primary}, "
            f"{lacking}."
        )
    names = ", ".join(candidate.cluster for candidate in candidates)
    what = "can be used now and has" if is_unusable else "has"
    reason = f"No cluster {what} everything that the statement reads; tried: {names}."
    if alternative is not None:
        return f"{reason} Cluster {alternative} has copies of all of it: USE CLUSTER {alternative} runs it there."
    if is_unusable:
        return f"{reason} Retry once one of them can be used."
    return f"{reason} Register a current copy of what one of them lacks."
