"""The bytes of entries: one versioned format, the only file that knows it.

    kind u8 | version u8 | the fields of the class, in order

    u8, u32, u64   little-endian integers        b16   16 raw bytes
    blob           u32 length, bytes             text  u16 length, UTF-8
    opt            u8 0 for none, else 1 and a blob      blobs   u32 count, blobs
    name           four texts: app, version, topic, write_id
    parts, spans, archives   u32 count, then each one's fields (`Part`, `Span`, `Archived`)

Golden files in tests/golden hold one encoding of each kind; a changed byte is a new version.
"""

import struct
from collections.abc import Callable
from dataclasses import astuple, fields
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple, get_type_hints

from oncegate.core.entries.kinds import KINDS, Archived, Entry, Name, Part, Span

VERSION = 1


class EntryError(ValueError):
    """Says that these bytes are no entry of a version this program knows."""


_INT = {"u8": struct.Struct("<B"), "u32": struct.Struct("<I"), "u64": struct.Struct("<Q")}
_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_NAME_PARTS = [field.name for field in fields(Name)]
_LISTED: dict[str, type[Any]] = {"parts": Part, "spans": Span, "archives": Archived}


def _layout(cls: type[Any]) -> list[tuple[str, str]]:
    hints = get_type_hints(cls, include_extras=True)
    return [(field.name, hints[field.name].__metadata__[0]) for field in fields(cls)]


_LAYOUTS = {kind: _layout(cls) for kind, cls in KINDS.items()}


def encode(entry: Entry) -> bytes:
    """Returns the entry's bytes; ValueError or struct.error when a field does not fit its type."""
    plan = _PLANS[entry.KIND]
    fixed = [getattr(entry, name) for name in plan.fixed]
    for place in plan.raw:
        _check_b16(fixed[place])
    head = plan.head.pack(entry.KIND, VERSION, *fixed)
    return b"".join((head, *[put(getattr(entry, name)) for name, put in plan.rest]))


def _check_b16(value: bytes) -> None:
    """Refuses other lengths, for struct pads and cuts raw bytes without a word."""
    if len(value) != 16:
        raise ValueError(f"16 bytes expected, got {len(value)}")


def _put_b16(value: bytes) -> bytes:
    _check_b16(value)
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


_PUT: dict[str, Callable[[Any], bytes]] = {
    **{kind: layout.pack for kind, layout in _INT.items()},
    **{kind: partial(_put_listed, cls.LAYOUT) for kind, cls in _LISTED.items()},
    "b16": _put_b16,
    "text": _put_text,
    "name": _put_name,
    "opt": _put_opt,
    "blob": _put_blob,
    "blobs": _put_blobs,
}
_FIXED = {"b16": "16s", **{kind: layout.format.lstrip("<") for kind, layout in _INT.items()}}


class _Plan(NamedTuple):
    """Says how a kind is written: its first fields, as long as their width is fixed, in one go, then each of the
    others.

    `raw`: places of 16 raw bytes among the fixed ones.
    """

    head: struct.Struct
    fixed: list[str]
    raw: list[int]
    rest: list[tuple[str, Callable[[Any], bytes]]]


def _plan(layout: list[tuple[str, str]]) -> _Plan:
    fixed = list(takewhile(lambda field: field[1] in _FIXED, layout))
    head = struct.Struct("<BB" + "".join(_FIXED[of] for _, of in fixed))
    raw = [place for place, (_, of) in enumerate(fixed) if of == "b16"]
    return _Plan(head, [name for name, _ in fixed], raw, [(name, _PUT[of]) for name, of in layout[len(fixed) :]])


_PLANS = {kind: _plan(layout) for kind, layout in _LAYOUTS.items()}


def _packed(layout: struct.Struct, values: tuple[Any, ...]) -> bytes:
    raw = layout.pack(*values)
    # struct pads and cuts raw bytes without a word.
    if layout.unpack(raw) != values:
        raise ValueError(f"{values} does not fit {layout.format}")
    return raw


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 2

    def take(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._data):
            raise EntryError(f"entry of {len(self._data)} bytes ends inside a field")
        piece = self._data[self._at : end]
        self._at = end
        return piece

    def get(self, kind: str) -> Any:
        if kind in _INT:
            return _INT[kind].unpack(self.take(_INT[kind].size))[0]
        if kind == "b16":
            return self.take(16)
        if kind == "text":
            return self.take(_U16.unpack(self.take(2))[0]).decode()
        if kind == "name":
            return Name(*(self.get("text") for _ in _NAME_PARTS))
        if kind in _LISTED:
            return self._listed(_LISTED[kind])
        if kind == "opt":
            return self._optional(self.take(1))
        if kind == "blobs":
            return tuple(self.get("blob") for _ in range(_U32.unpack(self.take(4))[0]))
        return self.take(_U32.unpack(self.take(4))[0])

    def _listed(self, cls: type[Any]) -> Any:
        count = _U32.unpack(self.take(4))[0]
        return tuple(cls(*cls.LAYOUT.unpack(self.take(cls.LAYOUT.size))) for _ in range(count))

    def _optional(self, flag: bytes) -> Any:
        if flag not in (b"\0", b"\1"):
            raise EntryError(f"neither none nor a value: {flag.hex()}")
        return None if flag == b"\0" else self.get("blob")

    def finish(self) -> None:
        if self._at != len(self._data):
            raise EntryError(f"{len(self._data) - self._at} bytes left over")


def decode(data: bytes) -> Entry:
    """Returns the entry in `data`; EntryError when it is of an unknown kind or version, cut short or too long."""
    if len(data) < 2 or data[0] not in KINDS or data[1] != VERSION:
        raise EntryError(f"no entry of version {VERSION}: {data[:2].hex()}")
    reader = _Reader(data)
    try:
        values = [reader.get(kind) for _, kind in _LAYOUTS[data[0]]]
    except UnicodeDecodeError as error:
        raise EntryError("a text field is not UTF-8") from error
    reader.finish()
    entry: Entry = KINDS[data[0]](*values)
    return entry
