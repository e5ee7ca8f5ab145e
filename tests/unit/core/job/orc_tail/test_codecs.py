from __future__ import annotations

from random import Random

import pytest

from airflow_hivex.core.job.orc_tail.codecs import Compression, compress, compression, decompress

CODECS = [kind for kind in Compression if kind not in (Compression.LZO, Compression.BROTLI)]
DATA = {
    "nothing": b"",
    "one byte": b"a",
    "runs": b"a" * 70_000 + b"b" * 300,
    "text": b"".join(b"column_%d," % at for at in range(5_000)),
    "noise": Random(1).randbytes(10_000),
    "both": b"abc" * 1_000 + Random(2).randbytes(3_000) + b"x" * 5_000,
}


@pytest.mark.parametrize("kind", CODECS)
@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
@pytest.mark.parametrize("block_size", [1, 1_000, 262_144, 1 << 30])
def test_what_is_compressed_can_be_read(kind: Compression, data: bytes, block_size: int) -> None:
    data = data[:300] if block_size == 1 else data
    assert decompress(compress(data, kind, block_size), kind) == data


@pytest.mark.parametrize(("number", "reason"), [(3, "lzo"), (6, "brotli"), (99, "unknown number 99")])
def test_other_compressions_are_named(number: int, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        compression(number)
