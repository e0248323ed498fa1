"""The offsets that a read covers, without Spark and without a gateway."""

import json
import random

import pytest

from oncegate_spark.errors import BadOption, LedgerBehind, Stopped
from oncegate_spark.spark.readers import offsets
from oncegate_spark.spark.readers.offsets import Ends, OffsetSpan

ENDS = Ends.of([10, 0], [30, 5])


def test_an_option_names_an_end_or_an_offset_for_each_partition() -> None:
    assert offsets.parse("startingOffsets", "earliest", "t") == "earliest"
    assert offsets.parse("startingOffsets", '{"1": 4, "0": 17}', "t") == {0: 17, 1: 4}


def test_kafkas_json_of_offsets_is_read_with_its_numbers_for_the_ends() -> None:
    given = offsets.parse("startingOffsets", '{"t": {"0": -2, "1": -1}}', "t")
    assert offsets.resolve("startingOffsets", given, ENDS, "t") == {0: 10, 1: 5}
    given = offsets.parse("endingOffsets", '{"t": {"0": 12, "1": 0}}', "t")
    assert offsets.resolve("endingOffsets", given, ENDS, "t") == {0: 12, 1: 0}


@pytest.mark.parametrize("text", ['{"a": {"0": 1}}', '{"t": {"0": 1}, "a": {"0": 1}}', '{"t": {"0": 1}, "1": 1}'])
def test_kafkas_json_for_another_topic_is_refused(text: str) -> None:
    with pytest.raises(BadOption, match=r"names the topics .*and this read is of topic t only"):
        offsets.parse("startingOffsets", text, "t")


def test_a_stream_that_began_before_its_topic_reads_each_partition_from_its_first_row() -> None:
    assert offsets.begun({}, ENDS) == {0: 0, 1: 0}
    assert offsets.begun({"0": 12, "1": 3}, ENDS) == {0: 12, 1: 3}


@pytest.mark.parametrize(
    "text",
    ["", "Earliest", "17", "[17]", "{}", '{"0": "17"}', '{"0": true}', '{"0": -1}', '{"a": 1}', '{"t": {"0": -3}}'],
)
def test_another_text_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(BadOption, match=r'startingOffsets is .*earliest, latest or .*\{"0": 17\}'):
        offsets.parse("startingOffsets", text, "t")


def test_offsets_are_written_by_number_of_partition() -> None:
    """Spark compares texts: the same offsets in another order would look like new rows."""
    many = dict.fromkeys(random.Random(4).sample(range(12), 12), 1)
    assert list(offsets.to_json(many)) == [str(n) for n in range(12)]
    assert offsets.from_json(json.loads(json.dumps(offsets.to_json(many)))) == many


def test_earliest_is_what_is_kept_and_latest_what_is_written() -> None:
    assert offsets.resolve("startingOffsets", "earliest", ENDS, "t") == {0: 10, 1: 0}
    assert offsets.resolve("endingOffsets", "latest", ENDS, "t") == {0: 30, 1: 5}
    assert offsets.resolve("startingOffsets", {0: 30, 1: 0}, ENDS, "t") == {0: 30, 1: 0}


@pytest.mark.parametrize(
    ("asked", "told"),
    [({0: 1}, r"has the partitions \[0\] and topic t has \[0, 1\]"), ({0: 31, 1: 0}, "ends there at 30")],
)
def test_an_offset_that_is_not_there_is_refused(asked: dict[int, int], told: str) -> None:
    with pytest.raises(BadOption, match=told):
        offsets.resolve("startingOffsets", asked, ENDS, "t")


def test_offsets_read_beyond_the_end_are_those_of_an_older_ledger() -> None:
    offsets.check_known({0: 30, 1: 5}, ENDS, "t")
    with pytest.raises(LedgerBehind, match=r"partition 1 was read up to 6 and ends at 5.*older copy of its ledger"):
        offsets.check_known({0: 30, 1: 6}, ENDS, "t")
    for other in ({0: 30}, {0: 0, 1: 0, 2: 0}):
        with pytest.raises(LedgerBehind, match="does not match what this query has read"):
            offsets.check_known(other, ENDS, "t")


def test_lost_rows_are_counted_and_fail_the_read_unless_configured_otherwise() -> None:
    span = OffsetSpan(0, 4, 30)
    with pytest.raises(
        Stopped, match=r'6 rows of topic t.*offsets 4 to 9 .*option\("failOnDataLoss", "false"\)'
    ) as raised:
        offsets.first_kept(span, 10, True, "t")
    assert raised.value.code == "OFFSET_TRIMMED"
    assert offsets.first_kept(span, 4, True, "t") == (4, None)
    begin, lost = offsets.first_kept(span, 10, False, "t")
    assert (begin, str(lost)[:16]) == (10, "6 rows of topic ")
    begin, lost = offsets.first_kept(span, 99, False, "t")
    assert (begin, str(lost)[:17]) == (30, "26 rows of topic ")


def test_a_limit_is_kept_and_used_up_and_no_partition_starves() -> None:
    rng = random.Random(11)
    for _ in range(2_000):
        start = {p: rng.randrange(10) for p in range(rng.randint(1, 6))}
        high = {p: offset + rng.randrange(12) for p, offset in start.items()}
        most = rng.randint(1, 20)
        end = offsets.limited(start, high, most)
        taken = {p: end[p] - start[p] for p in start}
        lags = {p: high[p] - start[p] for p in start}
        assert all(0 <= taken[p] <= lags[p] for p in start)
        assert sum(taken.values()) == min(most, sum(lags.values()))
        most_taken = max(taken.values())
        assert all(taken[p] == lags[p] or taken[p] >= most_taken - 1 for p in start)


def test_without_a_limit_all_there_is_is_taken() -> None:
    assert offsets.limited({0: 10, 1: 0}, {0: 30, 1: 5}, None) == {0: 30, 1: 5}


def test_slices_cover_each_row_once() -> None:
    cut = offsets.slices({0: 10, 1: 0, 2: 7}, {0: 35, 1: 5, 2: 7}, 10)
    assert cut == [OffsetSpan(0, 10, 20), OffsetSpan(0, 20, 30), OffsetSpan(0, 30, 35), OffsetSpan(1, 0, 5)]
