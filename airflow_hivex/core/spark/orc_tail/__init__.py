"""ORC files changed without decoding them: only their tails are read and written."""

from __future__ import annotations

from airflow_hivex.core.spark.orc_tail.concatenation import Concatenated, concatenate
from airflow_hivex.core.spark.orc_tail.nesting import nest
from airflow_hivex.core.spark.orc_tail.tail import Stripe, stripes, user_metadata

__all__ = ["Concatenated", "Stripe", "concatenate", "nest", "stripes", "user_metadata"]
