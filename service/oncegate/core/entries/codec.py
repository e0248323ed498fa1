"""Encodes and decodes entries in one versioned binary format.

    kind u8 | version u8 | the fields of the class, in order | tagged fields: count u8, then each
                                                               tag u8, u32 length, bytes of its type

    u8, u32, u64   little-endian integers        b16   16 raw bytes
    blob           u32 length, bytes             text  u16 length, UTF-8
    opt            u8 0 for none, else 1 and a blob      blobs   u32 count, blobs
    name           four texts: app, version, topic, write_id
    parts, spans, archives   u32 count, then the fields of each item (`Part`, `Span`, `Archived`)

Tagged fields are in rising order of their tags, each at most once, and only if they differ from their default (as in
Kafka's KIP-482). A reader ignores an unknown tag from 128 on (`fields.INFORMS`) and rejects an entry with an unknown
tag below it. A new fact about an entry is a new tag. Only a fact that no tag can express needs a new version.

Golden files in tests/golden hold one encoding of each kind; a changed byte is a new version.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import Field, astuple, fields
from functools import partial
from itertools import repeat, takewhile
from typing import Any, NamedTuple, get_type_hints

from oncegate.core.entries.fields import INFORMS, Tag
from oncegate.core.entries.kinds import KINDS, Archived, Entry, Name, Part, Span


class EntryError(ValueError):
    """Raised when bytes are not an entry that this program can read."""


INTEGERS = {"u8": struct.Struct("<B"), "u32": struct.Struct("<I"), "u64": struct.Struct("<Q")}
# Types of fixed width, with their `struct` formats without byte order.
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
    # struct pads and truncates raw bytes silently.
    if layout.unpack(raw) != values:
        raise ValueError(f"{values} does not fit {layout.format}")
    return raw


# Encoders of each type; ValueError or struct.error if a value does not fit.
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
    """Reads successive values from `data`, starting at byte `at`. Raises EntryError if a value is truncated or
    invalid."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self._at = at

    def take(self, count: int) -> bytes:
        """Returns the next `count` bytes."""
        end = self._at + count
        if end > len(self._data):
            raise EntryError(f"entry of {len(self._data)} bytes ends inside a field")
        piece = self._data[self._at : end]
        self._at = end
        return piece

    def get(self, of: str) -> Any:
        """Returns the next value, of the type named `of`."""
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
        """Returns the next bytes, which follow their length."""
        return self.take(_U32.unpack(self.take(4))[0])

    def finish(self) -> None:
        """Raises EntryError if unread bytes remain."""
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


VERSION = 2

_TAGGED = struct.Struct("<BI")
_NONE_TAGGED = b"\0"


class EntryVersion(EntryError):
    """Raised when an entry has a different version of the format."""


class _Tagged(NamedTuple):
    """A tagged field: its number, its default if absent, and its encoder."""

    number: int
    name: str
    of: str
    default: Any
    put: Callable[[Any], bytes]


class _Plan(NamedTuple):
    """The encoding plan of an entry kind: the leading fixed-width fields in one step, then the others, then the tagged
    ones.

    raw: indexes of 16 raw bytes among the fixed fields.
    order: the types of all untagged fields.
    """

    head: struct.Struct
    fixed: list[str]
    raw: list[int]
    rest: list[tuple[str, Callable[[Any], bytes]]]
    tagged: list[_Tagged]
    order: list[str]


def _tag(field: Field[Any], metadata: tuple[Any, ...]) -> _Tagged:
    return _Tagged(metadata[1].number, field.name, metadata[0], field.default, PUT[metadata[0]])


def _plan(cls: type[Any]) -> _Plan:
    hints = get_type_hints(cls, include_extras=True)
    described = [(field, hints[field.name].__metadata__) for field in fields(cls)]
    plain = [(field.name, of) for field, (of, *tags) in described if not tags]
    fixed = list(takewhile(lambda field: field[1] in FIXED, plain))
    head = struct.Struct("<BB" + "".join(FIXED[of] for _, of in fixed))
    raw = [index for index, (_, of) in enumerate(fixed) if of == "b16"]
    rest = [(name, PUT[of]) for name, of in plain[len(fixed) :]]
    tagged = [_tag(*field) for field in described if isinstance(field[1][-1], Tag)]
    return _Plan(head, [name for name, _ in fixed], raw, rest, tagged, [of for _, of in plain])


_PLANS: Mapping[int, _Plan] = {kind: _plan(cls) for kind, cls in KINDS.items()}


def encode(entry: Entry) -> bytes:
    """Returns the entry's bytes. Raises ValueError or struct.error if a field does not fit its type."""
    plan = _PLANS[entry.KIND]
    fixed = list(map(getattr, repeat(entry), plan.fixed))
    for index in plan.raw:
        if len(fixed[index]) != 16:
            raise ValueError(f"16 bytes expected, got {len(fixed[index])}")
    pieces, tagged = [plan.head.pack(entry.KIND, VERSION, *fixed)], list[_Tagged]()
    for name, put in plan.rest:
        pieces.append(put(getattr(entry, name)))
    for field in plan.tagged:
        if getattr(entry, field.name) != field.default:
            tagged.append(field)
    pieces.append(_put_tagged(tagged, entry) if tagged else _NONE_TAGGED)
    return b"".join(pieces)


def _put_tagged(tagged: list[_Tagged], entry: Entry) -> bytes:
    pieces = [bytes((len(tagged),))]
    for field in tagged:
        data = field.put(getattr(entry, field.name))
        pieces += [_TAGGED.pack(field.number, len(data)), data]
    return b"".join(pieces)


def decode(data: bytes) -> Entry:
    """Returns the entry in `data`.

    Raises EntryVersion if it is of another version. Raises EntryError if its kind or a tag that changes its meaning is
    unknown, or if it is truncated, too long or not the canonical encoding.
    """
    if len(data) < 2 or data[0] not in KINDS:
        raise EntryError(f"not an entry: starts with {data[:2].hex()}")
    if data[1] != VERSION:
        raise EntryVersion(f"entry of version {data[1]}, but this program reads version {VERSION}")
    plan = _PLANS[data[0]]
    reader = FieldReader(data, 2)
    values = [reader.get(of) for of in plan.order]
    count = reader.take(1)[0]
    tagged = _get_tagged(plan.tagged, count, reader) if count else {}
    reader.finish()
    entry: Entry = KINDS[data[0]](*values, **tagged)
    return entry


def _get_tagged(fields: list[_Tagged], count: int, reader: FieldReader) -> dict[str, Any]:
    last, values = -1, {}
    for _ in range(count):
        number = reader.get("u8")
        if number <= last:
            raise EntryError(f"tag {number} after tag {last}")
        last, data = number, reader.blob()
        field = next((field for field in fields if field.number == number), None)
        if field is not None:
            values[field.name] = _value(field, data)
        elif number < INFORMS:
            raise EntryError(f"unknown tag {number}, which changes the meaning of the entry")
    return values


def _value(field: _Tagged, data: bytes) -> Any:
    reader = FieldReader(data)
    value = reader.get(field.of)
    reader.finish()
    if value == field.default:
        raise EntryError(f"tag {field.number} holds its default and must be absent")
    return value
