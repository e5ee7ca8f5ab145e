"""The masking of passwords, keys and tokens in messages, results and logs; no other module masks them.

A secret is found by its form or by its value. The forms are the password of a URI, and values with secret names
(``?password=...``, ``"fs.s3a.secret.key": "..."``). The values are the secrets in the clusters' descriptions and in the
metastore's URL. The module remembers these values, and finds them anywhere in a text.

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
    r"(?<![A-Za-z0-9])(?:pwd|pass|sas|sig)(?![A-Za-z0-9])"
)
REDACTED_BY_SPARK = rf"(?i){_NAMES_OF_SECRETS}"
"""The value of ``spark.redaction.regex``. Spark's UI and log hide names and values that match it."""
# s3fs calls an access key ``key``.
_SECRET_NAME = re.compile(rf"{_NAMES_OF_SECRETS}|^key$", re.IGNORECASE)
# Each of these patterns reads a name as a whole, without backtracking, and begins only where a name begins: otherwise
# the time for a long word would grow with the square of its length.
_HAS_SECRET_NAME = re.compile(_NAMES_OF_SECRETS, re.IGNORECASE)
_WORD = re.compile(r"[^\s'\"<>]++")
# A port and a path may also stand before an @, as in hdfs://host:8020/t@y.
_USER_OF_URI = re.compile(r"[A-Za-z0-9+.-]://[^\s/?#'\"<>@:]*+:(?!\d++/)")
_WHOLE_URI = re.compile(r"(\s*[^:/@]*:/+)?([^:@]*)(:.*)?@([^@]*)", re.DOTALL)
_ANY_NAME = re.compile("")
_PARAMETER = re.compile(r"[?&;,{]\s*+([\w.%-]++)=")
_PARAMETER_VALUE = re.compile(r"[^&;\s'\"<>,)}]++")
_QUOTED = re.compile(r"(?P<quote>['\"])([\w.-]++)(?P=quote)\s*+[:=]\s*+")
_QUOTED_VALUE = re.compile(r"\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'")
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
    """Return a sentence in which secrets are masked, whether they are known by their form or by their value."""
    text = _masked(_masked(hide_in_uri(text), _quoted_values, f"'{MASK}'"), _configured_values)
    pattern = _pattern
    return text if pattern is None else pattern.sub(MASK, text)


def hide_as_logs(text: str) -> str:
    """Return a text in which :func:`hide` and all :data:`MASKERS` have masked secrets."""
    text = hide(text)
    for masker in MASKERS:
        text = masker(text)
    return text


def _masked(text: str, finder: _Finder, mask: str = MASK) -> str:
    pieces = []
    shown = 0
    for start, end in finder(text):
        pieces += [text[shown:start], mask]
        shown = end
    return "".join([*pieces, text[shown:]])


def _uri_passwords(text: str) -> Iterator[_Span]:
    for word in _WORD.finditer(text):
        end = text.rfind("@", *word.span())
        user = _USER_OF_URI.search(text, word.start(), end) if end >= 0 else None
        if user is not None:
            yield user.end(), end


def _parameter_values(text: str) -> Iterator[_Span]:
    return _values(text, _PARAMETER, _ANY_NAME, _PARAMETER_VALUE)


def _flag_values(text: str) -> Iterator[_Span]:
    """Yield the places of secrets in options of Java, such as ``-Djavax.net.ssl.keyStorePassword=...``."""
    return _values(text, _FLAG, _FLAG_NAME, _FLAG_VALUE)


def _quoted_values(text: str) -> Iterator[_Span]:
    return _values(text, _QUOTED, _ANY_NAME, _QUOTED_VALUE)


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
