"""The bytes of an entry's fields, one by one: how each type of `fields` is written and read. The types: see `codec`."""

import struct
from collections.abc import Callable
from dataclasses import astuple, fields
from functools import partial
from typing import Any

from oncegate.core.entries.kinds import Archived, Name, Part, Span


class EntryError(ValueError):
    """Says that these bytes are no entry that this program can read."""


INTEGERS = {"u8": struct.Struct("<B"), "u32": struct.Struct("<I"), "u64": struct.Struct("<Q")}
# Types of a fixed width, as `struct` names them without the byte order.
FIXED = {"b16": "16s", **{of: layout.format.lstrip("<") for of, layout in INTEGERS.items()}}
_U16 = struct.Struct("<H")
_U32 = INTEGERS["u32"]
_NAME_PARTS = [field.name for field in fields(Name)]
_LISTED: dict[str, type[Any]] = {"parts": Part, "spans": Span, "archives": Archived}


def _put_b16(value: bytes) -> bytes:
    if len(value) != 16:
        raise ValueError(f"16 bytes expected, got {len(value)}")
    return bytes(value)


def _put_text(value: str) -> bytes:
    raw = value.encode()
    return _U16.pack(len(raw)) + raw


def _put_name(value: Name) -> bytes:
    return b"".join(_put_text(getattr(value, part)) for part in _NAME_PARTS)


def _put_blob(value: bytes) -> bytes:
    return _U32.pack(len(value)) + value


def _put_opt(value: bytes | None) -> bytes:
    return b"\0" if value is None else b"\1" + _put_blob(value)


def _put_blobs(value: tuple[bytes, ...]) -> bytes:
    return _U32.pack(len(value)) + b"".join(map(_put_blob, value))


def _put_listed(layout: struct.Struct, value: tuple[Any, ...]) -> bytes:
    return _U32.pack(len(value)) + b"".join(_packed(layout, astuple(item)) for item in value)


def _packed(layout: struct.Struct, values: tuple[Any, ...]) -> bytes:
    raw = layout.pack(*values)
    # struct pads and cuts raw bytes without a word.
    if layout.unpack(raw) != values:
        raise ValueError(f"{values} does not fit {layout.format}")
    return raw


# How a value of each type becomes bytes; ValueError or struct.error when it does not fit.
PUT: dict[str, Callable[[Any], bytes]] = {
    **{of: layout.pack for of, layout in INTEGERS.items()},
    **{of: partial(_put_listed, cls.LAYOUT) for of, cls in _LISTED.items()},
    "b16": _put_b16,
    "text": _put_text,
    "name": _put_name,
    "opt": _put_opt,
    "blob": _put_blob,
    "blobs": _put_blobs,
}


class FieldReader:
    """Reads the values in `data` one after the other, from byte `at` on; EntryError when one is cut or none."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self._at = at

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        end = self._at + count
        if end > len(self._data):
            raise EntryError(f"entry of {len(self._data)} bytes ends inside a field")
        piece = self._data[self._at : end]
        self._at = end
        return piece

    def get(self, of: str) -> Any:
        """The next value, of the type named `of`."""
        if of in INTEGERS:
            return INTEGERS[of].unpack(self.take(INTEGERS[of].size))[0]
        if of == "b16":
            return self.take(16)
        if of == "text":
            return self._text()
        if of == "name":
            return Name(*(self._text() for _ in _NAME_PARTS))
        if of in _LISTED:
            return self._listed(_LISTED[of])
        if of == "opt":
            return self._optional(self.take(1))
        if of == "blobs":
            return tuple(self.blob() for _ in range(_U32.unpack(self.take(4))[0]))
        return self.blob()

    def blob(self) -> bytes:
        """The next bytes whose length stands before them."""
        return self.take(_U32.unpack(self.take(4))[0])

    def finish(self) -> None:
        """Refuses bytes that are left over."""
        if self._at != len(self._data):
            raise EntryError(f"{len(self._data) - self._at} bytes left over")

    def _text(self) -> str:
        try:
            return self.take(_U16.unpack(self.take(2))[0]).decode()
        except UnicodeDecodeError as error:
            raise EntryError("a text field is not UTF-8") from error

    def _listed(self, cls: type[Any]) -> Any:
        count = _U32.unpack(self.take(4))[0]
        return tuple(cls(*cls.LAYOUT.unpack(self.take(cls.LAYOUT.size))) for _ in range(count))

    def _optional(self, flag: bytes) -> Any:
        if flag not in (b"\0", b"\1"):
            raise EntryError(f"neither none nor a value: {flag.hex()}")
        return None if flag == b"\0" else self.blob()
