"""Routes: the cluster that runs a statement, and the reasons why other clusters cannot run it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RouteInput:
    """A table that a statement reads.

    ``partitions`` are the names of the needed partitions, or only None for a table without partitions. ``present`` is a
    dict from secondary cluster to the partitions with current copies on this cluster. ``stale`` is a dict from
    secondary cluster to the partitions whose copies lag behind the snapshot. The primary has all partitions
    (docs/reference/clusters.md, M6 and M11).
    """

    table: str
    primary: str
    partitions: tuple[str | None, ...] = (None,)
    present: Mapping[str, frozenset[str | None]] = field(default_factory=dict)
    stale: Mapping[str, frozenset[str | None]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RouteOutput:
    """A table that a statement writes. ``primary`` is None if the statement creates the table."""

    table: str
    primary: str | None


@dataclass(frozen=True, slots=True)
class Lack:
    """The data of one table that a candidate cluster lacks.

    ``reason`` is one of these texts:

    - ``missing``: the cluster has no copy.
    - ``stale``: the copy lags.
    - ``not primary``: only the primary is allowed to write the table.
    - ``not configured``: the candidate, ``primary``, is not a configured cluster. ``table`` is empty.
    - ``not usable``: the cluster cannot be used, for example because it cannot be reached. ``table`` is empty, and
      ``problem`` is the reason. If ``may_pass`` is true, a retry can succeed.
    - ``lags``: the session accepts copies that lag, but those on the cluster lag too much, or have no snapshot in
      common. ``table`` is empty, and ``problem`` is the reason.

    ``partitions`` has the names of the first ten partitions that the cluster lacks, and ``count`` is the number of all
    lacking partitions. If the cluster lacks the whole table, ``partitions`` is empty and ``count`` is 0.
    """

    table: str
    reason: str
    primary: str
    partitions: tuple[str, ...] = ()
    count: int = 0
    problem: str = ""
    may_pass: bool = False

    def describe(self) -> str:
        """Return a description of the lack, as a part of a sentence."""
        if self.reason == "not primary":
            return f"{self.table} may be written on its primary {self.primary} only"
        if self.reason == "not configured":
            return "it is not in hive.cluster.properties"
        if self.reason == "not usable":
            return f"it cannot be used now: {self.problem}"
        if self.reason == "lags":
            return self.problem
        what = {"missing": "is not there", "stale": "is there, but behind its primary"}[self.reason]
        if not self.count:
            return f"{self.table} (primary {self.primary}) {what}"
        names = ", ".join(self.partitions)
        more = f" and {self.count - len(self.partitions)} more" if self.count > len(self.partitions) else ""
        plural = "partition" if self.count == 1 else f"{self.count} partitions"
        verb = what if self.count == 1 else what.replace("is ", "are ", 1).replace("its", "their")
        return f"{plural} {names}{more} of {self.table} (primary {self.primary}) {verb}"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A cluster that the router has tried, and the data that it lacks.

    A cluster that lacks nothing can run the statement.
    """

    cluster: str
    why: str
    lacks: tuple[Lack, ...] = ()

    @property
    def is_unusable(self) -> bool:
        """Return whether the cluster has all the data, but cannot be used."""
        return bool(self.lacks) and all(lack.reason == "not usable" for lack in self.lacks)


@dataclass(frozen=True, slots=True)
class Route:
    """The decision of the router. If no candidate can run the statement, ``cluster`` is None, and ``reason`` says why.

    In this case, ``alternative`` is a cluster that could run the statement if the session were pinned to it, or None.
    """

    cluster: str | None
    reason: str
    candidates: tuple[Candidate, ...] = ()
    alternative: str | None = None

    @property
    def may_pass(self) -> bool:
        """Return whether a retry can succeed, because a candidate has all the data and can become usable."""
        unusable = (candidate for candidate in self.candidates if candidate.is_unusable)
        return any(all(lack.may_pass for lack in candidate.lacks) for candidate in unusable)

    def describe(self) -> str:
        """Return the decision as text for a log or an error."""
        lines = [self.reason]
        for candidate in self.candidates:
            lacks = "; ".join(lack.describe() for lack in candidate.lacks) or "has everything"
            lines.append(f"  {candidate.cluster} ({candidate.why}): {lacks}")
        return "\n".join(lines)
