"""What client processes did and saw: the values that the checker judges, and the files that they are kept in.

Every client appends to a file of its own, one JSON array a line, so that a kill loses nothing that
it had written before. Elements are numbers that no two operations write.
"""

from __future__ import annotations

import enum
import json
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class Status(enum.Enum):
    """How a transaction ended, as far as anybody knows."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Function(enum.Enum):
    """What an operation does. Lists keep the order of their elements, sets do not."""

    READ = "r"
    APPEND = "a"
    READ_SET = "s"
    ADD = "i"


class Operation(NamedTuple):
    """One operation on one key: ``value`` is the element written, or a tuple of those read."""

    function: Function
    key: str
    value: int | tuple[int, ...]


def read(key: str, *elements: int) -> Operation:
    """A read of a list."""
    return Operation(Function.READ, key, elements)


def append(key: str, element: int) -> Operation:
    """An append to a list."""
    return Operation(Function.APPEND, key, element)


def read_set(key: str, *elements: int) -> Operation:
    """A read of a set."""
    return Operation(Function.READ_SET, key, elements)


def add(key: str, element: int) -> Operation:
    """An addition to a set."""
    return Operation(Function.ADD, key, element)


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transaction of a history.

    ``began_ns`` is before its snapshot; ``ended_ns`` is after a client got its outcome, None if no client did. Times
    are of one clock for all processes. ``asked`` says that a commit was asked for.
    """

    name: str
    operations: tuple[Operation, ...]
    status: Status = Status.COMMITTED
    began_ns: int = 0
    ended_ns: int | None = None
    txn_id: int | None = None
    asked: bool = True
    error: str | None = None


class Recorder:
    """Writes the history of one client. An answer to it is on its way to the disk when a call returns."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def begin(self, number: int, at_ns: int | None = None) -> None:
        """A transaction is about to be opened, or was opened with others after ``at_ns``."""
        self._write(number, "begin", time.monotonic_ns() if at_ns is None else at_ns)

    def opened(self, number: int, txn_id: int) -> None:
        """It has this id."""
        self._write(number, "opened", txn_id)

    def done(self, number: int, operations: Sequence[Operation], *, commit: bool) -> None:
        """These were its operations; now its commit is asked for, or its abort."""
        rows = [(operation.function.value, operation.key, operation.value) for operation in operations]
        self._write(number, "commit" if commit else "abort", rows)

    def ended(self, number: int, status: Status, error: str | None = None) -> None:
        """Its client knows its outcome, or that no answer will come."""
        self._write(number, status.value, [time.monotonic_ns(), error])

    def close(self) -> None:
        """Nothing more follows."""
        os.close(self._file)

    def _write(self, number: int, event: str, value: object) -> None:
        os.write(self._file, json.dumps((number, event, value), separators=(",", ":")).encode() + b"\n")


class Progress:
    """Counts the transactions that the clients of a folder are done with, while they write."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = defaultdict(int)
        self._count = 0

    def count(self) -> int:
        """How many there are; only what is new is read."""
        for path in self._folder.iterdir():
            with path.open("rb") as file:
                file.seek(self._read[path])
                new = file.read()
            whole = new[: new.rfind(b"\n") + 1]
            self._read[path] += len(whole)
            self._count += sum(whole.count(b',"%s",' % status.value.encode()) for status in Status)
        return self._count


def finished(path: Path) -> int:
    """How many transactions a client is done with."""
    ends = {status.value for status in Status}
    return sum(event in ends for _, event, _ in _lines(path))


def next_number(path: Path) -> int:
    """The number of a client's next transaction."""
    return max((number for number, _, _ in _lines(path)), default=-1) + 1


def load(path: Path) -> list[Transaction]:
    """The transactions of one client, in their order. One without an end is UNKNOWN if its commit was asked for."""
    events: dict[int, dict[str, object]] = {}
    for number, event, value in _lines(path):
        events.setdefault(number, {})[event] = value
    return [_transaction(f"{path.stem}.{number}", found) for number, found in events.items()]


def _lines(path: Path) -> Iterable[tuple[int, str, object]]:
    if not path.exists():
        return
    for line in path.read_bytes().splitlines(keepends=True):
        # A kill may cut the last line off.
        if line.endswith(b"\n"):
            yield tuple(json.loads(line))


def _transaction(name: str, events: Mapping[str, object]) -> Transaction:
    asked = "commit" in events
    rows = events.get("commit") or events.get("abort") or ()
    operations = tuple(
        Operation(Function(function), key, tuple(value) if isinstance(value, list) else value)
        for function, key, value in rows  # type: ignore[attr-defined]
    )
    status, ended_ns, error = (Status.UNKNOWN if asked else Status.ABORTED), None, None
    for each in Status:
        if each.value in events:
            status = each
            ended_ns, error = events[each.value]  # type: ignore[misc]
    if status is Status.UNKNOWN:
        ended_ns = None
    return Transaction(
        name,
        operations,
        status,
        began_ns=events["begin"],  # type: ignore[arg-type]
        ended_ns=ended_ns,
        txn_id=events.get("opened"),  # type: ignore[arg-type]
        asked=asked,
        error=error,
    )
