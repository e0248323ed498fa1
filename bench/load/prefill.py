"""Prefills the servers with the first ids of stream 0, before anything is measured; runs in the load process.

The new ids of a run are removed from Redis afterwards, so that every run starts in the same state. For the gateway,
each point starts a new one.
"""

import http.client
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import redis as redis_library

from bench.load import bodies, resp
from bench.load.bodies import LIVE_STREAM, U64
from bench.load.kinds import ARROW, BUCKET, PACKED
from oncegate_spark.protocol.packed import claim_text

BATCH = 100_000
Job = dict[str, Any]


def batches(live: int, batch: int = BATCH, first: int = 0) -> Iterator[U64]:
    """Yields the live ids from number `first`, in requests."""
    for at in range(first, first + live, batch):
        yield bodies.numbered(LIVE_STREAM, at, min(batch, first + live - at))


def gateway(job: Job, go: Callable[[], None]) -> dict[str, float]:
    """Claims and completes `live` ids from number `first`, packed or as strings (`text`), `ids` per request."""
    go()
    connection = http.client.HTTPConnection("127.0.0.1", job["port"])
    begin, done = time.perf_counter(), 0
    for number, ids in enumerate(batches(job["live"], job["ids"], job.get("first", 0)), job.get("first", 0)):
        body = bodies.arrow_stream(bodies.text_of(ids)) if job.get("text") else ids.tobytes()
        media = ARROW if job.get("text") else PACKED
        token = f"{number:032x}" if not job.get("text") else f"f{number:031x}"
        headers = {"Content-Type": media, "Accept": PACKED, "Oncegate-Token": token, "Oncegate-Call": "0"}
        answer = _post(connection, "ids:claim", body, headers)
        _post(connection, f"claims/{claim_text(answer[:16])}:complete", b"", {"Content-Length": "0"})
        done += len(ids)
    connection.close()
    return {"rate": done / (time.perf_counter() - begin), "wrong": 0}


def _post(connection: http.client.HTTPConnection, path: str, body: bytes, headers: dict[str, str]) -> bytes:
    connection.request("POST", f"/v1/namespaces/default/{path}", body, headers)
    response = connection.getresponse()
    answer = response.read()
    if response.status != 200:
        raise RuntimeError(f"{path}: {response.status} {answer[:300]!r}")
    return answer


def redis(job: Job, go: Callable[[], None]) -> dict[str, float]:
    """Sets the same ids as keys, and adds them to the bucket (a set); `only`: just "keys" or "bucket"."""
    go()
    begin = time.perf_counter()
    scripts = {"keys": _SET, "bucket": resp.LUA_BULK}
    _on_all(job, batches(job["live"]), [scripts[job["only"]]] if job.get("only") else list(scripts.values()))
    return {"rate": job["live"] / (time.perf_counter() - begin), "wrong": 0}


def forget(job: Job, go: Callable[[], None]) -> dict[str, float]:
    """Removes the first `sent` ids of the stream `forgotten`, except prefilled ones, from keys and bucket."""
    go()
    parts = (
        bodies.numbered(int(job["forgotten"]), first, count)[~bodies.is_known(first, count)]
        for first in range(0, int(job["sent"]), BATCH)
        if (count := min(BATCH, int(job["sent"]) - first))
    )
    _on_all(job, parts, (_DELETE, _REMOVE))
    return {"rate": 0.0, "wrong": 0}


def _on_all(job: Job, parts: Iterable[U64], scripts: Sequence[bytes | str]) -> None:
    """Runs each script over each part of ids; meanwhile the AOF is synced once a second."""
    width = bodies.UUID_CHARS if job.get("text") else 16
    with redis_library.Redis(port=job["port"]) as client:
        client.config_set("appendfsync", "everysec")
        for ids in parts:
            data = (bodies.text_of(ids) if job.get("text") else resp.raw_ids(ids)).tobytes()
            for script in scripts:
                client.eval(script, 1, BUCKET + str(width).encode(), data, width)
        client.config_set("appendfsync", "always")


_EACH = """
local ids, bytes, sub = ARGV[1], tonumber(ARGV[2]), string.sub
for from = 1, #ids, bytes * 7000 do
  local asked = {}
  for at = from, math.min(from + bytes * 7000 - 1, #ids), bytes do asked[#asked + 1] = sub(ids, at, at + bytes - 1) end
  %s
end
return 0
"""
_DELETE, _REMOVE = _EACH % "redis.call('UNLINK', unpack(asked))", _EACH % "redis.call('SREM', KEYS[1], unpack(asked))"
_SET = f"""
local ids, bytes, sub = ARGV[1], tonumber(ARGV[2]), string.sub
for at = 1, #ids, bytes do redis.call('SET', sub(ids, at, at + bytes - 1), '1', 'NX', 'EX', '{resp.EXPIRES_S}') end
return 0
"""
