"""What tests ask of ORC files, and do with whole ones."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_hivex.core.job.orc_tail import Concatenated, Slice, Stripe, join, read_tail
from airflow_hivex.core.job.storage import Place


def concatenate(target: Place, sources: Sequence[Place]) -> Concatenated:
    """One file with the rows of all, in the order of the sources."""
    return join(target, [Slice(source, read_tail(source)) for source in sources])


def stripes(file: Place) -> tuple[Stripe, ...]:
    """The stripes of a file in their order."""
    return read_tail(file).stripes


def user_metadata(file: Place) -> dict[str, bytes]:
    """What writers have added to a file, by key."""
    return read_tail(file).user_metadata
