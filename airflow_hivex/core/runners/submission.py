"""The input of spark-submit: the program, the arguments, the environment, and a folder with files.

Every user of a machine can read the arguments of a process. Therefore all configuration is in a file that only this
user can read. The file is deleted as soon as the driver has read it.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from airflow_hivex.core.errors import JobError
from airflow_hivex.core.errors.secrets import REDACTED_BY_SPARK
from airflow_hivex.core.runners import java, masters, pyspark_packages, shipping

DEPLOY_MODE = "spark.submit.deployMode"
LOG_LEVEL = "spark.log.level"
IDLE_TIMEOUT = "spark.hivex.idle.timeout"
EXECUTORS_TIMEOUT = "spark.hivex.executors.timeout"
_TIMEOUTS = {IDLE_TIMEOUT: 60.0, EXECUTORS_TIMEOUT: 60.0}
"""The settings of this project in a cluster's configuration of Spark, with their defaults in seconds.

``IDLE_TIMEOUT`` is the time for which a driver without jobs keeps its executors. ``EXECUTORS_TIMEOUT`` is the time for
which a job that has lost all executors waits for other executors.
"""
_FIXED_SQL = ("spark.sql.extensions", "spark.sql.catalog", "spark.sql.warehouse.dir")
"""Prefixes of SQL configuration that takes effect only when Spark starts."""
_UTC = "-Duser.timezone=UTC"
_PASSWORD_IN_URI = r"[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@]*:[^\s/@]*@"  # noqa: S105 - a pattern
_LONGEST_SOCKET = 100
"""The longest path of a socket in bytes. Linux allows 107 bytes."""
_CONNECT_VARIABLES = ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_API_MODE")
_OF_OTHER_PROGRAMS = ("PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")
_SOCKET, _PROPERTIES, _ARCHIVE, _PROGRAM = "socket", "spark.properties", "airflow_hivex.zip", "hivex_driver.py"


def spark_home(cluster: str) -> Path:
    """Return the folder of the Spark whose spark-submit is used: ``SPARK_HOME``, or else the folder of pyspark.

    Raises:
        JobError: the folder has no spark-submit, or the files of pyspark do not belong to its package.
    """
    given = os.environ.get("SPARK_HOME")
    if not given:
        pyspark_packages.check(cluster)
    found = importlib.util.find_spec("pyspark") if not given else None
    home = Path(given) if given else Path(found.origin).parent if found is not None and found.origin else None
    if home is None or not (home / "bin" / "spark-submit").exists():
        where = f"SPARK_HOME is {given}, which has no bin/spark-submit" if given else "pyspark has no spark-submit here"
        raise JobError(cluster, f"{where}; install the cluster's release of Spark or pyspark, and set SPARK_HOME to it")
    return home


def release_of(home: Path) -> str | None:
    """Return the release of a Spark from the names of its files, or None if the names do not show the release."""
    jar = next((home / "jars").glob("spark-core_*.jar"), None)
    return None if jar is None else jar.stem.partition("-core_")[2].partition("-")[2]


def timeout(conf: Mapping[str, str], name: str, cluster: str) -> float:
    """Return a time-out of the configuration in seconds.

    Raises:
        JobError: the value is not a number of seconds.
    """
    text = conf.get(name, str(_TIMEOUTS[name]))
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 < seconds < threading.TIMEOUT_MAX:
        raise JobError(cluster, f"{name} is {text!r} in its spark_conf, which is not a number of seconds")
    return seconds


def check_deploy_mode(conf: Mapping[str, str], cluster: str) -> None:
    """Ensure that the driver runs on this machine.

    Raises:
        JobError: the configuration asks for another deploy mode.
    """
    mode = conf.get(DEPLOY_MODE, "client")
    if mode != "client":
        raise JobError(
            cluster,
            f"{DEPLOY_MODE} is {mode!r} in its spark_conf; jobs have their driver where the statement runs: set it to "
            "client, or leave it out",
        )


def counts_at_start(name: str) -> bool:
    """Return whether a setting of Spark takes effect only at the start of the driver, and not in a session."""
    return not name.startswith("spark.sql.") or name.startswith(_FIXED_SQL)


class Submission:
    """A private folder with the files of one spark-submit, and the command that runs this spark-submit."""

    def __init__(self, master: str, conf: Mapping[str, str], cluster: str) -> None:
        """Create the folder. ``conf`` is Spark's configuration from the properties of a cluster.

        Raises:
            JobError: spark-submit is not installed.
        """
        self.home = spark_home(cluster)
        folder = tempfile.mkdtemp(prefix="hivex-spark-")
        if len(folder) + len(_SOCKET) > _LONGEST_SOCKET:
            Path(folder).rmdir()
            folder = tempfile.mkdtemp(prefix="hivex-spark-", dir="/tmp")
        self.folder = Path(folder)
        self.socket = self.folder / _SOCKET
        data, self._fingerprint = shipping.archive()
        (self.folder / _ARCHIVE).write_bytes(data)
        (self.folder / _PROGRAM).write_bytes(shipping.DRIVER)
        self._log_level = conf.get(LOG_LEVEL, "")
        properties = self._properties(master, conf)
        (self.folder / _PROPERTIES).write_text(
            "".join(f"{key}={java.escaped(properties[key])}\n" for key in properties)
        )
        self.environment = _environment(self.home, master, conf)

    @property
    def command(self) -> list[str]:
        """Return the command. The arguments have no configuration of the user except the log level."""
        return [
            str(self.home / "bin" / "spark-submit"),
            "--properties-file",
            str(self.folder / _PROPERTIES),
            "--load-spark-defaults",
            str(self.folder / _PROGRAM),
            str(self.socket),
            self._fingerprint,
            self._log_level,
        ]

    def forget_configuration(self) -> None:
        """Delete the file with the configuration, which the driver has read."""
        (self.folder / _PROPERTIES).unlink(missing_ok=True)

    def remove(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _properties(self, master: str, conf: Mapping[str, str]) -> dict[str, str]:
        # SQL configuration would apply to each session here; a job sets its own in its session.
        own = {key: conf[key] for key in conf if counts_at_start(key)}
        files = ",".join(filter(None, (str(self.folder / _ARCHIVE), own.pop("spark.submit.pyFiles", ""))))
        options = {
            f"spark.{process}.defaultJavaOptions": f"{first} {own.pop(f'spark.{process}.defaultJavaOptions', '')}"
            for process, first in (("driver", f"{_UTC} {java.options_to_use()}"), ("executor", _UTC))
        }
        return {
            "spark.app.name": "hivex",
            LOG_LEVEL: "ERROR",
            "spark.ui.showConsoleProgress": "false",
            "spark.redaction.regex": REDACTED_BY_SPARK,
            "spark.redaction.string.regex": _PASSWORD_IN_URI,
            "spark.pyspark.driver.python": sys.executable,
            # With this locale the Java processes of executors use file names in UTF-8.
            "spark.executorEnv.LC_ALL": "C.UTF-8",
            # An executor whose driver has vanished with its host ends after a minute and a half, not after ten minutes.
            "spark.executor.heartbeat.maxFailures": "6",
            "spark.sql.warehouse.dir": (self.folder / "warehouse").as_uri(),
            "spark.sql.catalogImplementation": "in-memory",
            **own,
            # ORC's timestamps are local times of the JVM.
            **{key: value.strip() for key, value in options.items()},
            "spark.submit.pyFiles": files,
            DEPLOY_MODE: "client",
            "spark.master": master,
        }


def _environment(home: Path, master: str, conf: Mapping[str, str]) -> dict[str, str]:
    left_out = (*_CONNECT_VARIABLES, *_OF_OTHER_PROGRAMS)
    found = {name: value for name, value in os.environ.items() if name not in left_out}
    if masters.is_on_this_machine(master):
        # Other machines may have Python at another path: there Spark's default applies, python3.
        found.setdefault("PYSPARK_PYTHON", conf.get("spark.pyspark.python", sys.executable))
    return found | {"SPARK_HOME": str(home), "LC_ALL": "C.UTF-8"}
