"""The bytes of entries: one versioned format. What stands in a field is `values`'.

    kind u8 | version u8 | the fields of the class, in order | tagged fields: count u8, then each
                                                               tag u8, u32 length, bytes of its type

    u8, u32, u64   little-endian integers        b16   16 raw bytes
    blob           u32 length, bytes             text  u16 length, UTF-8
    opt            u8 0 for none, else 1 and a blob      blobs   u32 count, blobs
    name           four texts: app, version, topic, write_id
    parts, spans, archives   u32 count, then each one's fields (`Part`, `Span`, `Archived`)

Tagged fields come in rising order of their tags, each once, and only where they differ from their default (as in
Kafka's KIP-482). A tag that this program does not know is passed over from 128 on (`fields.INFORMS`), and below it
the entry is refused. A new fact about an entry is a new tag; only what cannot be said so is a new version.

Golden files in tests/golden hold one encoding of each kind; a changed byte is a new version.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import Field, fields
from itertools import repeat, takewhile
from typing import Any, NamedTuple, get_type_hints

from oncegate.core.entries.fields import INFORMS, Tag
from oncegate.core.entries.kinds import KINDS, Entry
from oncegate.core.entries.values import FIXED, PUT, EntryError, FieldReader

VERSION = 2

_TAGGED = struct.Struct("<BI")
_NONE_TAGGED = b"\0"


class EntryVersion(EntryError):
    """Says that this is an entry of another version of the format."""


class _Tagged(NamedTuple):
    """A tagged field: what stands in the entry without it, and how it is written."""

    number: int
    name: str
    of: str
    default: Any
    put: Callable[[Any], bytes]


class _Plan(NamedTuple):
    """Says how a kind is written: its first fields, as long as their width is fixed, in one go, then each of the
    others, then those with a tag.

    `raw`: places of 16 raw bytes among the fixed ones. `order`: the types of all fields without a tag.
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
    """Returns the entry's bytes; ValueError or struct.error when a field does not fit its type."""
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


def _put_tagged(said: list[_Tagged], entry: Entry) -> bytes:
    pieces = [bytes((len(said),))]
    for field in said:
        data = field.put(getattr(entry, field.name))
        pieces += [_TAGGED.pack(field.number, len(data)), data]
    return b"".join(pieces)


def decode(data: bytes) -> Entry:
    """Returns the entry in `data`.

    Raises EntryVersion when it is of another version; EntryError when its kind, or a tag that changes its meaning, is
    unknown, or when it is cut short, too long, or not the one encoding of its entry."""
    if len(data) < 2 or data[0] not in KINDS:
        raise EntryError(f"no entry: {data[:2].hex()}")
    if data[1] != VERSION:
        raise EntryVersion(f"no entry of version {VERSION}: it is of version {data[1]}")
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
            raise EntryError(f"tag {number} behind tag {last}")
        last, data = number, reader.blob()
        field = next((field for field in fields if field.number == number), None)
        if field is not None:
            values[field.name] = _value(field, data)
        elif number < INFORMS:
            raise EntryError(f"unknown tag {number}: it changes what the entry means")
    return values


def _value(field: _Tagged, data: bytes) -> Any:
    reader = FieldReader(data)
    value = reader.get(field.of)
    reader.finish()
    if value == field.default:
        raise EntryError(f"tag {field.number} says what is meant without it")
    return value
