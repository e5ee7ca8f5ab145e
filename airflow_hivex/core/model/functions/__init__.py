"""Spark's functions that are computed here, so that partitions can be left out by functions of their keys.

Each gives exactly Spark's value, whether ANSI mode is on or off, or is undecided: for texts whose
reading is not the same everywhere, values out of range, and whatever Spark may raise an error for.
Source: Spark's reference of built-in functions; an acceptance test compares all of them with Spark.
"""

from __future__ import annotations

from airflow_hivex.core.model.functions.computing import FUNCTIONS, SYNONYMS, call, compute

__all__ = ["FUNCTIONS", "SYNONYMS", "call", "compute"]
