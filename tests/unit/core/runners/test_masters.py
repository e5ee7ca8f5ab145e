from __future__ import annotations

import socket
from pathlib import Path

import pytest

from airflow_hivex.core.errors import ClusterUnreachableError, JobError
from airflow_hivex.core.runners import masters

YARN = """<?xml version="1.0"?>
<configuration>
  <property><name>yarn.resourcemanager.{key}</name><value>{value}</value></property>
  <property><name>yarn.resourcemanager.{key}.rm2</name><value>rm2{port}</value></property>
  <property><name>yarn.resourcemanager.scheduler.address</name><value>elsewhere:8030</value></property>
</configuration>
"""


@pytest.mark.parametrize(
    ("master", "found"),
    [
        ("spark://h1:7077", [("h1", 7077)]),
        ("spark://h1:7077,h2:17077", [("h1", 7077), ("h2", 17077)]),
        ("spark://[::1]:7077", [("[::1]", 7077)]),
        ("k8s://https://kube:6443", [("kube", 6443)]),
        ("k8s://https://kube/k8s/clusters/c-1", [("kube", 443)]),
        ("k8s://http://127.0.0.1", [("127.0.0.1", 80)]),
        ("k8s://kube:8443", [("kube", 8443)]),
        ("yarn", []),
    ],
)
def test_addresses_of_cluster_managers(master: str, found: list[masters.Address]) -> None:
    assert masters.addresses(master, {}) == found


@pytest.mark.parametrize(
    ("key", "value", "port", "found"),
    [
        ("address", "rm1:8050", ":8050", [("rm1", 8050), ("rm2", 8050)]),
        ("hostname", "rm1", "", [("rm1", 8032), ("rm2", 8032)]),
        ("address", "${yarn.resourcemanager.hostname}:8032", ":8032", [("rm2", 8032)]),
    ],
)
def test_resource_managers_are_those_of_hadoops_configuration(
    tmp_path: Path, key: str, value: str, port: str, found: list[masters.Address]
) -> None:
    (tmp_path / "yarn-site.xml").write_text(YARN.format(key=key, value=value, port=port))
    assert masters.addresses("yarn", {"HADOOP_CONF_DIR": str(tmp_path)}) == found


def test_a_file_of_hadoop_that_cannot_be_read_has_no_settings(tmp_path: Path) -> None:
    (tmp_path / "yarn-site.xml").write_text("<configuration>")
    assert masters.addresses("yarn", {"YARN_CONF_DIR": str(tmp_path)}) == []


def test_yarn_without_hadoops_configuration_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(JobError, match="set HADOOP_CONF_DIR"):
        masters.check("yarn", "c1")


def test_one_master_that_listens_is_enough() -> None:
    with socket.socket() as listening, socket.socket() as silent:
        for each in (listening, silent):
            each.bind(("127.0.0.1", 0))
        listening.listen()
        there, away = (f"127.0.0.1:{each.getsockname()[1]}" for each in (listening, silent))
        masters.check(f"spark://{away},{there}", "c1")
        with pytest.raises(ClusterUnreachableError, match=f"no cluster manager takes connections at {away};"):
            masters.check(f"spark://{away}", "c1")


@pytest.mark.parametrize(
    ("master", "is_here"),
    [("spark://localhost:1", True), ("spark://127.0.0.1:1,[::1]:2", True), ("spark://h:1", False), ("yarn", False)],
)
def test_masters_on_this_machine(master: str, is_here: bool) -> None:
    assert masters.is_on_this_machine(master) is is_here
