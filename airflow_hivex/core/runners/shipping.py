"""The modules of the package that are sent to a cluster, where jobs import them.

A job on a cluster has only the standard library, pyspark, pyarrow, numpy and these modules. The fingerprint of the
modules shows whether a cluster has the modules of this client. A contract of the linter ensures that these modules
import no other module of the package.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import airflow_hivex
from airflow_hivex.core.job.channel import fingerprint

_JOBS = "core/job"
_VALUES = (
    "core/errors",
    "core/model/column_types",
    "core/model/directories",
    "core/model/file_properties",
    "core/model/job_configuration",
    "core/model/literals",
    "core/model/objects",
    "core/model/partitions",
    "core/model/plans",
    "core/model/progress",
    "core/model/row_ids",
    "core/model/sizes",
    "core/model/texts",
    "core/model/write_ids",
)
_PACKAGES = ("", "core", "core/model")
_DATE = (2000, 1, 1, 0, 0, 0)
DRIVER = b"""from airflow_hivex.core.job.driver import main

main()
"""
"""The program that spark-submit runs. The modules that the program imports are in the archive."""


def shipped_files() -> dict[str, bytes]:
    """Return a dict from path to content for the files that a job needs. Paths begin with the name of the package."""
    root = Path(airflow_hivex.__file__).parent
    files = sorted(_files(root))
    return {f"{root.name}/{path.relative_to(root).as_posix()}": path.read_bytes() for path in files}


@cache
def archive() -> tuple[bytes, str]:
    """Return a pair: the shipped files as a zip that Python can import, and their fingerprint.

    Equal files give an equal zip.
    """
    files = shipped_files()
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in files.items():
            opened.writestr(zipfile.ZipInfo(name, _DATE), content, zipfile.ZIP_DEFLATED)
    return data.getvalue(), fingerprint(files)


def _files(root: Path) -> Iterator[Path]:
    yield from (root / package / "__init__.py" for package in _PACKAGES)
    for part in (_JOBS, *_VALUES):
        module = root / f"{part}.py"
        yield from [module] if module.is_file() else (root / part).rglob("*.py")
