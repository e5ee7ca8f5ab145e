"""What Spark parses, the reader reads: the examples of Spark's functions, and its keywords as names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from airflow_hivex.core.errors import StatementSyntaxError, UnsupportedStatementError
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import Select
from tests import evidence

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.conftest import Counts

pytestmark = [pytest.mark.spark, pytest.mark.evidence]

SHARE = 1 if evidence.does_all("HIVEX_TEST_ALL_EXAMPLES") else 20
"""One function, or keyword, of this number is tried."""
FIRST = evidence.SEED % SHARE
# Words that hold a query together; each may need backquotes.
STRUCTURE = frozenset(
    """
ALL AND ANY AS BETWEEN CASE CAST COLUMN CROSS DISTINCT ELSE EXCEPT EXTRACT FETCH FROM FULL GROUP HAVING IDENTIFIER IF
ILIKE IN INNER INSERT INTERSECT INTO JOIN LATERAL LEFT LIKE LIMIT MINUS NATURAL NOT OFFSET ON OR OVERLAY POSITION
QUALIFY RECURSIVE RIGHT SELECT SEMI STRPOSITION TABLESAMPLE THEN TRY_CAST UNION USING VALUES WHEN WHERE WITH
""".split()  # noqa: SIM905
)
NOT_READ = ("SET ",)
USES = (
    "SELECT {0} FROM t",
    "SELECT a AS {0} FROM t",
    "SELECT {0}.a FROM t AS {0}",
    "SELECT {0}(a) FROM t",
    "SELECT a FROM t WHERE {0} = 1 GROUP BY {0}",
    "SELECT a FROM t WHERE a = 1 ORDER BY {0} DESC",
    "WITH {0} AS (SELECT 1 AS b) SELECT x.{0} FROM {0}, t AS x",
)


def parses(spark: SparkSession, text: str) -> bool:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import ParseException

    try:
        spark._jsparkSession.sessionState().sqlParser().parsePlan(text)
    except (ParseException, Py4JJavaError):
        return False
    return True


def test_examples_of_sparks_functions_are_read(spark: SparkSession, counts: Counts) -> None:
    examples: list[str] = []
    for (name,) in spark.sql("SHOW FUNCTIONS").collect()[FIRST::SHARE]:
        described = "\n".join(row[0] for row in spark.sql(f"DESCRIBE FUNCTION EXTENDED `{name}`").collect())
        examples += re.findall(r"^\s*> (.*?);?\s*$", described, re.MULTILINE)
    queries = [each for each in examples if not each.startswith(NOT_READ) and parses(spark, each)]
    refused = {text: reason for text in queries if (reason := refusal(text)) is not None}
    counts["examples of Spark's functions"] = f"{len(queries)} read, {len(refused)} of them refused"
    assert refused == {}
    # There are 1,200; a share of a few functions may have less than its part.
    assert len(queries) > 600 // SHARE


def test_a_keyword_is_a_name_wherever_spark_takes_it_for_one(spark: SparkSession, counts: Counts) -> None:
    words = [word for (word,) in spark.sql("SELECT keyword FROM sql_keywords()").collect() if word not in STRUCTURE]
    texts = [text for word in words[FIRST :: 2 * SHARE - 1] for use in USES if parses(spark, text := use.format(word))]
    refused = {text: reason for text in texts if (reason := refusal(text, "t")) is not None}
    counts["keywords as names"] = f"{len(texts)} queries, {len(refused)} of them refused"
    assert refused == {}


def refusal(text: str, table: str | None = None) -> str | None:
    """Why the reader refuses a query, or does not find the table that it reads."""
    try:
        statement = read(text)
    except (StatementSyntaxError, UnsupportedStatementError) as error:
        return str(error)
    found = [str(each.table) for each in statement.query.references] if isinstance(statement, Select) else []
    return None if table in (None, *found) else f"it reads {found}"
