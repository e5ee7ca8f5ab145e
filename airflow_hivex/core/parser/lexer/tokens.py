"""Spark's tokens with their positions, and a cursor that walks over them.

The rules of Spark's lexer decide where a string, a comment or a name ends, because Spark reads the same text again.
sqlglot's tokenizer has other rules (``'it''s'``, comments that a backslash continues, everything after SHOW), so
sqlglot only gets the tokens that this module has read. A text is refused if Spark might split the text differently.
Source: Spark's SqlBaseLexer grammar; tests/integration/core/job/test_lexer.py compares Spark's tokens with these
tokens.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from airflow_hivex.core.errors import StatementSyntaxError, UnsupportedStatementError
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.parser.lexer.markers import Markers
from airflow_hivex.core.parser.statements import PlacedName, Span, TableName

CATALOG = "spark_catalog"
"""Spark's name of the only catalog."""
_ONE_CATALOG = f"the only catalog is {CATALOG}"


class Kind(enum.Enum):
    """The kind of a token."""

    WORD = "word"
    QUOTED = "quoted"
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"
    PLACEHOLDER = "placeholder"


class Token(NamedTuple):
    """A token as written, and its place in the text (end excluded)."""

    kind: Kind
    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        """Return the word in upper case; an empty string for a token of another kind."""
        return self.text.upper() if self.kind is Kind.WORD else ""

    def is_symbol(self, *symbols: str) -> bool:
        """Return whether the token is one of ``symbols``."""
        return self.kind is Kind.SYMBOL and self.text in symbols


_BLANKS = r" \t\n\f\r\v\u00a0\u1680\u2000-\u200a\u2028\u202f\u205f\u3000"
_TOKEN = re.compile(
    rf"""
      (?P<skip>[{_BLANKS}]+ | --(?:\\\n|[^\r\n])*+)
    | (?P<hint>/\*\+)
    | (?P<comment>/\*)
    | (?P<string>[rR](?:'[^']*+'|"[^"]*+") | '(?:[^'\\]++|\\.|'')*+' | "(?:[^"\\]++|\\.|"")*+")
    | (?P<quoted>`(?:[^`]++|``)*+`)
    | (?P<number>
          (?:[0-9]++\.[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?(?:[bB][dD]|[fFdD])?(?!\w)
        | [0-9]++[eE][+-][0-9]++(?:[bB][dD]|[fFdD])?
        | [0-9]++(?:(?:[eE][0-9]++)?(?:[bB][dD]|[fFdD])?|[lLsSyY])(?!\w)
      )
    | (?P<word>\w+)
    | (?P<symbol><=>|<>|!=|!>|!<|<=|>=|==|::|->|=>|\|>|\|\||<<|\*/|[()\[\],.;:=<>!+\-*/%&|^~@?])
    """,
    re.VERBOSE | re.DOTALL,
)
_PLACEHOLDER = re.compile(r"(?P<placeholder>\{[^{}]*\})")
_VARIABLE = re.compile(r"(?P<placeholder>\$\{[^{}$ \n]+\})")
_KINDS = {kind.value: kind for kind in Kind}
_COMMENT_EDGE = re.compile(r"/\*(?!\+)|\*/")
_SHIFT_RIGHT = re.compile(r">>>?")
_URI = re.compile(r"://[A-Za-z0-9_/\-.?=&#%]")
_IN_HINTS = frozenset("(),.")
_HINT_START, _HINT_END = "/*+", "*/"


def tokenize(text: str, *, with_variables: bool = False) -> list[Token]:
    """Return the tokens of ``text``, without white space, comments and hints.

    In ``spark_catalog.database.name`` the prefix ``spark_catalog.`` is left out, and the token of the database begins
    where the prefix begins. If ``with_variables`` is set, ``${name}`` is a token, too.

    Raises:
        StatementSyntaxError: a string, name or comment does not end, an escape in a string is not a character, a hint
            has more than names and numbers, or a character does not belong to SQL.
    """
    tokens: list[Token] = []
    hint: Token | None = None
    for token in lex(text, with_variables=with_variables):
        if token.kind is Kind.SYMBOL and token.text in (_HINT_START, _HINT_END):
            if (hint is None) is (token.text == _HINT_END):
                raise syntax_error(text, token.start, f"no hint can {'end' if hint is None else 'begin'} here")
            hint = token if hint is None else None
        elif hint is None:
            if token.kind is Kind.STRING:
                _check_string(text, token)
            tokens.append(token)
        elif token.kind is Kind.STRING or (token.kind is Kind.SYMBOL and token.text not in _IN_HINTS):
            raise syntax_error(text, token.start, f"a hint holds names and numbers only, not {token.text}")
    if hint is not None:
        raise syntax_error(text, hint.start, "the hint that begins here has no end")
    return _without_catalog(tokens)


def _without_catalog(tokens: list[Token]) -> list[Token]:
    found: list[Token] = []
    for index, token in enumerate(tokens):
        if found and index > 1 and _at_catalog(tokens, index - 2):
            # The name of the catalog and the dot after it.
            del found[-2:]
            token = token._replace(start=tokens[index - 2].start)
        found.append(token)
    return found


def _at_catalog(tokens: Sequence[Token], index: int) -> bool:
    """Return whether the tokens ``spark_catalog.database.name`` begin at an index."""
    names, dots = tokens[index : index + 5 : 2], tokens[index + 1 : index + 4 : 2]
    return (
        len(names) == 3
        and all(token.kind in (Kind.WORD, Kind.QUOTED) for token in names)
        and all(token.is_symbol(".") for token in dots)
        and normalise(name_of(names[0])) == CATALOG
        and not (index and tokens[index - 1].is_symbol("."))
    )


def lex(text: str, *, with_placeholders: bool = False, with_variables: bool = False) -> Iterator[Token]:
    """Yield the tokens of ``text``, including hints, by the rules of Spark's lexer.

    If ``with_placeholders`` is set, ``{name}`` is a token, too. If ``with_variables`` is set, ``${name}`` is a token,
    too. Spark does not have these tokens.

    Raises:
        StatementSyntaxError: a string, name or comment does not end, an escape in a string is not a character, or a
            character does not belong to SQL.
    """
    position = 0
    # Spark reads the two > of array<array<int>> one by one, and 8 >> 1 as one token.
    open_types = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None and with_placeholders:
            found = _PLACEHOLDER.match(text, position)
        if found is None and with_variables:
            found = _VARIABLE.match(text, position)
        if found is None:
            raise syntax_error(text, position, _stray(text, position))
        group, end = found.lastgroup or "", found.end()
        if group == "comment":
            position = _comment_end(text, position)
            continue
        if group == "hint":
            group = "symbol"
        elif group == "word":
            _check_word(text, position, end)
            open_types += found.group().upper() in ("ARRAY", "MAP", "STRUCT")
        elif found.group() == ">":
            shift = _SHIFT_RIGHT.match(text, position) if open_types == 0 else None
            end = shift.end() if shift is not None else end
            open_types = max(open_types - 1, 0)
        if group != "skip":
            yield Token(_KINDS[group], text[position:end], position, end)
        position = end


def _check_word(text: str, start: int, end: int) -> None:
    word = text[start:end]
    if not word.isascii():
        # Spark refuses such names, too, but takes some letters, such as the long s, for letters of a keyword.
        raise syntax_error(text, start, f"{word} is not a valid name or keyword; write a name such as `{word}` in ` `")
    if word.isalpha() and _URI.match(text, end):
        # One token to Spark, with any -- in it.
        raise syntax_error(text, start, f"the location {word}:// is not a name; a location is written as a string")


def _check_string(text: str, token: Token) -> None:
    if "\\u" not in token.text and "\\U" not in token.text:
        return
    try:
        unescape(token.text)
    except ValueError:
        # Spark replaces it by question marks, and no database can store it.
        reason = "an escape in this string names no character; half of a surrogate pair is not a character"
        raise syntax_error(text, token.start, reason) from None


def _comment_end(text: str, start: int) -> int:
    # Bracketed comments nest, as in Spark; a hint within a comment does not.
    depth, position = 1, start + 2
    while depth:
        edge = _COMMENT_EDGE.search(text, position)
        if edge is None:
            raise syntax_error(text, start, "the comment that begins here has no end")
        depth += 1 if edge.group() == "/*" else -1
        position = edge.end()
    return position


def _stray(text: str, position: int) -> str:
    character = text[position]
    if character in "'\"":
        return "the string that begins here has no end"
    if character == "`":
        return "the quoted name that begins here has no end"
    if character == "$":
        variable = _VARIABLE.match(text, position)
        if variable is not None:
            name = variable.group()[2:-1]
            scoped = name if ":" in name else f"hivevar:{name}"
            return f"the variable ${{{name}}} has no value; SET {scoped} = ... gives it one, or write a :name marker"
        return "$ has no place in a statement; a variable is written ${name}, a parameter :name"
    return f"the character {character!r} has no place in a statement"


def location(text: str, offset: int) -> tuple[int, int]:
    """Return the line and column of a character, both from 1. Lines end as in str.splitlines."""
    lines = f"{text[:offset]}^".splitlines()
    return len(lines), len(lines[-1])


def syntax_error(text: str, offset: int, reason: str) -> StatementSyntaxError:
    """Return the error that points to a character of ``text``."""
    return StatementSyntaxError(reason, *location(text, offset), text)


def unsupported_error(text: str, offset: int, reason: str) -> UnsupportedStatementError:
    """Return the error for SQL that this release does not support."""
    return UnsupportedStatementError(reason, *location(text, offset), text)


class Cursor:
    """A position in the tokens of a statement.

    A method that reads tokens moves the cursor. If the next token is not expected, the method raises
    StatementSyntaxError with the position of the token.
    """

    def __init__(self, text: str, tokens: Sequence[Token], markers: Markers, database: str | None = None) -> None:
        self.text = text
        self.tokens = tokens
        self.markers = markers
        self.database = database
        self.index = 0

    # -- looking ---------------------------------------------------------------

    @property
    def at_end(self) -> bool:
        """Return whether all tokens are read."""
        return self.index >= len(self.tokens)

    def peek(self, ahead: int = 0) -> Token | None:
        """Return the token that is ``ahead`` tokens after the next token, or None after the end of the statement."""
        index = self.index + ahead
        return self.tokens[index] if 0 <= index < len(self.tokens) else None

    def at(self, *words: str) -> bool:
        """Return whether ``words``, given in upper case, come next."""
        return all((token := self.peek(ahead)) is not None and token.word == word for ahead, word in enumerate(words))

    def at_symbol(self, *symbols: str, ahead: int = 0) -> bool:
        """Return whether one of ``symbols`` comes next."""
        token = self.peek(ahead)
        return token is not None and token.is_symbol(*symbols)

    def at_kind(self, *kinds: Kind, ahead: int = 0) -> bool:
        """Return whether a token of one of ``kinds`` comes next."""
        token = self.peek(ahead)
        return token is not None and token.kind in kinds

    # -- reading ---------------------------------------------------------------

    def next(self, what: str) -> Token:
        """Return the next token, of any kind. After the end, the error names ``what`` as the expected text."""
        token = self.peek()
        if token is None:
            raise self.error(f"expected {what}, but the statement ends here")
        self.index += 1
        return token

    def accept(self, *words: str) -> bool:
        """Read ``words`` if they come next, and return True. Otherwise return False."""
        if self.at(*words):
            self.index += len(words)
            return True
        return False

    def accept_one(self, *words: str) -> str | None:
        """Read one of ``words`` if it comes next, and return the word. Otherwise return None."""
        return next((word for word in words if self.accept(word)), None)

    def expect(self, *words: str) -> None:
        """Read ``words``, one after the other."""
        for word in words:
            if not self.accept(word):
                raise self.expected(word)

    def accept_symbol(self, symbol: str) -> bool:
        """Read a symbol if it comes next, and return True. Otherwise return False."""
        if self.at_symbol(symbol):
            self.index += 1
            return True
        return False

    def expect_symbol(self, symbol: str) -> None:
        """Read a symbol."""
        if not self.accept_symbol(symbol):
            raise self.expected(f"'{symbol}'")

    def identifier(self, what: str) -> str:
        """Return a name as written, without its backquotes."""
        if not self.at_kind(Kind.WORD, Kind.QUOTED):
            raise self.expected(what)
        return name_of(self.next(what))

    def name(self, what: str) -> str:
        """Return a name in lower case, the form in which names are compared."""
        token = self.peek()
        name = normalise(self.identifier(what))
        if not name:
            raise self.error(f"{what} is empty", token)
        return name

    def database_name(self) -> PlacedName:
        """Return the name of a database."""
        first = self.peek()
        start = self.offset()
        name = self.name("the name of a database")
        if name == CATALOG and self.accept_symbol("."):
            name = self.name("the name of a database")
        if self.at_symbol("."):
            raise self.unsupported(f"a database has a name of one part; {_ONE_CATALOG}", first)
        return PlacedName(name, self.span_from(start))

    def table_name(self) -> TableName:
        """Return the name in ``[database.]table`` or in ``[database.]table@namespace``."""
        first = self.peek()
        start = self.offset()
        parts = [self.name("the name of a table")]
        while self.accept_symbol("."):
            parts.append(self.name("the name of a table"))
        if len(parts) > 2:
            raise self.unsupported(f"a table is named table or database.table; {_ONE_CATALOG}", first)
        namespace = self.name("the namespace of a link") if self.accept_symbol("@") else None
        return TableName(parts[-1], parts[0] if len(parts) == 2 else None, namespace, self.span_from(start))

    def names(self, what: str) -> tuple[str, ...]:
        """Return the names in ``(name, name, ...)``, which must be different names."""
        self.expect_symbol("(")
        found = tuple(self.different(lambda: self.name(what)))
        self.expect_symbol(")")
        return found

    def different(self, read: Callable[[], str], kind: str = "") -> Iterator[str]:
        """Yield the names of a list ``name ..., name ...``. After each name the caller reads the text up to the comma.

        Raises:
            StatementSyntaxError: the list has a name twice. In the message, ``kind`` stands before the name, for
                example "column ".
        """
        found: set[str] = set()
        while not found or self.accept_symbol(","):
            token = self.peek()
            name = read()
            if name in found:
                raise self.error(f"{kind}{name} is named twice", token)
            found.add(name)
            yield name

    def span_from(self, start: int) -> Span:
        """Return the place that begins at the offset ``start`` and ends with the last token that was read."""
        return Span(start, self.tokens[self.index - 1].end)

    # -- refusing --------------------------------------------------------------

    def offset(self, token: Token | None = None) -> int:
        """Return the offset of ``token``, or by default of the next token; after the end, the last token's end."""
        token = token or self.peek()
        if token is not None:
            return token.start
        return self.tokens[-1].end if self.tokens else 0

    def expected(self, what: str) -> StatementSyntaxError:
        """Return the error that names the expected text, and the text that the cursor has found in its place."""
        token = self.peek()
        found = f"found {token.text}" if token is not None else "but the statement ends here"
        return self.error(f"expected {what}, {found}")

    def error(self, reason: str, token: Token | None = None) -> StatementSyntaxError:
        """Return the error for a text that is not SQL. It points to ``token``, or else to the next token."""
        return syntax_error(self.text, self.offset(token), reason)

    def unsupported(self, reason: str, token: Token | None = None) -> UnsupportedStatementError:
        """Return the error for SQL that is not supported. It points to ``token``, or else to the next token."""
        return unsupported_error(self.text, self.offset(token), reason)


def name_of(token: Token) -> str:
    """Return a name without its backquotes."""
    return token.text[1:-1].replace("``", "`") if token.kind is Kind.QUOTED else token.text


_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([01][0-7]{2})|(.))|(''|\"\")", re.DOTALL)
_CONTROL = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_LAST_CHARACTER = 0x10FFFF


def unescape(token: str) -> str:
    r"""Return the value of a string token. ``token`` includes the quotes.

    A backslash escapes a character, but ``\%`` and ``\_`` stay unchanged for LIKE. A doubled quote is one quote. The
    text in r'...' has no escapes. Source: Spark's SparkParserUtils.unescapeSQLString.

    Raises:
        ValueError: an escape is not a character: half of a surrogate pair, or a number above the last character.
    """
    if token[0] in "rR":
        return token[2:-1]
    quote, body = token[0], token[1:-1]
    if "\\" not in body and quote not in body:
        return body

    def replaced(found: re.Match[str]) -> str:
        short, long, octal, plain, doubled = found.groups()
        if doubled is not None:
            return quote if doubled[0] == quote else doubled
        if plain is not None:
            return _CONTROL.get(plain, plain)
        number = int(octal, 8) if octal else int(short or long, 16)
        if number > _LAST_CHARACTER:
            raise ValueError(found.group())
        return chr(number)

    value = _ESCAPE.sub(replaced, body)
    # Java writes a character beyond the basic plane as two escapes.
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
