"""Whether a cluster can be used now."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_hivex.core.errors import HivexError


@dataclass(frozen=True, slots=True)
class Health:
    """The answer of a cluster, or of a part of it, to the question whether it can be used now.

    ``problem`` is the error that a statement there would end with, None if nothing is known to be in its way.
    ``version`` is that of the Spark which runs its jobs, where it is known.
    """

    problem: HivexError | None = None
    version: str | None = None


USABLE = Health()
