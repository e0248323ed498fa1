"""Payloads of rows by sequence against a scripted gateway, for both clients: requests and conflicts."""

import pyarrow as pa
import pytest

from oncegate_spark import PayloadConflict
from oncegate_spark.errors import BadOption, Outcome
from tests.support.clients import Connect
from tests.support.producer_answers import registered
from tests.support.stub_gateway import StubGateway
from tests.support.verdicts import DUPLICATE, GRANTED, produced

CONFLICT = 6
ROWS = pa.table({"at": pa.array([17, 18, 19], pa.int64()), "n": [1, 2, 3]})


def body() -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, ROWS.schema) as writer:
        writer.write_table(ROWS)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    ("verdicts", "outcome"),
    [((GRANTED, CONFLICT, DUPLICATE), Outcome.WRITTEN), ((DUPLICATE, CONFLICT, DUPLICATE), Outcome.NOT_WRITTEN)],
)
def test_a_conflict_is_raised_with_its_sequence_and_what_mends_it(
    connect: Connect, verdicts: tuple[int, ...], outcome: Outcome
) -> None:
    answer = produced(verdicts, (0, 4, verdicts.count(GRANTED)))
    with StubGateway(registered(), answer) as stub, connect(stub.url) as gateway:
        producer = gateway.producer("events-3", driver="load")
        producer.register()
        with pytest.raises(
            PayloadConflict, match="1 of 3 ids came with another payload than before, the first: 18"
        ) as error:
            producer.produce("t", body(), sequence_col="at", digest_cols="n")
        assert "another producer name" in str(error.value)
        assert error.value.outcome is outcome
        assert "digest_col=n" in stub.asked[-1].path


def test_a_conflict_is_dropped_at_the_callers_request(connect: Connect) -> None:
    answer = produced([GRANTED, CONFLICT, DUPLICATE], (0, 4, 1))
    with StubGateway(registered(), answer) as stub, connect(stub.url) as gateway:
        producer = gateway.producer("events-3", driver="load")
        producer.register()
        done = producer.produce("t", body(), sequence_col="at", digest_cols=["n"], on_conflict="drop")
    assert done.verdicts is not None
    assert done.verdicts.conflicts == 1


def test_what_becomes_of_a_conflict_is_checked_before_anything_is_sent(connect: Connect) -> None:
    with StubGateway(registered()) as stub, connect(stub.url) as gateway:
        producer = gateway.producer("events-3", driver="load")
        producer.register()
        with pytest.raises(BadOption, match="on_conflict is 'keep'"):
            producer.produce("t", body(), sequence_col="at", digest_cols="n", on_conflict="keep")
        assert len(stub.asked) == 1
