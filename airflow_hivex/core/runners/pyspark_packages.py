"""The packages pyspark and pyspark-client, which install files with the same names.

Airflow's provider for Spark requires pyspark-client. If the two packages have different releases, the files of the
package installed last replace the files of the other package. Uninstalling one package deletes the shared files of
both.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

from airflow_hivex.core.errors import JobError

_PYSPARK = "pyspark"
_CLIENT = "pyspark-client"


def release() -> str | None:
    """Return the release of the package pyspark, or None if pyspark is not installed as a package."""
    return _release_of(_PYSPARK)


def check(cluster: str) -> None:
    """Ensure that pyspark can be imported, and that its files belong to the installed packages.

    Raises:
        JobError: one package has replaced or deleted files of the other package, or neither package is installed. The
            message has the command that repairs the installation.
    """
    try:
        import pyspark
    except ImportError as error:
        raise JobError(
            cluster, f"pyspark is not installed ({error}). Install it: {_command({_PYSPARK: None})}"
        ) from error

    installed = {name: found for name in (_PYSPARK, _CLIENT) if (found := _release_of(name)) is not None}
    # Neither package is installed if the path has the folder of a Spark.
    imported = getattr(pyspark, "__version__", None)
    if set(installed.values()) <= {imported} and imported is not None:
        return
    wanted = installed.get(_PYSPARK) or installed.get(_CLIENT)
    raise JobError(
        cluster,
        f"the files of {' and '.join(f'{name} {found}' for name, found in installed.items()) or 'pyspark'} were "
        "replaced or deleted by an installation of the other package. Install both in the same release: "
        f"{_command(dict.fromkeys(installed or [_PYSPARK], wanted))}",
    )


def _command(releases: dict[str, str | None]) -> str:
    packages = (name if found is None else f"{name}=={found}" for name, found in releases.items())
    return f"pip install --force-reinstall --no-deps {' '.join(packages)}"


@cache
def _release_of(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
