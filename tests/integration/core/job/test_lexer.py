"""Our reader and Spark's lexer cut every text into the same tokens, or we refuse the text.

``make evidence`` compares a million texts; ``HIVEX_LEXED_TEXTS`` sets another number.
"""

# ruff: noqa: SIM905 - lists of words are shorter as text

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hivex.core.errors import StatementSyntaxError
from airflow_hivex.core.model.plans import Plan
from airflow_hivex.core.parser.lexer.literals import unquote
from airflow_hivex.core.parser.lexer.tokens import Kind, lex, tokenize
from airflow_hivex.core.runners.registry import Runner
from tests import evidence
from tests.conftest import Counts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TEXTS = evidence.amount("HIVEX_LEXED_TEXTS", share=10_000, whole=1_000_000)
SEED = evidence.SEED
ALONE = 300
TOGETHER = 500

# What a cluster or a session may be set to.
OTHER_CONF = {
    "spark.sql.variable.substitute": "true",
    "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.legacy.consecutiveStringLiterals.enabled": "true",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
}
TYPES = re.compile("array|map|struct", re.IGNORECASE)

Cut = list[tuple[str, int, int]]

WORDS = """SELECT FROM t `t` `a``b` `-- ` `/*` WHERE array ARRAY<int> map<int,array<int>> STRUCT<a: Map<int,int>> x X r
R N db.t t@y _a a1 1a 2013_t 1L 1S 1Y 1l 7D 7F 7BD 1.5 1. .5 1.e5 .5e-3 1e5 1E+5 1e+5L 1e+5x 1.5e5D 1.5BD 1.5L 1.5x 1..2
1.2.3 1e 1e+ 1ex 10bd 1.bd 0x1F INTERVAL date a.b.c AND""".split()
SYMBOLS = "( ) [ ] , . ; : :: = == <=> <> != !> !< < <= > >= << >> >>> >>>> -> => |> || | & ^ ~ ? ! + - * / % @".split()
STRINGS = r"""'' "" 'a' "b" 'it''s' "a""b" '\'' "\"" '\\' '--' '/*' '*/' "'" '"' '`' r'\' R"\" r'a''b' x'1F' 'a\
b' ';' ':p' '${x}' '\u0041' '\101' '\%' '''' """.split(" ")
ESCAPES = r"""a ' '' " "" \\ \' \" \n \t \0 \b \r \Z \% \_ \q \u00e9 \u12 \U0001F600 \ud83d\ude00 \101 \477 \08 \1 % _
${x} ${env:PATH}""".split()
COMMENTS = [
    *("--", "-- a", "-- a\\", "-- a\\\\", "-- 'b", "-- /*", "---", "--\\", "--*/", "- -"),
    *("/**/", "/* a */", "/* ' */", "/* -- */", "/* /* a */ b */", "/* /*+ a */", "/*/ */", "/*/**/*/", "/***/"),
    *("/*+ BROADCAST(t) */", "/*+ X('*/ \" ') */", "/*+", "*/", "/*+ a -- b", "/*+/* */", "+ */"),
    *("/*+ REPARTITION(3, `a`), MERGE(db.t) */", "/*+ a(1.5) b */"),
]
BLANKS = [" ", "\n", "\r\n", "\r", "\t", "\f", "\v", "", "", "", "  "]
ODD = [
    *("\u00a0", "\u1680", "\u2003", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "\u200b", "\u0085", "\ufeff"),
    *("\x00", "\x01", "\x1a", "\x1c", "\x1f", "\x7f", "\\", "$", "$$", "$a$", "#", "{", "}", "'", '"', "`"),
    *(
        "\u00e9",
        "\u017fELECT",
        "\u0131",
        "\u212a",
        "gr\u00f6\u00dfe",
        "\u8868",
        "\u0661",
        "\u00b2",
        "e\u0301",
        "\U0001f600",
    ),
    *("\u00df", "a://b--c", "file:///x", "s3a://b/'", "x://"),
    *("/* \\", "/*", "/* /* */", "\\\n", "\\\r\n", "\\\r", "'\\'"),
]


def some_text(chance: random.Random) -> str:
    """Pieces of SQL in any order, and sometimes characters of it that are left out, doubled or exchanged."""
    groups = (WORDS, SYMBOLS, STRINGS, COMMENTS, BLANKS, ODD)
    parts = []
    for _ in range(chance.randint(1, 9)):
        (group,) = chance.choices(groups, (60, 50, 20, 20, 40, 1))
        parts.append(chance.choice(group))
        parts.append(chance.choice(BLANKS))
    text = list("".join(parts))
    while text and chance.random() < 0.2:
        at = chance.randrange(len(text))
        match chance.randrange(4):
            case 0:
                del text[at]
            case 1:
                text.insert(at, text[chance.randrange(len(text))])
            case 2:
                text[at] = chance.choice("'\"`\\-/*+.eELrR\r\n <>!@1x")
            case _:
                text.insert(at, chance.choice("'\"`\\-/*+.eELrR\r\n <>!@1x"))
    return "".join(text)


class SparkLexer:
    """Spark's own lexer, fed as Spark's parser feeds it."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        self._parser = jvm.org.apache.spark.sql.catalyst.parser
        self._streams = jvm.org.antlr.v4.runtime.CharStreams
        self._field = (
            jvm.org.apache.spark.sql.catalyst.parser.SqlBaseLexer(None)
            .getClass()
            .getField("has_unclosed_bracketed_comment")
        )
        vocabulary = self._parser.SqlBaseLexer.VOCABULARY
        self._names = {
            number: vocabulary.getSymbolicName(number) or "" for number in range(vocabulary.getMaxTokenType() + 1)
        }

    def cut(self, text: str) -> Cut | None:
        """Name, start and end of each token that the parser sees; None where Spark refuses the text for one."""
        lexer = self._parser.SqlBaseLexer(self._parser.UpperCaseCharStream(self._streams.fromString(text)))
        # All tokens as one text, as each costs several calls of the JVM.
        listed = lexer.getAllTokens().toString()
        if self._field.get(lexer):
            return None
        found: Cut = []
        place, start = 1, 0
        while start < len(text):
            head, _, _ = listed[place : place + 60].partition("='")
            begin, end = (int(number) for number in head.removeprefix("[@-1,").split(":"))
            assert begin == start
            start = end + 1
            shown = text[begin:start].replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
            place += len(head) + 2
            assert listed.startswith(f"{shown}',<", place)
            behind = place + len(shown) + len("',<")
            tail = listed[behind : behind + 60].partition("]")[0]
            number, _, rest = tail.partition(">")
            name = self._names[int(number)]
            if name == "UNRECOGNIZED" and shown != "@":
                return None
            if not rest.startswith(",channel="):
                found.append((name, begin, start))
            place = behind + len(tail) + len("], ")
        return found


def our_cut(text: str) -> Cut | None:
    """The same of our reader; None where it refuses the text."""
    try:
        return [(token.kind.value, token.start, token.end) for token in lex(text)]
    except StatementSyntaxError:
        return None


def kind_of(name: str, written: str) -> str:
    """What we call a token of Spark's."""
    if name in ("STRING_LITERAL", "DOUBLEQUOTED_STRING"):
        return Kind.STRING.value
    if name == "BACKQUOTED_IDENTIFIER":
        return Kind.QUOTED.value
    if name.endswith(("_VALUE", "_LITERAL")) and name != "ANY_VALUE":
        return Kind.NUMBER.value
    return Kind.WORD.value if written[:1] == "_" or written[:1].isalnum() else Kind.SYMBOL.value


def refused_on_purpose(text: str, theirs: Cut) -> bool:
    """Whether Spark's parser, or the reader behind our lexer, refuses a text that Spark's lexer takes."""
    names = {name for name, _, _ in theirs}
    words = [text[start:end] for name, start, end in theirs if name not in ("STRING_LITERAL", "DOUBLEQUOTED_STRING")]
    words = [word for word in words if not word.startswith("`")]
    return "BEGIN_DOLLAR_QUOTED_STRING" in names or any(not word.isascii() or "://" in word for word in words)


def batches(texts: list[str]) -> Iterator[str]:
    """Many texts as one, for a single call of the JVM."""
    for first in range(0, len(texts), TOGETHER):
        # Types that a text has not closed are closed, so that the next one begins as new.
        yield "".join(f"{text}\n{len(TYPES.findall(text)) * '> '}\n" for text in texts[first : first + TOGETHER])


@pytest.mark.evidence
def test_spark_cuts_each_text_as_our_reader_does(spark: SparkSession, counts: Counts) -> None:
    chance, lexer = random.Random(SEED), SparkLexer(spark)
    texts = [some_text(chance) for _ in range(TEXTS)]
    taken = [text for text in texts if our_cut(text) is not None]
    compared = 0
    for text in [*batches(taken), *chance.sample(texts, min(ALONE, len(texts))), *STRINGS, *COMMENTS, *ODD]:
        ours, theirs = our_cut(text), lexer.cut(text)
        if ours is None:
            assert theirs is None or refused_on_purpose(text, theirs), f"seed {SEED}: {text!r}"
            continue
        assert theirs is not None, f"seed {SEED}: {text!r}"
        for own, (name, start, end) in zip_longest(ours, theirs, fillvalue=("", 0, 0)):
            assert own == (kind_of(name, text[start:end]), start, end), (
                f"seed {SEED}: {text[max(start - 80, 0) :][:160]!r}"
            )
        compared += len(ours)
    counts["texts cut as Spark cuts them"] = f"{len(taken)} of {TEXTS}, {compared} tokens, seed {SEED}"


def test_strings_have_the_values_that_spark_gives_to_them(runner: Runner) -> None:
    chance = random.Random(SEED)
    pieces = [*ESCAPES, "\n", " ", "\r\n", "`", "--", "/*"]
    literals = []
    while len(literals) < 1000:
        quote = chance.choice(("'", '"', "r'", 'R"'))
        body = "".join(chance.choice(pieces) for _ in range(chance.randint(0, 5)))
        literal = f"{quote}{body}{quote[-1]}"
        try:
            (token,) = tokenize(literal)
        except (StatementSyntaxError, ValueError):
            continue
        if token.text == literal:
            literals.append(literal)
    sql = f"VALUES {', '.join(f'({each})' for each in literals)}"
    rows = runner.run(Plan("strings", "strings", sql, spark_conf=OTHER_CONF), "c1").rows
    for literal, (value,) in zip(literals, rows, strict=True):
        (token,) = tokenize(literal)
        assert unquote(token) == value, f"seed {SEED}: {literal!r}"
