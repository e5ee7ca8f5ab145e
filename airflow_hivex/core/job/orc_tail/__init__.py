"""Changes of ORC files by their tails: stripes stay or are copied, and their rows are not decoded."""

from __future__ import annotations

from airflow_hivex.core.job.orc_tail.concatenation import Concatenated, Slice, join, stripes_of
from airflow_hivex.core.job.orc_tail.nesting import nest
from airflow_hivex.core.job.orc_tail.rewriting import Keys, is_rewritable, known_keys, rewritten, stripe_keys
from airflow_hivex.core.job.orc_tail.tail import Stripe, Tail, read_tail

__all__ = [
    "Concatenated",
    "Keys",
    "Slice",
    "Stripe",
    "Tail",
    "is_rewritable",
    "join",
    "known_keys",
    "nest",
    "read_tail",
    "rewritten",
    "stripe_keys",
    "stripes_of",
]
