"""Compresses record batches with zstd or lz4, using cramjam, which aiokafka also uses to read them.

Format: the bytes after a batch's header become one zstd frame or one LZ4 frame. The LZ4 blocks are independent, since
Kafka's Java reader refuses linked ones (KIP-57).
"""

from collections.abc import Callable, Sequence
from typing import Literal

import cramjam

from oncegate.ledgers.kafka.record_batch import RecordBatch

Compression = Literal["none", "lz4", "zstd"]
# Higher levels double the time per encoded record and save a twentieth of its bytes.
_LEVEL = 1


def _lz4(section: memoryview) -> bytes:
    compressor = cramjam.lz4.Compressor(level=_LEVEL, content_checksum=False, block_linked=False)
    compressor.compress(bytes(section))  # does not accept a memoryview
    return bytes(compressor.finish())


def _zstd(section: memoryview) -> bytes:
    return bytes(cramjam.zstd.compress(section, level=_LEVEL))


# Kafka's codec number, as in a batch's attributes, and the compressor.
_CODECS: dict[str, tuple[int, Callable[[memoryview], bytes]]] = {"lz4": (3, _lz4), "zstd": (4, _zstd)}


def compressed(batches: Sequence[RecordBatch], compression: Compression) -> list[RecordBatch]:
    """Compresses each batch, except those that compression would not make smaller.
    Raises ValueError: unknown compression.
    """
    if compression == "none":
        return list(batches)
    if compression not in _CODECS:
        raise ValueError(f"no compression {compression!r}: there are none, {', '.join(_CODECS)}")
    return [batch.compressed(*_CODECS[compression]) for batch in batches]
