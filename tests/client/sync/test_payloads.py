"""Payloads beside ids: the client reports conflicts, and drops them only on request."""

import itertools
import logging
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest

from oncegate_spark import Gateway
from oncegate_spark.errors import BadOption, OncegateError, Outcome, PayloadConflict, Stopped, TaskFailed
from oncegate_spark.protocol.payloads import beside, payload_columns
from oncegate_spark.spark.options import Options
from oncegate_spark.spark.writers import check_schema
from oncegate_spark.spark.writers.claim_loop import ClaimProgress, Settler
from oncegate_spark.sync.attempt import Attempt
from tests.support.client_clock import SteppedClock
from tests.support.clients import Connect
from tests.support.gateway_process import GatewayProcess
from tests.support.spark_writes import Write, published
from tests.support.stub_gateway import Answer, StubGateway, problem
from tests.support.verdicts import BUSY, DUPLICATE, GRANTED, packed

COUNT = itertools.count()
CONFLICT = 6
server = pytest.mark.server


@pytest.fixture
def client(gateway_process: GatewayProcess, connect: Connect) -> Iterator[Any]:
    with connect(gateway_process.url, f"payloads-{next(COUNT)}", timeout_ms=20_000) as made:
        made.create_namespace()
        yield made


def done(client: Any, ids: list[Any], payloads: list[Any]) -> None:
    with client.attempt() as attempt:
        attempt.complete(attempt.claim(ids, payloads=payloads))


@server
def test_the_same_payload_is_a_duplicate_and_another_stops_the_attempt(client: Any) -> None:
    done(client, ["a", "b"], ["1", "2"])
    with client.attempt() as attempt:
        assert attempt.claim(["a", "b"], payloads=["1", "2"]).dropped == ["a", "b"]
        with pytest.raises(PayloadConflict, match=r"2 of 4 ids came with another payload.*'a', 'b'") as caught:
            attempt.claim(["c", "a", "b", "d"], payloads=["3", "9", "9", "4"])
        assert (caught.value.count, caught.value.outcome) == (2, Outcome.NOT_WRITTEN)
        free = attempt.claim(["c", "d"])
        assert free.granted == ["c", "d"], "the other granted ids were released at once"
        attempt.release(free)


@server
def test_conflicts_are_dropped_on_request_reported_and_counted(client: Any, caplog: pytest.LogCaptureFixture) -> None:
    done(client, ["a"], ["1"])
    with client.attempt() as attempt, caplog.at_level(logging.WARNING, "oncegate_spark"):
        claimed = attempt.claim(["a", "b", "a"], payloads=["9", "2", "1"], on_conflict="drop")
        assert (claimed.granted, claimed.conflicting, claimed.dropped) == (["b"], ["a", "a"], [])
        attempt.complete(claimed)
    assert "2 of 3 ids came with another payload than before, the first: 'a', 'a'; dropped" in caplog.text
    assert client.describe()["counters"]["conflicts"] == 2


@server
def test_payloads_may_be_bytes_numbers_null_and_several_columns(client: Any) -> None:
    done(client, [1, 2, 3], [(10, b"x"), (None, b"y"), (12, None)])
    with client.attempt() as attempt:
        again = attempt.claim([1, 2, 3], payloads=pa.table({"n": [10, None, 12], "b": [b"x", b"y", None]}))
        assert again.dropped == [1, 2, 3]
        other = attempt.claim([1, 2, 3], payloads=[(10, b""), (0, b"y"), (12, b"")], on_conflict="drop")
        assert other.conflicting == [1, 2, 3]
        assert attempt.claim([1, 2, 3]).dropped == [1, 2, 3], "without payloads nothing is compared"


def topic_of(client: Any) -> dict[str, int]:
    table = client.read("t")
    return dict(zip(table.column("id").to_pylist(), table.column("n").to_pylist(), strict=True))


@server
def test_rows_written_with_another_payload_are_reported_and_the_others_written(client: Any) -> None:
    def produce(rows: dict[str, list[Any]], **more: str) -> Any:
        with client.attempt() as attempt:
            return attempt.produce("t", pa.table(rows), id_col="id", digest_cols="n", **more)

    produce({"id": ["a", "b"], "n": [1, 2]})
    again = produce({"id": ["a", "b"], "n": [1, 2]})
    assert (again.rows, again.suppressed, again.conflicts) == (0, 2, 0)
    with pytest.raises(PayloadConflict, match=r"id column id, payload n: 1 of 2 ids .* 'a'.*1 other row") as caught:
        produce({"id": ["a", "c"], "n": [9, 3]})
    assert caught.value.outcome is Outcome.WRITTEN
    dropped = produce({"id": ["a", "d", "d"], "n": [9, 4, 5]}, on_conflict="drop")
    assert (dropped.rows, dropped.suppressed, dropped.conflicts) == (1, 0, 2)
    assert topic_of(client) == {"a": 1, "b": 2, "c": 3, "d": 4}


@server
def test_a_claim_and_a_produce_know_the_same_payload(client: Any) -> None:
    done(client, ["a", "b"], [1, 2])
    with client.attempt(id_set="") as attempt:
        rows = pa.table({"id": ["a", "b"], "n": [1, 9]})
        written = attempt.produce("t", rows, id_col="id", digest_cols="n", on_conflict="drop")
    assert (written.rows, written.suppressed, written.conflicts) == (0, 1, 1)


def test_a_conflict_is_also_reported_when_the_release_fails(connect: Connect) -> None:
    answers = Answer(body=packed([GRANTED, CONFLICT], claim=True)), problem(404, "UNKNOWN_CLAIM", "stop")
    with (
        StubGateway(*answers) as stub,
        connect(stub.url, clock=SteppedClock()) as gateway,
        pytest.raises(PayloadConflict) as caught,
        gateway.attempt() as attempt,
    ):
        attempt.claim(["a", "b"], payloads=["1", "2"])
    assert any("free once their lease expires" in note for note in caught.value.__notes__)
    assert [asked.path.rpartition(":")[2] for asked in stub.asked] == ["claim", "release"]
    assert stub.asked[0].headers["oncegate-digest-cols"] == "payload0"
    assert pa.ipc.open_stream(stub.asked[0].body).read_all().column_names == ["id0", "payload0"]


def test_without_payloads_nothing_of_them_is_sent(connect: Connect) -> None:
    with StubGateway(Answer(body=packed([GRANTED]))) as stub, connect(stub.url, clock=SteppedClock()) as gateway:
        gateway.attempt().claim(["a"])
        assert "oncegate-digest-cols" not in stub.asked[0].headers


@pytest.mark.parametrize(
    ("payloads", "more", "words"),
    [
        (["1"], {}, "1 payloads for 2 ids"),
        ([1.5, 2.5], {}, "payloads[0] is of type float, which has no canonical text"),
        ([("a", 1), ("b",)], {}, "tuples of one length"),
        (["1", "2"], {"on_conflict": "ignore"}, "one of fail, drop"),
    ],
)
def test_payloads_that_cannot_be_are_refused_before_anything_is_asked(
    connect: Connect, payloads: list[Any], more: dict[str, str], words: str
) -> None:
    with StubGateway() as stub, connect(stub.url, clock=SteppedClock()) as gateway:
        with pytest.raises(BadOption) as caught:
            gateway.attempt().claim(["a", "b"], payloads=payloads, **more)
        assert words in str(caught.value)
        assert stub.asked == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"id_col": "id", "digest_cols": "x"}, "digest_cols names x, and the rows have id, n, f"),
        ({"id_col": "id", "digest_cols": "f"}, "payload column f is of type double"),
        ({"digest_cols": "n"}, "name the ids by id_col"),
        ({"id_col": "id", "digest_cols": "n", "on_conflict": ""}, "one of fail, drop"),
    ],
)
def test_payload_columns_that_cannot_be_are_refused_before_anything_is_sent(
    connect: Connect, given: dict[str, str], words: str
) -> None:
    with StubGateway() as stub, connect(stub.url, clock=SteppedClock()) as gateway:
        with pytest.raises(BadOption) as caught:
            gateway.attempt().produce("t", pa.table({"id": ["a"], "n": [1], "f": [0.5]}), **given)
        assert words in str(caught.value)
        assert stub.asked == []


def test_payloads_of_no_ids_are_none() -> None:
    assert beside(2, None) == []
    assert [column.to_pylist() for column in payload_columns({"n": pa.nulls(2), "m": pa.array([1, None])})] == [
        [None, None],
        ["1", None],
    ]


def test_a_conflict_is_an_error_that_a_person_must_look_at() -> None:
    assert issubclass(PayloadConflict, Stopped)
    assert PayloadConflict.code == "PAYLOAD_CONFLICT"


def batch(ids: str, *numbers: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": list(ids), "n": pa.array(numbers, pa.int64())})


@server
def test_a_settler_writes_nothing_of_a_batch_with_conflicts(gateway: Gateway) -> None:
    written: list[str] = []
    progress = ClaimProgress()

    def settle(rows: pa.RecordBatch, **more: str) -> None:
        one = Settler(
            Attempt(gateway), ["id"], lambda part: written.extend(part.column("id").to_pylist()), progress,
            payloads=["n"], **more,
        )  # fmt: skip
        with closing(one):
            one.settle(rows)

    settle(batch("ab", 1, 2))
    with pytest.raises(PayloadConflict):
        settle(batch("xa", 7, 9))
    assert written == ["a", "b"]
    settle(batch("xa", 7, 9), on_conflict="drop")
    assert (written, progress.conflicts, progress.suppressed) == (["a", "b", "x"], 1, 0)


def test_rows_that_are_asked_for_again_bring_their_own_payloads() -> None:
    answers = [
        Answer(body=packed([GRANTED, BUSY], claim=True, lease_ms=30_000)),
        Answer(body=b'{"state": "DONE", "settled": 1, "taken_over": 0, "lease_ms": 0}'),
        Answer(body=packed([DUPLICATE])),
    ]
    with StubGateway(*answers) as stub, Gateway(stub.url, clock=SteppedClock()) as gateway:
        with closing(Settler(Attempt(gateway), ["id"], lambda part: None, payloads=["n"])) as one:
            one.settle(batch("ab", 7, 8))
        again = pa.ipc.open_stream(stub.asked[2].body).read_all()
    assert again.to_pydict() == {"id0": ["b"], "payload0": ["8"]}


SINK = {"write": "claim", "idCol": "id", "sink": "tests.client.sync.test_payloads:Kept", "digestCols": "n"}


class Kept:
    """A sink whose rows stay in this process."""

    rows: list[int] = []  # noqa: RUF012

    def open(self, context: object) -> None: ...
    def close(self) -> None: ...

    def write(self, rows: pa.RecordBatch) -> None:
        self.rows.extend(rows.column("n").to_pylist())


@server
@pytest.mark.parametrize("way", [{"write": "ids", "idCol": "id", "digestCols": "n"}, SINK], ids=["ids", "claim"])
def test_a_task_fails_on_a_conflict_with_column_count_and_ids(gateway: Gateway, way: dict[str, str]) -> None:
    written = Write(gateway, **way)
    written.writer.commit([written.task(1, 2)], 4)
    other = Write(gateway, **{**way, "digestCols": "id"})
    with pytest.raises(TaskFailed, match=r"id column id, payload id: .*1 of 1 ids came with .* 'id-2'") as caught:
        other.task(2)
    assert caught.value.code == "PAYLOAD_CONFLICT"
    assert caught.value.outcome is Outcome.NOT_WRITTEN


@server
@pytest.mark.parametrize("way", [{"write": "ids", "idCol": "id", "digestCols": "n"}, SINK], ids=["ids", "claim"])
def test_dropped_conflicts_are_reported_at_the_end_of_the_batch(
    gateway: Gateway, way: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    first = Write(gateway, **way)
    first.writer.commit([first.task(1, 2)], 4)
    other = Write(gateway, **{**way, "digestCols": "id", "onConflict": "drop"})
    with caplog.at_level(logging.INFO, "oncegate_spark"):
        other.writer.commit([other.task(1, 2, 3)], 4)
    assert "batch 4: conflicts=2 rows dropped" in caplog.text
    if way["write"] == "ids":
        assert published(gateway) == {1: 1, 2: 1, 3: 1}
    else:
        assert Kept.rows[-3:] == [1, 2, 3]


LEAST = {"url": "http://x", "path": "t", "write": "ids", "idCol": "id"}


def test_the_options_of_payloads_are_read() -> None:
    read = Options.read({**LEAST, "digestCols": "a, b", "onConflict": "drop"})
    assert (read.digest_names, read.on_conflict) == (("a", "b"), "drop")
    assert (Options.read(LEAST).digest_names, Options.read(LEAST).on_conflict) == ((), "fail")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({**LEAST, "onConflict": "drop"}, 'add .option("digestCols"'),
        ({**LEAST, "digestCols": "n", "onConflict": "keep"}, "one of fail, drop"),
        ({"url": "http://x", "path": "t", "digestCols": "n"}, 'add .option("write", "ids")'),
        (
            {
                "url": "http://x",
                "path": "t",
                "write": "claim",
                "producerCol": "p",
                "sequenceCol": "s",
                "digestCols": "n",
            },
            "if the gateway writes the rows",
        ),
    ],
)
def test_options_of_payloads_that_would_do_nothing_are_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(BadOption) as caught:
        Options.read(given)
    assert words in str(caught.value)


def test_payload_columns_are_looked_for_on_the_driver() -> None:
    types = pytest.importorskip("pyspark.sql.types")
    schema = types.StructType().add("id", "string").add("n", "long").add("f", "double")
    check_schema(Options.read({**LEAST, "digestCols": "n"}), schema)
    for name, words in (("x", "digestCols names x"), ("f", 'F.col("f").cast("string")')):
        with pytest.raises(OncegateError) as caught:
            check_schema(Options.read({**LEAST, "digestCols": name}), schema)
        assert words in str(caught.value)
