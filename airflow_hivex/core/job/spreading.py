"""Small numbers over tasks: each goes to a task of its own while there are enough tasks.

Spark shuffles by a hash. Those of 0 and 1 leave the same remainder by 4, so that two writers would share one of four
tasks. Source: Spark's Murmur3Hash with seed 42, as its HashPartitioning uses it.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import count

from pyspark.sql import DataFrame

from airflow_hivex.core.job import functions as F  # noqa: N812 - the name every Spark program uses

_SHUFFLED = "spark.sql.shuffle.partitions"
_SEED = 42
_WORD = 0xFFFFFFFF


def spread(rows: DataFrame, number: str) -> DataFrame:
    """Return rows in tasks by a number from 0 on, in Spark SQL; Spark still joins tasks that have little to do."""
    tasks = int(str(rows.sparkSession.conf.get(_SHUFFLED)))
    keys = ", ".join(map(str, keys_of_tasks(tasks)))
    return rows.repartition(F.expr(f"array({keys})[{number} % {tasks}]"))


@lru_cache(maxsize=64)
def keys_of_tasks(tasks: int) -> tuple[int, ...]:
    """Return a number for each task, which Spark's shuffle by an INT column sends there."""
    found: dict[int, int] = {}
    for key in count():
        found.setdefault(_signed(_hash(key)) % tasks, key)
        if len(found) == tasks:
            break
    return tuple(found[task] for task in range(tasks))


def _hash(value: int) -> int:
    mixed = _rotate(value * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD
    hashed = (_rotate(_SEED ^ mixed, 13) * 5 + 0xE6546B64 & _WORD) ^ 4
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _WORD
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _WORD
    return hashed ^ hashed >> 16


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _WORD


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word
