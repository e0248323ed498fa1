"""A proxy that loses, repeats and delays requests as a test decides."""

import asyncio
from collections.abc import Callable
from enum import Enum
from random import Random
from typing import Any

import h11

from demo.proxy import Proxy, kind_of


class Fault(Enum):
    """A fault of one request. Only PASS and DOUBLE return an answer to the caller."""

    PASS = "goes through"
    LOSE_REQUEST = "never reaches the gateway"
    LOSE_REPLY = "reaches the gateway, and the answer is lost"
    CUT_REPLY = "reaches the gateway, and the answer breaks off in its middle"
    DOUBLE = "reaches the gateway twice; the second answer is returned"
    LATE = "reaches the gateway after its caller has given up and done other things"


class FaultyProxy(Proxy):
    """Calls `choose` for each request with its kind (`claim`, `stage`, …; None for reads)."""

    def __init__(self, upstream_port: int, choose: Callable[[str | None], Fault]) -> None:
        super().__init__(upstream_port)
        self.choose = choose
        self.seen: list[tuple[str | None, Fault]] = []
        self._late: list[Any] = []

    def deliver_late(self) -> None:
        """Forwards the delayed requests; returns when the gateway has answered all of them."""
        asyncio.run_coroutine_threadsafe(self._deliver(), self._loop).result(30)

    async def _exchange(self, client: Any, gateway: Any) -> bool:
        request = await client.receive()
        kind = kind_of(request.head.target.decode())
        fault = self.choose(kind)
        self.seen.append((kind, fault))
        if fault is Fault.LATE:
            self._late.append((type(client), request))
        if fault in {Fault.LATE, Fault.LOSE_REQUEST}:
            return False
        if fault is Fault.DOUBLE:
            await self._ask(type(client), request)
        await gateway.send(request)
        answer = await gateway.receive()
        if fault is Fault.LOSE_REPLY:
            return False
        if fault is Fault.CUT_REPLY:
            await self._half(client, answer)
            return False
        await client.send(answer)
        return bool(client.next() and gateway.next())

    async def _half(self, client: Any, answer: Any) -> None:
        for event in (answer.head, h11.Data(data=answer.body[: len(answer.body) // 2])):
            client.writer.write(client.http.send(event) or b"")
        await client.writer.drain()

    async def _ask(self, peer: Any, request: Any) -> None:
        """Forwards a request on a connection of its own and discards the answer."""
        other = await peer.dial(self.upstream_port)
        try:
            await other.send(request)
            await other.receive()
        finally:
            other.writer.close()

    async def _deliver(self) -> None:
        late, self._late = self._late, []
        for peer, request in late:
            await self._ask(peer, request)


WEIGHTS = {
    Fault.PASS: 70,
    Fault.LOSE_REQUEST: 7,
    Fault.LOSE_REPLY: 6,
    Fault.CUT_REPLY: 4,
    Fault.DOUBLE: 7,
    Fault.LATE: 6,
}


def bad(rng: Random) -> Fault:
    """Returns the next fault of a bad network."""
    return rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]


def dealt(rng: Random) -> Callable[[str | None], Fault]:
    """Returns a function like `bad` that draws from a shuffled deck: a few dozen requests meet every fault."""
    pack: list[Fault] = []

    def choose(kind: str | None) -> Fault:
        if not pack:
            pack.extend([*Fault, *[Fault.PASS] * 12])
            rng.shuffle(pack)
        return pack.pop()

    return choose
