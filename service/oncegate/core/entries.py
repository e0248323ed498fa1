"""The ledger's entries and their bytes: one versioned format, the only file that knows it.

    kind u8 | version u8 | the fields of the class, in order

    u8, u32, u64   little-endian integers        b16   16 raw bytes
    blob           u32 length, bytes             text  u16 length, UTF-8
    opt            u8 0 for none, else 1 and a blob      blobs   u32 count, blobs
    name           four texts: app, version, topic, write_id

Golden files in tests/golden hold one encoding of each kind; a changed byte is a new version.
"""

import struct
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, get_type_hints

U8 = Annotated[int, "u8"]
U32 = Annotated[int, "u32"]
U64 = Annotated[int, "u64"]
B16 = Annotated[bytes, "b16"]
Blob = Annotated[bytes, "blob"]
Text = Annotated[str, "text"]
Opt = Annotated[bytes | None, "opt"]
Blobs = Annotated[tuple[bytes, ...], "blobs"]

VERSION = 1


class EntryError(ValueError):
    """These bytes are no entry of a version this program knows."""


@dataclass(frozen=True, slots=True)
class Name:
    """The name of a batch; `write_id` is empty unless one batch writes twice to the topic."""

    app: str
    version: str
    topic: str
    write_id: str = ""


Named = Annotated[Name, "name"]


@dataclass(frozen=True, slots=True)
class Opened:
    """An owner opened the ledger: the first entry of its epoch. `key_check` tells one namespace key from another."""

    KIND: ClassVar[int] = 1
    epoch: U64
    fingerprint_function: U8
    key_check: B16
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class Claimed:
    """`fresh` and `taken` are fingerprints, 16 bytes each: nobody held those, and a lease had run out on these."""

    KIND: ClassVar[int] = 2
    claim: B16
    token: B16
    call: U32
    digest: B16
    lease_ms: U32
    wall_ms: U64
    fresh: Blob
    taken: Blob


@dataclass(frozen=True, slots=True)
class Completed:
    KIND: ClassVar[int] = 3
    claim: B16
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class Released:
    KIND: ClassVar[int] = 4
    claim: B16
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """`schema` is the topic's Arrow schema in IPC form."""

    KIND: ClassVar[int] = 5
    topic: Text
    schema: Blob
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class Produced:
    KIND: ClassVar[int] = 6
    topic: Text
    token: B16
    call: U32
    first_offset: U64
    rows: U32
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class Staged:
    """One chunk of one attempt. `range_id` names its bytes in the ledger's outputs."""

    KIND: ClassVar[int] = 7
    name: Named
    owner: Text
    token: B16
    chunk: U32
    sha256: Blob
    rows: U32
    size_bytes: U32
    fingerprint: B16
    schema: Blob
    range_id: B16
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class Dropped:
    """Stages removed before any commit: aborted by their writer, or given up by their owner."""

    KIND: ClassVar[int] = 8
    name: Named
    tokens: Blobs
    why: Text
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class Committed:
    """All rows of the winners, at `first_offset` of the topic; every other stage of the name is dropped."""

    KIND: ClassVar[int] = 9
    name: Named
    run: Opt
    nonce: B16
    winners: Blobs
    digest: Opt
    fingerprint: B16
    rows: U64
    first_offset: U64
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class Asked:
    """A later commit of a committed name: durable before its answer, so that a second write is known as one."""

    KIND: ClassVar[int] = 10
    name: Named
    run: Opt
    nonce: B16
    outcome: Text
    rows: U64
    rows_equal: U8
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class Probe:
    """Written to find out whether a full ledger has room again; means nothing."""

    KIND: ClassVar[int] = 11
    wall_ms: U64


Entry = Opened | Claimed | Completed | Released | TopicCreated | Produced | Staged | Dropped | Committed | Asked | Probe
KINDS: dict[int, type[Any]] = {
    cls.KIND: cls
    for cls in (
        Opened,
        Claimed,
        Completed,
        Released,
        TopicCreated,
        Produced,
        Staged,
        Dropped,
        Committed,
        Asked,
        Probe,
    )
}

_INT = {"u8": struct.Struct("<B"), "u32": struct.Struct("<I"), "u64": struct.Struct("<Q")}
_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_NAME_PARTS = [field.name for field in fields(Name)]


def _layout(cls: type[Any]) -> list[tuple[str, str]]:
    hints = get_type_hints(cls, include_extras=True)
    return [(field.name, hints[field.name].__metadata__[0]) for field in fields(cls)]


_LAYOUTS = {kind: _layout(cls) for kind, cls in KINDS.items()}


def encode(entry: Entry) -> bytes:
    """The entry's bytes; ValueError or struct.error when a field does not fit its type."""
    parts = [bytes((entry.KIND, VERSION))]
    for name, kind in _LAYOUTS[entry.KIND]:
        parts.append(_put(kind, getattr(entry, name)))
    return b"".join(parts)


def _put(kind: str, value: Any) -> bytes:
    if kind in _INT:
        packed: bytes = _INT[kind].pack(value)
        return packed
    if kind == "b16":
        if len(value) != 16:
            raise ValueError(f"16 bytes expected, got {len(value)}")
        return bytes(value)
    if kind == "text":
        raw: bytes = value.encode()
        return _U16.pack(len(raw)) + raw
    if kind == "name":
        return b"".join(_put("text", getattr(value, part)) for part in _NAME_PARTS)
    if kind == "opt":
        return b"\0" if value is None else b"\1" + _put("blob", value)
    if kind == "blobs":
        return _U32.pack(len(value)) + b"".join(_put("blob", item) for item in value)
    return _U32.pack(len(value)) + bytes(value)


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
        if kind == "opt":
            return self._optional(self.take(1))
        if kind == "blobs":
            return tuple(self.get("blob") for _ in range(_U32.unpack(self.take(4))[0]))
        return self.take(_U32.unpack(self.take(4))[0])

    def _optional(self, flag: bytes) -> Any:
        if flag not in (b"\0", b"\1"):
            raise EntryError(f"neither none nor a value: {flag.hex()}")
        return None if flag == b"\0" else self.get("blob")

    def finish(self) -> None:
        if self._at != len(self._data):
            raise EntryError(f"{len(self._data) - self._at} bytes left over")


def decode(data: bytes) -> Entry:
    """The entry in `data`; EntryError when it is of an unknown kind or version, cut short or too long."""
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
