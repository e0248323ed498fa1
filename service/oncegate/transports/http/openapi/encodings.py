"""The bytes of packed bodies, claim ids and fingerprints: tables for programs (`x-oncegate`), words beside them.

A client that sends and reads packed bodies alone can be made from these tables; `tests/contract` makes one.
"""

from typing import Any

from oncegate.core.verdicts import BY_BYTE, VERDICT_MASK, Flag
from oncegate.transports.decode.identifiers import ALPHABET, CLAIM_CHARS, claim_text
from oncegate.transports.decode.ids import PACKED_ID_BYTES

# In a parameter of the document: the media types of the bodies that it is for; absent: all, and none.
BODIES = "x-oncegate-bodies"
# Where the tables stand in the document.
TABLES = "x-oncegate"

_EXAMPLE = bytes(range(1, 17))
_NUMBERS = {
    "of_index": "the place, from 0, of the same id earlier in this request",
    "of_call": "the earlier call of this attempt that holds the id",
    "lease_left_ms": "how long the holder's lease still runs, in milliseconds; 0: ask again at once",
}


def _verdicts() -> list[dict[str, Any]]:
    return [
        {
            "byte": byte,
            "verdict": row.verdict.name,
            "flags": [str(flag.name).lower() for flag in Flag if flag in row.flags],
            "number": row.number,
            "may_write": row.may_write,
            "meaning": row.meaning,
        }
        for byte, row in sorted(BY_BYTE.items())
    ]


def _field(name: str, kind: str, size: str | int, meaning: str) -> dict[str, Any]:
    return {"field": name, "type": kind, "bytes": size, "meaning": meaning}


_ANSWER = [
    _field("claim", "bytes", 16, "the claim's id; all zeros: nothing was granted, or this call makes no claim"),
    _field("lease_ms", "u32", 4, "how long the claim is held, from the answer on"),
    _field("count", "u32", 4, "how many verdicts follow: as many as ids, rows or sequences were sent"),
    _field("verdicts", "u8", "count", "one byte each, in the order sent; `verdicts` says what it means"),
    _field("numbers", "u32 u32", "8 for each verdict with a number", "place of the verdict, from 0, and its number"),
]
_REQUESTS = {
    "ids": f"{PACKED_ID_BYTES} bytes an id, any value: a UUID's bytes, or a hash of what is not so long",
    "ids_with_payloads": "with Oncegate-Payloads: 1: 16 bytes of id and 16 bytes of payload, for each",
    "sequences": "8 bytes each, unsigned, strictly increasing",
}


def tables() -> dict[str, Any]:
    """Returns the tables as plain values; all numbers in bodies are little-endian."""
    return {
        "byte_order": "little",
        "verdict_mask": VERDICT_MASK,
        "verdicts": _verdicts(),
        "numbers": _NUMBERS,
        "packed_requests": _REQUESTS,
        "packed_answer": _ANSWER,
        "claim_id": {
            "bytes": 16,
            "characters": CLAIM_CHARS,
            "alphabet": ALPHABET,
            "bits_a_character": 5,
            "byte_order": "big",
            "example": {"bytes": _EXAMPLE.hex(), "text": claim_text(_EXAMPLE)},
        },
        "fingerprint": {"bytes": 16, "byte_order": "little", "add": "modulo 2^128"},
    }


def _row(item: dict[str, Any]) -> str:
    named = ", ".join([item["verdict"], *item["flags"]])
    return f"| 0x{item['byte']:02x} | {named} | {item['number'] or ''} | {item['meaning']} |"


_ROWS = "\n".join(map(_row, _verdicts()))
_LAYOUT = "\n".join(f"| {part['field']} | {part['type']} | {part['bytes']} | {part['meaning']} |" for part in _ANSWER)

TEXT = f"""\
## Packed bodies

`application/vnd.oncegate.packed` has no text in it. All that a program needs to read and write it stands in this
document's member `{TABLES}`, and here in words. Numbers in bodies are unsigned and little-endian. What JSON has as
members of the request, packed and Arrow bodies have as headers: each such parameter has `{BODIES}`, the media types
of the bodies it is for, and `x-oncegate-required` where those bodies need it. It is refused beside any other body. A
parameter without `{BODIES}` is for every body, and for requests that have none.

A request of ids is {PACKED_ID_BYTES} bytes an id, whatever they are: a client hashes what is not so long, or sends a
UUID's bytes. With `Oncegate-Payloads: 1` each id is followed by 16 bytes of payload. A request of sequences is 8 bytes
each, strictly increasing.

The answer, in this order:

| field | type | bytes | what it is |
|---|---|---|---|
{_LAYOUT}

A verdict is one byte: the low four bits say which, the high ones qualify it. 0 is never sent, and a byte that is not
in this table is no answer.

| byte | verdict | its number | what to do |
|---|---|---|---|
{_ROWS}

The number is, for `of_index`, {_NUMBERS["of_index"]}; for `of_call`, {_NUMBERS["of_call"]}; for
`lease_left_ms`, {_NUMBERS["lease_left_ms"]}.

A claim's 16 bytes become its id, as paths have it, as ULID writes them: the bytes are one number, most significant
byte first; its lowest 130 bits (two leading zeros) are cut into {CLAIM_CHARS} groups of five, highest first, and each
is a character of `{ALPHABET}`. The bytes {_EXAMPLE.hex()} are `{claim_text(_EXAMPLE)}`.

## Named batches

1. Each task stages its rows in chunks, `batches:stage`, under one token and the batch's name: chunk 0, 1, 2, …, each
   an Arrow stream with its SHA-256 as `Content-Digest`. The answer has the number of `rows` and their `fingerprint`.
2. The task adds them up: `rows` are added, and `fingerprint`s too, each read as one number of 16 bytes, least
   significant first, modulo 2^128. "01" and 30 zeros plus "ff" and 30 zeros is "0001" and 28 zeros. A fingerprint says
   nothing of the order of rows, nor of how they were cut into chunks.
3. The driver commits: `winners` are the tokens whose rows are the batch, each with its number of chunks, and these two
   sums. All of it is published, or nothing.

`digest` is the SHA-256 of what the batch was made from, by the caller's rule, the same at every run of this batch: the
gateway compares it and knows nothing else of it. When a name is committed again, equal digests are a replay and
DUPLICATE, whatever its rows; different ones are BATCH_CONFLICT. `reads_digest` is a second one, of what the batch
reads: where it is the same although `digest` is not, as in Spark after a checkpoint was restored, it is a replay too.
`previous_digest` is the digest of the batch before, `version` less one, as the caller knows it: where the gateway has
committed that one with another, this caller's history is not the gateway's, and the commit is BATCH_CONFLICT. Each may
be null: not known, not compared. Then the rows are: the same number and fingerprint is DUPLICATE, any other
BATCH_CONFLICT, unless `on_replay_mismatch` is `first_wins`: the caller says that a replay may differ and that what was
published first stays, and is told DUPLICATE. It never settles two digests that differ. `nonce` is drawn for each
commit: its repeats after a lost answer keep it.

A `version` that is a number (digits, no leading zero, 19 at most) has an order within its app, topic and write_id, as
in Delta Lake: where a higher one is committed, a lower one that is not is answered DUPLICATE with `higher_version`, and
nothing of it is written. Any other text has no order: `2026-11-19` may be committed after `2026-11-20`. The batches of
a query, which bring their `run` or a `previous_digest`, are numbered by Spark and have no such order.
"""
