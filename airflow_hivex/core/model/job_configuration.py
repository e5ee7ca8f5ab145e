"""The SQL configuration that jobs rely on. The statement SET cannot change it."""

from __future__ import annotations

from collections.abc import Mapping

TEXT_CONF: Mapping[str, str] = {
    # ${name} is text, also in strings and comments: Spark would put variables of the environment there.
    "spark.sql.variable.substitute": "false",
    # | is an operator of numbers, not another spelling of |>.
    "spark.sql.parser.singleCharacterPipeOperator.enabled": "false",
    # orc.`/some/path` reads no file.
    "spark.sql.runSQLOnFiles": "false",
}
"""The settings that decide the meaning of statement texts, and differ from Spark's defaults."""

TEXT_DEFAULTS = frozenset(
    {
        # Where strings end, and what their escapes mean.
        "spark.sql.parser.escapedStringLiterals",
        "spark.sql.legacy.consecutiveStringLiterals.enabled",
        "spark.sql.ansi.doubleQuotedIdentifiers",
        # The meaning of names: `a.*` is not a pattern of names, and an inner WITH hides an outer one.
        "spark.sql.caseSensitive",
        "spark.sql.parser.quotedRegexColumnNames",
        "spark.sql.legacy.ctePrecedencePolicy",
        # The precedence in a UNION b INTERSECT c, in FROM a, b JOIN c, and after !.
        "spark.sql.legacy.setopsPrecedence.enabled",
        "spark.sql.ansi.relationPrecedence",
        "spark.sql.legacy.bangEqualsNot",
        "spark.sql.legacy.parser.havingWithoutGroupByAsWhere",
        # 1e3 is a double.
        "spark.sql.legacy.exponentLiteralAsDecimal.enabled",
    }
)
"""The settings that decide the meaning of statement texts, and have Spark's default on every cluster."""


TIMESTAMP_TYPE = "spark.sql.timestampType"
TIME_ZONE = "spark.sql.session.timeZone"
NESTED_PUSHDOWN = "spark.sql.optimizer.nestedPredicatePushdown.supportedFileSources"
_MOST_TASKS = "spark.sql.files.maxPartitionNum"
EXCLUDED_RULES = "spark.sql.optimizer.excludedRules"

DEFAULT_CONF = {
    TIME_ZONE: "UTC",
    # Listing many directories takes milliseconds in the driver, and most of a second as a Spark job.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    # Each task that writes needs one of 4096 bucket ids.
    _MOST_TASKS: "4000",
    # Also for fields of structs: conditions on timestamps would lose rows (scans).
    NESTED_PUSHDOWN: "parquet",
    # Small files share a task.
    "spark.sql.files.openCostInBytes": str(256 * 1024),
}
"""The configuration of every job, unless its cluster overrides it."""

FIXED_CONF = {
    **TEXT_CONF,
    # ORC's reader reads TIMESTAMP columns of files in the session's type of timestamps, which definitions ignore.
    TIMESTAMP_TYPE: "TIMESTAMP_LTZ",
    # A missing or damaged file is an error, never a file without rows. Readers get the same options (READ_OPTIONS).
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreInvalidPartitionPaths": "false",
    # Files are counted, and a bucket is one file.
    "spark.sql.files.maxRecordsPerFile": "0",
}
"""The part of the configuration of every job that no cluster can override."""

RELIED_ON = frozenset({*FIXED_CONF, *TEXT_DEFAULTS, NESTED_PUSHDOWN, EXCLUDED_RULES, _MOST_TASKS})
"""The settings that SET refuses to change, because jobs rely on them."""
