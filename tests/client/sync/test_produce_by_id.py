"""Rows produced by id: repeated until each of them is done, against a scripted gateway."""

import re
import struct
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pytest

from oncegate_spark.errors import BadId, BadOption, BatchConflict, Outcome, Refused, StillBusy, Unreadable
from oncegate_spark.protocol import codecs
from oncegate_spark.protocol.answers import ProducedOffsets
from oncegate_spark.protocol.packed import Place
from tests.support.client_clock import SteppedClock
from tests.support.clients import Connect
from tests.support.stub_gateway import LOST, Answer, Asked, StubGateway, problem
from tests.support.verdicts import BUSY, DUPLICATE, GRANTED, OF_CALL, OWN, SAME, TAKEOVER, produced


def rows(*ids: str) -> pa.Table:
    return pa.table({"id": list(ids), "n": list(range(len(ids)))})


def sent(asked: Asked) -> list[str]:
    return list(pa.ipc.open_stream(asked.body).read_all().column("id").to_pylist())


def produce(connect: Connect, stub: StubGateway, table: pa.Table, clock: SteppedClock | None = None) -> Any:
    with connect(stub.url, clock=clock or SteppedClock()) as gateway, gateway.attempt() as attempt:
        return attempt.produce("t", table, id_col="id")


def test_granted_rows_are_written_and_the_rest_dropped_and_counted(connect: Connect) -> None:
    answer = produced([GRANTED, TAKEOVER, DUPLICATE, OWN, SAME], (0, 7, 1), (2, 40, 1))
    with StubGateway(answer) as stub:
        written = produce(connect, stub, rows("a", "b", "c", "d", "a"))
        (requests,) = stub.asked
    assert (written.rows, written.own, written.suppressed, written.takeovers) == (2, 1, 2, 1)
    assert written.offsets == [ProducedOffsets(0, 7, 1), ProducedOffsets(2, 40, 1)]
    assert requests.headers["accept"] == codecs.PACKED
    assert requests.path == "/v1/namespaces/default/topics/t/records:produce?id_col=id"


def test_busy_rows_are_asked_for_again_alone_and_in_a_new_call(connect: Connect) -> None:
    answers = [
        produced([GRANTED, BUSY, DUPLICATE, BUSY], (0, 0, 1)),
        produced([BUSY, GRANTED], (0, 1, 1)),
        produced([DUPLICATE]),
    ]
    clock = SteppedClock()
    with StubGateway(*answers) as stub:
        written = produce(connect, stub, rows("a", "b", "c", "d"), clock)
        requests = stub.asked
    assert [sent(one) for one in requests] == [["a", "b", "c", "d"], ["b", "d"], ["b"]]
    assert [one.headers["oncegate-call"] for one in requests] == ["0", "1", "2"]
    assert len({one.headers["oncegate-token"] for one in requests}) == 1
    assert (written.rows, written.suppressed) == (2, 2)
    assert clock.slept_ms == []  # grants are progress; the client waits only without progress


def located(answer: Answer, *offsets: int) -> Answer:
    """Adds to an answer that the first of each duplicate is in partition 0 of topic t at these offsets."""
    places = b"".join(struct.pack("<IIQ", 0, 0, offset) for offset in offsets)
    results = struct.pack(f"<I{len(offsets)}I", 0, *[0xFFFF_FFFF] * len(offsets))
    return replace(answer, body=answer.body + struct.pack("<II", 1, 1) + b"t" + places + results)


def test_row_offsets_of_repeated_rows_are_at_the_positions_of_their_rows(connect: Connect) -> None:
    answers = [
        located(produced([GRANTED, BUSY, DUPLICATE, BUSY, BUSY], (0, 0, 1)), 40),
        located(produced([BUSY, GRANTED, DUPLICATE], (0, 1, 1)), 41),
        located(produced([DUPLICATE]), 42),
    ]
    table = rows("a", "b", "c", "d", "e")
    with (
        StubGateway(*answers) as stub,
        connect(stub.url, clock=SteppedClock()) as gateway,
        gateway.attempt() as attempt,
    ):
        written = attempt.produce("t", table, id_col="id", locate=True)
        requests = stub.asked
    assert {one.path.partition("?")[2] for one in requests} == {"id_col=id&locate=true"}
    assert written.places == [None, Place("t", 0, 42), Place("t", 0, 40), None, Place("t", 0, 41)]
    assert written.results == [None] * 5


def test_rows_that_another_holds_are_waited_for_until_it_is_done(connect: Connect) -> None:
    clock = SteppedClock()
    with StubGateway(*[produced([BUSY])] * 5, produced([DUPLICATE])) as stub:
        written = produce(connect, stub, rows("a"), clock)
    assert written.suppressed == 1
    assert len(clock.slept_ms) == 5
    assert clock.slept_ms == sorted(clock.slept_ms)


def test_a_holder_that_never_completes_nor_releases_is_not_waited_for_forever(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncegate_spark.protocol.calls.attempt.LEASE_MS", 1_000)
    clock = SteppedClock()
    ends_ms = clock.now_ms + 1_000
    first = produced([GRANTED, BUSY, OF_CALL], (0, 0, 1), left_ms=1_000)

    def silent(asked: Asked) -> Answer:
        return produced([BUSY, BUSY], left_ms=max(0, ends_ms - clock.now_ms))

    with StubGateway(first, otherwise=silent) as stub:
        with pytest.raises(
            StillBusy, match=r"another attempt holds 2 rows .* the earlier requests of this call wrote 1 rows"
        ) as raised:
            produce(connect, stub, rows("a", "b", "c"), clock)
        assert len(stub.asked) > 10
    assert raised.value.outcome is Outcome.WRITTEN
    assert 500 <= clock.now_ms - ends_ms <= 520  # half a lease more than its lease


def test_a_lost_reply_is_asked_for_again_with_the_same_call_and_its_rows_are_not_counted_twice(
    connect: Connect,
) -> None:
    with StubGateway(LOST, produced([OWN, DUPLICATE])) as stub:
        written = produce(connect, stub, rows("a", "b"))
        first, second = stub.asked
    assert (first.headers["oncegate-call"], first.body) == (second.headers["oncegate-call"], second.body)
    assert (written.rows, written.own, written.suppressed) == (0, 1, 1)


def test_a_refusal_after_written_rows_does_not_claim_that_nothing_was_written(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codecs, "IDS_MAX", 2)
    conflict = problem(409, "BATCH_CONFLICT", "stop", places=[1])
    with StubGateway(produced([GRANTED, GRANTED], (0, 0, 2)), conflict) as stub:
        with pytest.raises(
            BatchConflict,
            match=r"; nothing of this request was written; the earlier requests of this call wrote 2 rows$",
        ) as raised:
            produce(connect, stub, rows("a", "b", "c"))
        assert [sent(one) for one in stub.asked] == [["a", "b"], ["c"]]
    assert raised.value.outcome is Outcome.WRITTEN
    assert raised.value.extra["places"] == [1]


@pytest.mark.parametrize("ids", [["a", None], ["a", ""], [1.5, 2.5]])
def test_a_bad_id_is_refused_before_any_row_is_sent(connect: Connect, ids: list[Any]) -> None:
    with StubGateway() as stub:
        with pytest.raises(BadId):
            produce(connect, stub, pa.table({"id": ids}))
        assert stub.asked == []


def test_a_column_that_is_not_there_is_refused_before_any_row_is_sent(connect: Connect) -> None:
    with StubGateway() as stub, connect(stub.url) as gateway, gateway.attempt() as attempt:
        with pytest.raises(BadId, match="no column"):
            attempt.produce("t", rows("a"), id_col="key")
        with pytest.raises(BadOption, match="key_col names key"):
            attempt.produce("t", rows("a"), key_col="key")
        with pytest.raises(BadOption, match="comma"):
            attempt.produce("t", rows("a"), id_col=["id,n"])
        assert stub.asked == []


def test_several_columns_may_be_the_id_and_others_choose_the_partition(connect: Connect) -> None:
    with StubGateway(produced([GRANTED], (1, 0, 1)), produced([GRANTED], (1, 1, 1))) as stub:
        with connect(stub.url) as gateway, gateway.attempt() as attempt:
            attempt.produce("t", rows("a"), id_col="id, n", key_col=["n"])
            attempt.produce("t", rows("b"), id_col=["id", "n"], key_col="n")
        queries = [parse_qs(urlsplit(asked.path).query) for asked in stub.asked]
    assert queries == [{"id_col": ["id,n"], "key_col": ["n"]}] * 2


def test_without_ids_rows_are_written_at_least_once_and_no_verdict_is_asked_for(connect: Connect) -> None:
    body = b'{"rows": 2, "offsets": [{"partition": 3, "first_offset": 9, "rows": 2}]}'
    with StubGateway(Answer(body=body)) as stub, connect(stub.url) as gateway, gateway.attempt() as attempt:
        written = attempt.produce("t", rows("a", "b"))
        assert stub.asked[0].path.endswith("records:produce")
    assert (written.rows, written.offsets) == (2, [ProducedOffsets(3, 9, 2)])


@pytest.mark.parametrize(
    "answer",
    [Answer(body=b"{}"), produced([GRANTED, GRANTED], (0, 0, 2)), Answer(body=produced([GRANTED]).body)],
    ids=["JSON", "another count", "no offsets"],
)
def test_an_answer_that_cannot_be_read_leaves_it_unknown(connect: Connect, answer: Answer) -> None:
    with StubGateway(answer) as stub, pytest.raises(Unreadable, match="unknown: whether these rows were") as raised:
        produce(connect, stub, rows("a"))
    assert raised.value.outcome is Outcome.UNKNOWN


def test_no_rows_are_no_request(connect: Connect) -> None:
    with StubGateway() as stub:
        assert produce(connect, stub, rows("a").slice(1)).rows == 0
        assert stub.asked == []


def test_a_row_over_the_gateways_limit_is_refused(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codecs, "BODY_BYTES_MAX", 1_000)
    with StubGateway() as stub, pytest.raises(Refused, match="one row takes"):
        produce(connect, stub, rows("x" * 2_000))


def test_a_row_over_the_limit_after_others_is_reported_in_one_sentence(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codecs, "BODY_BYTES_MAX", 1_000)
    monkeypatch.setattr(codecs, "CHUNK_BYTES", 1)
    with StubGateway(produced([GRANTED], (0, 0, 1))) as stub:
        message = r"write their address.* the row;.*; the earlier requests of this call wrote 1 rows"
        with pytest.raises(Refused, match=message) as raised:
            produce(connect, stub, pa.concat_tables([rows("a"), rows("x" * 2_000)]))
    assert raised.value.outcome is Outcome.WRITTEN


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ([{"id": "a"}], "write pa.Table.from_pylist(rows)"),
        ({"id": ["a"]}, "write pa.table(rows)"),
        (SimpleNamespace(columns=["id"]), "write pa.Table.from_pandas(rows, preserve_index=False)"),
        (None, "rows is of type NoneType; it must be a pyarrow.Table"),
    ],
)
def test_rows_without_types_are_refused_with_the_line_to_write(connect: Connect, rows: Any, line: str) -> None:
    with StubGateway() as stub, connect(stub.url, clock=SteppedClock()) as gateway:
        with pytest.raises(BadOption, match=rf"{re.escape(line)}.*nothing was sent$"):
            gateway.attempt().produce("t", rows, id_col="id")
        with pytest.raises(
            BadOption, match=r"^body is of type .*; it must be the bytes of an Arrow IPC stream.*nothing was"
        ):
            gateway.produce("t", "0" * 32, 0, rows)
        assert stub.asked == []


def test_record_batch_is_rows_like_any_table(connect: Connect) -> None:
    with StubGateway(produced([GRANTED], (0, 0, 1))) as stub:
        assert produce(connect, stub, rows("a").to_batches()[0]).rows == 1
        assert sent(stub.asked[0]) == ["a"]
