"""The artefact that a client sends to a cluster: files of this package, and the fingerprint that distinguishes them.

A driver compares the files that it runs with those that its client has sent. Another release of this package that is
installed on a cluster can therefore never run a job unnoticed.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

import airflow_hivex


def fingerprint(files: Mapping[str, bytes]) -> str:
    """Return a text that is the same for the same files, and another one where a name or a byte differs."""
    digest = hashlib.sha256()
    for name, content in sorted(files.items()):
        digest.update(f"{name}\n{len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def problem_with(expected: str) -> str | None:
    """Return why the package of this process is not the artefact with the fingerprint ``expected``; None if it is."""
    package = Path(airflow_hivex.__file__).parent
    archive = package.parent
    if not zipfile.is_zipfile(archive):
        return f"its driver runs the package airflow_hivex of {package}, not the files that its client has sent"
    with zipfile.ZipFile(archive) as files:
        found = fingerprint({name: files.read(name) for name in files.namelist()})
    if found != expected:
        return f"its driver has other files of airflow_hivex than its client has sent ({found[:12]}, {expected[:12]})"
    return None
