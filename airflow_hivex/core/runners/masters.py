"""The cluster managers of spark-submit: addresses, and the check whether a cluster manager answers."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree as ET

from airflow_hivex.core.errors import ClusterUnreachableError, JobError

_STANDALONE = "spark://"
_KUBERNETES = "k8s://"
_HADOOP_FOLDERS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_RESOURCE_MANAGER_PORT = 8032
_ADDRESS = re.compile(r"yarn\.resourcemanager\.address(?:\.\w+)?")
_HOSTNAME = re.compile(r"yarn\.resourcemanager\.hostname(?:\.\w+)?")
_LOOPBACK = re.compile(r"localhost|127\.[0-9.]+|\[::1\]")

Address = tuple[str, int]


def addresses(master: str, environment: Mapping[str, str] = os.environ) -> list[Address]:
    """Return the hosts and ports of the cluster managers of a master URL, or an empty list if no address is known."""
    if master.startswith(_STANDALONE):
        return [split_address(each, 7077) for each in master.removeprefix(_STANDALONE).split(",")]
    if master.startswith(_KUBERNETES):
        scheme, separator, rest = master.removeprefix(_KUBERNETES).rpartition("://")
        host = rest.partition("/")[0]
        return [split_address(host, 80 if separator and scheme == "http" else 443)]
    return list(dict.fromkeys(_resource_managers(environment)))


def is_on_this_machine(master: str) -> bool:
    """Return whether a master URL names this machine by a loopback address, such as localhost."""
    return master.startswith(_STANDALONE) and all(_LOOPBACK.fullmatch(host) for host, _ in addresses(master))


def answers(master: str) -> bool:
    """Return whether a cluster manager accepts a connection. If the address is unknown, return True."""
    found = addresses(master)
    return not found or any(map(listens, found))


def check(master: str, cluster: str) -> None:
    """Ensure that a cluster manager accepts connections now. Its free resources are not checked.

    Raises:
        ClusterUnreachableError: no cluster manager accepts a connection.
        JobError: the address of YARN is not configured on this machine.
    """
    if master == "yarn" and not any(os.environ.get(name) for name in _HADOOP_FOLDERS):
        raise JobError(
            cluster,
            "Spark finds YARN by the folder of Hadoop's configuration files; set HADOOP_CONF_DIR where the statement "
            "runs",
        )
    if not answers(master):
        listed = ", ".join(f"{host}:{port}" for host, port in addresses(master))
        raise ClusterUnreachableError(
            cluster, f"no cluster manager takes connections at {listed}; start it, or correct the jobtracker"
        )


def split_address(text: str, port: int) -> Address:
    """Return the host and the port in a text, or ``port`` if the text has no port."""
    host, separator, given = text.rpartition(":")
    if not separator or not given.isdigit():
        host, given = text, str(port)
    return host, int(given)


def listens(address: Address) -> bool:
    """Return whether an address takes a connection, after a dozen seconds at most."""
    host, port = address
    for limit_s in ANSWER_LIMITS_S:
        try:
            with socket.create_connection((host.strip("[]"), port), timeout=limit_s):
                return True
        except TimeoutError:
            # A machine under load may answer the second call.
            continue
        except OSError:
            return False
    return False


def _resource_managers(environment: Mapping[str, str]) -> Iterator[Address]:
    for name in _HADOOP_FOLDERS:
        properties = _properties(Path(environment[name]) / "yarn-site.xml") if environment.get(name) else {}
        for key, value in properties.items():
            if not value or "${" in value:
                continue
            if _ADDRESS.fullmatch(key):
                yield split_address(value, _RESOURCE_MANAGER_PORT)
            elif _HOSTNAME.fullmatch(key) and not any(map(_ADDRESS.fullmatch, properties)):
                yield value, _RESOURCE_MANAGER_PORT


def _properties(file: Path) -> dict[str, str]:
    """Return the properties in a configuration file of Hadoop, or an empty dict if the file cannot be read."""
    try:
        tree = ET.parse(file)  # noqa: S314 - the administrator of this process has written it
    except (OSError, ET.ParseError):
        return {}
    found = ((each.findtext("name", "").strip(), each.findtext("value", "").strip()) for each in tree.iter("property"))
    return {name: value for name, value in found if name}


# The time in which servers and cluster managers must take a connection; otherwise their cluster counts as unreachable.
#
# A machine under load may need more time for its first answer than a user wants to wait for an unreachable cluster. So
# the first limit is short, and the call is repeated once with a longer limit before an error is raised.


ANSWER_LIMIT_S = 2.5
"""The time limit in seconds of a call that is repeated, or whose failure is harmless."""
ANSWER_LIMITS_S = (ANSWER_LIMIT_S, 10.0)
"""The time limits in seconds of the successive attempts of a repeated call."""
