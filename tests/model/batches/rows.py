"""Rows of the walk: small tuples instead of Arrow, with the same kind of fingerprint."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import cache

import pyarrow as pa

from oncegate.engine.requests import Rows

# (number of the source row, write within the batch, salt of a nondeterministic plan)
Item = tuple[int, int, str]

SCHEMA = pa.schema([("item", pa.string())])


@cache
def _print_of(item: Item) -> int:
    return int.from_bytes(hashlib.blake2b(repr(item).encode(), digest_size=16).digest(), "little")


def print_of(items: Iterable[Item]) -> bytes:
    """Returns the sum modulo 2^128 of a hash of each item, as a transport computes it from rows."""
    return (sum(map(_print_of, items)) % (1 << 128)).to_bytes(16, "little")


def pack(items: Sequence[Item]) -> Rows:
    """Returns rows as a transport passes them on. Their bytes are JSON, which only the walk reads."""
    data = json.dumps(items).encode()
    return Rows(SCHEMA, [items], len(items), data)


def unpack(data: bytes) -> tuple[Item, ...]:
    return tuple((number, write, salt) for number, write, salt in json.loads(data))


def sha256(rows: Rows) -> bytes:
    return hashlib.sha256(rows.data).digest()


def merged(prints: Iterable[bytes]) -> bytes:
    """Returns the sum that a driver computes from the messages of one task."""
    return (sum(int.from_bytes(one, "little") for one in prints) % (1 << 128)).to_bytes(16, "little")
