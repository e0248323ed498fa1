"""What the sections about claims share: the load, and gateway and Redis in one and the same settled state."""

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
# One live id as a string for so many packed ones.
TEXT_PART = 8


@dataclass(frozen=True)
class Servers:
    """`live` ids are known packed, `text_live` as strings."""

    gateway: Served
    bare: Served
    live: int
    text_live: int


@dataclass(frozen=True)
class Setting:
    """What every section has. `tell` shows what is under way; `shas`: the scripts that the Redis has."""

    plan: Plan
    load: Worker
    folder: Path
    tell: Callable[[str], None]
    shas: Mapping[str, str] = field(default_factory=dict)
    beside: Served | None = None

    @property
    def redis(self) -> Served:
        """The one that `beside_redis` gave this setting."""
        assert self.beside is not None, "only for sections beside a Redis"
        return self.beside

    @contextmanager
    def beside_redis(self) -> "Iterator[Setting]":
        """With a Redis that holds what the gateways hold before anything is measured; it goes when this ends.

        It was started again after the prefill, from one snapshot: its tables have their final size and none rehashes.
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
        """Waits until servers have nothing left to do; RuntimeError where the Redis is rehashing a set."""
        for served in (*servers, self.redis):
            wait_until_quiet(served)
        for width in (16, UUID_CHARS):
            if rehashing(self.redis.port, BUCKET + str(width).encode()):
                raise RuntimeError("Redis is rehashing its set, which makes it slower than it is")

    def on_redis(self, served: Served, kind: str, **job: Any) -> dict[str, float]:
        """Runs a job that adds to the Redis, which forgets it afterwards: every run meets the same state."""
        rates = self.load.run(served, kind, **job)
        sent = {"forgotten": rates["stream"], "sent": rates["sent"], "text": job.get("text", False)}
        self.load.run(self.redis, "forget_redis", **sent)
        return rates

    def scratch(self, name: str) -> Path:
        """An empty folder."""
        path = self.folder / name.replace(" ", "-").replace(",", "")
        path.mkdir(parents=True)
        return path

    @contextmanager
    def serving(self, name: str) -> Iterator[Servers]:
        """A fresh gateway that knows the live ids, and a front that knows nothing, all settled."""
        folder, live = self.scratch(name), self.plan.live
        with gateway(folder) as served, front(folder) as bare:
            self.load.run(served, "prefill", live=live, ids=BATCH, text=False)
            self.load.run(served, "prefill", live=live // TEXT_PART, ids=BATCH, text=True)
            self.settle(served)
            yield Servers(served, bare, live, live // TEXT_PART)


def load_scripts(port: int) -> dict[str, str]:
    """The scripts' hashes, by kind."""
    with redis_library.Redis(port=port) as client:
        return {kind: str(client.script_load(source)) for kind, source in resp.SCRIPTS.items()}
