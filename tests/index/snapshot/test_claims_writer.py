"""A restored snapshot answers like the saved index; a damaged or inconsistent one is refused."""

import os
import random
import struct
import zlib
from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from oncegate.index.claims import snapshot as claims_snapshot
from oncegate.index.claims.snapshot import snapshot
from oncegate.index.claims.store import Widths
from tests.support.index.claim_index import ClaimIndex
from tests.support.index.driver import LEASE_MS, NARROW, Driver
from tests.support.index.snapshots import Pieces, loaded
from tests.support.index.verbs import VerbDriver
from tests.support.index.walks import Walk, answers

SEED = int(os.environ.get("ONCEGATE_SEED", "20240611"))
all_widths = pytest.mark.parametrize("widths", [Widths(capacity=8, segments=2), NARROW], ids=["wide", "narrow"])


@all_widths
def test_a_saved_index_answers_like_the_living_one(widths: Widths) -> None:
    """Pending changes count as applied; leases restart in both."""
    print(f"ONCEGATE_SEED={SEED}")
    for seed in range(SEED, SEED + 20):
        walk = Walk(widths, random.Random(seed))
        for _ in range(60):
            walk.step()
        copy = loaded(dict(snapshot(walk.index.store)), widths, walk.now_ms)
        walk.index.reset_leases(walk.now_ms)
        asked = (walk.calls, walk.claims, walk.now_ms)
        assert answers(copy, *asked) == answers(walk.index, *asked), f"seed {seed}"
        assert copy.wall_ms == walk.index.wall_ms


@all_widths
def test_both_go_on_alike(widths: Widths) -> None:
    print(f"ONCEGATE_SEED={SEED}")
    for seed in range(SEED, SEED + 10):
        walk = Walk(widths, random.Random(seed))
        for _ in range(40):
            walk.step()
        copy, was = loaded(dict(snapshot(walk.index.store)), widths, walk.now_ms), len(walk.entries)
        walk.all_durable()
        walk.index.reset_leases(walk.now_ms)
        for _ in range(30):
            walk.step()
            walk.all_durable()
            for position, entry in walk.entries[was:]:
                copy.settle(copy.apply(position, entry, walk.now_ms))
            was = len(walk.entries)
        copy.sweep(walk.now_ms)
        asked = (walk.calls, walk.claims, walk.now_ms)
        assert answers(copy, *asked) == answers(walk.index, *asked), f"seed {seed}"


def test_changes_undone_after_the_saving_are_undone_in_place() -> None:
    print(f"ONCEGATE_SEED={SEED}")
    for seed in range(SEED, SEED + 10):
        walk = Walk(NARROW, random.Random(seed))
        for _ in range(40):
            walk.step()
        walk.all_durable()
        before = answers(walk.index, walk.calls, walk.claims, walk.now_ms)
        answer = walk.does("claim", "z", 1, range(100, 104), settled=False)
        dict(snapshot(walk.index.store))
        assert answer.undo is not None
        walk.undo(answer.undo)
        assert answers(walk.index, walk.calls, walk.claims, walk.now_ms) == before


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
def test_pieces_know_nothing_of_segments_and_are_many(monkeypatch: pytest.MonkeyPatch, compiled: bool) -> None:
    monkeypatch.setattr(claims_snapshot, "_ROWS_PER_PIECE", 3)
    monkeypatch.setattr(claims_snapshot, "_SLOTS_PER_PIECE", 5)
    walk = Walk(Widths(tag_bits=16, row_bits=8, capacity=8, segments=8), random.Random(SEED), compiled)
    for _ in range(80):
        walk.step()
    pieces = dict(snapshot(walk.index.store))
    assert sum(name.startswith("rows/") for name in pieces) > 2
    assert sum(name.startswith("slots/") for name in pieces) > 2
    walk.index.reset_leases(walk.now_ms)
    asked = (walk.calls, walk.claims, walk.now_ms)
    for segments in (1, 2, 16):
        copy = loaded(pieces, Widths(16, 8, 4, segments), walk.now_ms, compiled)
        assert answers(copy, *asked) == answers(walk.index, *asked)
        pieces = dict(snapshot(copy.store))


def test_an_empty_index_is_saved_and_loaded() -> None:
    assert loaded(dict(snapshot(ClaimIndex().store)), Widths()).contents() == {}


def test_what_holds_nothing_and_cannot_be_named_is_left_out() -> None:
    driver = Driver()
    for call in range(100):
        driver.release(driver.claim("a", call, range(1_000)).claim)
    driver.complete(driver.claim("b", 1, [1, 2]).claim)
    driver.now_ms += 3 * LEASE_MS
    driver.index.make_room(1, driver.now_ms)
    driver.index.make_room(1, driver.now_ms)
    assert sum(len(data) for data in dict(snapshot(driver.index.store)).values()) < 1_000


def small() -> VerbDriver:
    """Returns an index with a claim of three ids, one of them taken over, with rows in a topic, and with taken ids."""
    driver = VerbDriver(NARROW)
    driver.claim("a", 1, [1, 2, 3])
    driver.now_ms += LEASE_MS
    driver.claim("b", 1, [3, 4])
    driver.does("produce", "c", 1, [5, 6])
    driver.does("take", "d", 1, [7])
    return driver


@pytest.mark.parametrize("name", ["head", "topics", "rows/0", "slots/0", "sums"])
def test_a_piece_that_is_damaged_cut_or_missing_is_refused(name: str) -> None:
    whole = dict(snapshot(small().index.store))
    for at in range(0, len(whole[name]), 7):
        flipped = bytearray(whole[name])
        flipped[at] ^= 0x10
        with pytest.raises(ValueError, match=r"."):
            loaded(whole | {name: bytes(flipped)}, NARROW)
        with pytest.raises(ValueError, match=r"."):
            loaded(whole | {name: whole[name][:at]}, NARROW)
    with pytest.raises(ValueError, match=r"."):
        loaded({other: data for other, data in whole.items() if other != name}, NARROW)


def changed(pieces: Pieces, name: str, change: Callable[[bytearray], bytearray | None]) -> Pieces:
    """Returns the pieces with one changed, and checksums to match."""
    data = bytearray(pieces[name])
    data = change(data) or data
    found = {**pieces, name: bytes(data)}
    del found["sums"]
    return found | {"sums": msgspec.json.encode({piece: zlib.crc32(raw) for piece, raw in found.items()})}


def put(at: int, layout: str, value: int) -> Callable[[bytearray], None]:
    return lambda data: struct.pack_into(layout, data, at, value)


ROWS = 5
# After the tokens (16 bytes a row) and calls (4) come the states.
STATES = 20 * ROWS
INCONSISTENT: dict[str, tuple[str, Callable[[bytearray], bytearray | None], str]] = {
    "another version": ("head", put(0, "<I", 9), "version 9"),
    "other tags": ("head", put(4, "<I", 64), "tags of 64 bits"),
    "too many rows": ("head", put(8, "<Q", 256), "256 saved rows"),
    "rows missing": ("head", put(8, "<Q", ROWS + 1), "5 rows instead of 6"),
    "rows to spare": ("head", put(8, "<Q", ROWS - 1), "does not fit 4 rows"),
    "slots missing": ("head", put(16, "<Q", 8), "7 slots instead of 8"),
    "open claims": ("head", put(32, "<Q", 7), "2 open claims instead of 7"),
    "topics that are none": ("topics", lambda data: bytearray(b"[1]"), "list of names"),
    "no such topic": ("topics", lambda data: bytearray(b"[]"), "topic is unknown"),
    "a row's state": ("rows/0", put(STATES, "<B", 9), "state is unknown"),
    "a row that died": ("rows/0", put(STATES, "<B", 2), "names an impossible row"),
    "rows in disorder": ("rows/0", put(STATES + 14 * ROWS, "<B", 0), "come first"),
    "half a slot": ("slots/0", lambda data: data[:-1], "does not hold slots of 16 bytes"),
    "a slot twice": ("slots/0", lambda data: data + data[:16], "twice"),
    "a slot of no row": ("slots/0", put(8, "<I", ROWS + 1), "names an impossible row"),
    "a slot of row 0, which is none": ("slots/0", put(8, "<I", 0), "names an impossible row"),
    "a tag too wide": ("slots/0", put(4, "<I", 1), "names an impossible row"),
}


@pytest.mark.parametrize("case", INCONSISTENT)
def test_pieces_that_do_not_add_up_are_refused(case: str) -> None:
    name, change, why = INCONSISTENT[case]
    pieces = dict(snapshot(small().index.store))
    loaded(changed(pieces, name, lambda data: None), NARROW)
    with pytest.raises(ValueError, match=why):
        loaded(changed(pieces, name, change), NARROW)


def test_a_slot_given_to_another_row_is_refused() -> None:
    pieces = dict(snapshot(small().index.store))
    rows = np.frombuffer(pieces["slots/0"], np.uint32)[2::4]
    other = 1 + next(int(row) for row in rows % ROWS if row != rows[0])
    with pytest.raises(ValueError, match=r"number of ids of a row differs|names an impossible row"):
        loaded(changed(pieces, "slots/0", put(8, "<I", other)), NARROW)


def test_a_claim_with_scattered_rows_is_refused() -> None:
    driver = Driver(NARROW)
    driver.claim("a", 1, [1])
    driver.now_ms += LEASE_MS
    driver.claim("b", 1, [1, 2])
    pieces = dict(snapshot(driver.index.store))
    data, row = np.frombuffer(pieces["rows/0"], np.uint8), len(pieces["rows/0"]) // 3
    claims = 3 * sum((16, 4, 1, 1, 8, 4, 1))
    assert row > 50
    moved = bytearray(data.tobytes())
    first, second = moved[claims : claims + 16], moved[claims + 16 : claims + 32]
    moved[claims : claims + 32] = second + first
    with pytest.raises(ValueError, match="twice"):
        loaded(changed(pieces, "rows/0", lambda _: moved), NARROW)


def test_a_piece_that_nothing_refers_to_is_refused() -> None:
    pieces = dict(snapshot(small().index.store))
    pieces["slots/2"] = b""
    with pytest.raises(ValueError, match="unexpected piece"):
        loaded(changed(pieces, "head", lambda data: None), NARROW)


def test_a_repeat_is_taken_for_the_newest_claim_of_its_call() -> None:
    driver = Driver()
    driver.release(driver.claim("a", 1, [1]).claim, settled=False)
    driver.now_ms += 2 * LEASE_MS
    newest = driver.claim("a", 1, [1]).claim
    copy = loaded(dict(snapshot(driver.index.store)), Widths(), driver.now_ms)
    assert len(copy.store.registry) == 2
    driver.index = copy
    assert driver.claim("a", 1, [1]).claim == newest
