"""The settings with which Spark reads a text as the parser has read it, and finds no table by a file's name."""

from __future__ import annotations

from collections.abc import Mapping

TEXT_CONF: Mapping[str, str] = {
    # ${name} is text, also in strings and comments: Spark would put variables of the environment there.
    "spark.sql.variable.substitute": "false",
    # | is an operator of numbers, not another way to write |>.
    "spark.sql.parser.singleCharacterPipeOperator.enabled": "false",
    # orc.`/some/path` reads no file.
    "spark.sql.runSQLOnFiles": "false",
}
"""The settings that differ from Spark's defaults."""

TEXT_DEFAULTS = frozenset(
    {
        # Where strings end, and what their escapes mean.
        "spark.sql.parser.escapedStringLiterals",
        "spark.sql.legacy.consecutiveStringLiterals.enabled",
        "spark.sql.ansi.doubleQuotedIdentifiers",
        # What a name means: `a.*` is not a pattern of names, and an inner WITH hides an outer one.
        "spark.sql.caseSensitive",
        "spark.sql.parser.quotedRegexColumnNames",
        "spark.sql.legacy.ctePrecedencePolicy",
        # What belongs together in a UNION b INTERSECT c, in FROM a, b JOIN c, and behind !.
        "spark.sql.legacy.setopsPrecedence.enabled",
        "spark.sql.ansi.relationPrecedence",
        "spark.sql.legacy.bangEqualsNot",
        "spark.sql.legacy.parser.havingWithoutGroupByAsWhere",
        # 1e3 is a double.
        "spark.sql.legacy.exponentLiteralAsDecimal.enabled",
    }
)
"""The settings that have Spark's default on every cluster."""
