"""The entries that a standby reads from a ledger, and requests to standby gateways."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from http.client import HTTPConnection
from itertools import count
from typing import Any, Protocol

from oncegate.clock import sleep_s
from oncegate.ports import Followed, OpenLedger
from tests.support.gateway_process import GatewayProcess

WAIT_S = 120
_tokens = count(1)


class CanFollow(Protocol):
    """Ledgers that another gateway owns."""

    def follow(self, namespace: str) -> AbstractAsyncContextManager[Followed]: ...


class Standby:
    """A gateway's standby for the default namespace's ledger. `read`: the entries so far."""

    def __init__(self, followed: Followed) -> None:
        self.followed = followed
        self.read: list[bytes] = []
        self._more = asyncio.Condition()
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> OpenLedger:
        try:
            async for batch in self.followed.batches:
                self.read += [bytes(one.body) for one in batch]
                async with self._more:
                    self._more.notify_all()
            return self.followed.opened()
        finally:
            await self.followed.batches.aclose()

    async def has_read(self, *bodies: bytes) -> None:
        """Returns once it has read exactly these entries."""
        async with asyncio.timeout(WAIT_S), self._more:
            await self._more.wait_for(lambda: self.read == list(bodies))

    async def opened(self) -> OpenLedger:
        """Returns the ledger after the takeover. Raises the error of a failed one."""
        async with asyncio.timeout(WAIT_S):
            return await self.task


@asynccontextmanager
async def standby_of(opening: AbstractAsyncContextManager[CanFollow]) -> AsyncIterator[Standby]:
    """Runs a standby for the owner of the ledgers that `opening` opens."""
    async with opening as ledgers, ledgers.follow("default") as followed:
        standby = Standby(followed)
        try:
            yield standby
        finally:
            standby.task.cancel()
            await asyncio.wait([standby.task])


async def wait_until(so: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not so():
            await sleep_s(0.01)


def ask(process: GatewayProcess, *ids: str) -> tuple[int, dict[str, Any]]:
    """Claims ids for a new attempt and returns the status and the answer."""
    body = {"token": f"{next(_tokens):032x}", "call": 0, "ids": ids, "lease_ms": 600_000}
    return _post(process, "/v1/namespaces/default/ids:claim", **body)


def claim(process: GatewayProcess, *ids: str) -> tuple[str, list[str]]:
    """Claims ids and returns the claim id and the verdict of each id."""
    status, answer = ask(process, *ids)
    assert status == 200, answer
    return answer["claim"], [one["verdict"] for one in answer["verdicts"]]


def written(process: GatewayProcess, *ids: str) -> None:
    """Claims ids, all of them new, and completes them."""
    name, verdicts = claim(process, *ids)
    assert set(verdicts) == {"GRANTED"}
    status, answer = _post(process, f"/v1/namespaces/default/claims/{name}:complete", result="eA==")
    assert status == 200, answer


def _post(process: GatewayProcess, path: str, **body: object) -> tuple[int, dict[str, Any]]:
    connection = HTTPConnection("127.0.0.1", process.port, timeout=60)
    try:
        connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()
