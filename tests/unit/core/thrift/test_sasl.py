from __future__ import annotations

from pathlib import Path
from struct import pack

import pytest

from airflow_hivex.core.errors import InvalidSettingError
from airflow_hivex.core.thrift.clients import Credentials, PlainExchange, SaslError


def step(status: int, content: bytes) -> bytes:
    return pack(">BI", status, len(content)) + content


def exchange(*steps: bytes) -> tuple[PlainExchange, list[bytes]]:
    found = PlainExchange(Credentials({"alice": "s3cret"}))
    answers = []
    buffer = bytearray(b"".join(steps))
    while buffer and found.failed is None and not found.is_complete:
        answer = found.take(buffer)
        if answer is None:
            break
        answers.append(answer)
    return found, answers


def test_user_with_the_right_password_is_known() -> None:
    found, answers = exchange(step(1, b"PLAIN"), step(2, b"\0alice\0s3cret"))
    assert (found.user, found.failed) == ("alice", None)
    assert answers == [b"", step(5, b"")]


@pytest.mark.parametrize(
    "response", [b"\0alice\0wrong", b"\0bob\0s3cret", b"\0alice\0", b"alice", b"\0ali\xffce\0s3cret", b"\0\0"]
)
def test_other_responses_are_refused_with_a_reason(response: bytes) -> None:
    found, answers = exchange(step(1, b"PLAIN"), step(2, response))
    assert found.user is None
    assert found.failed
    assert answers[-1][0] == 3


def test_other_mechanism_is_refused() -> None:
    found, _ = exchange(step(1, b"GSSAPI"))
    assert found.failed == "SASL: mechanism 'GSSAPI' is not PLAIN"


def test_steps_may_come_byte_by_byte_and_long_ones_are_refused() -> None:
    found = PlainExchange(Credentials({"alice": "s3cret"}))
    buffer = bytearray(step(1, b"PLAIN")[:-1])
    assert found.take(buffer) is None
    with pytest.raises(SaslError, match="at most 8192"):
        found.take(bytearray(pack(">BI", 1, 1 << 30)))
    with pytest.raises(SaslError, match="begins without it"):
        found.take(bytearray(b"\x80\x01\x00\x01"))


def test_file_of_credentials_has_a_secret_for_each_user(tmp_path: Path) -> None:
    path = tmp_path / "credentials.json"
    path.write_text('{"alice": "a"}')
    found = Credentials.from_file(str(path))
    assert found.are_valid("alice", "a")
    assert not found.are_valid("alice", "b")
    assert "'a'" not in repr(found)
    for text in ("[]", "{}", '{"alice": 1}', "no JSON"):
        path.write_text(text)
        with pytest.raises(InvalidSettingError, match="a JSON file is expected"):
            Credentials.from_file(str(path))
    with pytest.raises(InvalidSettingError):
        Credentials.from_file(str(tmp_path / "missing"))
