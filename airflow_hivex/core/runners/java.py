"""The Java that Spark needs on this machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from airflow_hivex.core.errors import JobError


def check_java(cluster: str) -> None:
    """Ensure that there is a Java to start Spark with.

    Raises:
        JobError: JAVA_HOME is wrong, or no java is on the PATH.
    """
    home = os.environ.get("JAVA_HOME")
    java = Path(home) / "bin" / "java" if home else shutil.which("java")
    if java is None or not Path(java).exists():
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no java on the PATH"
        raise JobError(
            cluster,
            f"Spark needs Java 17 or newer, and {where}. Install one (Debian: openjdk-17-jre-headless or "
            "openjdk-21-jre-headless), or set JAVA_HOME",
        )
