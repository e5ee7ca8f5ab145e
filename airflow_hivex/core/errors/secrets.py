"""The masking of passwords, keys and tokens in messages, results and logs; no other module masks them.

A secret is found by its form or by its value. The values are the secrets in the clusters' descriptions and in the
metastore's URL. The module remembers these values, and finds them anywhere in a text. The forms are the password of a
URI, and the value of a secret name:

- A literal after a secret name is masked anywhere: ``token = 'x'``, ``"password": "x"``, ``pwd => 'x'``, and in a list
  ``(password 'x')``. So is a literal before ``AS token``.
- The value of SET and DECLARE is masked as a whole: ``SET password = x``, ``DECLARE pwd STRING DEFAULT x || 'y'``.
- A word is masked in lists of options and in literals: ``OPTIONS (password = x)``, ``'url; password = x'``.
- A word is masked in sentences, if no blank is before the ``=``, or if the name begins the line or follows a comma:
  ``login failed: password=x``, ``host: h, password: x``. So is ``Authorization: Bearer x``.
- A column stays: ``WHERE token = t.b``, ``ON a.token=b.token``, ``SELECT token FROM t``. So do the name of a partition,
  ``ds=1/token=x``, and the type of a column, ``struct<a:int,token:string>``.

Every error of the warehouse passes its sentence through :func:`hide`.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

MASK = "***"
# A shorter value would occur in ordinary words. It is still found by its form.
_SHORTEST_REMEMBERED = 6

# Source: Spark's spark.redaction.regex, extended by the names that object stores and libpq use.
_NAMES_OF_SECRETS = (
    r"password|passwd|passphrase|passfile|secret|token|credential|signature|connection[._-]?string|"
    r"(?:access|account|api|auth|client|private|shared|master|encryption|signing|ssl)[._-]?key|"
    r"pwd(?![a-z])|(?<![A-Za-z0-9])(?:pass|sas|sig)(?![A-Za-z0-9])"
)
REDACTED_BY_SPARK = rf"(?i){_NAMES_OF_SECRETS}"
"""The value of ``spark.redaction.regex``. Spark's UI and log hide names and values that match it."""
# s3fs calls an access key ``key``.
_SECRET_NAME = re.compile(rf"{_NAMES_OF_SECRETS}|^key$", re.IGNORECASE)
# Each of these patterns reads a name as a whole, without backtracking, and begins only where a name begins: otherwise
# the time for a long word would grow with the square of its length.
# Each secret name has one of these words. Most texts have none, so that only their URIs are looked at.
_WORDS_OF_NAMES = ("pass", "pwd", "secret", "token", "credential", "sig", "sas", "key", "connection", "authorization")
_HAS_SECRET_NAME = re.compile(rf"{_NAMES_OF_SECRETS}|\bauthorization$", re.IGNORECASE)
_WORD = re.compile(r"[^\s'\"<>]++")
# A port and a path may also stand before an @, as in hdfs://host:8020/t@y.
_USER_OF_URI = re.compile(r"[A-Za-z0-9+.-]://[^\s/?#'\"<>@:]*+:(?!\d++/)")
_USER_OF_ORACLE = re.compile(r"jdbc:oracle:\w++:[^\s/@]*+/", re.IGNORECASE)
_WHOLE_URI = re.compile(r"(\s*[^:/@]*:/+)?([^:@]*)(:.*)?@([^@]*)", re.DOTALL)
_ANY_NAME = re.compile("")
_PARAMETER = re.compile(r"[?&;,{]\s*+([\w.%-]++)=")
_PARAMETER_VALUE = re.compile(r"[^&;\s'\"<>,)}]++")
# A literal at the end of a text that was cut has no closing quote.
_SINGLE, _DOUBLE = (rf"{quote}(?:[^{quote}\\]|\\.)*+(?:{quote}|\\?\Z)" for quote in ("'", '"'))
_MORE_SINGLE, _MORE_DOUBLE = (rf"(?:\s*+(?:\|\|)?\s*+{quote}(?:[^{quote}\\]|\\.)*+{quote})*+" for quote in ("'", '"'))
_LITERAL = re.compile(rf"{_SINGLE}|{_DOUBLE}", re.DOTALL)
_LITERALS = re.compile(rf"(?:[A-Za-z]|\\++)?+(?:{_SINGLE}{_MORE_SINGLE}|{_DOUBLE}{_MORE_DOUBLE})", re.DOTALL)
_NUMBER = re.compile(r"\d[\w.]*+")
_SIGN = r"\s*+(?::=|=>|<=>|==|!=|<>|=|:)\s*+"
_ASSIGNED = re.compile(rf"(?:(?<!\\)\\*+(?P<quote>['\"`])([\w. -]++)\\*+(?P=quote)|(?<![\w.-])([\w.-]++)){_SIGN}")
_LISTED = re.compile(r"[(,]\s*+(?P<quote>['\"`]?)([\w.-]++)(?P=quote)\s++(?=[A-Za-z]?['\"])")
_ALIAS = re.compile(r"(['\"])\s++AS\s++`?([\w.-]++)", re.IGNORECASE)
_SET = re.compile(
    r"(?:\A(?:\s|--[^\n]*+|/\*(?:[^*]|\*(?!/))*+\*/)*+|[.;:\"'(]\s*+)(?:SET|DECLARE)\s++([^=;]{1,200}?)"
    r"(?:\bDEFAULT\b|:?=)\s*+",
    re.IGNORECASE,
)
_SET_VALUE = re.compile(rf"(?:[^;'\"]|{_SINGLE}|{_DOUBLE})++", re.DOTALL)
_QUOTED_SET_VALUE = re.compile(rf"{_SINGLE}|{_DOUBLE}|[^;'\"\n]++", re.DOTALL)
_OPTIONS = re.compile(
    rf"(?:OPTIONS|PROPERTIES|MAP)\s*+\(((?:[^()'\"]|{_SINGLE}|{_DOUBLE})*+)", re.IGNORECASE | re.DOTALL
)
_WORD_ASSIGNED = re.compile(r"(?<![\w./-])([\w.%-]++)['\"`]?\s*+(?:[=:]|->)\s*+")
_WORD_VALUE = re.compile(r"(?:(?:bearer|basic)\s++)?[^\s,;&'\"`<>(){}\[\]]++", re.IGNORECASE)
_TYPE = r"(?:string|(?:big|small|tiny)?int|date|timestamp\w*|binary|(?:var)?char|decimal|double|float|boolean)\b"
_SAID = re.compile(
    rf"(?<!\S)([\w.%-]++)=(?!=)|(?:\A|[\n,{{;])[^\S\n]*+([\w.%-]++):\s++(?!{_TYPE})|\b(authorization)\s*+:\s*+",
    re.IGNORECASE,
)
_BEFORE_CONDITION = re.compile(
    r"(?:\b(?:where|and|or|on|not|having|when|then|else|set|select|by|partitions?)|[(,<>=+*|])\s*+\Z", re.IGNORECASE
)
_NEAR = 40
_CONFIGURED = re.compile(r"(?<![\w.-])([\w.-]++)\s*+[=:]\s*+")
_CONFIGURED_VALUE = re.compile(r"[^\s,;'\"<>]++")
_CONFIGURED_NAME = re.compile(r"\b(?:spark|fs|hadoop|dfs|hive)\.", re.IGNORECASE)
_FLAG = re.compile(r"(?<![\w.-])([\w.-]++)=")
_FLAG_VALUE = re.compile(r"[^\s'\"]++")
_FLAG_NAME = re.compile(r"-D", re.IGNORECASE)

_Span = tuple[int, int]
_Finder = Callable[[str], Iterator[_Span]]
MASKERS: list[Callable[[str], str]] = []
"""Functions that mask more secrets in texts that are kept, such as the secrets that Airflow's logs mask."""

_remembered: set[str] = set()
_pattern: re.Pattern[str] | None = None
_lock = threading.Lock()


def is_secret_name(name: str) -> bool:
    """Return whether a property, option or URI parameter with this name has a secret value."""
    return _SECRET_NAME.search(name) is not None


def remember(values: Iterable[object]) -> None:
    """Remember texts that :func:`hide` masks from now on. Short texts are found only by their form."""
    global _pattern
    new = {value for value in values if isinstance(value, str) and len(value) >= _SHORTEST_REMEMBERED}
    with _lock:
        if new <= _remembered:
            return
        _remembered.update(new)
        # The longest comes first, as one secret may be a part of another.
        alternatives = "|".join(re.escape(each) for each in sorted(_remembered, key=len, reverse=True))
        _pattern = re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)")


def secrets_of(properties: Mapping[str, Any]) -> list[str]:
    """Return the secret values of properties or options, at any depth, including the passwords of URIs."""
    found: list[str] = []
    for name, value in properties.items():
        if isinstance(value, Mapping):
            # All values below a secret name are secret: {"token": {"client_id": ...}}.
            found += [str(each) for each in _leaves(value)] if is_secret_name(str(name)) else secrets_of(value)
        elif is_secret_name(str(name)):
            found += [str(each) for each in _leaves(value)]
        elif isinstance(value, str):
            found += secrets_of_uri(value)
    return found


def secrets_of_uri(uri: str) -> list[str]:
    """Return the password and the secret parameters of a URI, or of a text with URIs."""
    return [uri[start:end] for finder in _IN_URIS for start, end in finder(uri)]


def hide_in_uri(uri: str) -> str:
    """Return a URI, or a text with URIs, without passwords and without the values of secret parameters."""
    for finder in _IN_URIS:
        uri = _masked(uri, finder)
    return uri


def hide_in_database_url(url: str) -> str:
    """Return the URL of a database without its password, even if the URL cannot be parsed."""
    found = _WHOLE_URI.fullmatch(url)
    if found is None:
        return hide_in_uri(url)
    return f"{found[1] or ''}{found[2]}{f':{MASK}' if found[3] else ''}@{hide_in_uri(found[4])}"


def hide_in_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return properties for users to see: secret values are masked, and URIs have no passwords."""
    return {name: _shown(str(name), value) for name, value in properties.items()}


def hide(text: str) -> str:
    """Return a text in which secrets are masked, whether they are known by their form or by their value.

    The text keeps the number of its lines.
    """
    lowered = text.lower()
    has_names = any(word in lowered for word in _WORDS_OF_NAMES)
    for finder in (*_IN_URIS, *_IN_TEXTS) if has_names else (_uri_passwords,):
        text = _masked(text, finder)
    pattern = _pattern
    return text if pattern is None else pattern.sub(MASK, text)


def hide_as_logs(text: str) -> str:
    """Return a text in which :func:`hide` and all :data:`MASKERS` have masked secrets."""
    text = hide(text)
    for masker in MASKERS:
        text = masker(text)
    return text


def _masked(text: str, finder: _Finder) -> str:
    pieces = []
    shown = 0
    for start, end in finder(text):
        # The lines after the secret keep their numbers.
        ends_of_lines = len(f"{text[start:end]}^".splitlines()) - 1
        pieces += [text[shown:start], MASK + "\n" * ends_of_lines]
        shown = end
    return "".join([*pieces, text[shown:]])


def _uri_passwords(text: str) -> Iterator[_Span]:
    if "@" not in text:
        return
    for word in _WORD.finditer(text):
        end = text.rfind("@", *word.span())
        user = _USER_OF_URI.search(text, word.start(), end) if end >= 0 else None
        user = user or _USER_OF_ORACLE.search(text, word.start(), max(end, word.start()))
        if user is not None:
            yield user.end(), end


def _parameter_values(text: str) -> Iterator[_Span]:
    return _values(text, _PARAMETER, _ANY_NAME, _PARAMETER_VALUE)


def _flag_values(text: str) -> Iterator[_Span]:
    """Yield the places of secrets in options of Java, such as ``-Djavax.net.ssl.keyStorePassword=...``."""
    return _values(text, _FLAG, _FLAG_NAME, _FLAG_VALUE)


def _is_secret(name: str) -> bool:
    return _HAS_SECRET_NAME.search(name) is not None


def _within_quotes(found: re.Match[str]) -> _Span:
    """Return the place of the text between the quotes of a literal."""
    literal = found[0]
    start = min(place for place in (literal.find("'"), literal.find('"')) if place >= 0)
    is_closed = len(literal) > start + 1 and literal[-1] == literal[start]
    return found.start() + start + 1, found.end() - is_closed


def _literal_values(text: str) -> Iterator[_Span]:
    """Yield the places of literals after secret names."""
    position = 0
    while (named := _ASSIGNED.search(text, position)) is not None:
        position = named.end()
        if _is_secret(named[2] or named[3]):
            found = _LITERALS.match(text, position)
            if found is not None:
                yield _within_quotes(found)
            elif named["quote"] in ("'", '"'):
                found = _NUMBER.match(text, position)
                if found is not None:
                    yield found.span()
            position = position if found is None else found.end()


def _listed_values(text: str) -> Iterator[_Span]:
    """Yield the places of literals after secret names in lists without signs, such as ``OPTIONS (password 'x')``."""
    for named in _LISTED.finditer(text):
        found = _LITERALS.match(text, named.end()) if _is_secret(named[2]) else None
        if found is not None:
            yield _within_quotes(found)


def _aliased_values(text: str) -> Iterator[_Span]:
    """Yield the places of literals before secret aliases, also of literals within a quoted statement."""
    position = 0
    for alias in _ALIAS.finditer(text):
        start = alias.start()
        while (start := text.rfind(alias[1], position, start)) > position and text[start - 1] in ("\\", alias[1]):
            start -= 1
        if start >= 0 and _is_secret(alias[2]):
            yield start + 1, alias.start()
        position = alias.end()


def _values_in_literals(text: str) -> Iterator[_Span]:
    for literal in _LITERAL.finditer(text):
        yield from _words(text, *literal.span())


def _words(text: str, start: int, end: int) -> Iterator[_Span]:
    while (named := _WORD_ASSIGNED.search(text, start, end)) is not None:
        start = named.end()
        found = _WORD_VALUE.match(text, start, end) if _is_secret(named[1]) else None
        if found is not None:
            yield found.span()
            start = found.end()


def _option_values(text: str) -> Iterator[_Span]:
    for options in _OPTIONS.finditer(text):
        yield from _words(text, *options.span(1))


def _set_values(text: str) -> Iterator[_Span]:
    """Yield the places of the values of SET and DECLARE, also of a statement within a sentence."""
    position = 0
    while (named := _SET.search(text, position)) is not None:
        position = named.end()
        is_whole = named.start() == 0 and named[0][0] not in ".;:\"'("
        value = (_SET_VALUE if is_whole else _QUOTED_SET_VALUE).match(text, position)
        if value is not None and value[0].strip() and _is_secret(named[1]):
            yield position, position + len(value[0].rstrip())
            position = value.end()


def _said_values(text: str) -> Iterator[_Span]:
    """Yield the places of words after secret names in sentences. A condition of SQL compares columns."""
    position = 0
    while (named := _SAID.search(text, position)) is not None:
        position = named.end()
        if not _is_secret(named[1] or named[2] or named[3]):
            continue
        if named[1] and _BEFORE_CONDITION.search(text, max(0, named.start() - _NEAR), named.start()):
            continue
        found = _WORD_VALUE.match(text, position)
        if found is not None:
            yield found.span()
            position = found.end()


def _configured_values(text: str) -> Iterator[_Span]:
    return _values(text, _CONFIGURED, _CONFIGURED_NAME, _CONFIGURED_VALUE)


def _values(text: str, name: re.Pattern[str], beginning: re.Pattern[str], value: re.Pattern[str]) -> Iterator[_Span]:
    """Yield the places of the values of secret names.

    A name is secret if a secret word follows a match of ``beginning`` in the name. A secret name is also found within
    the value of a name that is not secret.
    """
    position = 0
    while (named := name.search(text, position)) is not None:
        position = named.end()
        begun = beginning.search(named.groups()[-1])
        is_secret = begun is not None and _HAS_SECRET_NAME.search(named.groups()[-1], begun.end()) is not None
        found = value.match(text, position) if is_secret else None
        if found is not None:
            yield found.span()
            position = found.end()


_IN_URIS: tuple[_Finder, ...] = (_uri_passwords, _parameter_values, _flag_values)
_IN_TEXTS: tuple[_Finder, ...] = (
    _set_values,
    _literal_values,
    _listed_values,
    _option_values,
    _aliased_values,
    _values_in_literals,
    _configured_values,
    _said_values,
)


def _shown(name: str, value: Any) -> Any:
    if is_secret_name(name):
        return MASK
    if isinstance(value, Mapping):
        return hide_in_properties(value)
    return hide_in_uri(value) if isinstance(value, str) else value


def _leaves(value: Any) -> Iterable[object]:
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _leaves(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _leaves(each)
    else:
        yield value
