"""Finds what snapshot isolation forbids in a history of lists and sets (Elle's idea, in our own words).

A read of a list shows in which order its elements were appended. From these orders follow, for
committed transactions, who wrote after whom (``ww``), who read from whom (``wr``) and who read what
another has overwritten (``rw``); the clock shows which commits were acknowledged before another transaction began
(``rt``). Under snapshot isolation with real-time snapshots, every circle of such edges has two ``rw`` in a row (Fekete
et al. 2005; Cerone and Gotsman 2018). A circle with one ``rw`` or none is an anomaly; one with several that are apart
is a long fork, which is counted. What needs no circle is looked for directly: lost, duplicate, aborted and intermediate
elements, reads that do not repeat. The names are Adya's, as in Elle.
"""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from tests.histories.history import Function, Operation, Status, Transaction


class Anomaly(enum.Enum):
    """What must not be in a history."""

    G0 = "G0: a circle of writes"
    G1A = "G1a: an aborted element was read"
    G1B = "G1b: an intermediate list was read"
    G1C = "G1c: a circle of writes and reads"
    G_SINGLE = "G-single: a circle with one anti-dependency (read skew)"
    REAL_TIME = "a commit was acknowledged, and a later transaction missed it"
    LOST_UPDATE = "two updates of one version, both committed"
    LOST_WRITE = "a committed element is gone"
    DUPLICATE = "an element is there twice"
    FORK = "two reads that no one order explains"
    NON_REPEATABLE_READ = "a transaction read two states of one key"
    OWN_WRITE_MISSING = "a transaction did not read what it had written"
    FROM_NOWHERE = "an element was read that no transaction has tried to commit"
    UNASKED = "a transaction is committed whose commit no client has asked for"
    FENCE = "a commit was acknowledged after the transaction had been reaped"
    WRONG_OUTCOME = "a client got another outcome than the metastore has"


@dataclass(frozen=True, slots=True)
class Finding:
    """One anomaly, with a sentence about where it is."""

    anomaly: Anomaly
    sentence: str


@dataclass(slots=True)
class Report:
    """What was found, and how much was looked at.

    ``write_skews`` (G2-item) is how many parts of the history have no order, as snapshot isolation allows.
    ``long_forks`` are circles of two or more anti-dependencies that are apart: two readers
    disagree on which of two independent commits came first. They come of Hive's rule that a snapshot
    shows no id above its own: a transaction whose snapshot is taken later than its id misses
    what younger ones have committed between, but sees what older ones have.
    """

    findings: list[Finding] = field(default_factory=list)
    committed: int = 0
    aborted: int = 0
    unknown: int = 0
    reads: int = 0
    elements: int = 0
    edges: Counter[str] = field(default_factory=Counter)
    write_skews: int = 0
    long_forks: list[str] = field(default_factory=list)

    @property
    def anomalies(self) -> set[Anomaly]:
        """The kinds found."""
        return {finding.anomaly for finding in self.findings}

    def describe(self, most: int = 10) -> str:
        """The findings, for people."""
        lines = [f"{finding.anomaly.name}: {finding.sentence}" for finding in self.findings[:most]]
        more = len(self.findings) - most
        return "\n".join([*lines, *([f"and {more} more"] if more > 0 else [])]) or "no anomaly"


def check(history: Sequence[Transaction], *, reaped: Collection[int] = ()) -> Report:
    """All anomalies of a history.

    An UNKNOWN transaction counts as committed when a committed transaction has read an element of it.
    ``reaped`` are the ids of transactions that the housekeeper has aborted.
    """
    return _Check(history, frozenset(reaped)).run()


_WW, _WR, _RW, _RT = "ww", "wr", "rw", "rt"
_Element = tuple[str, int]
_Adjacency = list[list[int]]


class _Check:
    def __init__(self, history: Sequence[Transaction], reaped: frozenset[int]) -> None:
        self.report = Report()
        self.writer: dict[_Element, int] = {}
        self.history = list(history)
        self.reaped = reaped
        for number, transaction in enumerate(self.history):
            for operation in transaction.operations:
                if operation.function in (Function.APPEND, Function.ADD):
                    element = (operation.key, int(operation.value))  # type: ignore[arg-type]
                    assert element not in self.writer, f"{element} is written twice: the history is not usable"
                    self.writer[element] = number
        self._settle_unknown()
        self.committed = [n for n, each in enumerate(self.history) if each.status is Status.COMMITTED]
        self.reads: dict[str, list[tuple[int, tuple[int, ...]]]] = defaultdict(list)
        self.set_reads: dict[str, list[tuple[int, tuple[int, ...]]]] = defaultdict(list)
        self.based_on: dict[_Element, int] = {}
        self.labels: dict[tuple[int, int, str], str] = {}

    def run(self) -> Report:
        report = self.report
        statuses = Counter(each.status for each in self.history)
        report.committed, report.aborted = statuses[Status.COMMITTED], statuses[Status.ABORTED]
        report.unknown = statuses[Status.UNKNOWN]
        report.elements = len(self.writer)
        self._check_fences()
        for number in self.committed:
            self._read_transaction(number)
        orders = {key: self._order(key, reads) for key, reads in self.reads.items()}
        self._find_lost(orders)
        self._find_lost_of_sets()
        self._add_list_edges(orders)
        self._add_set_edges()
        report.edges.update(kind for _, _, kind in self.labels)
        self._find_circles()
        return report

    def _found(self, anomaly: Anomaly, sentence: str) -> None:
        self.report.findings.append(Finding(anomaly, sentence))

    def _name(self, number: int) -> str:
        return self.history[number].name

    # -- single transactions ----------------------------------------------------------

    def _settle_unknown(self) -> None:
        """A transaction whose element a committed one has read has committed, too, if it asked for that."""
        waiting = [n for n, each in enumerate(self.history) if each.status is Status.COMMITTED]
        while waiting:
            for operation in self.history[waiting.pop()].operations:
                if not isinstance(operation.value, tuple):
                    continue
                for element in operation.value:
                    writer = self.writer.get((operation.key, element))
                    if writer is not None and self.history[writer].status is Status.UNKNOWN:
                        self.history[writer] = replace(self.history[writer], status=Status.COMMITTED)
                        waiting.append(writer)

    def _check_fences(self) -> None:
        for each in self.history:
            if each.status is Status.COMMITTED and each.txn_id in self.reaped:
                self._found(Anomaly.FENCE, f"{each.name} (transaction {each.txn_id})")
            if each.status is Status.COMMITTED and not each.asked:
                self._found(Anomaly.UNASKED, f"{each.name} (transaction {each.txn_id})")

    def _read_transaction(self, number: int) -> None:
        """Check what a transaction says about itself, and note its first reads and its writes."""
        seen: dict[str, tuple[int, ...]] = {}
        own: dict[str, list[int]] = defaultdict(list)
        for operation in self.history[number].operations:
            key = operation.key
            if isinstance(operation.value, tuple):
                self.report.reads += 1
                self._read(number, operation, operation.value, seen, own[key])
                continue
            own[key].append(operation.value)
            if operation.function is Function.APPEND and key in seen and len(own[key]) == 1:
                self.based_on[key, operation.value] = len(seen[key])
            if key in seen:
                seen[key] = (*seen[key], operation.value)

    def _read(
        self,
        number: int,
        operation: Operation,
        elements: tuple[int, ...],
        seen: dict[str, tuple[int, ...]],
        own: list[int],
    ) -> None:
        key, is_set = operation.key, operation.function is Function.READ_SET
        if len(set(elements)) != len(elements):
            twice = [element for element, count in Counter(elements).items() if count > 1]
            self._found(Anomaly.DUPLICATE, f"{self._name(number)} read {twice[0]} twice in {key}")
            elements = tuple(dict.fromkeys(elements))
        missing = [element for element in own if element not in elements]
        if missing:
            self._found(Anomaly.OWN_WRITE_MISSING, f"{self._name(number)} has written {missing[0]} to {key}")
        if key in seen:
            before = seen[key]
            same = set(before) == set(elements) if is_set else before == elements
            if not same and not missing:
                sentence = f"{self._name(number)} read {key} of {len(before)}, then of {len(elements)} elements"
                self._found(Anomaly.NON_REPEATABLE_READ, sentence)
            return
        seen[key] = elements
        external = tuple(element for element in elements if element not in own) if own else elements
        for element in external:
            self._check_element(number, key, element)
        (self.set_reads if is_set else self.reads)[key].append((number, external))
        if external and not is_set:
            writer = self.writer.get((key, external[-1]))
            if writer is not None and self.history[writer].status is Status.COMMITTED:
                last = [o.value for o in self.history[writer].operations if o[:2] == (Function.APPEND, key)][-1]
                if last != external[-1]:
                    sentence = f"{self._name(number)} read {key} up to {external[-1]} of {self._name(writer)}"
                    self._found(Anomaly.G1B, sentence)

    def _check_element(self, number: int, key: str, element: int) -> None:
        writer = self.writer.get((key, element))
        if writer is None:
            self._found(Anomaly.FROM_NOWHERE, f"{self._name(number)} read {element} in {key}")
        elif self.history[writer].status is Status.ABORTED:
            self._found(Anomaly.G1A, f"{self._name(number)} read {element} of {self._name(writer)} in {key}")

    # -- keys -------------------------------------------------------------------------

    def _order(self, key: str, reads: list[tuple[int, tuple[int, ...]]]) -> tuple[int, ...]:
        """The elements of a list in the order of their appends: the longest one read."""
        order = max((elements for _, elements in reads), key=len)
        for number, elements in reads:
            if order[: len(elements)] != elements:
                at = next(i for i, (one, other) in enumerate(zip(order, elements, strict=False)) if one != other)
                sentence = f"{self._name(number)} read {elements[at]} in {key} where others read {order[at]}"
                self._found(Anomaly.FORK, sentence)
        return order

    def _find_lost(self, orders: Mapping[str, tuple[int, ...]]) -> None:
        """Elements that a later reader had to find; of an update that another one has overwritten, both."""
        places = {key: {element: i for i, element in enumerate(order)} for key, order in orders.items()}
        latest: dict[str, int] = {
            key: max(self.history[number].began_ns for number, _ in reads) for key, reads in self.reads.items()
        }
        for (key, element), number in self.writer.items():
            writer = self.history[number]
            if writer.status is not Status.COMMITTED or key not in orders or element in places[key]:
                continue
            base = self.based_on.get((key, element))
            if base is not None and base < len(orders[key]):
                other = self.writer.get((key, orders[key][base]))
                if other is not None and other != number and self.based_on.get((key, orders[key][base])) == base:
                    sentence = f"{key}: {writer.name} and {self._name(other)} appended to the same {base} elements"
                    self._found(Anomaly.LOST_UPDATE, sentence)
            if writer.ended_ns is not None and writer.ended_ns < latest[key]:
                self._found(Anomaly.LOST_WRITE, f"{element} of {writer.name} is not in {key}")
        for (key, element), base in self.based_on.items():
            place = places.get(key, {}).get(element)
            if place is not None and place != base and self._is_committed((key, element)):
                writer_name = self._name(self.writer[key, element])
                sentence = f"{key}: {writer_name} appended {element} to {base} elements, where {place} were"
                self._found(Anomaly.LOST_UPDATE, sentence)

    def _find_lost_of_sets(self) -> None:
        added: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for (key, element), number in self.writer.items():
            if key in self.set_reads and self._is_committed((key, element)):
                added[key].append((element, number))
        for key, reads in self.set_reads.items():
            number, elements = max(reads, key=lambda each: self.history[each[0]].began_ns)
            began_ns, found = self.history[number].began_ns, set(elements)
            for element, writer in added[key]:
                ended_ns = self.history[writer].ended_ns
                if ended_ns is not None and ended_ns < began_ns and element not in found and writer != number:
                    self._found(Anomaly.LOST_WRITE, f"{element} of {self._name(writer)} is not in {key}")

    def _is_committed(self, element: _Element) -> bool:
        return self.history[self.writer[element]].status is Status.COMMITTED

    # -- edges ------------------------------------------------------------------------

    def _edge(self, source: int | None, target: int | None, kind: str, key: str) -> None:
        if source is not None and target is not None and source != target:
            self.labels.setdefault((source, target, kind), key)

    def _committed_writer(self, key: str, element: int) -> int | None:
        number = self.writer.get((key, element))
        return number if number is not None and self.history[number].status is Status.COMMITTED else None

    def _add_list_edges(self, orders: Mapping[str, tuple[int, ...]]) -> None:
        for key, order in orders.items():
            writers = [self._committed_writer(key, element) for element in order]
            for one, other in pairwise(writers):
                self._edge(one, other, _WW, key)
            for number, elements in self.reads[key]:
                if order[: len(elements)] != elements:
                    continue
                if elements:
                    self._edge(writers[len(elements) - 1], number, _WR, key)
                if len(elements) < len(order):
                    self._edge(number, writers[len(elements)], _RW, key)

    def _add_set_edges(self) -> None:
        added: dict[str, dict[int, int]] = defaultdict(dict)
        for (key, element), number in self.writer.items():
            if key in self.set_reads and self._is_committed((key, element)):
                added[key][element] = number
        for key, reads in self.set_reads.items():
            for number, elements in reads:
                found = set(elements)
                for element, writer in added[key].items():
                    if element in found:
                        self._edge(writer, number, _WR, key)
                    else:
                        self._edge(number, writer, _RW, key)

    # -- circles ----------------------------------------------------------------------

    def _find_circles(self) -> None:
        graph = _Graph(self.history, self.committed, self.labels)
        reported: set[int] = set()
        for kinds in ((_WW,), (_WW, _WR), (_WW, _WR, _RW), (_WW, _WR, _RW, _RT)):
            for circle in graph.circles(kinds, apart=True):
                nodes = {source for source, _, _ in circle}
                if nodes.isdisjoint(reported):
                    names = [kind for _, _, kind in circle]
                    if names.count(_RW) > 1:
                        self.report.long_forks.append(self._describe(circle))
                    else:
                        self._found(_classify(names), self._describe(circle))
                reported |= nodes
        # What is left are circles with two anti-dependencies in a row, which snapshot isolation allows.
        self.report.write_skews = sum(1 for _ in graph.circles((_WW, _WR, _RW), apart=False))
        self.report.edges[_RT] = graph.real_time_edges

    def _describe(self, circle: Sequence[tuple[int, int, str]]) -> str:
        parts = []
        for source, target, kind in circle:
            key = self.labels.get((source, target, kind))
            parts.append(f"{self._name(source)} -{kind}{f' {key}' if key else ''}->")
        return " ".join([*parts, self._name(circle[0][0])])


def _classify(kinds: Sequence[str]) -> Anomaly:
    if _RT in kinds:
        return Anomaly.REAL_TIME
    if _RW in kinds:
        return Anomaly.G_SINGLE
    return Anomaly.G1C if _WR in kinds else Anomaly.G0


class _Graph:
    """The committed transactions and the edges between them.

    A transaction has two nodes: its first is reached by dependencies and may be left by any edge; its
    second is reached by an anti-dependency and left by dependencies only. So a circle of
    nodes is a circle of transactions without two anti-dependencies in a row. Moments, which stand
    between commits that were acknowledged and transactions that began afterwards, are a third sort: with
    them the order of time takes as many edges as there are transactions.
    """

    def __init__(
        self, history: Sequence[Transaction], committed: Sequence[int], labels: Mapping[tuple[int, int, str], str]
    ) -> None:
        self._size = len(history)
        self._labels = labels
        self._moments = 0
        self._times: list[tuple[int, int]] = []
        events = [(history[n].began_ns, True, n) for n in committed]
        events += [(ended_ns, False, n) for n in committed if (ended_ns := history[n].ended_ns) is not None]
        # Of two at one time, the beginning comes first: only what is certain is an order.
        for _, begins, number in sorted(events, key=lambda event: (event[0], not event[1])):
            if begins:
                if self._moments:
                    self._times.append((self._moment(self._moments - 1), number))
            else:
                if self._moments:
                    self._times.append((self._moment(self._moments - 1), self._moment(self._moments)))
                self._times.append((number, self._moment(self._moments)))
                self._moments += 1
        self.real_time_edges = len(self._times)

    def _moment(self, number: int) -> int:
        return 2 * self._size + number

    def circles(self, kinds: Collection[str], *, apart: bool) -> Iterator[list[tuple[int, int, str]]]:
        """One circle, as edges between transactions, of each strongly connected part.

        ``apart``: only circles without two anti-dependencies in a row.
        """
        adjacency: _Adjacency = [[] for _ in range(2 * self._size + self._moments)]
        for source, target, kind in self._labels:
            if kind not in kinds:
                continue
            if kind == _RW and apart:
                adjacency[source].append(self._size + target)
            else:
                adjacency[source].append(target)
                if apart:
                    adjacency[self._size + source].append(target)
        if _RT in kinds:
            for source, target in self._times:
                adjacency[source].append(target)
                if source < self._size:
                    adjacency[self._size + source].append(target)
        for part in strongly_connected(adjacency):
            if len(part) > 1:
                circle = self._worst_circle(adjacency, part) if apart else _shortest_circle(adjacency, part)
                yield self._edges(circle, kinds)

    def _worst_circle(self, adjacency: _Adjacency, part: Sequence[int]) -> list[int]:
        """A circle without an anti-dependency if there is one in this part, else with one, else any."""
        inside = set(part)
        seconds = {node for node in part if self._size <= node < 2 * self._size}
        firsts = inside - seconds
        among_firsts = {node: [target for target in adjacency[node] if target in firsts] for node in firsts}
        numbers = {node: number for number, node in enumerate(sorted(firsts))}
        nodes = sorted(firsts)
        dense = [[numbers[target] for target in among_firsts[node]] for node in nodes]
        for without in strongly_connected(dense):
            if len(without) > 1:
                return [nodes[number] for number in _shortest_circle(dense, without)]
        for source in nodes:
            for second in seconds.intersection(adjacency[source]):
                way = _way(adjacency, second, source, firsts)
                if way:
                    return way
        return _shortest_circle(adjacency, part)

    def _edges(self, nodes: Sequence[int], kinds: Collection[str]) -> list[tuple[int, int, str]]:
        """The edges of a circle of nodes, between transactions: moments are left out."""
        steps = [node % self._size if node < 2 * self._size else None for node in nodes]
        first = next(i for i, step in enumerate(steps) if step is not None)
        nodes, steps = [*nodes[first:], *nodes[:first]], [*steps[first:], *steps[:first]]
        found = []
        source, passed_time = steps[0], False
        for node, step in [*zip(nodes[1:], steps[1:], strict=True), (nodes[0], steps[0])]:
            if step is None:
                passed_time = True
                continue
            assert source is not None
            found.append((source, step, _RT if passed_time else self._kind(source, step, node, kinds)))
            source, passed_time = step, False
        return found

    def _kind(self, source: int, target: int, node: int, kinds: Collection[str]) -> str:
        order = (_RW,) if node >= self._size else (_WW, _WR, _RW)
        return next(kind for kind in order if kind in kinds and (source, target, kind) in self._labels)


def strongly_connected(adjacency: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """The strongly connected parts of a graph (Tarjan, without recursion)."""
    index = [-1] * len(adjacency)
    low = [0] * len(adjacency)
    on_stack = [False] * len(adjacency)
    stack: list[int] = []
    counter = 0
    for root in range(len(adjacency)):
        if index[root] >= 0 or not adjacency[root]:
            continue
        path = [root]
        ways = [iter(adjacency[root])]
        index[root] = low[root] = counter
        while path:
            node = path[-1]
            if low[node] == index[node] == counter:
                counter += 1
                stack.append(node)
                on_stack[node] = True
            for target in ways[-1]:
                if index[target] < 0:
                    index[target] = low[target] = counter
                    path.append(target)
                    ways.append(iter(adjacency[target]))
                    break
                if on_stack[target]:
                    low[node] = min(low[node], index[target])
            else:
                path.pop()
                ways.pop()
                if path:
                    low[path[-1]] = min(low[path[-1]], low[node])
                if low[node] == index[node]:
                    yield _popped(stack, on_stack, node)


def _popped(stack: list[int], on_stack: list[bool], last: int) -> list[int]:
    at = len(stack) - 1
    while stack[at] != last:
        at -= 1
    part = stack[at:]
    del stack[at:]
    for node in part:
        on_stack[node] = False
    return part


def _way(adjacency: Sequence[Sequence[int]], start: int, end: int, through: Collection[int]) -> list[int]:
    """The nodes of a shortest way from ``start`` to ``end``, or none."""
    came_from: dict[int, int] = {}
    frontier = [start]
    while frontier:
        following = []
        for node in frontier:
            for target in adjacency[node]:
                if target in through and target not in came_from:
                    came_from[target] = node
                    following.append(target)
                    if target == end:
                        way = [end]
                        while way[-1] != start:
                            way.append(came_from[way[-1]])
                        return way[::-1]
        frontier = following
    return []


def _shortest_circle(adjacency: Sequence[Sequence[int]], part: Sequence[int]) -> list[int]:
    """The shortest of the circles through the first nodes of a strongly connected part."""
    inside = set(part)
    best: list[int] = []
    for start in sorted(part)[:50]:
        came_from: dict[int, int] = {}
        frontier = [start]
        while frontier and start not in came_from:
            following = []
            for node in frontier:
                for target in adjacency[node]:
                    if target in inside and target not in came_from:
                        came_from[target] = node
                        following.append(target)
            frontier = following
        circle = [start]
        while (before := came_from[circle[-1]]) != start:
            circle.append(before)
        found = [start, *reversed(circle[1:])]
        if not best or len(found) < len(best):
            best = found
    return best
