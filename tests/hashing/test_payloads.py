"""Digests of payloads: keyed, never zero, different for different payloads, and the same in every layout."""

import os
import random

import numpy as np
import pyarrow as pa
import pytest

from oncegate.core.errors import NullId
from oncegate.hashing.byte_strings import join
from oncegate.hashing.cmac import Cmac
from oncegate.hashing.keys import derive
from oncegate.hashing.payloads import PayloadDigester

KEY = bytes(range(32))
SEED = int(os.environ.get("ONCEGATE_SEED", "20240611"))


def digests(*columns: object, key: bytes = KEY) -> list[int]:
    return PayloadDigester(key).of_columns([pa.array(column, pa.string()) for column in columns]).tolist()


def test_a_digest_is_the_first_32_bits_of_the_payloads_cmac_under_a_key_of_its_own() -> None:
    whole = Cmac(derive(KEY, b"payloads")).of_few([b"12.50"]).tobytes()
    assert digests(["12.50"]) == [int.from_bytes(whole[:4], "little")]
    assert derive(KEY, b"payloads") != derive(KEY, b"ids")


def test_equal_payloads_have_one_digest_and_others_another() -> None:
    first, again, other = digests(["a", "a", "b"])
    assert first == again
    assert first != other
    assert digests(["a"], key=bytes(32)) != [first]


def test_a_payload_of_16_packed_bytes_is_that_of_the_same_bytes_in_a_column() -> None:
    print(f"ONCEGATE_SEED={SEED}")
    values = [random.Random(SEED).randbytes(16) for _ in range(100)]
    packed = PayloadDigester(KEY).of_packed(np.frombuffer(b"".join(values), np.uint8))
    assert packed.tolist() == PayloadDigester(KEY).of_columns([pa.array(values, pa.binary())]).tolist()
    with pytest.raises(ValueError, match="whole number"):
        PayloadDigester(KEY).of_packed(np.zeros(17, np.uint8))


def test_columns_are_joined_so_that_no_two_rows_look_alike() -> None:
    found = [
        *digests(["a"], ["bc"]),
        *digests(["ab"], ["c"]),
        *digests(["abc"]),
        *digests(["abc"], [""]),
        *digests(["abc"], [None]),
        *digests([None], ["abc"]),
    ]
    assert len(set(found)) == len(found)


def test_null_is_a_payload_and_none_that_is_empty() -> None:
    null, empty, text = digests([None, "", "x"])
    assert len({null, empty, text}) == 3
    assert digests([None, None, "x"]) == [null, null, text], "independent of its neighbours"


def test_slices_and_wide_layouts_give_what_the_plain_column_gives() -> None:
    values = ["a", None, "", "cc", "ddd"] * 20
    expected = digests(values)
    for kind in (pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.string_view()):
        column = pa.array(["x", *values], pa.string()).cast(kind).slice(1)
        assert PayloadDigester(KEY).of_columns([column]).tolist() == expected, kind


def test_no_payload_has_the_digest_of_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cmac, "of_octets", lambda self, octets: np.zeros((len(octets.lengths), 2), np.uint64))
    assert digests(["a", "b"]) == [1, 1]
    assert PayloadDigester(KEY).of_packed(np.zeros(32, np.uint8)).tolist() == [1, 1]


def test_null_is_still_part_of_no_id() -> None:
    with pytest.raises(NullId):
        join([pa.array(["a", None])])
    joined = join([pa.array(["a", None])], nulls=True).to_pylist()
    assert joined == [b"\1\1\0\0\0a", b"\0\0\0\0\0"]
