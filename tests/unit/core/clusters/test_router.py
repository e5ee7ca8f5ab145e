from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_hivex.core.clusters.router import choose_cluster
from airflow_hivex.core.errors import InvalidOperationError, RootMissingError, RoutingError
from airflow_hivex.core.model.clusters import USABLE, Health
from airflow_hivex.core.model.routes import Lack, Route, RouteInput, RouteOutput

CLUSTERS = ("C1", "C2", "C3")

T11, T12, T21, T31 = (
    RouteInput("T11", "C1"),
    RouteInput("T12", "C1"),
    RouteInput("T21", "C2"),
    RouteInput("T31", "C3"),
)
T11_COPIED = RouteInput("T11", "C1", present={"C2": frozenset({None})})
NEW = RouteOutput("T13", None)


def p1(*partitions: str, stale: frozenset[str] = frozenset()) -> RouteInput:
    """P1 has its primary on C1; ds=1 and ds=2 are also on C2."""
    return RouteInput(
        "P1", "C1", partitions, {"C2": frozenset({"ds=1", "ds=2"}) - stale}, {"C2": stale} if stale else {}
    )


def route(
    inputs: list[RouteInput],
    outputs: list[RouteOutput] | None = None,
    *,
    pinned: str | None = None,
    use_default: bool = False,
    health: Callable[[str], Health] = lambda _: USABLE,
) -> Route:
    return choose_cluster(
        inputs,
        outputs or [],
        clusters=CLUSTERS,
        default="C1",
        pinned=pinned,
        use_default=use_default,
        health=health,
    )


@dataclass
class Example:
    number: str
    inputs: list[RouteInput]
    cluster: str | None
    outputs: list[RouteOutput] = field(default_factory=list)
    pinned: str | None = None
    tried: tuple[str, ...] | None = None
    says: tuple[str, ...] = ()


T11_WRITTEN, T21_WRITTEN, P1_WRITTEN = RouteOutput("T11", "C1"), RouteOutput("T21", "C2"), RouteOutput("P1", "C1")

EXAMPLES = [
    Example("E1-A", [T11], "C1"),
    Example("E1-B", [T11_COPIED], "C1"),
    Example("E2-A", [T11, T12], "C1"),
    Example("E2-B", [T11_COPIED, T12], "C1"),
    Example("E3", [T21], "C2"),
    Example("E4-A", [T11, T21], None, tried=("C1", "C2"), says=("T21 (primary C2)", "T11 (primary C1)")),
    Example("E4-B", [T11_COPIED, T21], "C2", tried=("C1", "C2")),
    Example("E5-A", [T11, T31], None, tried=("C1", "C3")),
    Example("E5-B", [T11_COPIED, T31], None, tried=("C1", "C3")),
    Example("E6-A", [T11], "C1", [NEW]),
    Example("E6-B", [T11_COPIED], "C1", [NEW]),
    Example("E7-A", [T11], None, [T21_WRITTEN], tried=("C2",), says=("T11 (primary C1) is not there",)),
    Example("E7-B", [T11_COPIED], "C2", [T21_WRITTEN], tried=("C2",)),
    Example("E8", [T21, T11_COPIED], "C2", tried=("C2",)),
    Example("E9", [T31], None, [T11_WRITTEN, T21_WRITTEN], says=("T11 (primary C1), T21 (primary C2)",)),
    Example("E10", [T21], None, [T11_WRITTEN], tried=("C1",), says=("T21 (primary C2) is not there",)),
    Example("E11", [T11_COPIED], "C2", pinned="C2"),
    Example(
        "E12",
        [T21],
        None,
        [T11_WRITTEN],
        "C2",
        ("C2",),
        ("T11 may be written on its primary C1 only",),
    ),
    Example("E13", [T11_COPIED, T21], None, pinned="C1", tried=("C1",), says=("USE CLUSTER", "T21 (primary C2)")),
    Example("E14", [T11], None, pinned="C9", tried=("C9",), says=("it is not in hive.cluster.properties",)),
    Example("E15", [T11_COPIED], "C2", [NEW], "C2"),
    Example("E16", [T11_COPIED, T21], "C2", [NEW]),
    Example("E17-pruned", [p1("ds=1"), T21], "C2"),
    Example("E17-all", [p1("ds=1", "ds=2", "ds=3"), T21], None),
    Example("E18", [p1("ds=3"), T21], None, tried=("C1", "C2"), says=("partition ds=3 of P1 (primary C1)",)),
    Example("E19", [p1("ds=1", "ds=2", "ds=3"), T21], None, says=("partition ds=3 of P1",)),
    Example("E20", [p1("ds=1")], "C1"),
    Example("E21", [p1("ds=1", "ds=2")], "C2", pinned="C2"),
    Example("E22", [p1("ds=3")], None, pinned="C2", says=("partition ds=3 of P1",)),
    Example("E23", [T21], None, [P1_WRITTEN], tried=("C1",), says=("T21 (primary C2) is not there",)),
    Example("E24", [], None, [P1_WRITTEN], "C2", ("C2",), ("P1 may be written on its primary C1 only",)),
    Example("E25", [p1(), T21], "C2", tried=("C1", "C2")),
    Example(
        "E26",
        [p1("ds=1", stale=frozenset({"ds=1"})), T21],
        None,
        says=("partition ds=1 of P1 (primary C1) is there, but behind its primary",),
    ),
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.number)
def test_worked_example(example: Example) -> None:
    decided = route(example.inputs, example.outputs, pinned=example.pinned)
    assert decided.cluster == example.cluster
    if example.tried is not None:
        assert tuple(candidate.cluster for candidate in decided.candidates) == example.tried
    for text in example.says:
        assert text in decided.describe()
    if decided.cluster is None:
        assert all(candidate.lacks for candidate in decided.candidates)
    else:
        assert not decided.candidates[-1].lacks


def test_constant_select_runs_on_the_default_cluster() -> None:
    assert route([]).cluster == "C1"
    assert route([], [NEW]).cluster == "C1"
    assert route([], pinned="C3").cluster == "C3"


def test_default_cluster_alone_is_tried_when_the_setting_says_so() -> None:
    assert [candidate.cluster for candidate in route([T21], use_default=True).candidates] == ["C1"]
    assert route([T21], use_default=True).cluster is None
    assert route([T21], [T21_WRITTEN], use_default=True).cluster == "C2"
    assert route([T21], pinned="C2", use_default=True).cluster == "C2"


def test_a_secondary_of_everything_is_no_candidate_but_named() -> None:
    copied = [
        RouteInput("T11", "C1", present={"C3": frozenset({None})}),
        RouteInput("T21", "C2", present={"C3": frozenset({None})}),
    ]
    decided = route(copied)
    assert [candidate.cluster for candidate in decided.candidates] == ["C1", "C2"]
    assert decided.cluster is None
    assert "USE CLUSTER C3 runs it there" in decided.reason
    assert route(copied, pinned="C3").cluster == "C3"


def test_a_failure_names_the_first_ten_partitions_and_counts_all() -> None:
    names = tuple(f"ds={number}" for number in range(25))
    read = RouteInput("P1", "C1", names, {"C2": frozenset({"ds=0"})}, {"C2": frozenset({"ds=3", "ds=7"})})
    lacks = route([read, T21]).candidates[1].lacks
    missing = [name for name in names if name not in ("ds=0", "ds=3", "ds=7")]
    assert lacks == (
        Lack("P1", "missing", "C1", tuple(missing[:10]), 22),
        Lack("P1", "stale", "C1", ("ds=3", "ds=7"), 2),
    )
    text = route([read, T21]).describe()
    assert "22 partitions ds=1, ds=2, ds=4, ds=5, ds=6, ds=8, ds=9, ds=10, ds=11, ds=12 and 12 more of P1" in text
    assert "2 partitions ds=3, ds=7 of P1 (primary C1) are there, but behind their primary" in text


def test_a_stale_table_is_not_present() -> None:
    read = RouteInput("T11", "C1", stale={"C2": frozenset({None})})
    assert route([read, T21]).candidates[1].lacks == (Lack("T11", "stale", "C1"),)


def test_a_table_read_twice_is_reported_once() -> None:
    lacks = route([p1("ds=3", "ds=1"), T21, p1("ds=4", "ds=3")]).candidates[1].lacks
    assert lacks == (Lack("P1", "missing", "C1", ("ds=3", "ds=4"), 2),)


def test_a_table_read_and_written_needs_no_copy() -> None:
    assert route([T11], [T11_WRITTEN]).cluster == "C1"


def test_every_lack_of_a_pinned_cluster_is_reported() -> None:
    (candidate,) = route([T11, T12], [T21_WRITTEN], pinned="C3").candidates
    assert candidate.lacks == (
        Lack("T21", "not primary", "C2"),
        Lack("T11", "missing", "C1"),
        Lack("T12", "missing", "C1"),
    )


def test_several_written_tables_of_one_primary_are_fine() -> None:
    assert route([T11], [T11_WRITTEN, RouteOutput("T12", "C1")]).cluster == "C1"


def test_different_primaries_are_an_error_on_a_pinned_cluster_too() -> None:
    decided = route([], [T11_WRITTEN, T21_WRITTEN], pinned="C1")
    assert decided.cluster is None
    assert "different primary clusters: T11 (primary C1), T21 (primary C2)" in decided.reason


UNMOUNTED = Health(RootMissingError("C1", "file:///c1", "its marker is not there"))


def without(*names: str, health: Health = UNMOUNTED) -> Callable[[str], Health]:
    """The health of clusters of which some cannot be used."""
    return lambda cluster: health if cluster in names else USABLE


def test_a_cluster_that_cannot_be_used_counts_as_one_without_a_copy() -> None:
    decided = route([T11_COPIED, T21], health=without("C1"))
    assert decided.cluster == "C2"
    assert decided.candidates[0].lacks[-1].reason == "not usable"
    assert "Is it not mounted?" in decided.describe()


def test_a_route_may_be_found_later_if_only_the_use_of_a_cluster_is_lacking() -> None:
    decided = route([T11_COPIED, T21], health=without("C1", "C2"))
    assert decided.cluster is None
    assert decided.may_pass
    assert "Retry once one of them can be used." in decided.reason
    assert not route([T11, T21], health=without("C1", "C2")).may_pass
    lasting = Health(InvalidOperationError("A job", "C1", "this will never do"))
    assert not route([T11], health=without("C1", health=lasting)).may_pass


def test_a_cluster_that_cannot_be_used_is_not_recommended() -> None:
    copied = [
        RouteInput("T11", "C1", present={"C3": frozenset({None})}),
        RouteInput("T21", "C2", present={"C3": frozenset({None})}),
    ]
    assert route(copied).alternative == "C3"
    assert route(copied, health=without("C3")).alternative is None
    assert "USE CLUSTER C2 runs it there" in route([T11_COPIED], health=without("C1")).reason


def test_a_write_to_a_cluster_that_cannot_be_used_is_not_sent_elsewhere() -> None:
    decided = route([], [T11_WRITTEN], health=without("C1"))
    assert (decided.cluster, decided.alternative) == (None, None)
    assert "which cannot be used now" in decided.reason


def test_clusters_that_are_not_tried_and_lack_a_table_are_not_asked() -> None:
    asked: list[str] = []

    def health(cluster: str) -> Health:
        asked.append(cluster)
        return USABLE

    assert route([T11], health=health).cluster == "C1"
    assert asked == ["C1"]
    assert route([T11, T31], health=health).cluster is None
    assert asked == ["C1", "C1", "C3"]


def test_a_primary_that_is_no_longer_configured_is_passed_over() -> None:
    gone = RouteInput("T91", "C9", present={"C2": frozenset({None})})
    decided = route([gone, T21])
    assert decided.cluster == "C2"
    assert decided.candidates[0].lacks == (Lack("", "not configured", "C9"),)
    assert "C9 (primary of T91): it is not in hive.cluster.properties" in route([gone]).describe()


def test_the_error_of_a_failed_route_survives_pickling() -> None:
    error = RoutingError(route([T11, T21]))
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error)
    assert copy.route == error.route


def test_a_hundred_thousand_partitions_are_checked_as_a_set() -> None:
    names = tuple(f"ds={number}" for number in range(100_000))
    read = RouteInput("P1", "C1", names, {"C2": frozenset(names)})
    assert route([read, T21]).cluster == "C2"


tables = st.integers(0, 3).flatmap(
    lambda number: st.builds(
        lambda primary, copies: RouteInput(
            f"t{number}", primary, present={copy: frozenset({None}) for copy in copies - {primary}}
        ),
        st.sampled_from(CLUSTERS),
        st.frozensets(st.sampled_from(CLUSTERS)),
    )
)


@given(st.lists(tables, unique_by=lambda table: table.table), st.none() | st.sampled_from(CLUSTERS))
def test_the_chosen_cluster_has_everything_and_is_the_first_that_does(
    inputs: list[RouteInput], pinned: str | None
) -> None:
    def has_all(cluster: str) -> bool:
        return all(table.primary == cluster or cluster in table.present for table in inputs)

    decided = route(inputs, pinned=pinned)
    candidates = [pinned] if pinned else list(dict.fromkeys(table.primary for table in inputs)) or ["C1"]
    assert decided.cluster == next(filter(has_all, candidates), None)
