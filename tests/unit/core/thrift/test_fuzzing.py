"""The decoder takes any bytes: mutations of calls, of which those that reach new lines are mutated further."""

from __future__ import annotations

import random
import struct
import sys
import time
from types import FrameType
from typing import Any

import psutil
import pytest

from airflow_hivex.core.thrift import bindings, messages
from airflow_hivex.core.thrift.messages import MalformedMessageError, MessageScanner, decoded, read_head
from tests import evidence
from tests.unit.core.thrift.test_scanning import MESSAGES

MOST_BYTES = 1 << 16
_FILES = {messages.__file__}
_WORTH = [struct.pack(">i", number) for number in (-1, 0, 1, 127, 255, 2**16, 2**31 - 1, -(2**31))]
AMOUNT = evidence.amount("HIVEX_FUZZED_CALLS", 2_000, 200_000)


def decode(content: bytes) -> str:
    """Do with bytes what a connection does; how it ended."""
    scanner = MessageScanner(MOST_BYTES)
    buffer = bytearray()
    try:
        # In two pieces, so that the scanner goes on where it was.
        buffer += content[: len(content) // 2]
        end = scanner.end(buffer)
        if end is None:
            buffer += content[len(content) // 2 :]
            end = scanner.end(buffer)
        if end is None:
            return "incomplete"
        message = bytes(buffer[:end])
        head = read_head(message)
        known = bindings.method(head.name.decode("latin-1"))
        if known is None:
            return "unknown"
        decoded(known.arguments(), message[head.arguments_at :], MOST_BYTES)
    except MalformedMessageError:
        return "malformed"
    return "call"


class Lines:
    """The pairs of lines of the decoder that were run one after the other."""

    def __init__(self) -> None:
        self.seen: set[tuple[int, int]] = set()
        self._last = 0

    def run(self, content: bytes) -> tuple[str, bool]:
        """Decode; how it ended, and whether new lines were reached."""
        before = len(self.seen)
        sys.settrace(self._enter)
        try:
            ended = decode(content)
        finally:
            sys.settrace(None)
        return ended, len(self.seen) > before

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._line if frame.f_code.co_filename in _FILES else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        place = hash((frame.f_code.co_filename, frame.f_lineno))
        self.seen.add((self._last, place))
        self._last = place
        return self._line


def mutated(drawn: random.Random, content: bytes, other: bytes) -> bytes:
    """A few random changes."""
    found = bytearray(content)
    for _ in range(drawn.randrange(1, 6)):
        place = drawn.randrange(len(found) + 1)
        match drawn.randrange(6):
            case 0 if found:
                found[place % len(found)] = drawn.randrange(256)
            case 1:
                del found[place : place + drawn.randrange(1, 9)]
            case 2:
                found[place:place] = drawn.randbytes(drawn.randrange(1, 9))
            case 3:
                found[place : place + 4] = drawn.choice(_WORTH)
            case 4:
                start = drawn.randrange(len(other) + 1)
                found[place:place] = other[start : start + drawn.randrange(1, 40)]
            case _ if found:
                found[place % len(found)] = drawn.choice((0, 2, 3, 4, 6, 8, 10, 11, 12, 13, 14, 15))
    return bytes(found[:4096])


@pytest.mark.evidence
def test_decoder_takes_any_bytes(counts: Any) -> None:
    drawn = random.Random(evidence.SEED)
    lines, corpus = Lines(), list(MESSAGES)
    outcomes: dict[str, int] = {}
    for each in corpus:
        lines.run(each)
    process = psutil.Process()
    before = process.memory_info().rss
    slowest = 0.0
    for _ in range(AMOUNT):
        content = mutated(drawn, drawn.choice(corpus), drawn.choice(corpus))
        began = time.process_time()
        ended, is_new = lines.run(content)
        slowest = max(slowest, time.process_time() - began)
        outcomes[ended] = outcomes.get(ended, 0) + 1
        if is_new:
            corpus.append(content)
    assert process.memory_info().rss - before < 100 << 20
    assert slowest < 2
    assert {"call", "incomplete", "malformed"} <= outcomes.keys()
    counts["random calls to the decoder of the Hive Metastore endpoint"] = {"calls": AMOUNT, "kept": len(corpus)}
