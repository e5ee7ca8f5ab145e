from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import Connection

from airflow_hivex.core import Metastore
from airflow_hivex.core.errors import InvalidConnectionError, UnsupportedJobTrackerError
from airflow_hivex.core.errors.secrets import hide
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.runners.registry import runner_for
from airflow_hivex.hooks import spark_connections
from airflow_hivex.hooks.hivex import HivexHook

if TYPE_CHECKING:
    from pathlib import Path

CONN_ID = "my_spark"


def connection(conn_type: str = "spark", extra: Any = None, **fields: Any) -> Connection:
    return Connection(conn_id=CONN_ID, conn_type=conn_type, extra=json.dumps(extra or {}), **fields)


@pytest.fixture
def registered() -> None:
    spark_connections.register()


@pytest.mark.parametrize(
    ("fields", "jobtracker"),
    [
        ({"host": "spark://10.0.0.1", "port": 7077}, "spark://10.0.0.1:7077"),
        ({"host": "spark://10.0.0.1:7077,10.0.0.2:7077"}, "spark://10.0.0.1:7077,10.0.0.2:7077"),
        ({"host": "10.0.0.1", "port": 7077}, "spark://10.0.0.1:7077"),
        ({"host": "local[2]"}, "local[2]"),
        ({"host": "yarn"}, "yarn"),
        ({"host": "k8s://https://kube", "port": 6443}, "k8s://https://kube:6443"),
        ({"conn_type": "spark_connect", "host": "sc.example.com", "port": 15002}, "sc://sc.example.com:15002"),
        (
            {
                "conn_type": "spark_connect",
                "host": "sc://h",
                "login": "me",
                "password": "p;=/w",
                "extra": {"use_ssl": True},
            },
            "sc://h/;use_ssl=true;user_id=me;token=p%3B%3D%2Fw",
        ),
    ],
)
def test_a_connection_leads_to_a_master(fields: dict[str, Any], jobtracker: str) -> None:
    assert spark_connections.jobtracker_of(connection(**fields)) == (jobtracker, {})


def test_types_and_extras_are_those_of_the_provider_for_spark() -> None:
    from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    from airflow.providers_manager import ProvidersManager

    assert (SparkSubmitHook.conn_type, SparkConnectHook.conn_type) == spark_connections.TYPES
    fields = {each.removeprefix("extra__") for each in ProvidersManager().connection_form_widgets}
    assert {"spark__queue", "spark__deploy-mode", "spark__namespace", "spark_connect__use_ssl"} <= fields


def test_extras_become_configuration() -> None:
    extra = {"queue": "q", "namespace": "n", "deploy-mode": "client", "spark-binary": "spark-submit"}
    assert spark_connections.jobtracker_of(connection(host="yarn", extra=extra))[1] == {
        "spark.yarn.queue": "q",
        "spark.kubernetes.namespace": "n",
        "spark.submit.deployMode": "client",
    }


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"conn_type": "postgres", "host": "h"}, "its type is 'postgres'"),
        ({}, "its host is empty"),
        ({"host": "yarn", "extra": {"keytab": "AAAA"}}, "its extra keytab is not taken over"),
        ({"host": "yarn", "extra": {"spark-binary": "spark3-submit"}}, "spark-binary is 'spark3-submit'"),
    ],
)
def test_a_connection_that_cannot_be_used_is_refused(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidConnectionError, match=reason):
        spark_connections.jobtracker_of(connection(**fields))


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("jobtracker", ["local[2]", "spark://127.0.0.1:7077", "yarn", "sc://localhost:15002"])
def test_a_cluster_runs_where_its_connection_leads(jobtracker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, host = ("spark_connect", jobtracker[5:]) if jobtracker.startswith("sc:") else ("spark", jobtracker)
    monkeypatch.setenv(f"AIRFLOW_CONN_{CONN_ID.upper()}", json.dumps({"conn_type": kind, "host": host}))

    clusters = [Cluster("c1", "file:///data/c1", each) for each in (CONN_ID, jobtracker)]
    assert runner_for(clusters[0]) is runner_for(clusters[1])


@pytest.mark.usefixtures("registered")
def test_the_token_of_a_connection_is_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    described = {"conn_type": "spark_connect", "host": "127.0.0.1", "port": 1, "password": "t0ken-of-connect"}
    monkeypatch.setenv(f"AIRFLOW_CONN_{CONN_ID.upper()}", json.dumps(described))
    problem = runner_for(Cluster("c1", "file:///data/c1", CONN_ID)).health("c1").problem
    assert problem is not None
    assert "t0ken-of-connect" not in str(problem)
    assert hide("seen t0ken-of-connect") == "seen ***"


@pytest.mark.parametrize("host", ["nonsense", "http://h"])
@pytest.mark.usefixtures("registered")
def test_a_host_that_is_not_a_master_is_never_taken_for_yarn(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"AIRFLOW_CONN_{CONN_ID.upper()}", json.dumps({"conn_type": "spark", "host": host}))
    with pytest.raises(InvalidConnectionError, match=f"'{CONN_ID}'.*{host}"):
        runner_for(Cluster("c1", "file:///data/c1", CONN_ID))


def test_a_missing_connection_is_reported_by_statements_and_by_its_own_test(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clusters = {"c1": {"filesystem": tmp_path.as_uri(), "jobtracker": "no_such_spark"}}
    with (
        Metastore.open(sqlite_url, clusters=clusters) as metastore,
        metastore.session() as session,
        # Without Airflow.
        pytest.raises(UnsupportedJobTrackerError, match="no_such_spark"),
    ):
        session.sql("SELECT 1")
    extra = {"metastore_url": sqlite_url, "cluster_properties": clusters}
    monkeypatch.setenv("AIRFLOW_CONN_HIVEX_DEFAULT", json.dumps({"conn_type": "hivex", "extra": extra}))
    passed, sentences = HivexHook().test_connection()
    assert not passed
    assert "Connection 'no_such_spark' is not usable: it does not exist, and cluster c1" in sentences
    with HivexHook().session() as session, pytest.raises(InvalidConnectionError, match="no_such_spark"):
        session.sql("SELECT 1")
