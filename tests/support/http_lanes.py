"""Attempts at lanes, and their drivers, over HTTP."""

from typing import Any

from tests.support.http_app import Http, Reply, token

NS = "/v1/namespaces/default"
LANE = f"{NS}/producers/events-3"
LOAD = f"{NS}/drivers/load"


class Writer:
    """An attempt at a lane, over HTTP."""

    def __init__(self, http: Http, lane: str = LANE, driver: str = "load") -> None:
        self.http, self.lane, self.driver = http, lane, driver
        self.token, self.epoch, self.call = token(), 0, -1

    async def register(self, **more: Any) -> Any:
        reply = await self.http.post_json(f"{self.lane}:register", {"token": self.token, "driver": self.driver, **more})
        assert reply.status == 200, reply.body
        self.epoch = reply.json["epoch"]
        return reply.json

    async def ask(self, **asked: Any) -> Reply:
        self.call += 1
        return await self.http.post_json(f"{self.lane}:claim", self.named(**asked))

    async def claim(self, *sequences: int, **more: Any) -> list[str]:
        reply = await self.ask(sequences=sequences, **more)
        assert reply.status == 200, reply.body
        return [one["verdict"] for one in reply.json["verdicts"]]

    async def settle(self, verb: str) -> Reply:
        return await self.http.post_json(f"{self.lane}:{verb}", self.named())

    async def close(self) -> Reply:
        return await self.http.post_json(f"{self.lane}:close", {"token": self.token, "epoch": self.epoch})

    def named(self, **more: Any) -> dict[str, Any]:
        return {"token": self.token, "epoch": self.epoch, "call": self.call, **more}


async def ack(http: Http, upto: dict[str, int], as_token: str, epoch: int, **more: Any) -> Reply:
    pairs = [{"producer": producer, "sequence": sequence} for producer, sequence in upto.items()]
    return await http.post_json(f"{LOAD}:ack", {"token": as_token, "epoch": epoch, "upto": pairs, **more})


async def driver(http: Http, as_token: str) -> Any:
    reply = await http.post_json(f"{LOAD}:register", {"token": as_token})
    assert reply.status == 200, reply.body
    return reply.json
