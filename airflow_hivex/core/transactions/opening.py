"""The ids and rows of new transactions. The functions send their calls in the caller's exchange."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    String,
    bindparam,
    func,
    insert,
    literal_column,
    select,
    update,
)

from airflow_hivex.core.errors import InvalidTransactionRequestError
from airflow_hivex.core.model.texts import is_storable
from airflow_hivex.core.model.transactions import TxnType
from airflow_hivex.core.snapshots.valid_lists import IS_OPEN
from airflow_hivex.core.store.exchange import Call, Exchange, Prepared, Rows, Value
from airflow_hivex.core.store.schema import counters, txns
from airflow_hivex.core.transactions.shared_state import NOT_TAKEN
from airflow_hivex.core.transactions.txn_rows import SELECT_ROW, TxnRow

_KEY_LENGTH = 1024

_OPEN_COUNT = select(func.count()).select_from(txns).where(IS_OPEN).scalar_subquery()
_LOWEST_OPEN = select(func.min(txns.c.id)).where(IS_OPEN).scalar_subquery()
_OF_TXN_IDS = counters.c.name == literal_column("'txn'")
_NEXT = counters.c.value + bindparam("count", type_=BigInteger)

_TAKE_IDS = Prepared(update(counters).where(_OF_TXN_IDS).values(value=_NEXT).returning(counters.c.value))
_TAKE_IDS_AND_COUNT = Prepared(
    update(counters).where(_OF_TXN_IDS).values(value=_NEXT).returning(counters.c.value, _OPEN_COUNT)
)
_OF_KEY = Prepared(SELECT_ROW.where(txns.c.key == bindparam("key", type_=String)))
_ID = counters.c.value - bindparam("before_last", type_=BigInteger)
_COUNTER = counters.alias("txn_counter")
NEW_TXN_ID = select(_COUNTER.c.value).where(_COUNTER.c.name == literal_column("'txn'")).scalar_subquery()
"""The subquery for the id of a new transaction. Use it in the database transaction that has opened the transaction."""
_NOW_MS = bindparam("now_ms", type_=BigInteger)
_VALUES: dict[str, ColumnElement[Any]] = {
    "id": _ID,
    "min_open_id": func.coalesce(_LOWEST_OPEN, _ID),
    "state": literal_column("'o'"),
    "type": bindparam("type", type_=Integer),
    "started_ms": _NOW_MS,
    "heartbeat_ms": _NOW_MS,
    "timeout_s": bindparam("timeout_s", type_=Integer),
    "user": bindparam("user", type_=String),
    "host": bindparam("host", type_=String),
    "agent_info": bindparam("agent_info", type_=String),
    "key": bindparam("key", type_=String),
    "snapshot": bindparam("snapshot", type_=String),
    "statement": bindparam("statement", type_=String),
}


def _inserting(values: Mapping[str, ColumnElement[Any]]) -> Prepared:
    """Return the INSERT of a new transaction's row.

    The INSERT must run after the counter of ids is locked, so that it reads the rows of all lower ids.
    """
    row = select(*values.values()).where(_OF_TXN_IDS)
    return Prepared(insert(txns).from_select(list(values), row, include_defaults=False))


_INSERT = _inserting(_VALUES)
_INSERT_COMMITTED = _inserting({**_VALUES, "state": literal_column("'c'"), "ended_ms": _NOW_MS})


@dataclass(frozen=True, slots=True)
class NewTransaction:
    """The stored values of a new transaction. ``is_shared`` is true for a transaction of several statements.

    ``statement`` is a document about the statement that opens the transaction, or None.
    """

    type: TxnType
    timeout_s: int
    user: str
    host: str
    agent_info: str | None
    key: str | None
    is_shared: bool = False
    statement: str | None = None

    def row(self, now_ms: int, before_last: int = 0) -> dict[str, Value]:
        """Return the parameters of the INSERT. The transaction gets the last allocated id minus ``before_last``."""
        return {
            "before_last": before_last,
            "type": self.type.value,
            "now_ms": now_ms,
            "timeout_s": self.timeout_s,
            "user": self.user,
            "host": self.host,
            "agent_info": self.agent_info,
            "key": self.key,
            "snapshot": NOT_TAKEN if self.is_shared else None,
            "statement": self.statement,
        }


class KeyTakenError(Exception):
    """Error: a transaction with the same key exists, so no transaction is opened. ``row`` is its row."""

    def __init__(self, row: TxnRow) -> None:
        super().__init__(row)
        self.row = row


def open_transactions(
    exchange: Exchange, new: Sequence[NewTransaction], now_ms: int, check: Callable[[int], None] | None
) -> list[int]:
    """Open transactions, finish the exchange, and return the ids. A key is allowed only for a single transaction.

    ``check`` is called with the current number of open transactions, and raises an error to refuse the opening. One
    round trip, or two with a ``check`` or a key.

    Raises:
        KeyTakenError: a transaction with the key exists.
    """
    count, key = len(new), new[0].key
    rows = [_INSERT(**each.row(now_ms, count - number)) for number, each in enumerate(new, 1)]
    # The counter's row is locked until the end: ids become visible in their order.
    take_ids = (_TAKE_IDS if check is None else _TAKE_IDS_AND_COUNT)(count=count)
    if check is None and key is None:
        taken, *_ = exchange.finish(take_ids, *rows)
    else:
        taken, same = exchange.send(take_ids, _OF_KEY(key=key))
        if check is not None:
            check(taken[0][1])
        if same:
            # Another client has opened a transaction with this key before this one locked the counter.
            raise KeyTakenError(TxnRow(*same[0]))
        exchange.finish(*rows)
    last = int(taken[0][0])
    return list(range(last - count + 1, last + 1))


def open_with(
    exchange: Exchange,
    new: NewTransaction,
    now_ms: int,
    check: Callable[[int], None] | None,
    calls: Sequence[Call],
    *,
    counts: bool,
) -> tuple[int, int, list[Rows]]:
    """Open a transaction, run ``calls``, and finish the exchange.

    Return the transaction's id, the number of other open transactions and the answers to the calls. Without ``counts``
    the number is 0.

    The calls run after the INSERT of the transaction's row. The caller ensures that no other transaction has the key.
    ``check`` is called with the current number of open transactions, and raises an error to refuse the opening. One
    round trip, or two with a ``check``.
    """
    row = _INSERT(**new.row(now_ms))
    take_id = (_TAKE_IDS_AND_COUNT if counts else _TAKE_IDS)(count=1)
    if check is None:
        taken, _, *answers = exchange.finish(take_id, row, *calls)
    else:
        (taken,) = exchange.send(take_id)
        check(taken[0][1])
        _, *answers = exchange.finish(row, *calls)
    return int(taken[0][0]), int(taken[0][1]) if counts else 0, answers


def committed(new: NewTransaction, now_ms: int) -> tuple[Call, Call]:
    """Return the calls that store a new transaction as committed. The answer to the first call is the transaction's id.

    Send these calls last, because they block the opening of transactions until the caller's database transaction ends.
    """
    return _TAKE_IDS(count=1), _INSERT_COMMITTED(**new.row(now_ms))


def check_key(key: str) -> None:
    """Refuse a text that cannot be the key of a transaction.

    Raises:
        InvalidTransactionRequestError: the text is empty, too long, or cannot be stored.
    """
    if not (isinstance(key, str) and 0 < len(key) <= _KEY_LENGTH and is_storable(key)):
        raise InvalidTransactionRequestError(
            f"{key!a:.100} cannot be the key of a transaction: it has 1 to {_KEY_LENGTH} characters, none of them NUL "
            "or half of a surrogate pair."
        )
