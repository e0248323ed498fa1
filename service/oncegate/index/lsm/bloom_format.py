"""Defines the bytes of a saved filter: format, kind, the kind's own head, and its bits, all under a CRC-32."""

import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

VERSION = 1
_MAGIC = b"ONCEBLM\0"
_HEAD = struct.Struct("<8sII")  # magic, version, bytes of JSON
_CRC = struct.Struct("<I")
# Copying or checksumming a hundred megabytes at once would block other threads of the interpreter.
PIECE_BYTES = 1 << 20


def packed(kind: str, head: Mapping[str, Any], bits: bytes | memoryview) -> Iterator[bytes]:
    """Yields the filter in pieces. The bits must not change before the last one.

    head: JSON values, including function and library by name and version.
    """
    text = json.dumps({"kind": kind, **head}).encode()
    start = _HEAD.pack(_MAGIC, VERSION, len(text)) + text
    yield start
    crc = zlib.crc32(start)
    for at in range(0, len(bits), PIECE_BYTES):
        piece = bytes(bits[at : at + PIECE_BYTES])
        crc = zlib.crc32(piece, crc)
        yield piece
    yield _CRC.pack(crc)


def unpacked(data: bytes | memoryview) -> tuple[str, dict[str, Any], memoryview] | None:
    """Returns kind, head and bits; None if the bytes are damaged or have a different version."""
    view = memoryview(data)
    end = len(view) - _CRC.size
    if end < _HEAD.size or _CRC.unpack(view[end:])[0] != zlib.crc32(view[:end]):
        return None
    magic, version, length = _HEAD.unpack(view[: _HEAD.size])
    if magic != _MAGIC or version != VERSION:
        return None
    bits = _HEAD.size + length
    head: dict[str, Any] = json.loads(bytes(view[_HEAD.size : bits]))
    return head.pop("kind"), head, view[bits:end]
