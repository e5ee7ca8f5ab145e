"""Runners of clusters whose ``jobtracker`` is the id of an Airflow connection to Spark.

Airflow's provider for Spark defines the types of these connections, and their forms in Airflow's UI. The hooks of that
provider are not called, for these reasons:

- SparkSubmitHook uses YARN if the connection does not exist, shows Spark's configuration in the arguments of a
  process, and returns no result.
- SparkConnectHook does not escape a slash in a token, such as a base64 token. pyspark then refuses the URL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_hivex.core.errors import HivexError, InvalidConnectionError

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from airflow_hivex.core.model.clusters import Cluster
    from airflow_hivex.core.runners.registry import Runner

TYPES = ("spark", "spark_connect")
_CONF_OF_EXTRAS = {
    "queue": "spark.yarn.queue",
    "deploy-mode": "spark.submit.deployMode",
    "namespace": "spark.kubernetes.namespace",
}
_REFUSED_EXTRAS = ("principal", "keytab", "spark-home")
"""The extras that are refused, because they would change the user or the Spark installation of the jobs."""
_BINARY = "spark-binary"
_MASTER = re.compile(r"local(?:\[.*\])?|yarn|(?:spark|k8s|sc)://.+")


def register() -> None:
    """Make this process accept the id of an Airflow connection as the job tracker of a cluster."""
    from airflow_hivex.core.model.clusters import JobTrackerKind
    from airflow_hivex.core.runners.registry import register_runner

    register_runner(JobTrackerKind.CONNECTION, runner_of_connection)


def runner_of_connection(cluster: Cluster) -> Runner:
    """Return the runner of a cluster whose job tracker is the id of an Airflow connection.

    :raises InvalidConnectionError: the connection does not exist, or does not describe a Spark cluster
    """
    from airflow_hivex.core.model.clusters import JobTrackerKind
    from airflow_hivex.core.runners.registry import runner_for, submit_runner

    try:
        connection = BaseHook.get_connection(cluster.jobtracker)
    except AirflowNotFoundException as error:
        raise InvalidConnectionError(
            cluster.jobtracker, f"it does not exist, and cluster {cluster.name} has it as its jobtracker"
        ) from error
    jobtracker, conf = jobtracker_of(connection)
    try:
        resolved = replace(cluster, jobtracker=jobtracker)
    except HivexError as error:
        raise InvalidConnectionError(cluster.jobtracker, str(error.facts[0])) from error
    if resolved.kind is JobTrackerKind.CONNECTION:
        raise InvalidConnectionError(cluster.jobtracker, f"its host {jobtracker!r} is not a master URL of Spark")
    if resolved.kind is JobTrackerKind.SUBMIT:
        return submit_runner(jobtracker, tuple(sorted(conf.items())))
    return runner_for(resolved)


def jobtracker_of(connection: Connection) -> tuple[str, dict[str, str]]:
    """Return a pair: the master URL of a connection, and the Spark configuration in the extras of the connection.

    :raises InvalidConnectionError: the connection has another type or no host, or an extra cannot be used
    """
    conn_id = str(connection.conn_id)
    if connection.conn_type not in TYPES:
        raise InvalidConnectionError(
            conn_id, f"its type is {connection.conn_type!r}; a jobtracker needs {' or '.join(map(repr, TYPES))}"
        )
    host = connection.host or ""
    if not host:
        raise InvalidConnectionError(conn_id, "its host is empty; it has the master URL of Spark")
    try:
        extra = connection.extra_dejson
    except ValueError as error:
        raise InvalidConnectionError(conn_id, "its extra is not JSON") from error
    if connection.conn_type == "spark_connect":
        return _connect_url(connection, host, extra), {}
    return _master(connection, host), _conf(conn_id, extra)


def _master(connection: Connection, host: str) -> str:
    address = f"{host}:{connection.port}" if connection.port else host
    # A connection URI loses the scheme of its master: spark://host:7077 has the host alone.
    return address if _MASTER.fullmatch(address) or not connection.port else f"spark://{address}"


def _conf(conn_id: str, extra: Mapping[str, Any]) -> dict[str, str]:
    refused = [name for name in _REFUSED_EXTRAS if extra.get(name)]
    if refused:
        raise InvalidConnectionError(
            conn_id,
            f"its extra {refused[0]} is not taken over to a jobtracker; set Spark's own settings in the cluster's "
            "spark_conf, or SPARK_HOME in the environment of the worker",
        )
    if extra.get(_BINARY) not in (None, "", "spark-submit"):
        raise InvalidConnectionError(
            conn_id, f"its extra {_BINARY} is {extra[_BINARY]!r}; jobs run by the spark-submit of SPARK_HOME"
        )
    return {name: str(extra[key]) for key, name in _CONF_OF_EXTRAS.items() if extra.get(key)}


def _connect_url(connection: Connection, host: str, extra: Mapping[str, Any]) -> str:
    address = f"{host.removeprefix('sc://')}:{connection.port}" if connection.port else host.removeprefix("sc://")
    parameters = {
        "use_ssl": "true" if extra.get("use_ssl") else "",
        "user_id": connection.login or "",
        "token": connection.password or "",
    }
    given = ";".join(f"{name}={quote(value, safe='')}" for name, value in parameters.items() if value)
    return f"sc://{address}/;{given}" if given else f"sc://{address}"
