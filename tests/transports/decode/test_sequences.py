"""Sequences in each encoding at their bounds: one, the maximal number, the greatest value."""

import numpy as np
import pyarrow as pa
import pytest

from oncegate.core.errors import BadRequest, TooLarge
from oncegate.core.producers import SEQUENCE_MAX
from oncegate.engine.limits import Limits
from oncegate.transports.decode.sequences import of_column, of_json, of_numbers, of_packed

FOUR = Limits(ids_per_request=4)


@pytest.mark.parametrize(
    ("first", "last"), [(0, 0), (7, 7), (5, 8), (SEQUENCE_MAX, SEQUENCE_MAX), (SEQUENCE_MAX - 3, SEQUENCE_MAX)]
)
def test_a_range_has_from_one_sequence_to_as_many_as_a_request_may_have(first: int, last: int) -> None:
    assert of_json(None, first, last, FOUR).tolist() == list(range(first, last + 1))


@pytest.mark.parametrize(
    ("first", "last", "kind"),
    [(8, 7, BadRequest), (5, 9, TooLarge), (SEQUENCE_MAX, SEQUENCE_MAX + 1, BadRequest), (1, None, BadRequest)],
)
def test_a_range_beyond_its_bounds_is_refused(first: int, last: int | None, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        of_json(None, first, last, FOUR)


def test_the_greatest_sequence_is_one_in_each_encoding_and_the_next_number_is_none() -> None:
    assert of_numbers([0, SEQUENCE_MAX], "sequences").tolist() == [0, SEQUENCE_MAX]
    assert of_json([SEQUENCE_MAX], None, None, FOUR).tolist() == [SEQUENCE_MAX]
    assert of_packed(np.array([SEQUENCE_MAX], "<u8").tobytes()).tolist() == [SEQUENCE_MAX]
    assert of_column(pa.chunked_array([pa.array([SEQUENCE_MAX], pa.uint64())]), "n").tolist() == [SEQUENCE_MAX]
    with pytest.raises(BadRequest, match=f"from 0 to {SEQUENCE_MAX}"):
        of_numbers([SEQUENCE_MAX + 1], "sequences")


@pytest.mark.parametrize("size_bytes", [0, 8, 16])
def test_packed_sequences_are_whole_numbers_of_eight_bytes(size_bytes: int) -> None:
    assert len(of_packed(bytes(size_bytes))) == size_bytes // 8
    for wrong in (size_bytes + 1, size_bytes + 7):
        with pytest.raises(BadRequest, match="not a whole number"):
            of_packed(bytes(wrong))
