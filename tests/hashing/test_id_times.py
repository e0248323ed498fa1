"""Ids that contain their creation time: read in every form, and refused if they contain none."""

import random
import uuid

import numpy as np
import pyarrow as pa
import pytest

from oncegate.core.errors import BadRequest
from oncegate.hashing.id_times import TimedFingerprinter, of_event_ids, of_uuids
from oncegate.hashing.ids import Fingerprinter
from oncegate_spark.delivery import time_ms_of

SEED = 20261126
TIMES = [0, 1, 1_795_255_200_000, 2**48 - 1]
PLAIN = Fingerprinter(bytes(32))


def uuid7(made_ms: int, rng: random.Random) -> uuid.UUID:
    raw = made_ms.to_bytes(6, "big") + rng.randbytes(10)
    return uuid.UUID(bytes=raw[:6] + bytes((0x70 | raw[6] & 0x0F, raw[7], 0x80 | raw[8] & 0x3F)) + raw[9:])


def event_id(made_ms: int, rng: random.Random) -> str:
    return f"{made_ms:012x}-{rng.randrange(2**16):04x}-{rng.randrange(1, 2**20):x}@host-{rng.randrange(9)}.example"


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary()])
def test_event_ids_are_read_as_the_client_reads_them(kind: pa.DataType) -> None:
    rng = random.Random(SEED)
    ids = [event_id(made_ms, rng) for made_ms in (*TIMES, *(rng.randrange(2**48) for _ in range(500)))]
    array = pa.array([one.encode() if kind == pa.binary() else one for one in ids], kind)
    assert of_event_ids(array).tolist() == list(map(time_ms_of, ids))
    assert of_event_ids(array.slice(7, 90)).tolist() == list(map(time_ms_of, ids[7:97]))


def test_uuids_of_version_7_are_read_as_text_and_as_bytes() -> None:
    rng = random.Random(SEED)
    times = [*TIMES, *(rng.randrange(2**48) for _ in range(500))]
    ids = [uuid7(made_ms, rng) for made_ms in times]
    assert of_uuids(pa.array(list(map(str, ids)))).tolist() == times
    assert of_uuids(pa.array([str(one).upper() for one in ids])).tolist() == times
    for kind in (pa.binary(), pa.binary(16), pa.large_binary()):
        assert of_uuids(pa.array([one.bytes for one in ids], kind)).tolist() == times, kind


@pytest.mark.parametrize(
    "wrong", ["", "00000000000-0000-1@h", "00000000000G-0000-1@h", "000000000001-0000-1@h\n", "000000000001_0000-1@h"]
)
def test_an_invalid_event_id_is_refused_with_its_position(wrong: str) -> None:
    with pytest.raises(BadRequest, match=r"1 ids do not carry.*event_id.*at places \[1\]"):
        of_event_ids(pa.array([event_id(5, random.Random(SEED)), wrong]))


def test_an_invalid_uuid_of_version_7_is_refused_with_its_position() -> None:
    right, other = uuid7(5, random.Random(SEED)), uuid.UUID(int=2**127 + 4)
    for wrong in (str(other), str(right)[:-1], str(right).replace("-", "")):
        with pytest.raises(BadRequest, match=r"uuid7.*at places \[0\]"):
            of_uuids(pa.array([wrong, str(right)]))
    for raw in (other.bytes, right.bytes[:15], b""):
        with pytest.raises(BadRequest, match=r"uuid7.*at places \[1\]"):
            of_uuids(pa.array([right.bytes, raw], pa.binary()))


def test_ids_have_the_fingerprints_that_they_have_without_their_time() -> None:
    rng = random.Random(SEED)
    ids = [uuid7(made_ms, rng) for made_ms in TIMES]
    texts, raw = list(map(str, ids)), b"".join(one.bytes for one in ids)
    timed = TimedFingerprinter(PLAIN, of_uuids)
    for found, plain in (
        (timed.of_few([one.encode() for one in texts]), PLAIN.of_few([one.encode() for one in texts])),
        (timed.of_columns([pa.array(texts)]), PLAIN.of_columns([pa.array(texts)])),
        (timed.of_packed(raw), PLAIN.of_packed(raw)),
    ):
        assert np.array_equal(found, plain)
        assert timed.made_ms.tolist() == TIMES


def test_ids_of_several_columns_carry_no_time() -> None:
    with pytest.raises(BadRequest, match="2 columns"):
        TimedFingerprinter(PLAIN, of_event_ids).of_columns([pa.array(["a"]), pa.array(["b"])])
