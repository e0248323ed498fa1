"""The brokerless part of a lane writer: the bytes of its record, and the choice of rows to write."""

import json
from pathlib import Path

import pytest
from confluent_kafka import Uuid

from oncegate_spark.direct import DirectRow
from oncegate_spark.direct.transaction import CopiedSpans, lane_record, topic_id_text
from oncegate_spark.direct.writer import missing

GOLDEN = json.loads((Path(__file__).parents[2] / "golden/kafka/lane_records.json").read_text())


@pytest.mark.parametrize("golden", GOLDEN)
def test_the_bytes_of_a_record_are_those_that_the_gateway_reads(golden: dict[str, object]) -> None:
    made = lane_record(bytes.fromhex(str(golden["ledger"])), golden["lane"], golden["spans"])  # type: ignore[arg-type]
    assert made.hex() == golden["record"]


def test_sequences_that_follow_each_other_are_one_span() -> None:
    spans = CopiedSpans()
    for sequence in (0, 1, 2, 5, 7, 8):
        spans.add(sequence)
    assert (spans.spans, spans.count, len(spans)) == ([[0, 2], [5, 5], [7, 8]], 6, 3)


@pytest.mark.parametrize(
    ("written", "left"),
    [
        ((), [1, 2, 3, 7]),
        (((1, 7),), []),
        (((0, 1), (3, 3)), [2, 7]),
        (((2, 2), (4, 6)), [1, 3, 7]),
        (((7, 7),), [1, 2, 3]),
    ],
)
def test_rows_reported_as_written_are_left_out(written: tuple[tuple[int, int], ...], left: list[int]) -> None:
    found = missing([DirectRow(one, b"") for one in (1, 2, 3, 7)], written)
    assert [row.sequence for row in found] == left


@pytest.mark.parametrize(
    ("most", "least", "text"),
    [
        (0, 0, ""),
        (0, 1, "AAAAAAAAAAAAAAAAAAAAAQ"),
        (-1, -1, "_____________________w"),
        (-(1 << 60), 0, "8AAAAAAAAAAAAAAAAAAAAA"),
    ],
)
def test_a_topic_s_id_is_the_text_that_the_tools_of_kafka_show(most: int, least: int, text: str) -> None:
    assert topic_id_text(Uuid(most, least)) == text
