"""Fingerprints of ids: the same bytes give the same print through every function and in every Arrow layout."""

import json
import random

import numpy as np
import pyarrow as pa
import pytest

from oncegate.core.errors import BadRequest, NullId
from oncegate.hashing.ids import Fingerprinter, IdSets
from oncegate.hashing.keys import FUNCTION, key_check
from tests.hashing import reference

VECTORS = json.loads((reference.GOLDEN / "fingerprints.json").read_text())
PRINTER = Fingerprinter(bytes.fromhex(VECTORS["key"]))
TYPES = [
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.binary(),
    pa.large_binary(),
    pa.binary_view(),
    pa.dictionary(pa.int16(), pa.string()),
    pa.dictionary(pa.int32(), pa.binary()),
]


def test_the_golden_vectors_hold() -> None:
    assert FUNCTION == 1
    assert key_check(reference.KEY).hex() == VECTORS["check"]
    found = PRINTER.of_array(pa.array(list(VECTORS["prints"]), pa.string()))
    assert [row.tobytes().hex() for row in found] == list(VECTORS["prints"].values())


def test_the_golden_vectors_of_sets_hold() -> None:
    vectors = json.loads((reference.GOLDEN / "id_sets.json").read_text())
    sets = IdSets(bytes.fromhex(vectors["key"]))
    found = {id_set: sets.of(id_set).of_array(pa.array(["a"])).tobytes().hex() for id_set in vectors["of_a"]}
    assert found == vectors["of_a"]


def test_an_id_has_another_print_in_every_set_and_by_every_door() -> None:
    """The names would collide if set and id, or purpose and set, were joined as texts."""
    sets, names = IdSets(reference.KEY), ["", "a", "ab", ":", "::", "s", " ids", "joined ids", ":a", "\0", "é"]
    ids = ["sixteen bytes !!", "bsixteen bytes !", "a", "b", ""]
    prints: list[bytes] = []
    for printer in map(sets.of, names):
        doors = [printer.of_array(pa.array(ids)), printer.of_columns([pa.array(ids), pa.array(ids)])]
        prints += [row.tobytes() for found in doors for row in found]
        packed = printer.of_packed("".join(ids[:2]).encode() * 20)
        assert packed[:2].tobytes() == printer.of_few([one.encode() for one in ids[:2]]).tobytes()
        assert packed[:2].tobytes() == doors[0][:2].tobytes()
    assert len(set(prints)) == len(prints) == len(names) * 2 * len(ids)


def test_the_set_without_a_name_is_what_a_fingerprinter_is_by_itself() -> None:
    assert IdSets(reference.KEY).of("").of_few([b"a"]).tobytes() == PRINTER.of_few([b"a"]).tobytes()


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_every_string_and_binary_type_gives_the_same_prints(kind: pa.DataType) -> None:
    values = [value * repeat for value in VECTORS["prints"] for repeat in (1, 2, 3)] * 5
    found = PRINTER.of_array(pa.array(values, pa.string()).cast(kind))
    expected = b"".join(reference.fingerprint(reference.KEY, value.encode()) for value in values)
    assert found.tobytes() == expected


@pytest.mark.parametrize("kind", [*TYPES, pa.binary(16)], ids=str)
@pytest.mark.parametrize("rows", [7, 200])
def test_a_slice_gives_the_prints_of_its_own_rows(kind: pa.DataType, rows: int) -> None:
    values = [f"{number:016d}" for number in range(rows + 8)]
    array = pa.array(values, pa.string()).cast(pa.binary()).cast(kind)
    assert PRINTER.of_array(array.slice(5, rows)).tobytes() == PRINTER.of_array(array)[5 : 5 + rows].tobytes()
    assert PRINTER.of_array(array.slice(3, 0)).shape == (0, 2)


@pytest.mark.parametrize("rows", [0, 1, 7, 8, 40, 41, 4_096, 4_097, 9_000])
def test_packed_ids_and_arrays_of_the_same_bytes_agree(rows: int) -> None:
    data = random.Random(reference.SEED).randbytes(16 * rows)
    packed = PRINTER.of_packed(data)
    array = pa.array([data[at : at + 16] for at in range(0, len(data), 16)], pa.binary())
    assert packed.shape == (rows, 2)
    assert packed.dtype == np.uint64
    assert packed.flags.c_contiguous
    assert PRINTER.of_packed(memoryview(data)).tobytes() == packed.tobytes()
    assert PRINTER.of_array(array).tobytes() == packed.tobytes()
    assert PRINTER.of_array(array.cast(pa.binary(16))).tobytes() == packed.tobytes()


def test_random_batches_agree_with_the_library() -> None:
    print(f"ONCEGATE_SEED={reference.SEED}")
    rng = random.Random(reference.SEED)
    for longest in (20, 40, 300, 5_000):
        values = [rng.randbytes(rng.randint(0, longest)) for _ in range(300)]
        expected = b"".join(reference.fingerprint(reference.KEY, value) for value in values[20:])
        for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
            assert PRINTER.of_array(pa.array(values, kind).slice(20)).tobytes() == expected


def test_an_array_without_a_byte_of_data_is_fingerprinted_too() -> None:
    empty = pa.Array.from_buffers(pa.string(), 50, [None, pa.py_buffer(bytes(4 * 51)), pa.py_buffer(b"")])
    assert PRINTER.of_array(empty).tobytes() == reference.fingerprint(reference.KEY, b"") * 50
    assert PRINTER.of_array(pa.array([], pa.string())).shape == (0, 2)


def test_a_packed_body_of_another_length_is_refused() -> None:
    with pytest.raises(BadRequest, match="multiple"):
        PRINTER.of_packed(bytes(33))


def test_a_null_never_gets_a_print() -> None:
    with pytest.raises(NullId, match="1 of 2"):
        PRINTER.of_array(pa.array(["a", None]))
    with pytest.raises(NullId):
        PRINTER.of_array(pa.array(["a", None]).dictionary_encode())


@pytest.mark.parametrize(
    "array", [pa.array([1]), pa.array([[1]]), pa.nulls(2), pa.array([1.5]).cast(pa.decimal128(9, 1))]
)
def test_an_array_that_is_no_text_is_refused(array: pa.Array) -> None:
    with pytest.raises(TypeError, match="neither string nor binary"):
        PRINTER.of_array(array)


def test_another_key_gives_other_prints_and_another_check() -> None:
    other = Fingerprinter(bytes(31) + b"\1")
    ids = pa.array(["a", "b"])
    assert key_check(bytes(31) + b"\1") != key_check(reference.KEY)
    assert not set(map(bytes, other.of_array(ids))) & set(map(bytes, PRINTER.of_array(ids)))


@pytest.mark.parametrize("size", [0, 16, 31, 33])
def test_a_key_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        Fingerprinter(bytes(size))
