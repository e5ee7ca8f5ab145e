"""Conditions that must not be pushed down: ORC would skip stripes with matching rows, or the job would fail.

Texts: ORC stores the least and the greatest text of each stripe, in the order of the bytes of UTF-8. It compares the
text of a condition with these two texts in the order of the units of UTF-16. The two orders differ if one text has a
character above U+FFFF, and the other text has a character from U+E000 to U+FFFF. A condition is safe if its text has no
character above U+DFFF. Source: ORC's RecordReaderImpl.evaluatePredicateRange, StringStatisticsImpl.

IN with NULL among its values: ORC fails with a NullPointerException. A value that is not a constant can be NULL.

Joins that prune partitions while they run: if a table has files of the row layout ``hive`` and of another layout, Spark
evaluates the join condition for all rows. The evaluation fails if Spark has generated no code for the whole stage, for
example for more than 100 columns.

Conditions that a user adds to a returned DataFrame are pushed down to ORC, as in any Spark program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from airflow_hivex.core.model.file_properties import needs_java_charset
from airflow_hivex.core.model.objects import HIVE_LAYOUT
from airflow_hivex.core.model.plans import Plan, Scan

_NO_PUSHDOWN = {"spark.sql.orc.filterPushdown": "false"}
_NO_JOIN_PRUNING = {"spark.sql.optimizer.dynamicPartitionPruning.enabled": "false"}

_ALL_CHARSETS = {"spark.sql.legacy.javaCharsets": "true"}

_HIGH = re.compile(r"[\ud800-\U0010ffff]")
# Spark may make such a text of these while it plans: escapes, and functions that decode characters.
_MADE = re.compile(
    r"\\[uU]|&\#|\bx\s*['\"]|\b(?:"
    r"binary|decode|encode|(?:try_)?(?:url_decode|aes_decrypt|to_binary|parse_json|variant_get|validate_utf8)|unhex|"
    r"from_base64|unbase64|format_string|printf|from_json|get_json_object|json_tuple|from_csv|from_xml|xpath\w*|"
    r"make_valid_utf8|current_user|session_user|user\s*\("
    r")\b",
    re.IGNORECASE,
)
_SPACE = r"(?:\s|/\*.*?\*/|--[^\n]*(?:\n|$))*"
_SUBQUERY = re.compile(rf"\({_SPACE}(?:SELECT|WITH|VALUES|FROM|TABLE|MAP|REDUCE)\b", re.IGNORECASE | re.DOTALL)
_OF_RELATION = re.compile(
    r"(?:\b(?:FROM|JOIN|IN|EXISTS|LATERAL|AS|UNION|ALL|DISTINCT|EXCEPT|INTERSECT|MINUS))\s*$", re.IGNORECASE
)
_LONGEST_KEYWORD = 40
_IN = re.compile(rf"\bIN{_SPACE}\(", re.IGNORECASE | re.DOTALL)
_STRING = r"(?:'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\")"
_CONSTANT = (
    r"(?:[-+]?\d[\w.]*+(?:(?<=e)[-+]\d\w*+)?|[-+]?\.\d\w*+|true\b|false\b|:\w++"
    rf"|(?:(?:date|timestamp(?:_ntz|_ltz)?)\s*)?{_STRING}++)"
    # In PIVOT it has a name.
    r"(?:\s++AS\s++\w++)?"
)
_CONSTANTS = re.compile(
    rf"(?:\s*+{_CONSTANT}\s*+,)*+\s*+{_CONSTANT}\s*+\)",
    re.IGNORECASE | re.DOTALL,
)


def with_safe_pushdown(plan: Plan) -> Plan:
    """Return the plan without pushdown to ORC and without pruning by joins where they would lose rows or fail."""
    conf: dict[str, str] = {}
    if None in plan.parameters.values() or any(_is_misjudged(text) for text in _texts(plan)):
        conf |= _NO_PUSHDOWN
    if any(map(_has_both_layouts, plan.scans)):
        conf |= _NO_JOIN_PRUNING
    return replace(plan, spark_conf={**plan.spark_conf, **conf}) if conf else plan


def with_charsets(plan: Plan) -> Plan:
    """Return the plan, with all charsets of Java allowed if the encoding of a file is not allowed by default.

    By default, Spark 4 allows only a few charsets. The configuration of the cluster or session has priority. Call the
    function after the writes are added to the plan.
    """
    options = [scan.options for scan in plan.scans] + [write.options for write in plan.writes]
    if plan.loaded is not None:
        options.append(plan.loaded.options)
    if not any(map(needs_java_charset, options)):
        return plan
    return replace(plan, spark_conf={**_ALL_CHARSETS, **plan.spark_conf})


def _has_both_layouts(scan: Scan) -> bool:
    """Return whether a partitioned table has files of the layout ``hive``, and files of another layout."""
    return bool(scan.partition_columns) and len({part.layout == HIVE_LAYOUT for part in scan.parts}) > 1


def _texts(plan: Plan) -> Iterator[str]:
    yield plan.sql
    yield from (value for value in plan.parameters.values() if isinstance(value, str))
    yield from (source.sql for source in plan.sources)
    yield from (insert.sql for insert in plan.inserts)
    if plan.changes is not None:
        parts = (plan.changes.matched, plan.changes.unmatched, plan.changes.unmatched_by_source)
        yield from (part.sql for part in parts if part is not None)
        yield plan.changes.source or ""


def _is_misjudged(text: str) -> bool:
    if not text.isascii() and _HIGH.search(text):
        return True
    if any(_may_list_null(text, found) for found in _IN.finditer(text)):
        return True
    # The value of a subquery becomes part of a condition when the job runs.
    return _MADE.search(text) is not None or any(
        not _OF_RELATION.search(text[max(0, found.start() - _LONGEST_KEYWORD) : found.start()])
        for found in _SUBQUERY.finditer(text)
    )


def _may_list_null(text: str, opened: re.Match[str]) -> bool:
    return not (_CONSTANTS.match(text, opened.end()) or _SUBQUERY.match(text, opened.end() - 1))
