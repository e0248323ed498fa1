"""Durable claims through HTTP beside what a user would pick instead: batches, single ids, open loop."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import redis as redis_library

from bench.load import resp
from bench.load.plan import Plan
from bench.load.server import Served, front, gateway, redis
from bench.load.worker import Worker
from bench.report.figures import Figure, interleaved
from bench.report.reaches import DIRECT, FRONT, LUA, LUA_EACH, RAW, REDIS_PY

_DOORS = {"packed": "packed", "arrow": "Arrow strings", "json": "JSON strings"}
_PEERS = {REDIS_PY: "redis_py", LUA: "lua", LUA_EACH: "lua_each", RAW: "raw"}
# The points whose peak the open loop runs at half of: ids a request, and clients.
PEAKS = ((1_000, 16), (10_000, 16))
# Connections of the open loop: enough that a free one is there while latencies are what they should be.
OPEN_CLIENTS = 64
BATCH = 100_000
# One live id as a string for so many packed ones.
TEXT_PART = 10

Runs = dict[str, dict[str, Any]]
Works = dict[str, Callable[[], Mapping[str, float]]]


@dataclass(frozen=True)
class Servers:
    """`live` ids are known packed, `text_live` as strings."""

    gateway: Served
    bare: Served
    live: int
    text_live: int


@dataclass(frozen=True)
class Setting:
    """What every section has. `tell` shows what is under way; `shas`: the scripts that the Redis has.

    `stack` holds the servers that sections share.
    """

    plan: Plan
    load: Worker
    folder: Path
    tell: Callable[[str], None]
    stack: ExitStack = field(default_factory=ExitStack)
    shas: Mapping[str, str] = field(default_factory=dict)
    beside: Served | None = None
    shared: list[Servers] = field(default_factory=list)

    @property
    def redis(self) -> Served:
        """The one that `beside_redis` gave this setting."""
        assert self.beside is not None, "only for sections beside a Redis"
        return self.beside

    @contextmanager
    def beside_redis(self) -> "Iterator[Setting]":
        """With a Redis that holds what the gateways hold before anything is measured; it goes when this ends."""
        folder, live = self.scratch("redis"), self.plan.live
        with redis(folder) as peer, ExitStack() as stack:
            self.tell("Redis, prefilled")
            self.load.run(peer, "prefill_redis", live=live)
            self.load.run(peer, "prefill_redis", live=live // TEXT_PART, text=True)
            yield replace(self, stack=stack, shas=load_scripts(peer.port), beside=peer, shared=[])

    def scratch(self, name: str) -> Path:
        """An empty folder."""
        path = self.folder / name.replace(" ", "-").replace(",", "")
        path.mkdir(parents=True)
        return path

    @contextmanager
    def serving(self, name: str) -> Iterator[Servers]:
        """A gateway that knows the live ids, and a front that knows nothing; in the short form the same each time."""
        if not self.plan.short:
            with self._fresh(name) as servers:
                yield servers
            return
        if not self.shared:
            self.shared.append(self.stack.enter_context(self._fresh("shared")))
        yield self.shared[0]

    @contextmanager
    def _fresh(self, name: str) -> Iterator[Servers]:
        folder, live = self.scratch(name), self.plan.live
        with gateway(folder) as served, front(folder) as bare:
            self.load.run(served, "prefill", live=live, ids=BATCH, text=False)
            self.load.run(served, "prefill", live=live // TEXT_PART, ids=BATCH, text=True)
            yield Servers(served, bare, live, live // TEXT_PART)


def load_scripts(port: int) -> dict[str, str]:
    """The scripts' hashes, by kind."""
    with redis_library.Redis(port=port) as client:
        return {kind: str(client.script_load(source)) for kind, source in resp.SCRIPTS.items()}


def batches(setting: Setting, door: str, ids: int, clients: int) -> list[Figure]:
    """One point: a figure for each peer."""
    name = f"claim, {_DOORS[door]}, {ids:,} ids, {clients} clients"
    setting.tell(name)
    text = door != "packed"
    with setting.serving(name) as servers:
        live = servers.text_live if text else servers.live
        job = {"ids": ids, "clients": clients, "seconds": setting.plan.seconds, "live": live}
        works: Works = {"": partial(setting.load.run, servers.gateway, door, **job)}
        works["ceiling"] = partial(setting.load.run, servers.bare, "empty_text" if door == "json" else "empty", **job)
        peers = {peer: kind for peer, kind in _PEERS.items() if not (setting.plan.short and peer == LUA_EACH)}
        for peer, kind in peers.items():
            one = {**job, "sha": setting.shas.get(kind), "text": text}
            works[peer] = partial(setting.load.run, setting.redis, kind, **one)
        return beside(name, interleaved(setting.plan.rounds, works))


def singles(setting: Setting, clients: int) -> list[Figure]:
    """One id a request: through the gateway, through the same server over a Redis, and straight by redis-py."""
    name = f"single ids, {clients} clients"
    setting.tell(name)
    with setting.serving(name) as servers, front(setting.scratch(f"front {clients}"), setting.redis.port) as through:
        served = servers.gateway
        job = {"ids": 1, "clients": clients, "seconds": setting.plan.seconds, "live": servers.live}
        works: Works = {
            "": partial(setting.load.run, served, "packed", **job),
            FRONT: partial(setting.load.run, through, "front", **job),
            DIRECT: partial(setting.load.run, setting.redis, "redis_async", **job),
            "JSON": partial(setting.load.run, served, "json", **{**job, "live": servers.text_live}),
        }
        found = interleaved(setting.plan.rounds, works)
    json_row = found.pop("JSON")
    return [*beside(name, found), _figure(f"{name}, JSON", json_row, "ids/s").against(FRONT, found[FRONT]["rate"])]


def open_loop(setting: Setting, ids: int, peak: float) -> list[Figure]:
    """Latencies from the intended send time at half of the peak rate (ids a second)."""
    name = f"open loop at half of peak, {ids:,} ids a request"
    setting.tell(name)
    with setting.serving(name) as servers:
        job = {"ids": ids, "clients": OPEN_CLIENTS, "seconds": setting.plan.open_seconds, "live": servers.live}
        rate = max(1.0, peak / 2 / ids)
        row = interleaved(1, {"": partial(setting.load.run, servers.gateway, "packed", rate=rate, **job)})[""]
    said = [Figure(f"{name}: {quantile}", row[f"{quantile}_ms"], "ms") for quantile in ("p50", "p99")]
    return [*said, Figure(f"{name}: rate", row["rate"], "ids/s")]


def beside(name: str, found: Runs) -> list[Figure]:
    """The gateway's runs (under "") against each peer's."""
    ceiling = found.pop("ceiling", {}).get("rate")
    own = _figure(name, found.pop(""), "ids/s", ceiling)
    return [own, *(own.against(peer, row["rate"]) for peer, row in found.items())]


def _figure(name: str, row: Mapping[str, Any], unit: str, ceiling: float | None = None) -> Figure:
    share = row["cpu_s"] / row["seconds"]
    return Figure(
        name,
        row["rate"],
        unit,
        ceiling=ceiling,
        p50_ms=row["p50_ms"],
        p99_ms=row["p99_ms"],
        core_share=share,
        cpu_us=1e6 * row["cpu_s"] / row["answers"],
        runs=row["runs"],
    )
