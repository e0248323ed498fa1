"""Drivers and producers of both clients against a scripted gateway: their requests and decoded answers."""

import json
import struct
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from oncegate_spark import AsyncGateway, Gateway, errors
from oncegate_spark.aio.producers import AsyncDriver, AsyncProducer
from oncegate_spark.errors import BadId, BadOption, NotCompleted, OncegateError, Outcome, ProducerBusy, StillBusy
from oncegate_spark.protocol import codecs
from oncegate_spark.protocol.answers import Acked, DriverEpoch, RefusedPart, Registered
from oncegate_spark.sync.producers import Driver, Producer
from tests.support.client_clock import SteppedClock
from tests.support.clients import Connect, public
from tests.support.producer_answers import answering, registered
from tests.support.stub_gateway import LOST, Answer, Asked, StubGateway, problem
from tests.support.verdicts import BUSY, DUPLICATE, GRANTED, packed

CLOSED = Answer()
SETTLED = {"call": 0, "state": "DONE", "settled": 2, "taken_over": 0, "lease_ms": 0}


def members(asked: Asked) -> dict[str, Any]:
    return dict(json.loads(asked.body))


@pytest.mark.parametrize(("one", "other"), [(Driver, AsyncDriver), (Producer, AsyncProducer)])
def test_both_clients_have_the_same_names_with_the_same_arguments(one: type, other: type) -> None:
    ours, theirs = public(one), public(other)
    assert ours.keys() == theirs.keys()
    for name, signature in ours.items():
        assert [str(p) for p in signature.parameters.values()] == [str(p) for p in theirs[name].parameters.values()]


def test_a_producer_is_registered_claims_under_its_epoch_and_closes(connect: Connect) -> None:
    answers = [
        registered(),
        Answer(body=packed([DUPLICATE, GRANTED, GRANTED], lease_ms=900)),
        answering(**SETTLED),
        CLOSED,
    ]
    with StubGateway(*answers) as stub, connect(stub.url) as gateway:
        with gateway.producer("events-3", driver="load", token="ab" * 16) as producer:
            claimed = producer.claim([17, 18, 20], prev_sequence=16)
            assert (claimed.dropped, claimed.granted) == ([17], [18, 20])
            producer.complete(claimed)
        register, claim, complete, close = stub.asked
    assert [one.path.rpartition(":")[2] for one in stub.asked] == ["register", "claim", "complete", "close"]
    assert register.path == "/v1/namespaces/default/producers/events-3:register"
    assert members(register) == {"token": "ab" * 16, "driver": "load"}
    assert claim.body == struct.pack("<3Q", 17, 18, 20)
    assert (claim.headers["content-type"], claim.headers["accept"]) == (codecs.PACKED, codecs.PACKED)
    sent = {name: claim.headers[f"oncegate-{name}"] for name in ("token", "call", "epoch", "prev-sequence")}
    assert sent == {"token": "ab" * 16, "call": "0", "epoch": "7", "prev-sequence": "16"}
    assert members(complete) == {"token": "ab" * 16, "epoch": 7, "call": 0}
    assert members(close) == {"token": "ab" * 16, "epoch": 7}


def test_registering_returns_the_state_of_the_producer(connect: Connect) -> None:
    with StubGateway(registered(watermark=9), CLOSED) as stub, connect(stub.url) as gateway:
        producer = gateway.producer("a/b", driver="load", lease_ms=5_000)
        standing = producer.register()
        assert members(stub.asked[0])["lease_ms"] == 5_000
    assert stub.asked[0].path == "/v1/namespaces/default/producers/a%2Fb:register"
    assert standing == Registered(3, 7, 30_000, 9, 20, 12, ((0, 12), (15, 16)), False)


def test_a_claim_whose_reply_was_lost_is_repeated_under_its_call(connect: Connect) -> None:
    answers = [
        registered(),
        LOST,
        Answer(body=packed([GRANTED])),
        answering(**SETTLED),
        Answer(body=packed([GRANTED])),
    ]
    with StubGateway(*answers) as stub, connect(stub.url) as gateway:
        producer = gateway.producer("p", driver="d")
        producer.register()
        producer.complete(producer.claim([1]))
        producer.claim([2], prev_sequence=1)
        calls = [asked.headers["oncegate-call"] for asked in stub.asked if asked.path.endswith(":claim")]
    assert calls == ["0", "0", "1"]


def busy(left_ms: int) -> Answer:
    return problem(409, "PRODUCER_BUSY", "retry", lease_left_ms=left_ms, retry_after_ms=1_000)


def test_acked_rows_are_dropped_and_counted_as_suppressed(connect: Connect) -> None:
    with StubGateway(registered(), Answer(body=packed([5, 5, GRANTED]))) as stub, connect(stub.url) as gateway:
        producer = gateway.producer("p", driver="d")
        producer.register()
        claimed = producer.claim([1, 2, 3])
    assert (claimed.dropped, claimed.granted) == ([1, 2], [3])
    assert (claimed.verdicts.stale, claimed.verdicts.suppressed) == (2, 2)


def test_a_lease_of_another_attempt_is_waited_for_and_then_the_producer_is_ours(connect: Connect) -> None:
    clock = SteppedClock()
    with (
        StubGateway(busy(400), busy(200), registered()) as stub,
        connect(stub.url, clock=clock, rng=Random(1)) as gateway,
    ):
        producer = gateway.producer("p", driver="d")
        assert producer.register().epoch == 7
        assert len({members(asked)["token"] for asked in stub.asked}) == 1
    assert len(stub.asked) == 3


def test_who_waits_for_a_lease_that_does_not_move_on_gives_up_after_one_and_a_half(connect: Connect) -> None:
    clock = SteppedClock()
    began_ms = clock.monotonic_ms()
    with (
        StubGateway(otherwise=lambda asked: busy(0)) as stub,
        connect(stub.url, clock=clock, rng=Random(1)) as gateway,
        pytest.raises(ProducerBusy) as raised,
    ):
        gateway.producer("p", driver="d", lease_ms=1_000).register()
    assert raised.value.outcome is Outcome.NOT_WRITTEN
    assert raised.value.lease_left_ms == 0
    assert 1_500 <= clock.monotonic_ms() - began_ms <= 2_000


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("FENCED", errors.Fenced),
        ("GAP", errors.Gap),
        ("OUT_OF_ORDER", errors.OutOfOrder),
        ("OLDER_BATCH", errors.OlderBatch),
        ("NOT_DRIVER", errors.NotDriver),
    ],
)
def test_a_refusal_that_ends_the_attempt_is_an_error_of_its_own_and_never_success(
    connect: Connect, code: str, kind: type[OncegateError]
) -> None:
    with StubGateway(registered(), problem(409, code, "stop"), CLOSED) as stub, connect(stub.url) as gateway:
        producer = gateway.producer("p", driver="d")
        producer.register()
        with pytest.raises(kind) as raised:
            producer.claim([4], prev_sequence=3)
        assert isinstance(raised.value, errors.Stopped)
        assert raised.value.outcome is Outcome.NOT_WRITTEN
        assert len(stub.asked) == 2


def test_an_id_that_is_not_ours_is_never_completed_in_silence(connect: Connect) -> None:
    answers = [registered(), Answer(body=packed([BUSY, GRANTED])), answering(**SETTLED)]
    with StubGateway(*answers) as stub, connect(stub.url) as gateway:
        producer = gateway.producer("p", driver="d")
        producer.register()
        with pytest.raises(StillBusy, match="1 belong to another attempt"):
            producer.complete(producer.claim([1, 2]))


def left_open(gateway: Any) -> None:
    with gateway.producer("p", driver="d") as producer:
        producer.claim([1])


def test_leaving_a_producer_with_an_open_claim_warns_and_closes(connect: Connect) -> None:
    with StubGateway(registered(), Answer(body=packed([GRANTED])), CLOSED) as stub, connect(stub.url) as gateway:
        with pytest.raises(NotCompleted, match="1 granted sequences neither completed nor released"):
            left_open(gateway)
        assert stub.asked[-1].path.endswith(":close")


def test_nothing_is_claimed_or_acked_before_registering(connect: Connect) -> None:
    """A registration with the first call would fence a producer that registered in between."""
    with StubGateway() as stub, connect(stub.url) as gateway:
        for ask in (lambda: gateway.producer("p", driver="d").claim([1]), lambda: gateway.driver("d").ack({"p": 1})):
            with pytest.raises(BadOption, match="not registered"):
                ask()
        assert stub.asked == []


@pytest.mark.parametrize("name", ["", None, 7])
def test_what_names_nothing_is_refused(connect: Connect, name: Any) -> None:
    with StubGateway() as stub, connect(stub.url) as gateway:
        for make in (lambda: gateway.producer(name, driver="d"), lambda: gateway.driver(name)):
            with pytest.raises(BadOption, match="must be a text, the same in every run"):
                make()


@pytest.mark.parametrize("sequences", [[2, 1], [1, 1], [-1], [None], ["a"], [2**64], [1.5]])
def test_an_unordered_list_of_numbers_is_refused_before_it_is_sent(connect: Connect, sequences: Any) -> None:
    with StubGateway(registered()) as stub, connect(stub.url) as gateway:
        producer = gateway.producer("p", driver="d")
        producer.register()
        with pytest.raises(BadId):
            producer.claim(sequences)
        assert len(stub.asked) == 1


@pytest.mark.parametrize(
    "sequences", [range(5, 8), [5, 6, 7], pa.array([4, 5, 6, 7]).slice(1), pa.chunked_array([[5], [6, 7]])]
)
def test_sequences_come_in_any_form_and_go_out_in_one(connect: Connect, sequences: Any) -> None:
    with StubGateway(registered(), Answer(body=packed([DUPLICATE] * 3))) as stub, connect(stub.url) as gateway:
        producer = gateway.producer("p", driver="d")
        producer.register()
        assert len(producer.claim(sequences).dropped) == 3
        assert stub.asked[-1].body == struct.pack("<3Q", 5, 6, 7)


def test_a_driver_acks_under_its_own_token_and_epoch(connect: Connect) -> None:
    acked = answering(watermarks=[{"producer": "events-3", "watermark": 20}], batch=4, refused=[])
    with (
        StubGateway(answering(driver="load", epoch=2, batch=None), acked) as stub,
        connect(stub.url) as gateway,
        gateway.driver("load", token="cd" * 16) as driver,
    ):
        assert driver.epoch == 2
        assert driver.ack({"events-3": 25}, batch=4) == Acked({"events-3": 20}, 4)
        register, ack = stub.asked
    assert register.path == "/v1/namespaces/default/drivers/load:register"
    upto = [{"producer": "events-3", "sequence": 25}]
    assert members(ack) == {"token": "cd" * 16, "epoch": 2, "upto": upto, "batch": 4}


def test_refused_parts_of_an_ack_are_reported_without_an_error(connect: Connect) -> None:
    refused = [
        {"code": "NOT_DONE", "action": "stop", "detail": "so it is", "producer": "b", "not_done": [[3, 4]]},
        {"code": "NOT_DONE", "action": "stop", "detail": "and so", "batch": 2, "open_ids": 1, "claims": ["2pge"]},
    ]
    acked = answering(watermarks=[{"producer": "a", "watermark": 1}], batch=4, refused=refused)
    with StubGateway(answering(driver="load", epoch=2, batch=None), acked) as stub, connect(stub.url) as gateway:
        with gateway.driver("load") as driver:
            answer = driver.ack({"a": 1, "b": 4}, batch=4)
        assert answer.refused == (
            RefusedPart("NOT_DONE", "so it is", producer="b", not_done=((3, 4),)),
            RefusedPart("NOT_DONE", "and so", batch=2, claims=("2pge",)),
        )


def test_registering_a_driver_returns_the_acked_batch(connect: Connect) -> None:
    with StubGateway(answering(driver="load", epoch=5, batch=17)) as stub, connect(stub.url) as gateway:
        assert gateway.driver("load").register() == DriverEpoch(5, 17)


def test_the_lease_is_renewed_during_the_work() -> None:
    """After a third of it, on a real clock, because the renewals come from a thread."""
    answers = [
        registered(),
        Answer(body=packed([GRANTED], lease_ms=60)),
        answering(**SETTLED),
        answering(**SETTLED),
    ]
    with StubGateway(*answers, otherwise=lambda asked: answering(**SETTLED)) as stub, Gateway(stub.url) as gateway:
        producer = gateway.producer("p", driver="d")
        producer.register()
        claimed = producer.claim([1])
        with producer.holding(claimed):
            waited_for(stub, ":renew")
        renewal = next(asked for asked in stub.asked if asked.path.endswith(":renew"))
        assert members(renewal) == {"token": producer.token, "epoch": 7, "call": 0}


async def test_the_lease_is_renewed_during_awaited_work() -> None:
    import asyncio

    answers = [registered(), Answer(body=packed([GRANTED], lease_ms=60))]
    with StubGateway(*answers, otherwise=lambda asked: answering(**SETTLED)) as stub:
        async with AsyncGateway(stub.url) as gateway:
            producer = gateway.producer("p", driver="d")
            await producer.register()
            async with producer.holding(await producer.claim([1])):
                await asyncio.to_thread(waited_for, stub, ":renew")


def waited_for(stub: StubGateway, end: str) -> None:
    import threading

    pause = threading.Event()
    for _ in range(1_000):
        if any(asked.path.endswith(end) for asked in list(stub.asked)):
            return
        pause.wait(0.01)
    raise AssertionError(f"nobody asked for {end}")


def test_a_producer_declares_that_its_source_has_no_gaps(connect: Connect) -> None:
    with StubGateway(registered(), CLOSED) as stub, connect(stub.url) as gateway:
        gateway.producer("p", driver="d", gaps="refuse").register()
        assert members(stub.asked[0])["gaps"] == "refuse"
        with pytest.raises(BadOption, match="allow or refuse"):
            gateway.producer("p", driver="d", gaps="perhaps")
