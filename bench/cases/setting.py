"""Shared parts of the sections on claims: the load, and a gateway and a Redis in the same settled state."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import redis as redis_library

from bench.load import resp
from bench.load.bodies import UUID_CHARS
from bench.load.kinds import BUCKET
from bench.load.plan import Plan
from bench.load.server import Served, front, gateway, redis
from bench.load.settled import pack, rehashing, wait_until_quiet
from bench.load.worker import Worker

BATCH = 100_000
# Number of packed live ids for each live id that is a string.
TEXT_PART = 8


@dataclass(frozen=True)
class Servers:
    """The servers of a section; they know `live` ids in packed form and `text_live` as strings."""

    gateway: Served
    bare: Served
    live: int
    text_live: int


@dataclass(frozen=True)
class Setting:
    """The resources of every section. `tell` shows the current step; `shas`: hashes of the scripts in the Redis."""

    plan: Plan
    load: Worker
    folder: Path
    tell: Callable[[str], None]
    shas: Mapping[str, str] = field(default_factory=dict)
    beside: Served | None = None

    @property
    def redis(self) -> Served:
        """Returns the Redis of `beside_redis`."""
        assert self.beside is not None, "only for sections beside a Redis"
        return self.beside

    @contextmanager
    def beside_redis(self) -> "Iterator[Setting]":
        """Yields the setting with a Redis that holds the same ids as the prefilled gateways; stops it on exit.

        After the prefill, Redis is restarted from one snapshot, so its tables have their final size and none rehashes.
        """
        folder, live = self.scratch("redis"), self.plan.live
        self.tell("Redis, prefilled")
        with redis(folder) as peer:
            self.load.run(peer, "prefill_redis", live=live)
            self.load.run(peer, "prefill_redis", live=live // TEXT_PART, text=True)
            pack(peer.port)
        with redis(folder) as peer:
            yield replace(self, shas=load_scripts(peer.port), beside=peer)

    def settle(self, *servers: Served) -> None:
        """Waits until the servers are idle. Raises RuntimeError if the Redis is rehashing a set."""
        for served in (*servers, self.redis):
            wait_until_quiet(served)
        for width in (16, UUID_CHARS):
            if rehashing(self.redis.port, BUCKET + str(width).encode()):
                raise RuntimeError("Redis is rehashing its set, which makes it slower than it is")

    def on_redis(self, served: Served, kind: str, **job: Any) -> dict[str, float]:
        """Runs a job that adds ids to Redis and removes them afterwards, so that every run starts in the same state."""
        rates = self.load.run(served, kind, **job)
        sent = {"forgotten": rates["stream"], "sent": rates["sent"], "text": job.get("text", False)}
        self.load.run(self.redis, "forget_redis", **sent)
        return rates

    def scratch(self, name: str) -> Path:
        """Creates an empty folder."""
        path = self.folder / name.replace(" ", "-").replace(",", "")
        path.mkdir(parents=True)
        return path

    @contextmanager
    def serving(self, name: str) -> Iterator[Servers]:
        """Yields a new gateway that knows the live ids, and a front without any state, both idle."""
        folder, live = self.scratch(name), self.plan.live
        with gateway(folder) as served, front(folder) as bare:
            self.load.run(served, "prefill", live=live, ids=BATCH, text=False)
            self.load.run(served, "prefill", live=live // TEXT_PART, ids=BATCH, text=True)
            self.settle(served)
            yield Servers(served, bare, live, live // TEXT_PART)


def load_scripts(port: int) -> dict[str, str]:
    """Loads the scripts into Redis; returns their hashes by kind."""
    with redis_library.Redis(port=port) as client:
        return {kind: str(client.script_load(source)) for kind, source in resp.SCRIPTS.items()}
