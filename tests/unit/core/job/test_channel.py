from __future__ import annotations

import os
import socket
import threading

from airflow_hivex.core.job.channel import Channel


def pair() -> tuple[Channel, Channel]:
    one, two = socket.socketpair()
    return Channel(one), Channel(two)


def test_messages_arrive_in_order_until_the_other_side_ends() -> None:
    one, two = pair()
    for tag in ("a", "ü\n"):
        one.send("cancel", tag=tag)
    one.close()
    assert list(two.messages()) == [{"kind": "cancel", "tag": "a"}, {"kind": "cancel", "tag": "ü\n"}]
    for each in (one, two):
        each.free()


def test_a_fork_leaves_the_stream_to_its_parent() -> None:
    one, two = pair()
    received: list[str] = []
    reading = threading.Thread(target=lambda: received.extend(each["kind"] for each in one.messages()))
    reading.start()
    # The thread waits in the stream, with its lock. A fork must not wait for that.
    child = os.fork()
    if child == 0:
        one.leave()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    two.send("progress")
    two.close()
    reading.join()
    assert received == ["progress"]
    for each in (one, two):
        each.free()
