"""A client of the endpoint: its login by SASL PLAIN, its user and settings, and its names of databases. Pure."""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from airflow_hivex.core.errors import InvalidSettingError
from airflow_hivex.core.errors.secrets import remember

HIVE_CATALOG = "hive"
"""The default catalog of every client of Hive 3 and later. This catalog stands for no particular cluster."""
CLUSTER_KEY = "hivex.cluster"
"""The key by which a client names a cluster, in ``setMetaConf`` or in a call's EnvironmentContext."""


class DatabaseName(NamedTuple):
    """The name of a database in a call.

    ``name`` is in lower case and without a cluster. ``given`` is the text in the call, which the answer must repeat.
    ``cluster`` is the cluster in the text, or None.
    """

    name: str
    given: str
    cluster: str | None = None


def read_database(text: str | None, catalog: str | None = None) -> DatabaseName:
    """Return the database that a call names as ``name`` or ``@cluster#name``.

    In the form ``@cluster#name``, clients of Hive 3 and later send the name of a catalog as the cluster. ``catalog`` is
    the catalog from a separate field of the request, or None.
    """
    given = text or ""
    cluster = catalog
    name = given
    if given.startswith("@") and "#" in given:
        cluster, _, name = given[1:].partition("#")
        if name == "!":
            # Hive's sign for an empty name; without the sign the name is missing.
            name = ""
    if cluster is not None and cluster.lower() in ("", HIVE_CATALOG):
        cluster = None
    return DatabaseName(name.lower(), given.lower() if cluster is None else given, cluster)


def user_and_cluster(user: str) -> tuple[str, str | None]:
    """Split ``alice@c2`` into user and cluster. The cluster is None for a name without ``@``."""
    name, at, cluster = user.rpartition("@")
    return (name, cluster) if at and name and cluster else (user, None)


def without_password(user: str) -> tuple[str, str | None]:
    """Split ``alice:secret@c2`` into ``alice@c2`` and the password. The password is None for a name without ``:``.

    The call ``set_ugi`` has no field for a password. So some clients add the password to the name of the user. The
    password must not appear in logs and locks.
    """
    name, colon, rest = user.partition(":")
    if not (name and colon):
        return user, None
    secret, at, cluster = rest.rpartition("@")
    return (f"{name}@{cluster}", secret) if at else (name, rest)


@dataclass(slots=True)
class Client:
    """The client of one connection: its address, user, cluster and settings."""

    peer: str
    endpoint_cluster: str | None = None
    user: str = ""
    groups: tuple[str, ...] = ()
    user_cluster: str | None = None
    configuration: dict[str, str] = field(default_factory=dict)
    is_authenticated: bool = False

    def cluster(self, name: DatabaseName | None = None, context: Mapping[str, str] | None = None) -> str | None:
        """Return the cluster of a call, or None if the client names no cluster.

        The first of these that names a cluster decides: the name of the database, the EnvironmentContext of the call,
        ``setMetaConf``, the name of the user, the endpoint.
        """
        return (
            (name.cluster if name is not None else None)
            or (context or {}).get(CLUSTER_KEY)
            or self.configuration.get(CLUSTER_KEY)
            or self.user_cluster
            or self.endpoint_cluster
        )


_STEP = Struct(">BI")
_START, _OK, _BAD, _COMPLETE = 1, 2, 3, 5
_LONGEST = 8192


class SaslError(Exception):
    """The client has not logged in, but this server requires a login."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The secrets (passwords or tokens) of users. A client sends the secret of its user by SASL PLAIN over TLS."""

    secrets: Mapping[str, str] = field(repr=False)

    @classmethod
    def from_file(cls, path: str) -> Credentials:
        """Return the credentials in a JSON file. The file has an object from user to secret.

        Raises:
            InvalidSettingError: the file cannot be read, or does not have an object from user to secret.
        """
        # The value of a setting of this name is masked, so that the file is named in the reason.
        expected = f'{path}: a JSON file is expected, such as {{"alice": "a token of hers"}}'
        try:
            found = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not JSON"
            raise InvalidSettingError("credentials", path, f"{expected} ({reason})") from None
        is_valid = isinstance(found, dict) and found and all(isinstance(each, str) and each for each in found.values())
        if not is_valid:
            raise InvalidSettingError("credentials", path, expected)
        remember(list(found.values()))
        return cls(found)

    def are_valid(self, user: str, secret: str) -> bool:
        """Return whether the secret belongs to the user. The check takes the same time for an unknown user."""
        known = self.secrets.get(user)
        is_same = hmac.compare_digest((known if known is not None else secret + "x").encode(), secret.encode())
        return known is not None and is_same


class PlainExchange:
    """The login of one connection.

    After a success ``user`` is the verified user. After a failure ``failed`` is the reason.

    Each step is a status byte, a length and as many bytes (Thrift's TSaslTransport). A client first sends START with
    the name of the mechanism, and then a response. The server answers COMPLETE, or BAD with a reason.
    """

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._has_mechanism = False
        self.user: str | None = None
        self.failed: str | None = None

    @property
    def is_complete(self) -> bool:
        """Return whether the user is verified."""
        return self.user is not None

    def take(self, buffer: bytearray) -> bytes | None:
        """Remove one step from a buffer, and return the answer to the step.

        The answer None means that bytes are missing.

        Raises:
            SaslError: the bytes are not a step.
        """
        if buffer and buffer[0] not in (_START, _OK, _COMPLETE):
            raise SaslError("this server asks for SASL PLAIN, and the client begins without it")
        if len(buffer) < _STEP.size:
            return None
        status, length = _STEP.unpack_from(buffer)
        if length > _LONGEST:
            raise SaslError(f"a step of SASL has {length} bytes; at most {_LONGEST} are taken")
        end = _STEP.size + length
        if len(buffer) < end:
            return None
        content = bytes(buffer[_STEP.size : end])
        del buffer[:end]
        if not self._has_mechanism:
            if status != _START or content != b"PLAIN":
                return self._fail(f"mechanism {content[:40].decode('latin-1')!a} is not PLAIN")
            self._has_mechanism = True
            return b""
        return self._response(content)

    def _response(self, content: bytes) -> bytes:
        parts = content.split(b"\0")
        if len(parts) != 3:
            return self._fail("the response is not one of PLAIN")
        try:
            _, user, secret = (part.decode() for part in parts)
        except UnicodeDecodeError:
            return self._fail("the response is not UTF-8")
        if not self._credentials.are_valid(user, secret):
            return self._fail(f"user {user[:60]!a} or the password is wrong")
        self.user = user
        return _STEP.pack(_COMPLETE, 0)

    def _fail(self, reason: str) -> bytes:
        self.failed = f"SASL: {reason}"
        content = reason.encode()
        return _STEP.pack(_BAD, len(content)) + content
