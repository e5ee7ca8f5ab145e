"""Keep passwords, keys and tokens out of messages, results and logs: the one place that masks them.

A secret is found in two ways. By its form: the password of a URI, and values whose names say that they are secret
(``?password=...``, ``"fs.s3a.secret.key": "..."``). And by its value: the secrets in the clusters' descriptions and in
the metastore's URL are remembered here, so that they are also found in the middle of another library's sentence.

Every error of the warehouse passes its sentence through :func:`hide`.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping
from typing import Any

MASK = "***"
# A shorter value would be found in ordinary words. Its form still gives it away.
_SHORTEST_REMEMBERED = 6

# Source: Spark's spark.redaction.regex, extended by the names that object stores and libpq use.
_NAMES_OF_SECRETS = (
    r"password|passwd|passphrase|passfile|secret|token|credential|signature|connection[._-]?string|"
    r"(?:access|account|api|auth|client|private|shared|master|encryption|signing|ssl)[._-]?key|"
    r"(?<![A-Za-z0-9])(?:pwd|pass|sas|sig)(?![A-Za-z0-9])"
)
REDACTED_BY_SPARK = rf"(?i){_NAMES_OF_SECRETS}"
"""Spark's setting ``spark.redaction.regex``: names and values that its UI and its log do not show."""
# s3fs calls an access key ``key``.
_SECRET_NAME = re.compile(rf"{_NAMES_OF_SECRETS}|^key$", re.IGNORECASE)
# A port and a path may also stand before an @, as in hdfs://host:8020/t@y.
# Of a scheme only the end is matched, as long words would take a time that grows with the square of their length.
_URI_PASSWORD = re.compile(r"([A-Za-z0-9+.-]://[^\s/?#'\"<>@:]*:)(?!\d+/)([^\s'\"<>]*)(?=@)")
_WHOLE_URI = re.compile(r"(\s*[^:/@]*:/+)?([^:@]*)(:.*)?@([^@]*)", re.DOTALL)
_PARAMETER = re.compile(
    rf"([?&;,{{]\s*)([\w.%-]*(?:{_NAMES_OF_SECRETS})[\w.%-]*)(=)([^&;\s'\"<>,)}}]+)",
    re.IGNORECASE,
)
_QUOTED_PAIR = re.compile(
    rf"((['\"])[\w.-]*(?:{_NAMES_OF_SECRETS})[\w.-]*\2\s*[:=]\s*)(?:\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')",
    re.IGNORECASE,
)
_CONFIGURED = re.compile(
    rf"\b((?:spark|fs|hadoop|dfs|hive)\.[\w.-]*(?:{_NAMES_OF_SECRETS})[\w.-]*\s*[=:]\s*)([^\s,;'\"<>]+)",
    re.IGNORECASE,
)
_FLAG = re.compile(rf"(-D[\w.-]*(?:{_NAMES_OF_SECRETS})[\w.-]*=)([^\s'\"]+)", re.IGNORECASE)

_remembered: set[str] = set()
_pattern: re.Pattern[str] | None = None
_lock = threading.Lock()


def is_secret_name(name: str) -> bool:
    """Return whether the value of a property, option or URI parameter of this name is a secret."""
    return _SECRET_NAME.search(name) is not None


def remember(values: Iterable[object]) -> None:
    """Hide these texts from now on wherever :func:`hide` meets them; short ones are left to their form."""
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
    """Return the secret values of properties or options, at any depth, and the passwords of URIs among them."""
    found: list[str] = []
    for name, value in properties.items():
        if isinstance(value, Mapping):
            # What a secret name holds is secret as a whole: {"token": {"client_id": ...}}.
            found += [str(each) for each in _leaves(value)] if is_secret_name(str(name)) else secrets_of(value)
        elif is_secret_name(str(name)):
            found += [str(each) for each in _leaves(value)]
        elif isinstance(value, str):
            found += secrets_of_uri(value)
    return found


def secrets_of_uri(uri: str) -> list[str]:
    """Return the password and the secret parameters of a URI, or of a text with URIs."""
    found = [match[2] for match in _URI_PASSWORD.finditer(uri)]
    found += [match[4] for match in _PARAMETER.finditer(uri)]
    # ``--conf`` in options of Java: -Djavax.net.ssl.keyStorePassword=...
    return [*found, *(match[2] for match in _FLAG.finditer(uri))]


def hide_in_uri(uri: str) -> str:
    """Return a URI, or a text with URIs, without passwords and without the values of secret parameters."""
    text = _URI_PASSWORD.sub(rf"\1{MASK}", uri)
    text = _PARAMETER.sub(rf"\1\2\3{MASK}", text)
    return _FLAG.sub(rf"\1{MASK}", text)


def hide_in_database_url(url: str) -> str:
    """Return the URL of a database without its password, also where it is too malformed to be parsed."""
    found = _WHOLE_URI.fullmatch(url)
    if found is None:
        return hide_in_uri(url)
    return f"{found[1] or ''}{found[2]}{f':{MASK}' if found[3] else ''}@{hide_in_uri(found[4])}"


def hide_in_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return properties as they may be shown: secret ones masked, URIs without their passwords."""
    return {name: _shown(str(name), value) for name, value in properties.items()}


def hide(text: str) -> str:
    """Return a sentence without secrets, known by their form or by their value."""
    text = _CONFIGURED.sub(rf"\1{MASK}", _QUOTED_PAIR.sub(rf"\1'{MASK}'", hide_in_uri(text)))
    pattern = _pattern
    return text if pattern is None else pattern.sub(MASK, text)


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
