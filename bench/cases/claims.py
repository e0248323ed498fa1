"""Measures durable claims over HTTP, in batches and as single ids, and the alternatives that a user would choose."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from bench.cases.setting import Setting
from bench.load.server import front
from bench.report.figures import Figure, interleaved
from bench.report.reaches import DIRECT, FRONT, LUA, MULTI, RAW, REDIS_PY

_DOORS = {"packed": "packed", "arrow": "Arrow strings", "json": "JSON strings"}
# The fastest first.
_PEERS = {MULTI: "multi", LUA: "lua", RAW: "raw", REDIS_PY: "redis_py"}
Runs = dict[str, dict[str, Any]]
Works = dict[str, Callable[[], Mapping[str, float]]]


def batches(setting: Setting, door: str, ids: int, clients: int) -> list[Figure]:
    """Measures one point; returns a figure for each peer."""
    name = f"claim, {_DOORS[door]}, {ids:,} ids, {clients} clients"
    setting.tell(name)
    text = door != "packed"
    with setting.serving(name) as servers:
        live = servers.text_live if text else servers.live
        job = {"ids": ids, "clients": clients, "seconds": setting.plan.seconds, "live": live}
        works: Works = {"": partial(setting.load.run, servers.gateway, door, **job)}
        works["ceiling"] = partial(setting.load.run, servers.bare, "empty_text" if door == "json" else "empty", **job)
        for peer, kind in _PEERS.items():
            job_of_kind = {**job, "sha": setting.shas.get(kind), "text": text}
            works[peer] = partial(setting.on_redis, setting.redis, kind, **job_of_kind)
        if not text:
            works["completed"] = partial(setting.load.run, servers.gateway, "packed_completed", **job)
        runs = interleaved(setting.plan.rounds, works)
    completed, claimed = runs.pop("completed", None), runs.copy()
    figures = beside(name, runs)
    if completed is not None:
        figures += beside(f"claim and complete{name.removeprefix('claim')}", {"": completed, MULTI: claimed[MULTI]})
    return figures


def singles(setting: Setting, clients: int) -> list[Figure]:
    """Measures requests of one id: to the gateway, to its HTTP server over a Redis, and to Redis through redis-py."""
    name = f"single ids, {clients} clients"
    setting.tell(name)
    with setting.serving(name) as servers, front(setting.scratch(f"front {clients}"), setting.redis.port) as through:
        served = servers.gateway
        job = {"ids": 1, "clients": clients, "seconds": setting.plan.seconds, "live": servers.live}
        works: Works = {
            "": partial(setting.load.run, served, "packed", **job),
            FRONT: partial(setting.on_redis, through, "front", **job),
            DIRECT: partial(setting.on_redis, setting.redis, "redis_async", **job),
            "JSON": partial(setting.load.run, served, "json", **{**job, "live": servers.text_live}),
        }
        runs = interleaved(setting.plan.rounds, works)
    json_row = runs.pop("JSON")
    return [*beside(name, runs), _figure(f"{name}, JSON", json_row, "ids/s").against(FRONT, runs[FRONT]["rate"])]


def beside(name: str, runs: Runs) -> list[Figure]:
    """Compares the gateway's runs (under "") with those of each peer."""
    ceiling = runs.pop("ceiling", {}).get("rate")
    own = _figure(name, runs.pop(""), "ids/s", ceiling)
    return [own, *(own.against(peer, row["rate"]) for peer, row in runs.items())]


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
