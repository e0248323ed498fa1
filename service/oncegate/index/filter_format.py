"""The bytes of a saved filter: format, kind, whatever its kind says about it, its bits, all under a CRC-32."""

import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

VERSION = 1
_MAGIC = b"ONCEBLM\0"
_HEAD = struct.Struct("<8sII")  # magic, version, bytes of JSON
_CRC = struct.Struct("<I")


def packed(kind: str, head: Mapping[str, Any], bits: bytes | memoryview) -> bytes:
    """`head`: what JSON can hold; function and library by name and version."""
    text = json.dumps({"kind": kind, **head}).encode()
    start = _HEAD.pack(_MAGIC, VERSION, len(text)) + text
    return b"".join([start, bits, _CRC.pack(zlib.crc32(bits, zlib.crc32(start)))])


def unpacked(data: bytes | memoryview) -> tuple[str, dict[str, Any], memoryview] | None:
    """Kind, head and bits; None: damaged, or of another version."""
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
