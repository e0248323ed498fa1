"""A saved index that is large enough for two threads: loaded, and what is wrong in it found, as by one."""

import os
import struct
import zlib
from collections.abc import Iterator

import msgspec
import numpy as np
import pytest

from oncegate.core.entries import Claimed, Completed
from oncegate.index import gathered, loading, saving
from oncegate.index.claims import ClaimIndex
from oncegate.index.rebuild import rebuild
from tests.index.driver import LEASE_MS, name

SEED = int(os.environ.get("ONCEGATE_SEED", "20240611"))
IDS, BATCH = 2 * gathered.ALONE, 1 << 12
Pieces = dict[str, bytes]


def entries() -> Iterator[tuple[int, Claimed | Completed]]:
    """Claims of random ids, each second one completed."""
    rng = np.random.default_rng(SEED)
    for call in range(IDS // BATCH):
        claim = name(f"claim {call}")
        ids, digests = rng.bytes(16 * BATCH), rng.bytes(4 * BATCH) if call % 3 == 0 else b""
        yield 2 * call + 1, Claimed(claim, name("a"), call, name("?"), LEASE_MS, call, ids, b"", digests)
        if call % 2:
            yield 2 * call + 2, Completed(claim, call)


@pytest.fixture(scope="module")
def index() -> ClaimIndex:
    print(f"ONCEGATE_SEED={SEED}")
    index = ClaimIndex()
    rebuild(entries(), index, 0)
    return index


@pytest.fixture
def pieces(index: ClaimIndex, monkeypatch: pytest.MonkeyPatch) -> Pieces:
    monkeypatch.setattr(saving, "_SLOTS_PER_PIECE", 10_000)
    found = dict(index.save())
    assert sum(piece.startswith("slots/") for piece in found) > 8
    return found


def load(pieces: Pieces) -> ClaimIndex:
    found = ClaimIndex()
    found.load(pieces)
    found.reset_leases(0)
    return found


def test_two_threads_load_what_was_saved(index: ClaimIndex, pieces: Pieces) -> None:
    found = load(pieces)
    assert found.snapshot() == index.snapshot()
    assert (found.ids, found.open_claims) == (index.ids, index.open_claims)
    for of in ("named", "slots", "state"):
        counts = [np.bincount(each._rows.column(of)).tolist() for each in (found, index)]
        assert counts[0] == counts[1], of
    assert found._table.used == IDS
    assert dict(found.save()).keys() == pieces.keys()


def changed(pieces: Pieces, piece: str, at: int, word: int) -> Pieces:
    data = bytearray(pieces[piece])
    struct.pack_into("<I", data, at, word)
    found = {**pieces, piece: bytes(data)}
    found["sums"] = msgspec.json.encode({of: zlib.crc32(raw) for of, raw in found.items() if of != "sums"})
    return found


@pytest.mark.parametrize("place", [0.01, 0.3, 0.49, 0.51, 0.99])
def test_a_slot_of_no_row_is_found_wherever_it_stands(pieces: Pieces, place: float) -> None:
    piece = f"slots/{int(place * sum(piece.startswith('slots/') for piece in pieces))}"
    slot = sum(len(pieces[f"slots/{before}"]) // 16 for before in range(int(piece.removeprefix("slots/"))))
    with pytest.raises(ValueError, match=f"slot {slot + 7} names no row"):
        load(changed(pieces, piece, 16 * 7 + 8, 0))


def test_of_two_slots_that_cannot_be_the_first_is_named(pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> None:
    last = max(int(piece.removeprefix("slots/")) for piece in pieces if piece.startswith("slots/"))
    damaged = changed(changed(pieces, f"slots/{last}", 8, 0), "slots/1", 8, 0)
    first = len(pieces["slots/0"]) // 16
    with pytest.raises(ValueError, match=f"slot {first} names no row"):
        load(damaged)
    monkeypatch.setattr(loading, "ALONE", 1 << 30)
    with pytest.raises(ValueError, match=f"slot {first} names no row"):
        load(damaged)
