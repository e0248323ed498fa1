"""Ids without takeover (lease_expiry is fail): the client stops, releases its grants, and drops nothing."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from oncegate_spark.errors import InDoubt, Outcome
from tests.support.client_clock import SteppedClock
from tests.support.clients import Connect
from tests.support.stub_gateway import Answer, StubGateway
from tests.support.verdicts import DUPLICATE, GRANTED, IN_DOUBT, packed, produced

Opened = Callable[..., tuple[StubGateway, Any]]
SETTLED = Answer(body=b'{"claim": "", "state": "RELEASED", "settled": 1, "taken_over": 0, "lease_ms": 0}')


@pytest.fixture
def opened(connect: Connect) -> Iterator[Opened]:
    open_ones: list[Any] = []

    def open_with(*answers: Answer) -> tuple[StubGateway, Any]:
        stub = StubGateway(*answers).__enter__()
        gateway = connect(stub.url, clock=SteppedClock())
        open_ones.extend((gateway.__enter__() and gateway, stub))
        return stub, gateway

    yield open_with
    for one in open_ones:
        one.__exit__(None, None, None)


def verbs(stub: StubGateway) -> list[str]:
    return [asked.path.rpartition(":")[2] for asked in stub.asked]


def test_who_claims_what_is_in_doubt_is_stopped_and_what_was_granted_is_released(opened: Opened) -> None:
    stub, gateway = opened(Answer(body=packed([IN_DOUBT, GRANTED, IN_DOUBT], claim=True)), SETTLED)
    with gateway.attempt() as attempt:
        with pytest.raises(InDoubt, match=r"2 of 3 ids are in doubt, the first: 'a', 'b'.*oncegate resolve") as caught:
            attempt.claim(["a", "new", "b"])
        assert (caught.value.outcome, caught.value.ids) == (Outcome.UNKNOWN, ["a", "b"])
    assert verbs(stub) == ["claim", "release"]


def test_who_takes_or_produces_what_is_in_doubt_is_stopped(opened: Opened) -> None:
    stub, gateway = opened(
        Answer(body=packed([GRANTED, IN_DOUBT])), produced([DUPLICATE, IN_DOUBT, GRANTED], (0, 0, 1))
    )
    with pytest.raises(InDoubt, match="1 of 2 ids are in doubt, the first: 'b'"):
        gateway.take("job", ["a", "b"])
    with gateway.attempt() as attempt, pytest.raises(InDoubt, match="1 of 3 ids are in doubt, the first: 'b'"):
        attempt.produce("t", pa.table({"id": ["a", "b", "c"]}), id_col="id")
    assert verbs(stub) == ["take", "produce?id_col=id"]
