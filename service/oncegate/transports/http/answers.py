"""Encodes results as JSON, packed bytes or Arrow, and builds responses that carry the ledger position of each result.

All three encodings of verdicts are derived from the table in `core`.

Packed, little-endian: claim 16 bytes (zeros: none) | lease_ms u32 | n u32 | n verdict bytes | for each verdict that
carries a number, in order: its position u32, number u32.
With `shadow`, in shadow mode, n bytes follow: the verdict that each id would have had.
With `locate` the first occurrences follow, one for each DUPLICATE, in order: n u32 | n topics: u32 length, UTF-8 |
for each DUPLICATE: topic u32, partition u32, offset u64 | n u32 | n results: u32 length, bytes | for each DUPLICATE:
result u32. A topic or result of 2^32 - 1 means unknown.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec
import numpy as np
import pyarrow as pa
from fastapi import Response
from msgspec import UNSET
from numpy.typing import NDArray
from starlette.types import Receive, Scope, Send

from oncegate.core.verdicts import BY_BYTE, Flag, Verdict, VerdictRow
from oncegate.engine.admission import Room
from oncegate.engine.namespace import Namespace
from oncegate.engine.policies.unchecked import Unchecked
from oncegate.engine.requests import ClaimResult, SettleResult
from oncegate.engine.usecases.partitioning import stream
from oncegate.index.claims.results import Located
from oncegate.transports.decode.identifiers import claim_text, mark_text
from oncegate.transports.decode.records import Window, as_dicts, pieces
from oncegate.transports.http import messages
from oncegate.transports.http.int64 import as_texts, of_columns
from oncegate.transports.http.messages.fields import ID_SET
from oncegate.transports.http.parameters import ARROW, JSON, JSON_TEXTS, PACKED
from oncegate.transports.numbers import numbered, numbers_packed

# Encodings of ids in requests and of verdicts in responses.
ENCODINGS = (JSON, PACKED, ARROW)
# Bytes of one verdict as JSON, with its number.
_VERDICT_WEIGHT = 32
_HEAD = struct.Struct("<16sII")
_NO_CLAIM = bytes(16)
_ENCODER = msgspec.json.Encoder()

_IS_DUPLICATE = np.zeros(256, np.bool_)
_IS_DUPLICATE[[byte for byte, row in BY_BYTE.items() if row.verdict is Verdict.DUPLICATE]] = True
_PLACE = np.dtype([("topic", "<u4"), ("partition", "<u4"), ("offset", "<u8")])
# A NumPy scalar: from NumPy 2.5, a Python int that does not fit int32 raises instead of being converted.
_U32, _UNKNOWN = struct.Struct("<I"), np.uint32(0xFFFF_FFFF)
_WITHOUT_NUMBER = bytes(byte for byte, row in BY_BYTE.items() if row.number is None)
# Shared messages of the verdicts that carry no number.
_FIXED = {
    byte: messages.VerdictMessage(**messages.verdict_members(row))
    for byte, row in BY_BYTE.items()
    if row.number is None
}
# Longer lists are written by replacing bytes: building an object for each verdict takes ten times as long.
_FEW = 64
# JSON contains no byte below a space. Each verdict without a number is first mapped to such a byte, and each such byte
# is then replaced by the verdict's text.
_ITEMS = [(bytes((at,)), _ENCODER.encode(message) + b",") for at, message in enumerate(_FIXED.values())]
assert len(_ITEMS) < ord(" ")
_STANDING_IN = bytes.maketrans(_WITHOUT_NUMBER, bytes(range(len(_ITEMS))))


def _head(row: VerdictRow) -> tuple[bytes, bool]:
    text = _ENCODER.encode(messages.VerdictMessage(**messages.verdict_members(row)))
    return (text, True) if row.number is None else (text[:-1] + f',"{row.number}":'.encode(), False)


# For each verdict: its text, or the part before its number, which is the last member; and whether the text is whole.
_HEADS = {byte: _head(row) for byte, row in BY_BYTE.items()}


# Shadow mode grants everything. By (returned verdict byte, verdict byte without shadow mode): the text that names both.
_SHADOWED = {
    (told, would): _ENCODER.encode(
        messages.VerdictMessage(**messages.verdict_members(BY_BYTE[told]), shadow_verdict=row.verdict.name)
    )
    for told in (Verdict.GRANTED, Verdict.GRANTED | Flag.UNCHECKED)
    for would, row in BY_BYTE.items()
}


def _numbered(byte: int, number: int) -> Any:
    row = BY_BYTE[byte]
    return messages.VerdictMessage(**messages.verdict_members(row), **{str(row.number): number})


def verdict_messages(answer: ClaimResult) -> Any:
    """Returns the verdicts for a JSON message: message objects, or `msgspec.Raw` if their text was built directly."""
    verdicts, numbers, located = answer.verdicts, answer.numbers, answer.located
    if answer.shadow is not None:
        pairs = zip(verdicts.tobytes(), answer.shadow.tobytes(), strict=True)
        return msgspec.Raw(b"[" + b",".join(map(_SHADOWED.__getitem__, pairs)) + b"]")
    if located is not None:
        return _with_firsts(verdicts.tobytes(), numbers, located)
    raw = verdicts.tobytes()
    if len(raw) > _FEW:
        return _as_json(raw) if not raw.translate(None, _WITHOUT_NUMBER) else _with_numbers(raw, numbers)
    found = list(map(_FIXED.get, raw))
    if None in found:
        for position in numbered(verdicts).tolist():
            found[position] = _numbered(raw[position], int(numbers[position]))
    return found


def _with_firsts(verdicts: bytes, numbers: NDArray[np.uint32], located: Located) -> list[Any]:
    """Returns one object per verdict, with locations.

    A DUPLICATE has the place of its first occurrence (null if unknown) and that claim's result (absent if unknown).
    Another verdict has a place only if this request wrote the row.
    """
    found = []
    places = zip(located.topic.tolist(), located.partition.tolist(), located.offset.tolist(), strict=True)
    firsts = zip(verdicts, numbers.tolist(), places, located.result.tolist(), strict=True)
    for byte, number, (topic, partition, offset), result in firsts:
        row = BY_BYTE[byte]
        if row.verdict is not Verdict.DUPLICATE and offset < 0:
            found.append(_FIXED[byte] if row.number is None else _numbered(byte, number))
            continue
        place = None if offset < 0 else messages.Place(located.topics[topic], partition, offset)
        members = messages.verdict_members(row) | ({} if result < 0 else {"result": located.results[result]})
        found.append(messages.VerdictMessage(**members, place=place))
    return found


def _with_numbers(verdicts: bytes, numbers: NDArray[np.uint32]) -> msgspec.Raw:
    """Returns a JSON list of verdicts, at least one of which carries a number."""
    texts = [
        head if whole else b"%b%d}" % (head, number)
        for (head, whole), number in zip(map(_HEADS.__getitem__, verdicts), numbers.tolist(), strict=True)
    ]
    return msgspec.Raw(b"[" + b",".join(texts) + b"]")


def _as_json(verdicts: bytes) -> msgspec.Raw:
    """Returns a JSON list of verdicts without numbers."""
    text = verdicts.translate(_STANDING_IN)
    for stand_in, item in _ITEMS:
        text = text.replace(stand_in, item)
    return msgspec.Raw(b"[" + text[:-1] + b"]")


def claim_message(answer: ClaimResult, id_set: str) -> messages.ClaimReply:
    """Converts the result of a claim to a message; `id_set`: the dedup scope of its ids."""
    claim = None if answer.claim is None else claim_text(answer.claim)
    verdicts = verdict_messages(answer)
    return messages.ClaimReply(claim, answer.lease_ms, verdicts, id_set)


def claim_packed(answer: ClaimResult) -> bytes:
    """Encodes the result of a claim as packed bytes; the module's docstring has the format."""
    head = _HEAD.pack(answer.claim or _NO_CLAIM, answer.lease_ms, len(answer.verdicts))
    verdicts = answer.verdicts.astype(np.uint8, copy=False).tobytes()
    shadow = b"" if answer.shadow is None else answer.shadow.tobytes()
    if answer.located is not None:
        firsts = _firsts_packed(answer.verdicts, answer.located)
        return b"".join((head, verdicts, numbers_packed(answer), shadow, *firsts))
    if shadow:
        return head + verdicts + shadow
    if not verdicts.translate(None, _WITHOUT_NUMBER):
        return head + verdicts
    return b"".join((head, verdicts, numbers_packed(answer)))


def _firsts_packed(verdicts: NDArray[np.uint8], located: Located) -> Iterator[bytes]:
    at = np.flatnonzero(_IS_DUPLICATE[verdicts])
    places = np.empty(len(at), _PLACE)
    known = located.offset[at] >= 0
    places["topic"] = np.where(known, located.topic[at], _UNKNOWN)
    places["partition"], places["offset"] = located.partition[at], np.where(known, located.offset[at], 0)
    yield from _listed([topic.encode() for topic in located.topics])
    yield places.tobytes()
    yield from _listed(located.results)
    yield np.where(located.result[at] < 0, _UNKNOWN, located.result[at]).astype("<u4").tobytes()


def _listed(items: Sequence[bytes]) -> Iterator[bytes]:
    yield _U32.pack(len(items))
    for item in items:
        yield _U32.pack(len(item)) + item


def claim_arrow(answer: ClaimResult) -> bytes:
    """Encodes the result of a claim as Arrow: a column for each flag and number that a verdict can have.

    The schema's metadata has the claim id and the lease.
    """
    rows = [BY_BYTE.get(byte) for byte in range(256)]
    of_verdict = answer.verdicts.astype(np.int64)
    columns: dict[str, Any] = {
        "verdict": pa.array(np.array([row.verdict.name if row else "" for row in rows])[of_verdict])
    }
    for flag in (Flag.TAKEOVER, Flag.OWN, Flag.UNCHECKED):
        has = np.array([row is not None and flag in row.flags for row in rows])
        columns[str(flag.name).lower()] = pa.array(has[of_verdict])
    for number in ("of_index", "of_call", "lease_left_ms"):
        absent = np.array([row is None or row.number != number for row in rows])[of_verdict]
        columns[number] = pa.array(answer.numbers, pa.uint32(), mask=absent)
    if answer.shadow is not None:
        columns["shadow_verdict"] = pa.array(
            np.array([row.verdict.name if row else "" for row in rows])[answer.shadow.astype(np.int64)]
        )
    columns |= {} if answer.located is None else _firsts_arrow(answer.located)
    metadata = {"lease_ms": str(answer.lease_ms)} | ({"claim": claim_text(answer.claim)} if answer.claim else {})
    table = pa.table(columns).replace_schema_metadata(metadata)
    return stream(table.schema, table.combine_chunks().to_batches())


def _firsts_arrow(located: Located) -> dict[str, Any]:
    """Returns the columns of the first occurrences; topics and results are dictionary-encoded, unknown ones null."""
    unknown, none = located.offset < 0, located.result < 0
    topics, results = pa.array(located.topics, pa.string()), pa.array(located.results, pa.binary())
    return {
        "topic": pa.DictionaryArray.from_arrays(pa.array(located.topic, mask=unknown), topics),
        "partition": pa.array(located.partition, mask=unknown),
        "offset": pa.array(located.offset.astype(np.uint64), mask=unknown),
        "result": pa.DictionaryArray.from_arrays(pa.array(located.result, mask=none), results),
    }


def settle_json(answer: SettleResult) -> bytes:
    """Encodes the result of renew, complete or release as JSON."""
    state: Any = answer.state.name
    message = messages.SettleReply(claim_text(answer.claim), state, answer.settled, answer.taken_over, answer.lease_ms)
    if answer.result is not None or answer.other_result:
        result = UNSET if answer.result is None else answer.result
        message = msgspec.structs.replace(message, result=result, other_result=answer.other_result)
    if answer.shadow_taken_over:
        message = msgspec.structs.replace(message, shadow_taken_over=answer.shadow_taken_over)
    return encode(message)


def records_json(window: Window, bytes_max: int, with_texts: bool = False) -> tuple[bytes, int]:
    """Encodes fetched rows as JSON, at least one and as many as fit into `bytes_max`; returns the JSON and the next
    offset.

    Binary values become base64; decimals and durations become text, as do 64-bit numbers if `with_texts`.

    Raises:
        NotAcceptable: a time is beyond the year 9999.
    """
    written: list[bytes] = []
    left, change = bytes_max, of_columns(window.schema) if with_texts else None
    for piece in pieces(window):
        rows = [encode(row if change is None else change(row)) for row in as_dicts(piece)]
        sizes = np.cumsum([len(row) + 1 for row in rows])
        fitting = max(int(np.searchsorted(sizes, left, "right")), 0 if written else 1)
        written += rows[:fitting]
        left -= int(sizes[-1])
        if fitting < len(rows):
            break
    following = window.first_offset + len(written)
    shown: Any = msgspec.Raw(b"[" + b",".join(written) + b"]")
    # Converted here, not by `as_texts`: decoding the whole page again would hold the GIL.
    places: Any = map(str if with_texts else int, (window.first_offset, following, window.high_offset))
    return encode(messages.RecordsReply(shown, *places)), following


def encode(message: object) -> bytes:
    """Encodes any message as JSON; bytes become base64, types that JSON lacks become text."""
    return msgspec.json.encode(message, enc_hook=str)


# The encoders of verdicts other than JSON.
RAW = {PACKED: claim_packed, ARROW: claim_arrow}


class Answer(Response):
    """A response with a body and a media type; `lines`: its header fields in wire format."""

    # Reserved in the admission until the response is written.
    room: Room | None = None

    def __init__(self, body: bytes, status: int, media: str, fields: Mapping[str, str], mark: str | None) -> None:
        self.body = body
        self.status_code = status
        self.background = None
        more = "".join([f"{name}: {value}\r\n" for name, value in fields.items()]) if fields else ""
        if mark is not None:
            more += f"oncegate-ledger: {mark}\r\n"
        self.lines = f"content-type: {media}\r\ncontent-length: {len(body)}\r\n{more}".encode("latin-1")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the response and frees the memory reserved for it; the connection then accounts for unread bytes."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.written()

    def written(self) -> None:
        """Frees the memory reserved for the response."""
        if self.room is not None:
            self.room.release()

    @property
    def raw_headers(self) -> list[tuple[bytes, bytes]]:  # type: ignore[override]
        """Returns the header fields as pairs, for responses sent by the framework."""
        pairs = (line.partition(b": ") for line in self.lines.splitlines())
        return [(name.lower(), value) for name, _, value in pairs]


def json_reply(
    message: object, media: str = JSON, status: int = 200, serving: Namespace | Unchecked | None = None
) -> Response:
    """Returns a JSON response in the media type `media`; with `serving`, it carries the ledger position."""
    body = encode(message)
    return reply(body if media == JSON else as_texts(body, type(message)), media, serving, status=status)


def reply(
    body: bytes,
    media: str,
    serving: Namespace | Unchecked | None,
    headers: Mapping[str, str] | None = None,
    status: int = 200,
    room: Room | None = None,
) -> Response:
    """Returns a response with the given body; with `serving`, it carries the last durable position of its ledger.

    `room`: reserved for the response, released once it is written.
    """
    answer = Answer(body, status, media, headers or {}, None if serving is None else mark_text(serving.mark))
    answer.room = room
    return answer


def answer_weight(answer: ClaimResult) -> int:
    """Returns the estimated size of the encoded verdicts in bytes."""
    return len(answer.verdicts) * _VERDICT_WEIGHT


def verdicts_reply(
    answer: ClaimResult,
    media: str,
    serving: Namespace | Unchecked,
    id_set: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Returns a response with one verdict per id, or per sequence if `id_set` is None, encoded as `media`."""
    if media == JSON:
        return reply(_ENCODER.encode(claim_message(answer, id_set or "")), media, serving, headers)
    if media == JSON_TEXTS:
        return json_reply(claim_message(answer, id_set or ""), media, serving=serving)
    named = {} if id_set is None else {ID_SET: quote(id_set, safe="")}
    return reply(RAW[media](answer), media, serving, {**named, **(headers or {})})
