"""Namespaces alternate: a busy one delays no other, and is not slowed down while it is alone."""

import asyncio
import json
from collections import Counter
from itertools import pairwise

from oncegate.engine.admission import ALONE_BYTES, DEBT_TURNS, REQUEST_BYTES, SHARED_BYTES, Turns
from tests.support.grpc_app import both as opened
from tests.support.http_app import JSON, request
from tests.support.memory_gateway import run_ready_tasks

LARGE, SMALL = 160_000, 1_600


class Asker:
    """Makes requests to the turns, and records the turn of the loop in which each is admitted."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.turn = 0
        self.on: list[tuple[str, int]] = []
        self.tasks: list[asyncio.Task[None]] = []

    def ask(self, namespace: str, size_bytes: int) -> None:
        """Makes a request, which is admitted at once or in a later turn."""
        if (waiting := self.turns.enter(namespace, size_bytes)) is None:
            self.on.append((namespace, self.turn))
        else:
            self.tasks.append(asyncio.create_task(self._wait(namespace, waiting)))

    async def _wait(self, namespace: str, waiting: "asyncio.Future[None]") -> None:
        await waiting
        self.on.append((namespace, self.turn))

    async def pass_turns(self, count: int) -> None:
        """Runs `count` turns of the loop."""
        for _ in range(count):
            self.turn += 1
            await run_ready_tasks(1)

    def turns_of(self, namespace: str) -> list[int]:
        """Returns the turns in which its requests were admitted, in order."""
        return [turn for one, turn in self.on if one == namespace]


async def test_a_request_of_a_namespace_that_asks_for_little_waits_for_none_of_anothers() -> None:
    asker = Asker()
    for _ in range(20):
        asker.ask("hot", LARGE)
    asker.ask("quiet", SMALL)
    assert asker.on == [("hot", 0), ("quiet", 0)]
    await asker.pass_turns(3)
    asker.ask("quiet", SMALL)
    assert asker.on[-1] == ("quiet", 3)


async def test_beside_another_a_large_request_is_made_up_for_before_the_next_of_its_namespace() -> None:
    asker = Asker()
    asker.ask("quiet", SMALL)
    for _ in range(4):
        asker.ask("hot", LARGE)
    await asker.pass_turns(80)
    passed = asker.turns_of("hot")
    assert len(passed) == 4
    gaps = [later - turn for turn, later in pairwise(passed[1:])]
    assert min(gaps) >= LARGE // SHARED_BYTES


async def test_none_is_held_up_for_longer_than_a_few_turns_however_large_it_was() -> None:
    asker = Asker()
    asker.ask("quiet", SMALL)
    for _ in range(3):
        asker.ask("hot", 1 << 30)
    await asker.pass_turns(2 * DEBT_TURNS + 6)
    assert len(asker.turns_of("hot")) == 3


async def test_a_lone_namespace_continues_in_every_turn() -> None:
    asker = Asker()
    for _ in range(10):
        asker.ask("hot", ALONE_BYTES - 1)
    await asker.pass_turns(12)
    passed = asker.turns_of("hot")
    assert len(passed) == 10
    assert max(passed) <= 11


async def test_a_request_that_uses_its_credit_up_to_the_last_byte_leaves_none_for_the_next_in_its_turn() -> None:
    asker = Asker()
    asker.ask("hot", ALONE_BYTES - REQUEST_BYTES)
    asker.ask("hot", SMALL)
    assert asker.on == [("hot", 0)]
    await asker.pass_turns(2)
    assert len(asker.on) == 2


async def test_requests_of_one_byte_are_as_few_in_each_turn_as_those_of_a_kilobyte() -> None:
    asker = Asker()
    for _ in range(300):
        asker.ask("hot", 1)
    await asker.pass_turns(6)
    counts = Counter(asker.turns_of("hot"))
    assert sum(counts.values()) == 300
    assert counts[0] == max(counts.values()) == ALONE_BYTES // 1_024


async def test_requests_of_one_namespace_keep_their_order() -> None:
    asker = Asker()
    for number in range(6):
        asker.ask("hot", LARGE if number % 2 else SMALL)
    order: list[int] = []
    for number, task in enumerate(asker.tasks):
        task.add_done_callback(lambda _, number=number: order.append(number))  # type: ignore[misc]
    await asker.pass_turns(40)
    assert order == sorted(order)
    assert len(order) == len(asker.tasks) > 2


async def test_what_settles_or_renews_a_claim_waits_for_no_claims_of_its_namespace() -> None:
    asker = Asker()
    for _ in range(5):
        asker.ask("hot", LARGE)
    asker.ask("hot", 0)
    assert asker.on == [("hot", 0), ("hot", 0)]


async def test_a_caller_that_disconnects_while_it_waits_blocks_no_other() -> None:
    asker = Asker()
    asker.ask("quiet", SMALL)
    for _ in range(4):
        asker.ask("hot", LARGE)
    await asker.pass_turns(1)
    for task in asker.tasks[:2]:
        task.cancel()
    await asker.pass_turns(LARGE // SHARED_BYTES)
    assert len(asker.turns_of("hot")) == 2


async def test_nothing_is_kept_of_a_namespace_that_is_at_rest() -> None:
    asker = Asker()
    for namespace in ("a", "b"):
        asker.ask(namespace, LARGE)
        asker.ask(namespace, 0)
    await asker.pass_turns(30)
    assert len(asker.turns) == 2
    for namespace in ("a", "b"):
        asker.turns.leave(namespace)
        asker.turns.leave(namespace)
    await asker.pass_turns(30)
    assert len(asker.turns) == 0


async def test_a_small_claim_is_answered_before_most_large_ones_of_another_namespace_that_came_first() -> None:
    async with opened() as doors:
        gateway = doors.http.program.gateway
        await gateway.create("quiet")
        answered: list[str] = []

        async def ask(namespace: str, number: int, count: int) -> None:
            ids = [f"{number} {one}" for one in range(count)]
            body = json.dumps({"token": f"{number:032x}", "call": 0, "ids": ids}).encode()
            path = f"/v1/namespaces/{namespace}/ids:claim"
            reply = await doors.http.send(request("POST", path, body, Content_Type=JSON))
            assert reply.status == 200
            answered.append(namespace)

        hot = [asyncio.create_task(ask("default", number, 2_500)) for number in range(30)]
        await asyncio.gather(*hot, ask("quiet", 99, 10))
        assert answered.index("quiet") < 15
        assert len(gateway.turns) <= 1
