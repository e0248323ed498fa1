"""A snapshot that is large enough for two threads: it is loaded, and its errors found, as by one thread."""

import os
import struct
import zlib
from collections.abc import Iterator

import msgspec
import numpy as np
import pytest

from oncegate.core.entries.kinds import Claimed, Completed
from oncegate.index.claims import snapshot as claims_snapshot
from oncegate.index.claims.replay import replay
from oncegate.index.claims.snapshot import ClaimsReader, restore, snapshot
from oncegate.index.table import bulk_insert
from tests.support.index.claim_index import ClaimIndex
from tests.support.index.driver import LEASE_MS, name

SEED = int(os.environ.get("ONCEGATE_SEED", "20240611"))
IDS, BATCH = 2 * bulk_insert.ALONE, 1 << 12
Pieces = dict[str, bytes]


def entries() -> Iterator[tuple[int, Claimed | Completed]]:
    """Yields claims of random ids, every second one completed."""
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
    replay(entries(), index.store, 0)
    return index


@pytest.fixture
def pieces(index: ClaimIndex, monkeypatch: pytest.MonkeyPatch) -> Pieces:
    monkeypatch.setattr(claims_snapshot, "_SLOTS_PER_PIECE", 10_000)
    found = dict(snapshot(index.store))
    assert sum(piece.startswith("slots/") for piece in found) > 8
    return found


def load(pieces: Pieces) -> ClaimIndex:
    found = ClaimIndex()
    restore(found.store, pieces)
    found.reset_leases(0)
    return found


def test_two_threads_load_what_was_saved(index: ClaimIndex, pieces: Pieces) -> None:
    found = load(pieces)
    assert found.contents() == index.contents()
    assert (found.ids, found.open_claims) == (index.ids, index.open_claims)
    for of in ("named", "slots", "state"):
        counts = [np.bincount(each.store.rows.column(of)).tolist() for each in (found, index)]
        assert counts[0] == counts[1], of
    assert found.store.table.used == IDS
    assert dict(snapshot(found.store)).keys() == pieces.keys()


def summed(pieces: Pieces) -> Pieces:
    """Returns the pieces with their own checksums."""
    found = {of: raw for of, raw in pieces.items() if of != "sums"}
    return found | {"sums": msgspec.json.encode({of: zlib.crc32(raw) for of, raw in found.items()})}


def changed(pieces: Pieces, piece: str, at: int, word: int) -> Pieces:
    data = bytearray(pieces[piece])
    struct.pack_into("<I", data, at, word)
    return summed({**pieces, piece: bytes(data)})


def test_a_last_piece_without_slots_changes_nothing(index: ClaimIndex, pieces: Pieces) -> None:
    whole = {piece: data for piece, data in pieces.items() if data}
    count = sum(piece.startswith("slots/") for piece in whole)
    assert load(summed({**whole, f"slots/{count}": b""})).contents() == index.contents()


@pytest.mark.parametrize("place", [0.01, 0.3, 0.49, 0.51, 0.99])
def test_a_slot_without_a_row_is_found_wherever_it_is(pieces: Pieces, place: float) -> None:
    piece = f"slots/{int(place * sum(piece.startswith('slots/') for piece in pieces))}"
    slot = sum(len(pieces[f"slots/{before}"]) // 16 for before in range(int(piece.removeprefix("slots/"))))
    with pytest.raises(ValueError, match=f"slot {slot + 7} names an impossible row"):
        load(changed(pieces, piece, 16 * 7 + 8, 0))


def test_of_two_slots_that_cannot_be_the_first_is_named(pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> None:
    last = max(int(piece.removeprefix("slots/")) for piece in pieces if piece.startswith("slots/"))
    damaged = changed(changed(pieces, f"slots/{last}", 8, 0), "slots/1", 8, 0)
    first = len(pieces["slots/0"]) // 16
    with pytest.raises(ValueError, match=f"slot {first} names an impossible row"):
        load(damaged)
    monkeypatch.setattr(claims_snapshot, "ALONE", 1 << 30)
    with pytest.raises(ValueError, match=f"slot {first} names an impossible row"):
        load(damaged)


def load_piecewise(pieces: Pieces) -> ClaimIndex:
    """Loads pieces one by one, as a start does."""
    found = ClaimIndex()
    loader = ClaimsReader(found.store)
    for piece, data in pieces.items():
        loader.take(piece, data)
    loader.finish()
    found.reset_leases(0)
    return found


def test_pieces_are_loaded_as_they_come(index: ClaimIndex, pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims_snapshot, "BATCH_IDS", IDS // 2)
    assert load_piecewise(pieces).contents() == index.contents()


@pytest.mark.parametrize("piece", ["head", "topics", "rows/0", "slots/0", "slots/5", "digests/2", "sums"])
def test_damage_is_found_when_all_sums_are_there_at_the_latest(pieces: Pieces, piece: str) -> None:
    data = pieces[piece]
    for at in range(0, len(data), 1 + len(data) // 20):
        flipped = data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]
        with pytest.raises(ValueError, match=r"."):
            load_piecewise(pieces | {piece: flipped})


@pytest.mark.parametrize("piece", ["head", "rows/0", "slots/0", "slots/5", "digests/2", "sums"])
def test_a_piece_that_does_not_come_is_missed(pieces: Pieces, piece: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        load_piecewise({name: data for name, data in pieces.items() if name != piece})


def test_a_piece_before_its_turn_is_refused(pieces: Pieces) -> None:
    first, second = pieces["slots/0"], pieces["slots/1"]
    loader = ClaimsReader(ClaimIndex().store)
    for piece in ("head", "topics", "rows/0"):
        loader.take(piece, pieces[piece])
    with pytest.raises(ValueError, match="unexpected piece: slots/1"):
        loader.take("slots/1", second)
    with pytest.raises(ValueError, match="no head"):
        ClaimsReader(ClaimIndex().store).take("slots/0", first)
