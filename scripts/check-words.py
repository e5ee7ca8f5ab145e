"""Check the words of code and documentation: fails for each pattern of the table that a file contains.

It also checks that cited pages of ``docs/reference`` have the cited headings, and the lengths of the lines of pages.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).parent.parent
_COLUMNS = 120
_OWN = Path(__file__)

# Each pattern, and the reason with the words to write instead. A space stands for any space between words, so that a
# sentence may continue on the next line, also behind the # of a comment.
_PATTERNS = {
    r"\b(?:TODO|FIXME|XXX)\b": "unfinished work belongs into an issue",
    r"(?<=\S)(?<![Tt]here) (?:is|are|was|were) no (?!longer\b|more\b)\w+": "write that X is not a valid Y",
    r"(?<![\w.])(?:[Hh]e|[Hh]im|[Hh]is)(?![\w.(=])": "write they, or name the subject",
    r"\b(?:bear|bears|bore|borne) (?:each|one|the|a|an|with|nothing)\b": "locks are compatible with each other",
    r"\b(?:begin|begins|began|begun|beginning|done) again\b": "write retry, continue or repeat",
    r"\b(?:may|can|could|cannot|not|to) be had\b": "a lock is acquired, a thing is available",
    r"\ball the same\b": "write still, or nevertheless",
    r"\banew\b": "write again, or rewrite",
    r"(?<![\w./\"'])beside (?=[a-z`A-Z])": "write next to, meanwhile or besides",
    r"\b(?:therein|thereof|whereby|whence|hence)\b": "write two sentences",
    r"(?<![A-Za-z])(?:[Nn]o|[Ss]ome)body(?![A-Za-z])": "name the worker, client or statement; or no query, no process",
    r"(?<![A-Za-z])[Ww]hom?ever(?![A-Za-z])": "name the worker, client or statement, with a or every",
    r"(?<![A-Za-z.])(?:[Tt]ell(?:s|ing)?|[Tt]old)(?![A-Za-z])": "write report, return, show, say or distinguish",
    r"\b(?:is|are|was|were) none\b": "write that X is not a valid Y, that X has no Y, or: or None",
    r"\bof now\b": "write current: the current state, the current snapshot",
    r"\b[Ss]o many\b": "write this number of, at most N, or name the parameter",
    r"hive-semantics|(?:spark|airflow|thrift)-notes|\bseed 0\d\d\b|\.\./shared\b": "cite a page of this repository",
    r"\b[Ss]ection \d+\.\d+\b|[a-z] \(\d\.\d\)": "cite a page and its heading, not the number of a section",
}
_CITATION = re.compile(r"docs/reference/([a-z-]+\.md)(?:[\s#]*,[\s#]*\"([^\"\n]+)\")?")
_ROOTS = ("airflow_hivex", "benchmarks", "dags", "docs", "scripts", "tests", "README.md", "CONTRIBUTING.md")
# The first word of a docstring is a noun, and of a function's one a verb.
_HEADLESS = re.compile(r"(?:What|Who|Whom|Those|That|Whether|How|Where|Which|Whatever|All that|All who|Is|Are) ")
_NOUN_FIRST = re.compile(r"(?:The|A|An|Those|What|Whether|How|Who|Where|Which|Everything|All|One|None|That) ")
# Each pattern of docstrings of the package, and the reason with the words to write instead.
_DOCSTRING_PATTERNS = {
    r"^Return [^.]*; None\b(?! stands| is)": "say when it is None: or None if ...",
    r"^Return [^.;:]*, by (?:names?|ids?|table|partition|cluster|[a-z]+ (?:name|id))\b": "sorted by, or a dict from X",
    r"^(?:Return|Yield) the (?:facts|pieces) (?:of|about)\b": "say what is in the result",
    r"^(?:(?:One|Two|Three|Four|Five|Six|\d) (?:quer|round trip)[a-z ]*\. ?)+$": "say what the function does, too",
    r"\b(?:One|Two|Three|Four|Five|Six|[Ff]ixed number of|\d) statements?\b(?!'| of| in)": "write query",
    r"\b(?:quer(?:y|ies)|round trips?|texts?) an? (?:batch|row|file|task)\b": "write per batch, per row",
    r"(?<!lag )(?<!lags )\bbehind\b": "write after, or lags",
    r"\bany code\b": "write arbitrary code",
    r"\b(?:is|are), (?:holds?|or lies?)\b|, holds? or lies?\b": "write overlaps",
    r"\balike\b": "write in the same way, or equal",
    r"\bnoted place\b": "write recorded place",
}
# It names the thing that is returned.
_NAMELESS = re.compile(r"[A-Z][a-z]+ (?:what|who|those|that which) ")


def main() -> None:
    """Print each place that breaks a rule, and exit with 1 if there is one."""
    failures = [failure for path in _files() for failure in _check(path)]
    if failures:
        sys.exit("\n".join(failures))


def _files() -> Iterator[Path]:
    for name in _ROOTS:
        root = _ROOT / name
        for path in sorted(root.rglob("*")) if root.is_dir() else (root,):
            if path.suffix in (".py", ".md") and path != _OWN and not path.is_symlink():
                yield path


def _check(path: Path) -> Iterator[str]:
    text = path.read_text()
    name = path.relative_to(_ROOT)
    for pattern, reason in _COMPILED.items():
        for match in pattern.finditer(text):
            yield f"{name}:{_line(text, match)}: {' '.join(match[0].split())!r}: {reason}"
    for match in _CITATION.finditer(text):
        page, heading = _ROOT / "docs" / "reference" / match[1], match[2]
        if not page.is_file():
            yield f"{name}:{_line(text, match)}: there is no page docs/reference/{match[1]}"
        elif heading and not re.search(rf"^#+ {re.escape(' '.join(heading.split()))}$", page.read_text(), re.MULTILINE):
            yield f"{name}:{_line(text, match)}: docs/reference/{match[1]} has no heading {heading!r}"
    if path.suffix == ".md":
        yield from _long_lines(name, text)
    elif name.parts[0] == "airflow_hivex":
        yield from _docstrings(name, text)


def _long_lines(name: Path, text: str) -> Iterator[str]:
    """Yield the lines that are too long. The rows of a table have no other way, and a link cannot be broken."""
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > _COLUMNS and not line.startswith("|") and "](http" not in line:
            yield f"{name}:{number}: the line has {len(line)} columns, more than {_COLUMNS}"


def _docstrings(name: Path, text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            # A function's docstring is an expression, too: its first word is a verb.
            if _HEADLESS.match(str(node.value.value)):
                yield f"{name}:{node.lineno}: the docstring begins with its subject, a noun"
            words = " ".join(str(node.value.value).split())
            for pattern, reason in _OF_DOCSTRINGS.items():
                if match := pattern.search(words):
                    yield f"{name}:{node.lineno}: {match[0]!r} in a docstring: {reason}"
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = (ast.get_docstring(node) or "").partition("\n")[0]
            if _NOUN_FIRST.match(first):
                yield f"{name}:{node.lineno}: the docstring of {node.name} begins with a verb, such as Return"
            if _NAMELESS.match(first):
                yield f"{name}:{node.lineno}: the docstring of {node.name} names the thing that it returns or raises"


def _line(text: str, match: re.Match[str]) -> int:
    return text.count("\n", 0, match.start()) + 1


def _spaced(pattern: str) -> str:
    return pattern.replace(" ", r"[\s#]+")


_COMPILED = {re.compile(_spaced(pattern)): reason for pattern, reason in _PATTERNS.items()}
_OF_DOCSTRINGS = {re.compile(pattern): reason for pattern, reason in _DOCSTRING_PATTERNS.items()}


if __name__ == "__main__":
    main()
