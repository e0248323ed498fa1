"""Compresses the records of batches with zstd or lz4, by cramjam, which is what aiokafka reads them with.

Format: what stands behind a batch's head becomes one zstd frame, or one LZ4 frame of blocks that are independent of one
another, since Kafka's Java reader refuses dependent ones (KIP-57).
"""

from collections.abc import Callable, Sequence
from typing import Literal

import cramjam

from oncegate.ledgers.kafka.record_batch import RecordBatch

Compression = Literal["none", "lz4", "zstd"]
# Higher levels take twice the time of an encoded record for a twentieth of its bytes.
_LEVEL = 1


def _lz4(section: memoryview) -> bytes:
    compressor = cramjam.lz4.Compressor(level=_LEVEL, content_checksum=False, block_linked=False)
    compressor.compress(bytes(section))  # it takes no view
    return bytes(compressor.finish())


def _zstd(section: memoryview) -> bytes:
    return bytes(cramjam.zstd.compress(section, level=_LEVEL))


# Kafka's number of each, which stands in a batch's attributes.
_CODECS: dict[str, tuple[int, Callable[[memoryview], bytes]]] = {"lz4": (3, _lz4), "zstd": (4, _zstd)}


def compressed(batches: Sequence[RecordBatch], compression: Compression) -> list[RecordBatch]:
    """Returns the batches with their records compressed; one that would not become smaller stays as it is.

    ValueError: there is no such compression.
    """
    if compression == "none":
        return list(batches)
    if compression not in _CODECS:
        raise ValueError(f"no compression {compression!r}: there are none, {', '.join(_CODECS)}")
    return [batch.compressed(*_CODECS[compression]) for batch in batches]
