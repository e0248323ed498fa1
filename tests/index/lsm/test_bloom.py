"""Every filter keeps its promises: no false negatives, false positives as designed, and a full filter is reported."""

import json
import os
import struct
import zlib
from importlib.metadata import PackageNotFoundError

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncegate.index.lsm import bloom_blocked, bloom_pybloom
from oncegate.index.lsm.bloom import KINDS, Filter, decode, make
from oncegate.index.lsm.bloom_blocked import COMPILED, PLAIN, BlockedFilter, design, rate
from oncegate.index.lsm.bloom_format import PIECE_BYTES

SEED = int(os.environ.get("ONCEGATE_SEED", "20240611"))
EVERY = pytest.mark.parametrize("kind", KINDS)


def random_keys(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.integers(0, 1 << 64, (count, 2), dtype=np.uint64)


def filled(kind: str, count: int, fpr: float = 0.01) -> tuple[Filter, np.ndarray]:
    keys = random_keys(np.random.default_rng([SEED, count]), count)
    made = make(kind, count, fpr)
    made.add(keys)
    return made, keys


@EVERY
@settings(max_examples=60, deadline=None)
@given(
    batches=st.lists(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)), max_size=9), max_size=9),
    fpr=st.floats(1e-6, 0.999),
    room=st.integers(0, 5),
)
def test_no_id_that_was_taken_in_is_ever_denied(kind, batches, fpr, room) -> None:
    """For any ids, even nonrandom ones, in any batches, with a save and load between them."""
    made = make(kind, sum(map(len, batches)) + room, fpr)
    for batch in batches:
        made.add(np.array(batch, np.uint64).reshape(-1, 2))
        loaded = decode(b"".join(made.encode()))
        assert loaded is not None
        made = loaded
    every = np.array([key for batch in batches for key in batch], np.uint64).reshape(-1, 2)
    assert made.might_hold(every).all()
    assert made.sound
    assert made.ids == len(every)


@EVERY
@pytest.mark.parametrize("fpr", [0.01, 0.001])
def test_the_rate_is_within_a_tenth_of_the_design(kind, fpr) -> None:
    count, asked = (1_000_000, 10_000_000) if kind == "blocked" else (100_000, 1_000_000)
    made, keys = filled(kind, count, fpr)
    assert made.might_hold(keys[:100_000]).all()
    measured = made.might_hold(random_keys(np.random.default_rng([SEED, 1]), asked)).mean()
    print(f"seed {SEED}, {kind}: {measured} of {fpr}, {made.size_bytes / count:.3f} bytes an id")
    assert abs(measured / fpr - 1) < 0.1
    assert made.fpr == fpr
    assert made.capacity == made.ids == count


@pytest.mark.parametrize(("fpr", "bytes_per_id"), [(0.01, 1.6), (0.0025, 2.4), (0.001, 3.1)])
def test_a_blocked_filter_takes_as_little_as_was_said(fpr, bytes_per_id) -> None:
    assert make("blocked", 1_000_000, fpr).size_bytes <= bytes_per_id * 1_000_000


@EVERY
def test_only_the_tag_and_32_bits_of_the_place_count(kind) -> None:
    """No more of an id is kept in memory and in runs."""
    made, keys = filled(kind, 2_000, 0.0001)
    assert made.might_hold(keys ^ np.array([0, 0xABCDEF01 << 32], np.uint64)).all()
    for other in ([1 << 63, 0], [1, 0], [0, 1], [0, 1 << 31]):
        assert made.might_hold(keys ^ np.array(other, np.uint64)).mean() < 0.9, "each of those bits does"


@EVERY
def test_an_overfull_filter_answers_maybe_to_everything(kind) -> None:
    """Permanently, also after a save and load: missing ids would be false negatives."""
    made, keys = filled(kind, 1_000)
    more = random_keys(np.random.default_rng([SEED, 2]), 5_000)
    assert made.sound
    assert not made.might_hold(more).all()
    made.add(more[:2])
    assert not made.sound
    for later in (made, decode(b"".join(made.encode()))):
        assert later is not None
        assert not later.sound
        assert later.might_hold(more).all()
        later.add(keys[:1])
        assert not later.sound
        assert later.might_hold(np.concatenate([keys, more])).all()


@EVERY
def test_a_filter_for_nothing_denies_everything_until_it_is_full(kind) -> None:
    made = make(kind, 0, 0.01)
    keys = random_keys(np.random.default_rng(SEED), 1_000)
    assert not made.might_hold(keys).any()
    made.add(keys)
    assert made.might_hold(keys).all()
    assert made.might_hold(keys[:0]).tolist() == []


@EVERY
def test_a_saved_filter_answers_as_before(kind) -> None:
    made, keys = filled(kind, 5_000)
    asked = np.concatenate([keys, random_keys(np.random.default_rng([SEED, 3]), 20_000)])
    loaded = decode(memoryview(b"".join(made.encode())))
    assert type(loaded) is type(made)
    assert np.array_equal(loaded.might_hold(asked), made.might_hold(asked))
    assert (loaded.ids, loaded.capacity, loaded.fpr, loaded.size_bytes) == (5_000, 5_000, 0.01, made.size_bytes)


@EVERY
def test_a_saved_filter_that_was_damaged_is_not_loaded(kind) -> None:
    rng, saved = np.random.default_rng(SEED), b"".join(filled(kind, 200)[0].encode())
    assert decode(saved) is not None
    for place in [*range(120), *rng.integers(0, len(saved), 400).tolist(), *range(len(saved) - 8, len(saved))]:
        flipped = bytearray(saved)
        flipped[place] ^= 1 << int(rng.integers(8))
        assert decode(bytes(flipped)) is None, f"seed {SEED}, byte {place}"
    for cut in (0, 1, 15, 16, 100, len(saved) - 1):
        assert decode(saved[:cut]) is None
    assert decode(saved + b"\0") is None


def rewritten(saved: bytes, version: int | None = None, magic: bytes | None = None, **head: object) -> bytes:
    """Returns the filter with a changed head and a correct checksum."""
    first, now, length = struct.unpack("<8sII", saved[:16])
    text = json.dumps({**json.loads(saved[16 : 16 + length]), **head}).encode()
    start = struct.pack("<8sII", magic or first, version or now, len(text)) + text + saved[16 + length : -4]
    return start + struct.pack("<I", zlib.crc32(start))


@EVERY
def test_a_filter_of_another_format_function_or_library_is_not_loaded(kind) -> None:
    saved = b"".join(filled(kind, 200)[0].encode())
    assert decode(rewritten(saved)) is not None
    assert decode(rewritten(saved, version=2)) is None
    assert decode(rewritten(saved, magic=b"ONCERUN\0")) is None
    assert decode(rewritten(saved, kind="cuckoo")) is None
    assert decode(rewritten(saved, function="md5")) is None


def test_a_blocked_filter_of_another_size_is_not_loaded() -> None:
    """Such a filter comes from a version with another design."""
    saved = b"".join(filled("blocked", 200)[0].encode())
    words = make("blocked", 200, 0.01).size_bytes // 8
    for other in ({"hashes": 6}, {"words": words + 1}, {"capacity": 400}, {"fpr": 0.001}):
        assert decode(rewritten(saved, **other)) is None, other


@pytest.mark.parametrize("library", bloom_pybloom.LIBRARIES)
def test_a_filter_of_another_version_of_pybloom_live_or_what_it_hashes_with_is_not_loaded(monkeypatch, library) -> None:
    """3.1.0 and 4.0.0 hash small filters differently: nearly every id would be a false negative."""
    saved = b"".join(filled("pybloom", 200)[0].encode())
    version = bloom_pybloom.version
    monkeypatch.setattr(bloom_pybloom, "version", lambda name: "3.1.0" if name == library else version(name))
    assert decode(saved) is None


def test_without_pybloom_live_its_filter_is_refused_with_what_to_do(monkeypatch) -> None:
    saved = b"".join(filled("pybloom", 200)[0].encode())

    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(bloom_pybloom, "version", missing)
    with pytest.raises(ValueError, match=r"pip install 'oncegate\[pybloom\]', or use blocked"):
        make("pybloom", 10, 0.01)
    assert decode(saved) is None
    assert decode(b"".join(filled("blocked", 200)[0].encode())) is not None


@pytest.mark.parametrize("fpr", [0.0, 1.0, -0.1, 2.0, float("nan")])
@EVERY
def test_a_rate_that_is_none_is_refused(kind, fpr) -> None:
    with pytest.raises(ValueError, match="must be above 0 and below 1"):
        make(kind, 10, fpr)


def test_an_unknown_filter_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="use one of blocked, pybloom"):
        make("cuckoo", 10, 0.01)


def test_the_function_of_the_blocked_filter_matches_saved_filters() -> None:
    """If this fails, FUNCTION must change too: filters on disks were filled by the older one."""
    made = BlockedFilter(500, 0.01)
    made.add(random_keys(np.random.default_rng(7), 500))
    assert (bloom_blocked.FUNCTION, zlib.crc32(made._words.tobytes())) == GOLDEN


GOLDEN = ("tag and place, 6 bits a bit, 1", 793473573)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 10), st.integers(1, 60))
def test_compiled_is_as_plain(seed, hashes, words) -> None:
    rng = np.random.default_rng(seed)
    keys, others = random_keys(rng, 30), random_keys(rng, 200)
    found = []
    for kernels in (PLAIN, COMPILED):
        bits, out = np.zeros(words, np.uint64), np.empty(200, np.bool_)
        kernels.add(bits, hashes, keys)
        kernels.might_hold(bits, hashes, others, np.empty(200, np.int64), np.empty(200, np.uint64), out)
        found.append((bits.tolist(), out.tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize("fpr", [0.5, 0.1, 0.01, 0.001, 1e-6, 1e-9])
def test_the_design_has_the_rate_that_was_asked_for(fpr) -> None:
    """With the fewest words: no other number of bits per id holds more at that rate."""
    best = design(fpr)
    assert abs(rate(best.load, best.hashes) / fpr - 1) < 0.01
    assert all(rate(best.load, hashes) >= 0.99 * fpr for hashes in range(1, bloom_blocked.HASHES_MAX + 1))


def test_the_rate_is_that_of_words_that_are_not_filled_evenly() -> None:
    """The usual formula, which assumes independent bits, is a fifth too low."""
    hashes, load = design(0.01)
    usual = (1 - (1 - 1 / 64) ** (hashes * load)) ** hashes
    assert usual < 0.8 * 0.01


@EVERY
def test_a_large_filter_is_saved_in_small_pieces(kind: str) -> None:
    """A single piece would be a single copy, during which all other threads wait."""
    made = make(kind, 2_000_000, 0.01)
    pieces = list(made.encode())
    assert max(map(len, pieces)) <= PIECE_BYTES
    assert sum(map(len, pieces)) > made.size_bytes > PIECE_BYTES
