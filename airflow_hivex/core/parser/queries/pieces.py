"""A query composed of pieces of the user's text. An error is reported at its place in the user's text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Self

from airflow_hivex.core.errors import StatementSyntaxError
from airflow_hivex.core.parser.lexer.tokens import Cursor, Token, location, tokenize
from airflow_hivex.core.parser.queries.reader import read_query
from airflow_hivex.core.parser.statements import Query, Span, TableReference


@dataclass(slots=True)
class Pieces:
    """A text of generated words and pieces of the user's text, with the place of each piece in the user's text."""

    cursor: Cursor
    text: str = ""
    copied: list[tuple[int, int, int]] = field(default_factory=list)

    def add(self, words: str) -> Self:
        """Append words that the user has not written."""
        self.text += words
        return self

    def copy(self, start: int, end: int) -> int:
        """Append the user's text between two places, and return the place of this piece in the composed text."""
        at = len(self.text)
        self.copied.append((at, start, end))
        self.text += self.cursor.text[start:end]
        return at

    def copy_tokens(self, tokens: Sequence[Token]) -> Self:
        """Append the user's text from the first token to the last."""
        self.copy(tokens[0].start, tokens[-1].end)
        # The last token may be followed by the end of a comment's line.
        self.text += "\n"
        return self

    def read(self) -> Query:
        """Return the query in the composed text. The positions of the query's tables are places in the user's text.

        Raises:
            StatementSyntaxError: the text is not SQL.
            UnsupportedStatementError: the query reads an object that is not a table of the warehouse.
        """
        with self._own_places():
            tokens = tokenize(self.text)
            query = read_query(Cursor(self.text, tokens, self.cursor.markers, self.cursor.database))
        return replace(query, references=tuple(map(self._placed, query.references)))

    def _placed(self, reference: TableReference) -> TableReference:
        """Return the reference with the place of its name in the user's text. The place of a generated name is None."""
        span = None
        for at, start, end in self.copied:
            moved = start - at
            if at <= reference.start and reference.end + moved <= end:
                span = Span(reference.start + moved, reference.end + moved)
        return replace(reference, table=replace(reference.table, span=span))

    @contextmanager
    def _own_places(self) -> Iterator[None]:
        try:
            yield
        except StatementSyntaxError as error:
            lines = self.text.splitlines(keepends=True)
            place = sum(map(len, lines[: error.line - 1])) + error.column - 1
            before = [piece for piece in self.copied if piece[0] <= place] or self.copied[:1]
            at, start, _ = before[-1]
            text = self.cursor.text
            raise type(error)(
                error.reason, *location(text, min(start + max(place - at, 0), len(text))), text
            ) from error
