"""Ids and names, and how names are compared."""

from __future__ import annotations

import re
from typing import NewType

from airflow_hivex.core.errors import InvalidObjectError
from airflow_hivex.core.model.texts import check_length

TxnId = NewType("TxnId", int)
WriteId = NewType("WriteId", int)

DEFAULT_DATABASE = "default"

_NAME = re.compile(r"[A-Za-z0-9_]+")
MAX_NAME_LENGTH = 128


def normalise(name: str) -> str:
    """Return the form in which a name is stored and compared.

    Names are case-insensitive, as in Hive, and blanks count.
    """
    return name.lower()


def check_name(kind: str, name: str) -> str:
    """Return the normalised name of a database or table.

    Raises:
        InvalidObjectError: the name is empty, too long, or holds other characters than
            letters, digits and underscore (Source: Hive MetaStoreUtils.validateName).
    """
    normalised = normalise(name)
    if not _NAME.fullmatch(normalised):
        raise InvalidObjectError(kind, repr(name), "a name has letters, digits and underscores only")
    if len(normalised) > MAX_NAME_LENGTH:
        raise InvalidObjectError(kind, repr(name), f"a name has at most {MAX_NAME_LENGTH} characters")
    return normalised


def check_owner(owner: str | None) -> str | None:
    """Return the owner of a database or table, as long as it fits.

    Raises:
        InvalidParametersError: it is too long.
    """
    return None if owner is None else check_length("The owner", owner, MAX_NAME_LENGTH)
