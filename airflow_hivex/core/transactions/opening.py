"""New transactions: their ids and rows. Functions here take part in the caller's exchange."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import BigInteger, Integer, String, bindparam, func, insert, literal_column, select, update

from airflow_hivex.core.errors import InvalidTransactionRequestError
from airflow_hivex.core.model.texts import is_storable
from airflow_hivex.core.model.transactions import TxnType
from airflow_hivex.core.snapshots.txn_states import IS_OPEN
from airflow_hivex.core.store.exchange import Exchange, Prepared
from airflow_hivex.core.store.schema import counters, txns
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
# Its own statement, so that it sees all that were opened before the counter was ours.
_INSERT = Prepared(
    insert(txns).from_select(
        [
            txns.c.id,
            txns.c.min_open_id,
            txns.c.state,
            txns.c.type,
            txns.c.started_ms,
            txns.c.heartbeat_ms,
            txns.c.timeout_s,
            txns.c.user,
            txns.c.host,
            txns.c.agent_info,
            txns.c.key,
        ],
        select(
            _ID,
            func.coalesce(_LOWEST_OPEN, _ID),
            literal_column("'o'"),
            bindparam("type", type_=Integer),
            bindparam("now_ms", type_=BigInteger),
            bindparam("now_ms", type_=BigInteger),
            bindparam("timeout_s", type_=Integer),
            bindparam("user", type_=String),
            bindparam("host", type_=String),
            bindparam("agent_info", type_=String),
            bindparam("key", type_=String),
        ).where(_OF_TXN_IDS),
        include_defaults=False,
    )
)


@dataclass(frozen=True, slots=True)
class NewTransaction:
    """The stored values of a new transaction."""

    type: TxnType
    timeout_s: int
    user: str
    host: str
    agent_info: str | None
    key: str | None


class KeyTakenError(Exception):
    """Undoes the opening of a transaction: another one has its key."""

    def __init__(self, row: TxnRow) -> None:
        super().__init__(row)
        self.row = row


def open_transactions(
    exchange: Exchange, new: NewTransaction, count: int, now_ms: int, check: Callable[[int], None] | None
) -> list[int]:
    """Return the ids of ``count`` new transactions; the exchange is finished.

    One round trip, two when ``check`` wants to be told how many are open, or there is a key.

    Raises:
        KeyTakenError: there is a transaction with this key.
    """
    rows = [
        _INSERT(
            before_last=before_last,
            type=new.type.value,
            now_ms=now_ms,
            timeout_s=new.timeout_s,
            user=new.user,
            host=new.host,
            agent_info=new.agent_info,
            key=new.key,
        )
        for before_last in reversed(range(count))
    ]
    # The counter's row is locked until the end: ids become visible in their order.
    take_ids = (_TAKE_IDS if check is None else _TAKE_IDS_AND_COUNT)(count=count)
    if check is None and new.key is None:
        taken, *_ = exchange.finish(take_ids, *rows)
    else:
        taken, same = exchange.send(take_ids, _OF_KEY(key=new.key))
        if check is not None:
            check(taken[0][1])
        if same:
            # Whoever has opened with it did so before the counter was ours.
            raise KeyTakenError(TxnRow(*same[0]))
        exchange.finish(*rows)
    last = int(taken[0][0])
    return list(range(last - count + 1, last + 1))


def check_key(key: str) -> None:
    """Refuse a text that cannot be the key of a transaction.

    Raises:
        InvalidTransactionRequestError: it is empty, too long, or cannot be stored.
    """
    if not (isinstance(key, str) and 0 < len(key) <= _KEY_LENGTH and is_storable(key)):
        raise InvalidTransactionRequestError(
            f"{key!a:.100} cannot be the key of a transaction: it has 1 to {_KEY_LENGTH} characters, none of them NUL "
            "or half of a surrogate pair."
        )
