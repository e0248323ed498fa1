"""Sorted runs: inserted ids are found, others are not, and damage is always detected."""

import mmap
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncegate.index.lsm.run import BLOCK_BYTES, Run, RunDamaged, encode, merge, sorted_records
from oncegate.index.lsm.run_kernels import COMPILED, PLAIN, RunKernels

SEED = int(os.environ.get("ONCEGATE_SEED", "20240611"))
KERNELS = [pytest.param(PLAIN, id="plain"), pytest.param(COMPILED, id="compiled")]
U32 = 0xFFFF_FFFF


def records_of(held: dict[tuple[int, int], int]) -> np.ndarray:
    """Returns {(tag, place): archive} as records, unordered."""
    pairs = [(tag, place | archive << 32) for (tag, place), archive in held.items()]
    return np.array(pairs, np.uint64).reshape(-1, 2)


def run_of(held: dict[tuple[int, int], int], kernels: RunKernels = COMPILED, **meta: object) -> Run:
    data = b"".join(encode([sorted_records(records_of(held))], meta, kernels))
    return Run(memoryview(data), kernels=kernels)


def keys_of(pairs: list[tuple[int, int]]) -> np.ndarray:
    """Returns keys like fingerprints: the bits above the place are ignored."""
    return np.array([(tag, place | 0xABCD << 40) for tag, place in pairs], np.uint64).reshape(-1, 2)


def random_ids(rng: np.random.Generator, count: int, tag_bits: int) -> list[tuple[int, int]]:
    tags = rng.integers(0, 1 << 64, count, dtype=np.uint64) >> np.uint64(64 - tag_bits)
    places = rng.integers(0, 1 << 32 if tag_bits == 64 else 40, count, dtype=np.uint64)
    return list(dict.fromkeys(zip(tags.tolist(), places.tolist(), strict=True)))


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("tag_bits", [1, 4, 8, 64])
@pytest.mark.parametrize("count", [0, 1, 254, 255, 256, 510, 3_000])
def test_inserted_ids_are_found_and_no_others(kernels, tag_bits, count) -> None:
    """Tags of few bits fill several blocks each."""
    rng = np.random.default_rng([SEED, tag_bits, count])
    held = {pair: int(rng.integers(0, U32 + 1)) for pair in random_ids(rng, count, tag_bits)}
    run = run_of(held, kernels)
    others = [*random_ids(rng, 400, tag_bits), (0, 0), (2**64 - 1, U32), (0, U32), (2**64 - 1, 0)]
    near = [(tag, place ^ 1) for tag, place in held] + [(tag ^ 1, place) for tag, place in held]
    asked = [*held, *others, *near]
    asked = [asked[n] for n in rng.permutation(len(asked))]
    assert run.size == len(held)
    assert run.find(keys_of(asked)).tolist() == [held.get(pair, -1) for pair in asked], f"seed {SEED}"


@pytest.mark.parametrize("kernels", KERNELS)
def test_tags_that_are_bunched_are_found_as_well(kernels) -> None:
    """The position of a tag is far from the position that even tags would have."""
    rng = np.random.default_rng(SEED)
    tags = {0, 1, 2**64 - 1, *(int(2.0 ** rng.uniform(0, 63.9)) for _ in range(2_000))}
    tags |= {2**63 + n for n in range(1_000)}
    held = {(tag, tag & U32): n for n, tag in enumerate(tags)}
    run = run_of(held, kernels)
    asked = [*held, *((tag + 1, tag & U32) for tag in tags if tag + 1 < 2**64)]
    assert run.find(keys_of(asked)).tolist() == [held.get(pair, -1) for pair in asked]


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.tuples(st.integers(0, 9), st.integers(0, 9)), st.integers(0, U32)), st.data())
def test_however_the_records_come_in_the_bytes_are_the_same(held, data) -> None:
    records = sorted_records(records_of(held))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(records)), max_size=5)))
    chunks = [records[a:b] for a, b in zip([0, *cuts], [*cuts, len(records)], strict=True)]
    assert b"".join(encode(chunks, {})) == b"".join(encode([records], {}, PLAIN))
    assert np.array_equal(np.concatenate([run_of(held).records(0, run_of(held).blocks)]), records)


def test_records_that_do_not_ascend_are_refused() -> None:
    good = sorted_records(records_of({(1, 1): 0, (1, 2): 0, (2, 0): 0}))
    for chunks in ([good[::-1]], [good[1:], good[:1]], [good[:1], good[:1]], [good, good[2:]]):
        with pytest.raises(ValueError, match="ascend by tag and home"):
            list(encode(chunks, {}))


def test_the_callers_metadata_about_a_run_is_kept() -> None:
    meta = {"archives": list(range(5_000)), "text": "ä" * 10_000}
    run = run_of({(1, 2): 3}, **meta)
    assert run.meta == meta
    assert run.find(keys_of([(1, 2)])).tolist() == [3]


@pytest.mark.parametrize("kernels", KERNELS)
def test_sorting_keeps_every_record(kernels) -> None:
    """Covers tags with uninformative high bits, and several records of one id."""
    rng = np.random.default_rng(SEED)
    for tag_bits, count in ((2, 500), (20, 5_000), (40, 5_000), (64, 5_000), (64, 0), (64, 1)):
        tags = rng.integers(0, 1 << 64, count, dtype=np.uint64) >> np.uint64(64 - tag_bits)
        words = rng.integers(0, 40, count, dtype=np.uint64) | rng.integers(0, 3, count, dtype=np.uint64) << np.uint64(
            32
        )
        records = np.stack([tags, words], axis=1)
        before = records.copy()
        found = sorted_records(records, kernels=kernels)
        assert np.array_equal(records, before)
        wanted = sorted((tag, word & U32, word >> 32) for tag, word in records.tolist())
        assert [(tag, word & U32, word >> 32) for tag, word in found.tolist()] == wanted
        assert np.array_equal(sorted_records(records, own=True, kernels=kernels), found)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("count", [0, 1, 2, 4])
def test_a_merge_is_that_of_dicts(kernels, count) -> None:
    """Among an id's records in several runs, the one with the lowest kept archive remains."""
    rng, sizes = np.random.default_rng([SEED, count]), (0, 300, 20_000) if kernels is COMPILED else (0, 300, 900)
    for tag_bits in (6, 64):
        pool = random_ids(rng, 30_000, tag_bits)
        runs, wanted, first = [], {}, 0
        keep = rng.integers(0, 2, 40, dtype=np.uint8)
        for _ in range(count):
            chosen = rng.permutation(len(pool))[: int(rng.choice(sizes))].tolist()
            held = {pool[n]: first + int(rng.integers(10)) for n in chosen}
            runs.append(run_of(held))
            for pair, archive in held.items():
                if keep[archive]:
                    wanted[pair] = min(archive, wanted.get(pair, archive))
            first += 10
        rng.shuffle(runs)
        chunks = list(merge(runs, keep, kernels))
        merged = Run(memoryview(b"".join(encode(chunks, {}))))
        assert merged.size == len(wanted), f"seed {SEED}"
        assert merged.find(keys_of(list(wanted))).tolist() == list(wanted.values())


def test_a_merge_goes_over_more_than_one_piece() -> None:
    rng = np.random.default_rng(SEED)
    runs, wanted = [], {}
    for archive in range(3):
        ids = rng.integers(0, 1 << 64, (90_000, 2), dtype=np.uint64) & np.array([2**64 - 1, U32], np.uint64)
        runs.append(
            Run(memoryview(b"".join(encode([sorted_records(ids | np.array([0, archive << 32], np.uint64))], {}))))
        )
        wanted |= dict.fromkeys(map(tuple, ids.tolist()), archive)
    chunks = list(merge(runs, np.ones(3, np.uint8)))
    assert len(chunks) > 3
    whole = np.concatenate(chunks)
    assert {(tag, rest & U32): rest >> 32 for tag, rest in whole.tolist()} == wanted


def test_a_record_of_an_unknown_archive_is_refused_in_a_merge() -> None:
    with pytest.raises(ValueError, match="beyond the 3"):
        list(merge([run_of({(1, 1): 3})], np.ones(3, np.uint8)))


def everything(data: bytes, keys: np.ndarray) -> object:
    """Returns everything that a run answers."""
    run = Run(memoryview(data))
    return run.find(keys).tolist(), run.records(0, run.blocks).tolist(), run.meta, run.size


@pytest.mark.parametrize("count", [0, 1, 255, 700])
def test_damage_anywhere_is_refused(count) -> None:
    """A flipped bit in each field and at random, a cut, a block of zeros or of another run."""
    rng = np.random.default_rng([SEED, count])
    held = {pair: int(rng.integers(5)) for pair in random_ids(rng, count, 64)}
    records = sorted_records(records_of(held))
    whole, other = (b"".join(encode([records], {"archives": [n]})) for n in (1, 2))
    keys = keys_of(list(held))
    everything(whole, keys)
    places = {*rng.integers(0, len(whole), 300).tolist()}
    for block in range(0, len(whole), BLOCK_BYTES):
        places |= {*range(block, block + 48), *range(block + BLOCK_BYTES - 20, block + BLOCK_BYTES)}
        for instead in (bytes(BLOCK_BYTES), other[block : block + BLOCK_BYTES]):
            if instead != whole[block : block + BLOCK_BYTES]:
                with pytest.raises(RunDamaged):
                    everything(whole[:block] + instead + whole[block + BLOCK_BYTES :], keys)
        for cut in (whole[:block], whole[: block + 100], whole[:block] + whole[block + BLOCK_BYTES :]):
            with pytest.raises(RunDamaged):
                everything(cut, keys)
    for place in places:
        flipped = bytearray(whole)
        flipped[place] ^= 1 << int(rng.integers(8))
        with pytest.raises(RunDamaged, match="made again from the ledger"):
            everything(bytes(flipped), keys)


@pytest.mark.parametrize("kernels", KERNELS)
def test_two_blocks_that_changed_places_are_refused(kernels) -> None:
    rng = np.random.default_rng(SEED)
    records = sorted_records(records_of(dict.fromkeys(random_ids(rng, 700, 64), 1)))
    whole = b"".join(encode([records], {}))
    first, second = (whole[n * BLOCK_BYTES : (n + 1) * BLOCK_BYTES] for n in (1, 2))
    run = Run(memoryview(whole[:BLOCK_BYTES] + second + first + whole[3 * BLOCK_BYTES :]), "seven", kernels)
    for block in (0, 1):
        with pytest.raises(RunDamaged, match=f"seven: block {block} is damaged"):
            run.find(records[255 * block : 255 * block + 1])
        with pytest.raises(RunDamaged, match=f"seven: block {block} is damaged"):
            run.records(block, 2)
    assert run.find(records[510:]).tolist() == [1] * (len(records) - 510)


@pytest.mark.parametrize("kernels", KERNELS)
def test_a_damaged_block_is_met_only_where_it_is_touched(kernels) -> None:
    """Opening reads no block; each is checked at its first use, even if others were checked before."""
    rng = np.random.default_rng(SEED)
    held = dict.fromkeys(random_ids(rng, 700, 64), 1)
    records = sorted_records(records_of(held))
    whole = bytearray(b"".join(encode([records], {})))
    whole[2 * BLOCK_BYTES + 8] ^= 1
    run = Run(memoryview(bytes(whole)), kernels=kernels)
    for _ in range(2):
        assert run.find(records[:255]).tolist() == [1] * 255
        with pytest.raises(RunDamaged, match="block 1"):
            run.find(records[300:301])
        assert run.find(records[510:]).tolist() == [1] * (len(records) - 510)


@pytest.mark.parametrize("damaged", range(6))
@pytest.mark.parametrize("kernels", KERNELS)
def test_a_damaged_block_is_met_among_many_that_are_touched_at_once(kernels, damaged) -> None:
    """Blocks are checked in fours; a damaged one among them prevents every answer."""
    rng = np.random.default_rng(SEED)
    records = sorted_records(records_of(dict.fromkeys(random_ids(rng, 6 * 255, 64), 1)))
    whole = bytearray(b"".join(encode([records], {})))
    whole[(1 + damaged) * BLOCK_BYTES + 100] ^= 4
    run = Run(memoryview(bytes(whole)), kernels=kernels)
    one_of_each = rng.permutation(records[100::255])
    for _ in range(2):
        with pytest.raises(RunDamaged, match=f"block {damaged} is damaged"):
            run.find(one_of_each)


def test_a_run_takes_16_bytes_an_id_on_disk_and_a_25th_of_one_in_memory() -> None:
    rng, ids = np.random.default_rng(SEED), 1_000_000
    records = sorted_records(rng.integers(0, 1 << 64, (ids, 2), dtype=np.uint64))
    data = b"".join(encode([records], {"archives": [[0, ids]]}))
    assert len(data) <= 16.2 * ids
    assert Run(memoryview(data)).size_bytes <= 0.04 * ids


def test_the_checksum_of_a_block_is_crc_32() -> None:
    import zlib

    data = b"".join(encode([sorted_records(records_of({(n * 10**15, n): n for n in range(300)}))], {}))
    for block in (1, 2):
        words = data[block * BLOCK_BYTES : (block + 1) * BLOCK_BYTES]
        assert int.from_bytes(words[-8:], "little") == zlib.crc32(words[:-8])


def test_the_mapped_pages_of_a_run_can_be_released_and_are_read_again_when_needed(tmp_path) -> None:
    rng = np.random.default_rng(SEED)
    records = sorted_records(records_of(dict.fromkeys(random_ids(rng, 700, 64), 1)))
    path = tmp_path / "run"
    path.write_bytes(b"".join(encode([records], {})))
    with path.open("rb") as file:
        run = Run(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))
    assert (run.find(records) == 1).all()
    run.let_go()
    assert (run.find(records) == 1).all()
    held = Run(memoryview(path.read_bytes()))
    held.let_go()
    assert (held.find(records) == 1).all(), "unmapped records stay"
