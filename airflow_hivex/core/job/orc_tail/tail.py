"""The tail of an ORC file: its metadata, footer and postscript, which follow the stripes.

Source: https://orc.apache.org/specification/ORCv1, "File Tail"; orc_proto.proto of Apache ORC.
"""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from airflow_hivex.core.errors import JobError
from airflow_hivex.core.job.orc_tail.codecs import Compression, compress, compression, decompress
from airflow_hivex.core.job.orc_tail.wire import Message
from airflow_hivex.core.job.storage import Place

MAGIC = b"ORC"

_FIRST_READ = 64 * 1024
_DEFAULT_BLOCK_SIZE = 256 * 1024

_PS_FOOTER_LENGTH, _PS_COMPRESSION, _PS_BLOCK_SIZE, _PS_VERSION, _PS_METADATA_LENGTH = range(1, 6)
_PS_WRITER_VERSION, _PS_ENCRYPTED_STATISTICS_LENGTH, _PS_MAGIC = 6, 7, 8000
_FOOTER_LENGTH = 2
_FOOTER_STRIPE, _FOOTER_TYPE, _FOOTER_USER_METADATA, _FOOTER_ROWS, _FOOTER_STATISTICS = 3, 4, 5, 6, 7
_FOOTER_STRIDE, _FOOTER_ENCRYPTION, _FOOTER_CALENDAR = 8, 10, 11
JULIAN_GREGORIAN = 1
"""The number of the calendar in which days before 1582-10-15 are days of the Julian calendar."""
_ITEM_NAME, _ITEM_VALUE = 1, 2
_STRIPE_OFFSET, _STRIPE_INDEX, _STRIPE_DATA, _STRIPE_FOOTER, _STRIPE_ROWS = range(1, 6)
_METADATA_STRIPE_STATISTICS = 1
_STRIPE_STATISTICS_COLUMN = 1


@dataclass(frozen=True, slots=True)
class Stripe:
    """The place of a stripe in its file, and the number of its rows."""

    offset: int
    size_bytes: int
    rows: int


@dataclass(frozen=True, slots=True)
class Tail:
    """The tail of a file; ``data_length`` is the number of bytes before the tail."""

    postscript: Message
    footer: Message
    metadata: Message
    data_length: int

    @property
    def compression(self) -> Compression:
        """Return the compression of the file."""
        return compression(self.postscript.number(_PS_COMPRESSION))

    @property
    def block_size(self) -> int:
        """Return the greatest number of bytes that are compressed as one chunk."""
        return self.postscript.number(_PS_BLOCK_SIZE, _DEFAULT_BLOCK_SIZE)

    @property
    def row_index_stride(self) -> int:
        """Return the number of rows for each entry in the indexes."""
        return self.footer.number(_FOOTER_STRIDE)

    @property
    def form(self) -> dict[str, object]:
        """Return the attributes of the file that readers need for its stripes, as a dict from name to value."""
        return {
            "compression": self.compression,
            "ORC version": self.postscript.numbers(_PS_VERSION),
            "row index stride": self.row_index_stride,
            # Readers take this calendar, too, if none is given (orc.proleptic.gregorian.default).
            "calendar": self.footer.number(_FOOTER_CALENDAR) or JULIAN_GREGORIAN,
        }

    @property
    def writer_version(self) -> int:
        """Return the version of the writer. Readers need it to work around known faults of this version."""
        return self.postscript.number(_PS_WRITER_VERSION)

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return self.footer.number(_FOOTER_ROWS)

    @property
    def types(self) -> list[Message]:
        """Return the types of all columns, the root first, in pre-order."""
        return self.footer.messages(_FOOTER_TYPE)

    @property
    def statistics(self) -> list[Message]:
        """Return the statistics of all columns, or an empty list if the file has none."""
        return self.footer.messages(_FOOTER_STATISTICS)

    @property
    def stripe_statistics(self) -> list[list[Message]]:
        """Return the statistics of all columns for each stripe, or an empty list if the file has none."""
        found = self.metadata.messages(_METADATA_STRIPE_STATISTICS)
        return [stripe.messages(_STRIPE_STATISTICS_COLUMN) for stripe in found]

    @property
    def stripes(self) -> tuple[Stripe, ...]:
        """Return the stripes in their order."""
        return tuple(
            Stripe(
                stripe.number(_STRIPE_OFFSET),
                sum(map(stripe.number, (_STRIPE_INDEX, _STRIPE_DATA, _STRIPE_FOOTER))),
                stripe.number(_STRIPE_ROWS),
            )
            for stripe in self.footer.messages(_FOOTER_STRIPE)
        )

    @property
    def user_metadata(self) -> dict[str, bytes]:
        """Return a dict from key to value of the metadata that writers have added."""
        items = self.footer.messages(_FOOTER_USER_METADATA)
        return {item.data(_ITEM_NAME).decode(): item.data(_ITEM_VALUE) for item in items}

    def part(self, first: int, end: int) -> Tail:
        """Return the tail of a file that has only the stripes from ``first`` to before ``end``.

        The statistics of the columns still cover all stripes.
        """
        chosen = self.footer.messages(_FOOTER_STRIPE)[first:end]
        shift = chosen[0].number(_STRIPE_OFFSET) - len(MAGIC)
        moved = [stripe.replaced(_STRIPE_OFFSET, [stripe.number(_STRIPE_OFFSET) - shift]) for stripe in chosen]
        last = self.stripes[end - 1]
        length = last.offset + last.size_bytes - shift
        statistics = self.metadata.all(_METADATA_STRIPE_STATISTICS)[first:end]
        footer = self.footer.replaced(_FOOTER_STRIPE, moved).replaced(_FOOTER_LENGTH, [length])
        return Tail(
            self.postscript,
            footer.replaced(_FOOTER_ROWS, [sum(stripe.number(_STRIPE_ROWS) for stripe in chosen)]),
            self.metadata.replaced(_METADATA_STRIPE_STATISTICS, statistics),
            length,
        )

    def described_as(self, other: Tail) -> Tail:
        """Return this tail with the types and the calendar of another tail."""
        calendar = other.footer.numbers(_FOOTER_CALENDAR)
        return replace(self, footer=self.footer.replaced(_FOOTER_CALENDAR, calendar)).with_types(other.types)

    def with_types(self, types: Sequence[Message]) -> Tail:
        """Return the tail with these types."""
        return replace(self, footer=self.footer.replaced(_FOOTER_TYPE, types))

    def with_statistics(self, statistics: Sequence[Message]) -> Tail:
        """Return the tail with these statistics of the columns."""
        return replace(self, footer=self.footer.replaced(_FOOTER_STATISTICS, statistics))

    def with_stripe_statistics(self, stripes: Sequence[Sequence[Message]]) -> Tail:
        """Return the tail with these statistics of the columns in each stripe."""
        found = self.metadata.messages(_METADATA_STRIPE_STATISTICS)
        per_stripe = [
            stripe.replaced(_STRIPE_STATISTICS_COLUMN, columns) for stripe, columns in zip(found, stripes, strict=True)
        ]
        return replace(self, metadata=self.metadata.replaced(_METADATA_STRIPE_STATISTICS, per_stripe))

    def followed_by(self, others: Sequence[Tail]) -> Tail:
        """Return the tail of a file whose own stripes are followed by the stripes of other files.

        The statistics of the columns stay those of this tail. The statistics of the stripes are omitted if one of the
        files lacks them.
        """
        tails = [self, *others]
        stripes: list[Message] = []
        length = len(MAGIC)
        for tail in tails:
            shift = length - len(MAGIC)
            stripes.extend(
                stripe.replaced(_STRIPE_OFFSET, [stripe.number(_STRIPE_OFFSET) + shift])
                for stripe in tail.footer.messages(_FOOTER_STRIPE)
            )
            length += tail.data_length - len(MAGIC)
        statistics = [tail.metadata.all(_METADATA_STRIPE_STATISTICS) for tail in tails]
        are_complete = all(len(each) == len(tail.stripes) for each, tail in zip(statistics, tails, strict=True))
        footer = self.footer.replaced(_FOOTER_STRIPE, stripes).replaced(_FOOTER_LENGTH, [length])
        return Tail(
            self.postscript.replaced(_PS_BLOCK_SIZE, [max(tail.block_size for tail in tails)]).replaced(
                _PS_WRITER_VERSION, [min(tail.writer_version for tail in tails)]
            ),
            footer.replaced(_FOOTER_ROWS, [sum(tail.rows for tail in tails)]),
            self.metadata.replaced(
                _METADATA_STRIPE_STATISTICS, chain.from_iterable(statistics) if are_complete else []
            ),
            length,
        )

    def with_user_metadata(self, metadata: Mapping[str, bytes]) -> Tail:
        """Return the tail with some metadata keys added or replaced."""
        items = [
            Message().replaced(_ITEM_NAME, [name.encode()]).replaced(_ITEM_VALUE, [value])
            for name, value in {**self.user_metadata, **metadata}.items()
        ]
        return replace(self, footer=self.footer.replaced(_FOOTER_USER_METADATA, items))

    def __bytes__(self) -> bytes:
        metadata, footer = (
            compress(bytes(part), self.compression, self.block_size) for part in (self.metadata, self.footer)
        )
        postscript = bytes(
            self.postscript.replaced(_PS_FOOTER_LENGTH, [len(footer)]).replaced(_PS_METADATA_LENGTH, [len(metadata)])
        )
        return metadata + footer + postscript + bytes([len(postscript)])


def read_tail(file: Place) -> Tail:
    """Return the tail of a file, from one read of the file's end, or two reads if the tail is long.

    Raises:
        JobError: the file cannot be read, is truncated or encrypted, or is not an ORC file.
    """
    with as_job_error(file), file.open() as data:
        size = data.size()
        end = _end(data, size, min(size, _FIRST_READ))
        if end[-1:] == b"" or size <= len(MAGIC):
            raise ValueError("it is too short")
        postscript_length = end[-1]
        if 1 + postscript_length > len(end):
            raise ValueError("it is cut off")
        postscript = Message.parse(end[-1 - postscript_length : -1])
        if postscript.data(_PS_MAGIC) != MAGIC:
            raise ValueError("it does not end as an ORC file does")
        footer_length = postscript.number(_PS_FOOTER_LENGTH)
        metadata_length = postscript.number(_PS_METADATA_LENGTH)
        tail_length = metadata_length + footer_length + postscript_length + 1
        if tail_length > size - len(MAGIC):
            raise ValueError("it is cut off")
        if tail_length > len(end):
            end = _end(data, size, tail_length)
        kind = compression(postscript.number(_PS_COMPRESSION))
        at = len(end) - tail_length
        metadata, footer = (
            Message.parse(decompress(end[start : start + length], kind))
            for start, length in ((at, metadata_length), (at + metadata_length, footer_length))
        )
        if postscript.number(_PS_ENCRYPTED_STATISTICS_LENGTH) or footer.has(_FOOTER_ENCRYPTION):
            raise ValueError("some of its columns are encrypted")
        tail = Tail(postscript, footer, metadata, size - tail_length)
        if any(stripe.offset + stripe.size_bytes > tail.data_length for stripe in tail.stripes):
            raise ValueError("its stripes are cut off")
        return tail


def _end(data: Any, size: int, length: int) -> bytes:
    data.seek(size - length)
    end: bytes = data.read(length)
    return end


@contextmanager
def as_job_error(file: Place, doing: str = "read") -> Iterator[None]:
    """Turn an error of the block, which reads or writes a file, into a JobError that names the file."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise JobError("", f"{file.path} cannot be {doing}: {error}") from error
    except (ValueError, zlib.error) as error:
        raise JobError("", f"{file.path} cannot be {doing} as an ORC file: {error}") from error


_PIECE = 8 * 1024 * 1024


def replace_tail(source: Place, target: Place, tail: Tail) -> int:
    """Write the file with a new tail to ``target``; return its size in bytes.

    In a local file system the file is changed in its place and then moved. In other file systems the file is copied.
    """
    with as_job_error(source, "rewritten"):
        if isinstance(source.filesystem, pafs.LocalFileSystem) and isinstance(target.filesystem, pafs.LocalFileSystem):
            return _edit(Path(source.path), Path(target.path), tail)
        return _copy(source, target, tail)


def _edit(source: Path, target: Path, tail: Tail) -> int:
    end = bytes(tail)
    with source.open("r+b") as file:
        file.seek(tail.data_length)
        file.write(end)
        file.truncate()
    for file_path in (source, target):
        # Hadoop's checksums, which belong to the earlier content of the file.
        file_path.with_name(f".{file_path.name}.crc").unlink(missing_ok=True)
    if source != target:
        shutil.move(source, target)
    return tail.data_length + len(end)


def _copy(source: Place, target: Place, tail: Tail) -> int:
    end = bytes(tail)
    try:
        with source.open() as data, target.filesystem.open_output_stream(target.path) as out:
            copy_bytes(data, out, 0, tail.data_length)
            out.write(end)
    except BaseException:
        if target.exists():
            target.filesystem.delete_file(target.path)
        raise
    return tail.data_length + len(end)


def copy_bytes(data: Any, out: Any, start: int, end: int) -> None:
    """Copy a range of an open file, piece by piece.

    Raises:
        ValueError: the file has become shorter.
    """
    data.seek(start)
    left = end - start
    while left:
        piece = data.read(min(left, _PIECE))
        if not piece:
            raise ValueError("it was cut off while it was read")
        out.write(piece)
        left -= len(piece)
