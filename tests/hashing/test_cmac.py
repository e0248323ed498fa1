"""CMAC by columns against RFC 4493 and against the library's implementation."""

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from oncegate.hashing import cmac as cmac_module
from oncegate.hashing.byte_strings import Octets
from oncegate.hashing.cmac import FEW_ROWS, TILE_ROWS, Cmac
from tests.hashing import reference

RFC_KEY = bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c")
RFC_MESSAGE = bytes.fromhex(
    "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
    "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
)
RFC_MACS = {
    0: "bb1d6929e95937287fa37d129b756746",
    16: "070a16b46b4d4144f79bdd9dd04a287c",
    40: "dfa66747de9ae63030ca32611497c827",
    64: "51f0bebf7e3b9d92fc49741779363cfe",
}


def octets_of(messages: Sequence[bytes]) -> Octets:
    offsets = np.cumsum([0, *map(len, messages)], dtype=np.int64)
    return Octets.between(np.frombuffer(b"".join(messages), np.uint8), offsets)


def check(key: bytes, messages: Sequence[bytes]) -> None:
    found = Cmac(key).of_octets(octets_of(messages))
    assert found.shape == (len(messages), 2)
    assert found.dtype == np.uint64
    assert found.flags.c_contiguous
    assert found.tobytes() == b"".join(reference.cmac(key, message) for message in messages)


@pytest.mark.parametrize("length", RFC_MACS)
def test_a_vector_of_the_rfc_is_met_alone_and_by_columns(length: int) -> None:
    cmac, message, expected = Cmac(RFC_KEY), RFC_MESSAGE[:length], bytes.fromhex(RFC_MACS[length])
    assert cmac.of_few([message]).tobytes() == expected
    equal = cmac.of_octets(octets_of([message] * 100))
    assert equal.tobytes() == expected * 100
    mixed = cmac.of_octets(octets_of([message, b"other length"] * 100))
    assert mixed[::2].tobytes() == expected * 100


def test_the_subkeys_are_those_of_the_rfc() -> None:
    cmac = Cmac(RFC_KEY)
    full = cmac._finish[16].tobytes()
    partial = bytes(a ^ b for a, b in zip(cmac._finish[0].tobytes(), b"\x80" + bytes(15), strict=True))
    assert full.hex() == "fbeed618357133667c85e08f7236a8de"
    assert partial.hex() == "f7ddac306ae266ccf90bc11ee46d513b"


def test_a_key_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        Cmac(bytes(32))


@pytest.mark.parametrize("length", [*range(35), 48, 100, 1_000])
@pytest.mark.parametrize("rows", [1, FEW_ROWS, FEW_ROWS + 1, 300])
def test_equally_long_messages_agree_with_the_library(length: int, rows: int) -> None:
    rng = random.Random(reference.SEED + length)
    check(rng.randbytes(16), [rng.randbytes(length) for _ in range(rows)])


@pytest.mark.parametrize("rows", [TILE_ROWS - 1, TILE_ROWS, TILE_ROWS + 1, 2 * TILE_ROWS + 50])
def test_a_tile_ends_where_it_should(rows: int) -> None:
    rng = random.Random(reference.SEED + rows)
    check(rng.randbytes(16), [rng.randbytes(17) for _ in range(rows)])
    check(rng.randbytes(16), [rng.randbytes(rng.randint(0, 40)) for _ in range(rows)])


@pytest.mark.parametrize("number", range(60))
def test_random_batches_agree_with_the_library(number: int) -> None:
    print(f"ONCEGATE_SEED={reference.SEED}")
    rng = random.Random(reference.SEED * 1_000 + number)
    longest = rng.choice([1, 3, 16, 17, 40, 200, 1_000, 5_000])
    messages = [rng.randbytes(rng.randint(0, longest)) for _ in range(rng.choice([0, 1, 5, 41, 64, 500]))]
    check(rng.randbytes(16), messages)


@pytest.mark.parametrize(("object_ns", "column_ns"), [(0, 10**6), (10**12, 0)])
def test_the_way_taken_cannot_be_seen(monkeypatch: pytest.MonkeyPatch, object_ns: int, column_ns: int) -> None:
    """Costs decide whether a message is computed by columns or individually; here the costs force one way."""
    monkeypatch.setattr(cmac_module, "_OBJECT_NS", object_ns)
    monkeypatch.setattr(cmac_module, "_OBJECT_BLOCK_NS", 0)
    monkeypatch.setattr(cmac_module, "_COLUMN_NS", column_ns)
    monkeypatch.setattr(cmac_module, "_CELL_NS", 0)
    rng = random.Random(reference.SEED)
    check(RFC_KEY, [rng.randbytes(rng.randint(0, 100)) for _ in range(200)])
    check(RFC_KEY, [rng.randbytes(50) for _ in range(200)])


def test_a_few_long_messages_among_short_ones_are_right() -> None:
    rng = random.Random(reference.SEED)
    messages = [rng.randbytes(rng.randint(1, 20)) for _ in range(5_000)]
    messages[7], messages[4_999] = rng.randbytes(100_001), rng.randbytes(1 << 20)
    check(RFC_KEY, messages)


def test_messages_may_be_anywhere_and_overlap() -> None:
    rng = random.Random(reference.SEED)
    for size in (5, 16, 400):
        data = rng.randbytes(size)
        starts = np.array([rng.randint(0, size) for _ in range(300)], np.int64)
        lengths = np.array([rng.randint(0, size - start) for start in starts.tolist()], np.int64)
        found = Cmac(RFC_KEY).of_octets(Octets(np.frombuffer(data, np.uint8), starts, lengths, None))
        pairs = zip(starts.tolist(), lengths.tolist(), strict=True)
        assert found.tobytes() == b"".join(reference.cmac(RFC_KEY, data[at : at + n]) for at, n in pairs)


def test_threads_may_share_one_object() -> None:
    cmac, messages = Cmac(RFC_KEY), octets_of([bytes([n % 256]) * (n % 50) for n in range(5_000)])
    expected = cmac.of_octets(messages).tobytes()
    with ThreadPoolExecutor(4) as pool:
        assert {found.tobytes() for found in pool.map(cmac.of_octets, [messages] * 40)} == {expected}
