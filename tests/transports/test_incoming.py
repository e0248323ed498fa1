"""Admission of a request over any transport: a fixed order of checks, and resources that are always released."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from oncegate.core.errors import BadRequest, LedgerBehind, NotFound, OncegateError, Overloaded, TooLarge
from oncegate.engine.admission import QUEUE_REQUESTS, Backlog
from oncegate.engine.deadline import Deadline
from oncegate.engine.requests import ClaimRequest
from oncegate.transports.access.rights import CALLS
from oncegate.transports.incoming import SETTLING, Admitted, RequestHead, admit
from tests.support.memory_gateway import Served, run_ready_tasks, serving

LIMITS = {"body_bytes": 60, "bytes_in_flight": 100, "requests_in_flight": 2}
ELSEWHERE = f"{b'another ledger..'.hex()}:1:{bytes(8).hex()}"


@dataclass
class Sent:
    """A request as a transport hands it over; with `body` None the body never arrives."""

    announced: int = 4
    where: str = "default"
    marks: str | None = None
    body: bytes | None = b"body"
    reads: list[str] = field(default_factory=list)
    left_ms: int | None = None
    name: str = "claimIds"
    writers: tuple[str, ...] = ()

    @property
    def head(self) -> RequestHead:
        told = self.name, self.where, self.left_ms, self.announced, LIMITS["body_bytes"]
        return RequestHead(*told, address="127.0.0.1", marks=self.marks, writers=self.writers)

    async def read(self, deadline: Deadline, arrived: Callable[[int], None]) -> bytes:
        self.reads.append("read")
        if self.body is None:
            arrived(self.announced // 2)
            await asyncio.Event().wait()
        if len(self.body or b"") != self.announced:
            raise BadRequest("the body ended early")
        arrived(self.announced)
        return self.body or b""


def let_in(sent: Sent, served: Served) -> Coroutine[Any, Any, Admitted]:
    return admit(sent.head, sent.read, served.gateway)


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving(**LIMITS) as served:
        yield served


def reserved(served: Served) -> tuple[int, int]:
    return served.gateway.admission.requests, served.gateway.admission.size_bytes


Mend = Callable[[Sent], Sent]
# The errors of a request in the order of the checks, each with its correction.
ORDER: list[tuple[type[OncegateError], str, Mend]] = [
    (TooLarge, "61 bytes", lambda sent: replace(sent, announced=60)),
    (NotFound, "nowhere", lambda sent: replace(sent, where="default")),
    (BadRequest, "Oncegate-Ledger", lambda sent: replace(sent, marks=ELSEWHERE)),
    (LedgerBehind, "this one is", lambda sent: replace(sent, marks=None)),
    (BadRequest, "there twice", lambda sent: replace(sent, writers=())),
    (Overloaded, "no room for 60", lambda sent: replace(sent, announced=40)),
    (BadRequest, "ended early", lambda sent: replace(sent, body=b"b" * 40)),
]


async def test_of_several_refusals_the_first_of_the_order_is_returned_and_nothing_stays_reserved(
    served: Served,
) -> None:
    sent = Sent(61, "nowhere", "no mark", b"half", writers=("{}", "{}"))
    with served.gateway.admission.hold(50):
        for kind, text, mend in ORDER:
            with pytest.raises(kind, match=text):
                await let_in(sent, served)
            assert reserved(served) == (1, 50)
            assert (sent.reads == []) == (text != "ended early"), "a body that is refused is not read"
            sent = mend(sent)
        admitted = await let_in(sent, served)
        assert (reserved(served), admitted.body) == ((2, 90), b"b" * 40)
        admitted.release()
    assert reserved(served) == (0, 0)


async def test_a_body_that_is_here_already_is_reserved_as_one_that_is_read(served: Served) -> None:
    admitted = await admit(Sent().head, b"body", served.gateway)
    assert (reserved(served), admitted.body) == ((1, 4), b"body")
    admitted.release()
    assert reserved(served) == (0, 0)


async def test_a_client_that_disconnects_while_its_body_is_read_returns_its_room(served: Served) -> None:
    task = await served.begin(let_in(Sent(body=None), served))
    assert reserved(served) == (1, 2), "room is taken as the body comes"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert reserved(served) == (0, 0)


async def test_who_goes_away_before_its_namespaces_turn_gives_back_its_room(served: Served) -> None:
    namespaces = served.gateway.turns
    for _ in range(2):  # one too large for its turn, and one whose turn is not yet
        namespaces.enter("default", 1 << 30)
    asking = asyncio.create_task(let_in(Sent(), served))
    await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, no time
    assert reserved(served) == (1, 4)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert reserved(served) == (0, 0)
    for _ in range(2):
        namespaces.leave("default")
    await run_ready_tasks()
    assert len(namespaces) == 0


async def test_how_long_a_claim_waits_for_its_turn_is_a_part_of_its_latency(served: Served) -> None:
    for _ in range(2):
        served.gateway.turns.enter("default", 1 << 30)
    asking = asyncio.create_task(let_in(Sent(), served))
    await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, no time
    served.clock.advance(700)
    admitted = await asking
    assert admitted.deadline.waited_ms == 700
    await admitted.serving.claims.claim(ClaimRequest(bytes(16), 0, np.ones((1, 2), np.uint64)), admitted.deadline)
    assert served.shard.journal.counts.claims.total == 700
    admitted.release()


def long_wait(served: Served) -> Backlog:
    """Makes the namespace's requests wait for as long as `QUEUE_REQUESTS` slow ones take."""
    backlog = served.gateway.namespace("default").backlog
    for number in range(10):
        backlog.enter(0, 1_000 * number)
        backlog.leave(0, 1_000 * number + 1_000)
    for _ in range(QUEUE_REQUESTS):
        backlog.enter(0, 10_000)
    return backlog


async def test_what_would_wait_too_long_is_refused_before_its_body_is_read(served: Served) -> None:
    backlog, sent, wait_ms = long_wait(served), Sent(), 1_000 * QUEUE_REQUESTS
    for late in (sent, replace(sent, left_ms=2 * wait_ms - 1)):
        with pytest.raises(Overloaded, match=f"{QUEUE_REQUESTS} requests wait before this one, for {wait_ms} ms"):
            await let_in(late, served)
    assert (sent.reads, reserved(served), backlog.requests) == ([], (0, 0), QUEUE_REQUESTS)
    (await let_in(replace(sent, left_ms=2 * wait_ms), served)).release()
    assert backlog.requests == QUEUE_REQUESTS


async def test_who_would_wait_too_long_by_the_time_its_body_is_here_is_refused(served: Served) -> None:
    come = asyncio.Event()

    class Slow(Sent):
        async def read(self, deadline: Deadline, arrived: Callable[[int], None]) -> bytes:
            await come.wait()
            return await super().read(deadline, arrived)

    task = await served.begin(let_in(Slow(), served))
    backlog = long_wait(served)
    come.set()
    with pytest.raises(Overloaded, match=f"{QUEUE_REQUESTS} requests wait before this one"):
        await task
    assert (reserved(served), backlog.requests) == ((0, 0), QUEUE_REQUESTS)


@pytest.mark.parametrize("name", sorted(SETTLING))
async def test_what_settles_something_is_not_refused_for_its_wait(served: Served, name: str) -> None:
    assert name in CALLS
    backlog = long_wait(served)
    (await let_in(Sent(name=name, left_ms=1), served)).release()
    assert backlog.requests == QUEUE_REQUESTS


async def test_a_request_waits_until_it_is_decided_refused_or_given_up(served: Served) -> None:
    backlog = served.gateway.namespace("default").backlog
    refused = await let_in(Sent(), served)
    assert backlog.requests == 1
    refused.release()
    assert backlog.requests == 0
    for _ in range(2):
        served.gateway.turns.enter("default", 1 << 30)
    given_up = asyncio.create_task(let_in(Sent(), served))
    await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, no time
    assert backlog.requests == 1
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    assert backlog.requests == 0
    admitted = await let_in(Sent(), served)
    served.disk.gate.clear()
    claiming = await served.begin(
        admitted.serving.claims.claim(ClaimRequest(bytes(16), 0, np.ones((1, 2), np.uint64)), admitted.deadline)
    )
    assert (backlog.requests, claiming.done()) == (0, False), "it is decided, and waits for the ledger"
    served.disk.gate.set()
    await claiming
    admitted.release()
    assert backlog.requests == 0
