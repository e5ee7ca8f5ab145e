from __future__ import annotations

import pytest

from airflow_hivex.core.thrift.clients import Client, DatabaseName, read_database, user_and_cluster, without_password


@pytest.mark.parametrize(
    ("text", "catalog", "found"),
    [
        ("D1", None, DatabaseName("d1", "d1")),
        ("@c2#D1", None, DatabaseName("d1", "@c2#D1", "c2")),
        ("@hive#d1", None, DatabaseName("d1", "@hive#d1")),
        ("@c2#", None, DatabaseName("", "@c2#", "c2")),
        ("@c2#!", None, DatabaseName("", "@c2#!", "c2")),
        ("d1", "c2", DatabaseName("d1", "d1", "c2")),
        ("d1", "hive", DatabaseName("d1", "d1")),
        (None, None, DatabaseName("", "")),
    ],
)
def test_catalog_of_a_name_is_a_cluster(text: str | None, catalog: str | None, found: DatabaseName) -> None:
    assert read_database(text, catalog) == found


@pytest.mark.parametrize(
    ("user", "found"),
    [("alice@c2", ("alice", "c2")), ("alice", ("alice", None)), ("@c2", ("@c2", None)), ("a@b@c2", ("a@b", "c2"))],
)
def test_user_may_name_a_cluster(user: str, found: tuple[str, str | None]) -> None:
    assert user_and_cluster(user) == found


@pytest.mark.parametrize(
    ("user", "found"),
    [
        ("bob:password@c1", ("bob@c1", "password")),
        ("bob:pass@word@c1", ("bob@c1", "pass@word")),
        ("bob:", ("bob", "")),
        ("bob:password", ("bob", "password")),
        ("hive/host@EXAMPLE.ORG", ("hive/host@EXAMPLE.ORG", None)),
        (":x", (":x", None)),
    ],
)
def test_password_of_a_user_is_cut_off(user: str, found: tuple[str, str | None]) -> None:
    assert without_password(user) == found


def test_nearest_name_of_a_cluster_decides() -> None:
    client = Client("peer", "of endpoint")
    assert client.cluster() == "of endpoint"
    client.user_cluster = "of user"
    assert client.cluster() == "of user"
    client.configuration["hivex.cluster"] = "of connection"
    assert client.cluster() == "of connection"
    assert client.cluster(None, {"hivex.cluster": "of call"}) == "of call"
    assert client.cluster(read_database("@of_name#d"), {"hivex.cluster": "of call"}) == "of_name"
