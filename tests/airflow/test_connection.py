from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_hivex.core.errors import InvalidConnectionError, StoreUnavailableError
from airflow_hivex.hooks import warehouse as hook_module
from airflow_hivex.hooks.configuration import from_connection
from airflow_hivex.hooks.hivex import HivexHook, close_metastores

if TYPE_CHECKING:
    from pathlib import Path

CLUSTERS = {"c1": {"filesystem": "file:///data/c1", "jobtracker": "local[2]"}}


def connection(extra: Any = None, **fields: Any) -> Connection:
    text = extra if isinstance(extra, str) else json.dumps({"cluster_properties": CLUSTERS} | (extra or {}))
    return Connection(conn_id="warehouse", conn_type=fields.pop("conn_type", "hivex"), extra=text, **fields)


def test_fields_become_a_postgresql_url() -> None:
    found = from_connection(connection(host="db", port=5433, schema="hivex", login="etl", password="p@ss/word:1"))
    assert found.url == "postgresql+psycopg://etl:p%40ss%2Fword%3A1@db:5433/hivex"


def test_sqlalchemy_reads_back_what_the_fields_hold() -> None:
    from sqlalchemy.engine import make_url

    url = make_url(from_connection(connection(host="::1", schema="hivex", login="a b@c", password="%/?#[]@:ü")).url)
    assert (url.username, url.password, url.host, url.port, url.database) == (
        "a b@c",
        "%/?#[]@:ü",
        "::1",
        None,
        "hivex",
    )


def test_sqlite_takes_its_path_from_the_schema_field() -> None:
    assert from_connection(connection({"dialect": "sqlite"}, schema="/data/m.db")).url == "sqlite:////data/m.db"


def test_metastore_url_goes_before_the_fields() -> None:
    found = from_connection(connection({"metastore_url": "sqlite:////data/m.db"}))
    assert found.url == "sqlite:////data/m.db"


def test_password_does_not_show_in_the_configuration() -> None:
    assert "secret-word" not in repr(
        from_connection(connection(host="db", schema="h", login="u", password="secret-word"))
    )


def test_all_extras_are_read() -> None:
    found = from_connection(
        connection(
            {
                "metastore_url": "sqlite:////data/m.db",
                "default_cluster": "c1",
                "use_default_cluster": True,
                "database": "sales",
                "settings": '{"hive.txn.timeout": 60}',
            }
        )
    )
    assert found.clusters == CLUSTERS
    assert (found.default_cluster, found.database) == ("c1", "sales")
    assert found.settings == {"hive.txn.timeout": 60, "hive.use.default.cluster": True}


def test_empty_fields_of_the_form_count_as_absent() -> None:
    found = from_connection(
        connection(
            {
                "metastore_url": "sqlite:////data/m.db",
                "dialect": None,
                "default_cluster": "",
                "use_default_cluster": None,
                "database": " ",
                "settings": "",
            }
        )
    )
    assert (found.default_cluster, found.database, found.settings) == (None, "default", {})


def test_connection_written_as_uri_is_read() -> None:
    text = "hivex://etl:pw@db:5432/hivex?cluster_properties=%2Fetc%2Fclusters.json&use_default_cluster=false"
    found = from_connection(Connection.from_uri(text, conn_id="warehouse"))
    assert found.url == "postgresql+psycopg://etl:pw@db:5432/hivex"
    assert found.clusters == "/etc/clusters.json"
    assert found.settings == {"hive.use.default.cluster": False}


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (connection("{not json", host="db", schema="h"), "extra is not JSON"),
        (connection("[1]", host="db", schema="h"), "not a JSON object"),
        (connection({"clusters": {}}, host="db", schema="h"), "unknown field 'clusters'"),
        (connection({"default_clusters": "c1"}, host="db", schema="h"), "did you mean 'default_cluster'"),
        (connection(conn_type="spark", host="db", schema="h"), "its type is 'spark'"),
        (connection(), "neither metastore_url nor a host"),
        (connection(host="db"), "no database name in the schema field"),
        (connection({"metastore_url": "sqlite:////m.db"}, host="db"), "both metastore_url and a host"),
        (connection({"dialect": "oracle"}, host="db", schema="h"), "dialect is 'oracle'"),
        (connection({"metastore_url": "sqlite:////m.db"}, schema="shop"), "write database into the extra"),
        (connection({"dialect": "sqlite"}), "path of the database file"),
        (connection({"cluster_properties": 3}, host="db", schema="h"), "cluster_properties is neither"),
        (connection({"settings": "{"}, host="db", schema="h"), "settings is not JSON"),
        (connection({"settings": "[]"}, host="db", schema="h"), "settings is not a JSON object"),
        (connection({"use_default_cluster": "maybe"}, host="db", schema="h"), "expected true or false"),
        (connection({"default_cluster": 1}, host="db", schema="h"), "default_cluster is int"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_broken_connection_says_what_is_wrong(broken: Connection, reason: str) -> None:
    with pytest.raises(InvalidConnectionError, match="'warehouse'") as raised:
        from_connection(broken)
    assert reason in str(raised.value)


def test_without_any_connection_the_warehouse_is_embedded_and_the_log_says_so(
    airflow_home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook_module, "_announced", set())
    found, *_ = [HivexHook().get_configuration() for _ in range(3)]
    assert found.url == f"sqlite:///{airflow_home / 'hivex' / 'metastore.db'}"
    assert found.clusters is None
    sentence = f"There is no connection hivex_default; the embedded warehouse is used: {found.url}"
    # A sensor asks for the connection at each poll.
    assert capsys.readouterr().out.count(sentence) == 1


def test_missing_connection_of_another_name_is_an_error() -> None:
    with pytest.raises(AirflowNotFoundException, match="warehouse"):
        HivexHook("warehouse").get_configuration()


def test_unreadable_default_connection_is_not_replaced_by_the_embedded_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_HIVEX_DEFAULT", '{"conn_type": "hivex", ')
    with pytest.raises(InvalidConnectionError, match="AIRFLOW_CONN_HIVEX_DEFAULT"):
        HivexHook().get_configuration()


def test_broken_connection_fails_its_test_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_HIVEX_DEFAULT", '{"conn_type": "hivex", "extra": {"cluster_properties": "{}"}}')
    succeeded, sentence = HivexHook().test_connection()
    assert not succeeded
    assert "neither metastore_url nor a host" in sentence


def test_connection_test_names_what_it_checked_and_creates_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "c1").mkdir()
    extra = {
        "metastore_url": f"sqlite:///{tmp_path / 'metastore.db'}",
        "default_cluster": "c1",
        "cluster_properties": {
            "c1": {"filesystem": (tmp_path / "c1").as_uri(), "jobtracker": "local[2]"},
            "c2": {"filesystem": (tmp_path / "c2").as_uri(), "jobtracker": "spark://host:7077"},
        },
    }
    monkeypatch.setenv("AIRFLOW_CONN_HIVEX_DEFAULT", json.dumps({"conn_type": "hivex", "extra": extra}))
    succeeded, sentence = HivexHook().test_connection()
    assert not succeeded
    assert sentence.startswith("Cluster c2:")
    assert "metastore.db: it is empty; the metastore is created when it is first used." in sentence
    assert "c1 is reachable and writable, job tracker local[2], Spark " in sentence
    assert sentence.endswith(" free.")
    assert [each.name for each in tmp_path.iterdir()] == ["c1"]
    del extra["cluster_properties"]["c2"]
    monkeypatch.setenv("AIRFLOW_CONN_HIVEX_DEFAULT", json.dumps({"conn_type": "hivex", "extra": extra}))
    assert HivexHook().test_connection()[0]


def test_silent_database_of_a_connection_does_not_hold_up_another_one(
    monkeypatch: pytest.MonkeyPatch, sqlite_url: str
) -> None:
    def connect(conn_id: str, url: str) -> HivexHook:
        extra = {"metastore_url": url, "cluster_properties": CLUSTERS}
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps({"conn_type": "hivex", "extra": extra}))
        return HivexHook(conn_id)

    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        port = server.getsockname()[1]
        silent = connect("silent", f"postgresql://u@127.0.0.1:{port}/x?connect_timeout=60")
        other = connect("other", sqlite_url)
        opening = pool.submit(silent.get_metastore)
        # The first call waits for an answer when it has connected.
        called, _ = server.accept()
        with called:
            assert other.get_metastore() is other.get_metastore()
            assert not opening.done()
        with pytest.raises(StoreUnavailableError):
            opening.result()
    close_metastores()


def test_secrets_of_a_connection_are_registered_with_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk.log import redact

    extra = {
        "metastore_url": "postgresql://etl:first-p%40ss@db/hivex?sslpassword=second-pass",
        "cluster_properties": {
            "c1": {
                "filesystem": "file:///c1",
                "jobtracker": "sc://host:15002/;token=third-pass",
                "storage_options": {"secret": "fourth-pass", "anon": False},
            }
        },
    }
    monkeypatch.setenv("AIRFLOW_CONN_HIVEX_DEFAULT", json.dumps({"conn_type": "hivex", "extra": extra}))
    configuration = HivexHook().get_configuration()
    text = "first-p@ss second-pass third-pass fourth-pass"
    assert redact(text) == "*** *** *** ***"
    assert not any(word in repr(configuration) for word in (*text.split(), "first-p%40ss"))


def test_fields_of_the_form_show_examples() -> None:
    from airflow_hivex.get_provider_info import get_provider_info

    (described,) = get_provider_info()["connection-types"]
    fields = described["conn-fields"]
    assert None not in fields["dialect"]["schema"]["enum"]
    for name in ("metastore_url", "cluster_properties", "default_cluster", "database", "settings"):
        # Airflow shows placeholders of its own fields only.
        assert name not in described["ui-field-behaviour"]["placeholders"]
        assert "such as" in fields[name]["description"] or ":////" in fields[name]["description"]


def test_tasks_load_files_of_the_clusters_alone_unless_the_connection_says_more() -> None:
    assert from_connection(connection({"metastore_url": "sqlite:////m.db"})).of_metastore["hivex.load.paths"] == []
    given = connection({"metastore_url": "sqlite:////m.db", "settings": {"hivex.load.paths": "/landing"}})
    assert from_connection(given).of_metastore["hivex.load.paths"] == "/landing"
