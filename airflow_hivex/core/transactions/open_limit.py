"""The limit of open transactions, which is not counted on every call. Source: docs/reference/transactions.md."""

from __future__ import annotations

from airflow_hivex.core.errors import TooManyOpenTransactionsError

_FREE_AGAIN = 0.9


class OpenTransactionLimit:
    """Says when open transactions must be counted, and whether there are too many.

    Once the limit was reached, nothing is opened until the count is below 90 % of it.
    """

    def __init__(self, limit: int, interval_s: int) -> None:
        self._limit = limit
        self._interval_ms = interval_s * 1000
        self._counted: int | None = None
        self._counted_ms = 0
        self._opened_since = 0
        self._refusing = False

    def must_count(self, count: int, now_ms: int) -> bool:
        """Return whether ``count`` more cannot be opened on what is known from before."""
        if self._refusing or self._counted is None or now_ms - self._counted_ms >= self._interval_ms:
            return True
        return self._counted + self._opened_since + count > self._limit * _FREE_AGAIN

    def check(self, open_count: int, now_ms: int) -> None:
        """Take note of a count.

        Raises:
            TooManyOpenTransactionsError: there are too many.
        """
        self._counted, self._counted_ms, self._opened_since = open_count, now_ms, 0
        self._refusing = open_count >= (self._limit * _FREE_AGAIN if self._refusing else self._limit)
        if self._refusing:
            raise TooManyOpenTransactionsError(open_count, self._limit)

    def opened(self, count: int) -> None:
        """Take note of what was opened here."""
        self._opened_since += count
