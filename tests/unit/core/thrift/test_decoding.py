from __future__ import annotations

import random
import re
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from airflow_hivex.core.thrift.bindings import method
from airflow_hivex.core.thrift.decoding import decode_counted
from airflow_hivex.core.thrift.messages import FEW, MalformedMessageError, MessageScanner, decoded, encoded, read_head
from tests import evidence
from tests.unit.core.thrift.hostile_messages import honest, hostile
from tests.unit.core.thrift.test_fuzzing import mutated
from tests.unit.core.thrift.test_scanning import MESSAGES

LONGEST = 100 << 20
ALWAYS = 9 << 20
"""The bytes that any message may take."""


def decode(message: bytes) -> object:
    """Do with a message what a connection does."""
    scanner = MessageScanner(LONGEST)
    end = None
    for at in range(0, len(message), 1 << 18):
        end = scanner.end(memoryview(message)[: at + (1 << 18)])  # type: ignore[arg-type]
    assert end == len(message)
    head = read_head(message)
    known = method(head.name.decode())
    assert known is not None
    if len(message) > 1 << 16 or scanner.parts > FEW:
        return decode_counted(known.arguments(), message, head.arguments_at)
    return decoded(known.arguments(), message[head.arguments_at :], LONGEST)


@pytest.mark.parametrize("size", [40_000, evidence.amount("HIVEX_HOSTILE_BYTES", 300_000, 10_000_000)])
def test_no_message_takes_five_times_its_bytes(size: int) -> None:
    reasons: list[str] = []
    for shape, message in hostile(size):
        tracemalloc.start()
        try:
            decode(message)
        except MalformedMessageError as error:
            reasons.append(str(error))
        finally:
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        # The bytes themselves are there already, once.
        assert peak < 4 * len(message) + ALWAYS, shape
    assert reasons
    refused = re.compile("too much memory|structures in its first|nested deeper|dbname has")
    assert all(map(refused.search, reasons)), reasons


def test_partitions_of_an_honest_client_take_few_times_their_bytes() -> None:
    message = honest(3000)
    tracemalloc.start()
    found = decode(message)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * len(message)
    assert encoded(found) == message[read_head(message).arguments_at :]


@pytest.mark.parametrize("message", MESSAGES[:-1], ids=range(len(MESSAGES) - 1))
def test_counted_values_are_those_of_the_bindings(message: bytes) -> None:
    head = read_head(message)
    known = method(head.name.decode())
    assert known is not None
    ours = decode_counted(known.arguments(), message, head.arguments_at)
    assert ours == decoded(known.arguments(), message[head.arguments_at :], LONGEST)


def outcome(decode: Callable[..., Any], *given: Any) -> bytes | str:
    """Return what was decoded, as bytes, or the reason why it was refused."""
    try:
        return encoded(decode(*given))
    except MalformedMessageError as error:
        return str(error)


def is_same(ours: bytes | str, theirs: bytes | str, content: bytes) -> bool:
    """Whether both decoders refuse a content, or decode the same.

    A message may have a field twice, and the second replaces the first. Where the first is not UTF-8, ours refuses the
    message. The bindings have forgotten it by then, so their bytes are fewer.
    """
    if isinstance(theirs, bytes) and ours == "a text in it is not UTF-8":
        return len(theirs) < len(content)
    return ours == theirs or (isinstance(ours, str) and isinstance(theirs, str))


def test_any_bytes_are_decoded_as_by_the_bindings_or_refused(counts: Any) -> None:
    chance = random.Random(evidence.SEED)
    compared = 0
    for _ in range(evidence.amount("HIVEX_DECODED_CALLS", 2_000, 100_000)):
        message = mutated(chance, chance.choice(MESSAGES), chance.choice(MESSAGES))
        try:
            end = MessageScanner(LONGEST).end(message)
            if end is None:
                continue
            head = read_head(message)
        except MalformedMessageError:
            continue
        known = method(head.name.decode("latin-1"))
        if known is None:
            continue
        arguments, content = known.arguments, message[head.arguments_at : end]
        ours = outcome(decode_counted, arguments(), message[:end], head.arguments_at)
        theirs = outcome(decoded, arguments(), content, LONGEST)
        assert is_same(ours, theirs, content), (message, ours, theirs)
        compared += 1
    counts["calls decoded as by the bindings of Hive"] = {"calls": compared}
