"""Compressed parts of an ORC file: chunks, each with a header of three bytes.

Source: https://orc.apache.org/specification/ORCv1, "Compression".
"""

from __future__ import annotations

import enum
import zlib
from collections.abc import Iterator

import pyarrow as pa

_HEADER = 3
_MOST_IN_CHUNK = (1 << 23) - 1
_RAW_DEFLATE = -15


class Compression(enum.Enum):
    """The compressions of files, with ORC's numbers."""

    NONE = 0
    ZLIB = 1
    SNAPPY = 2
    LZO = 3
    LZ4 = 4
    ZSTD = 5
    BROTLI = 6


_READABLE = (Compression.NONE, Compression.ZLIB, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD)


def compression(number: int) -> Compression:
    """Return the compression of this number.

    Raises:
        ValueError: the compression is not supported.
    """
    known = {kind.value: kind for kind in Compression}
    if number not in known:
        raise ValueError(f"its compression has the unknown number {number}")
    if known[number] not in _READABLE:
        readable = ", ".join(kind.name.lower() for kind in _READABLE)
        raise ValueError(f"it is compressed with {known[number].name.lower()}; {readable} can be read")
    return known[number]


def decompress(data: bytes, kind: Compression) -> bytes:
    """Return the decompressed bytes.

    Raises:
        ValueError: the data is damaged. For some damages pyarrow and zlib raise their own errors.
    """
    if kind is Compression.NONE:
        return data
    return b"".join(chunk if is_original else _decompress(chunk, kind) for chunk, is_original in _chunks(data))


def _chunks(data: bytes) -> Iterator[tuple[bytes, bool]]:
    at = 0
    while at < len(data):
        header = int.from_bytes(data[at : at + _HEADER], "little")
        at += _HEADER
        size = header >> 1
        if at + size > len(data):
            raise ValueError("a compressed chunk is cut off")
        yield data[at : at + size], bool(header & 1)
        at += size


def _decompress(chunk: bytes, kind: Compression) -> bytes:
    if kind is Compression.ZLIB:
        return zlib.decompress(chunk, _RAW_DEFLATE)
    if kind is Compression.ZSTD:
        data: bytes = pa.CompressedInputStream(pa.BufferReader(chunk), "zstd").read()
        return data
    # The other codecs of pyarrow need the exact size, which a chunk's header does not have.
    if kind is Compression.SNAPPY:
        return _with_size(chunk, "snappy", _snappy_size(chunk))
    return _with_size(chunk, "lz4_raw", _lz4_size(chunk))


def _with_size(chunk: bytes, codec: str, size: int) -> bytes:
    data: bytes = pa.Codec(codec).decompress(chunk, size, asbytes=True)
    return data


def _snappy_size(chunk: bytes) -> int:
    """Return the decompressed size of a Snappy block, which is at the beginning of the block."""
    size = 0
    for at, byte in enumerate(chunk[:5]):
        size |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            return size
    raise ValueError("a chunk is not compressed with snappy")


def _lz4_size(chunk: bytes) -> int:
    """Return the decompressed size of an LZ4 block, the sum of its literals and matches.

    Source: https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md.
    """
    size = at = 0
    while at < len(chunk):
        token = chunk[at]
        literals, at = _lz4_length(chunk, at + 1, token >> 4)
        size += literals
        at += literals
        if at >= len(chunk):
            break  # the last sequence has no match
        match, at = _lz4_length(chunk, at + 2, token & 15)
        size += match + 4
    return size


def _lz4_length(chunk: bytes, at: int, length: int) -> tuple[int, int]:
    if length == 15:
        while True:
            if at >= len(chunk):
                raise ValueError("a chunk is not compressed with lz4")
            byte = chunk[at]
            at += 1
            length += byte
            if byte != 255:
                break
    return length, at


def compress(data: bytes, kind: Compression, block_size: int) -> bytes:
    """Return the data in chunks of at most ``block_size`` bytes.

    Chunks that do not become smaller stay uncompressed.
    """
    if kind is Compression.NONE:
        return data
    step = min(max(block_size, 1), _MOST_IN_CHUNK)
    out = bytearray()
    for start in range(0, len(data), step):
        block = data[start : start + step]
        chunk = _compress(block, kind)
        is_original = len(chunk) >= len(block)
        if is_original:
            chunk = block
        out += (len(chunk) << 1 | is_original).to_bytes(_HEADER, "little") + chunk
    return bytes(out)


def _compress(block: bytes, kind: Compression) -> bytes:
    if kind is Compression.ZLIB:
        deflate = zlib.compressobj(wbits=_RAW_DEFLATE)
        return deflate.compress(block) + deflate.flush()
    codec = {Compression.ZSTD: "zstd", Compression.SNAPPY: "snappy", Compression.LZ4: "lz4_raw"}[kind]
    data: bytes = pa.Codec(codec).compress(block, asbytes=True)
    return data
