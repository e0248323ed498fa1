"""Claims made by a program without Spark."""

import json
import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from oncegate_spark.errors import BadId, NotCompleted, Outcome, StillBusy
from tests.support.client_clock import SteppedClock
from tests.support.clients import Connect
from tests.support.stub_gateway import Answer, Asked, StubGateway

G, T, D, S, B = 1, 17, 2, 3, 4


class Script:
    """Returns verdicts to claims in turn, and the given answer to settling."""

    def __init__(self, *claims: list[int], taken_over: int = 0) -> None:
        self.claims = list(claims)
        self.taken_over = taken_over

    def __call__(self, asked: Asked) -> Answer:
        if not asked.path.endswith("ids:claim"):
            said = {"state": "DONE", "settled": 1, "taken_over": self.taken_over, "lease_ms": 0}
            return Answer(body=json.dumps(said).encode())
        verdicts = self.claims.pop(0)
        claim = b"c" * 16 if {G, T} & set(verdicts) else bytes(16)
        numbers = b"".join(struct.pack("<II", n, 0 if v == S else 500) for n, v in enumerate(verdicts) if v in (S, B))
        return Answer(body=struct.pack("<16sII", claim, 30_000, len(verdicts)) + bytes(verdicts) + numbers)


Client = Callable[[Script], tuple[StubGateway, Any]]


@pytest.fixture
def client(connect: Connect) -> Client:
    def made(script: Script) -> tuple[StubGateway, Any]:
        stub = StubGateway(otherwise=script)
        return stub, connect(stub.url, clock=SteppedClock())

    return made


def test_granted_dropped_and_busy_are_separated_in_order(client: Client) -> None:
    stub, gateway = client(Script([G, D, S, T, B]))
    with stub, gateway, gateway.attempt() as attempt:
        claimed = attempt.claim(["a", "b", "a", "c", "d"])
        assert (claimed.granted, claimed.dropped, claimed.busy) == (["a", "c"], ["b", "a"], ["d"])
        attempt.release(claimed)


def test_arrow_arrays_come_back_as_arrow_arrays(client: Client) -> None:
    stub, gateway = client(Script([D, G]))
    with stub, gateway, gateway.attempt() as attempt:
        claimed = attempt.claim(pa.array([5, 6]))
        assert claimed.granted.to_pylist() == [6]
        attempt.complete(claimed)


def test_tuples_are_ids_of_several_columns(client: Client) -> None:
    stub, gateway = client(Script([G, G]))
    with stub, gateway, gateway.attempt() as attempt:
        claimed = attempt.claim([("a", 1), ("b", 2)])
        assert claimed.granted == [("a", 1), ("b", 2)]
        attempt.complete(claimed)
        sent = pa.ipc.open_stream(stub.asked[0].body).read_all()
    assert [column.to_pylist() for column in sent.columns] == [["a", "b"], ["1", "2"]]


def test_every_call_of_an_attempt_has_a_number_of_its_own_and_every_attempt_a_token(client: Client) -> None:
    stub, gateway = client(Script([D], [D], [D]))
    with stub, gateway:
        with gateway.attempt() as attempt:
            attempt.claim(["a"])
            attempt.claim(["a"])
        with gateway.attempt() as attempt:
            attempt.claim(["a"])
        names = [(asked.headers["oncegate-token"], asked.headers["oncegate-call"]) for asked in stub.asked]
    assert len(set(names)) == 3
    assert names[0][0] == names[1][0] != names[2][0]


def test_busy_is_never_success(client: Client) -> None:
    stub, gateway = client(Script([G, B]))
    with stub, gateway, gateway.attempt() as attempt:
        claimed = attempt.claim(["a", "b"])
        with pytest.raises(StillBusy, match="1 ids are written and completed; another attempt holds 1 ids"):
            attempt.complete(claimed)


def test_ids_taken_over_are_no_success_either(client: Client) -> None:
    stub, gateway = client(Script([G, G], taken_over=1))
    with stub, gateway, gateway.attempt() as attempt, pytest.raises(StillBusy, match="took over 1"):
        attempt.complete(attempt.claim(["a", "b"]))


def left_open(gateway: Any, error: Exception | None = None) -> None:
    with gateway.attempt() as attempt:
        attempt.claim(["a"])
        if error is not None:
            raise error


def test_leaving_with_an_open_claim_releases_nothing_and_warns(client: Client) -> None:
    stub, gateway = client(Script([G]))
    with stub, gateway:
        with pytest.raises(NotCompleted, match="1 granted ids neither completed nor released; unknown") as raised:
            left_open(gateway)
        assert raised.value.outcome is Outcome.UNKNOWN
        assert len(stub.asked) == 1


def test_an_error_inside_is_not_replaced_but_lists_the_open_claims(client: Client) -> None:
    stub, gateway = client(Script([G]))
    with stub, gateway, pytest.raises(ZeroDivisionError) as raised:
        left_open(gateway, ZeroDivisionError())
    assert "unknown" in raised.value.__notes__[0]


def test_nothing_granted_needs_no_completion(client: Client) -> None:
    stub, gateway = client(Script([D]))
    with stub, gateway, gateway.attempt() as attempt:
        attempt.complete(attempt.claim(["a"]))
        assert len(stub.asked) == 1


@pytest.mark.parametrize("ids", [["a", None], ["a", ""], [1.5], ["a", 1], [("a", None)]])
def test_what_cannot_be_an_id_is_refused_before_it_is_sent(ids: list[object], client: Client) -> None:
    stub, gateway = client(Script())
    with stub, gateway, gateway.attempt() as attempt:
        with pytest.raises(BadId):
            attempt.claim(ids)
        assert stub.asked == []
