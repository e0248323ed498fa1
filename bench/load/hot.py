"""A hot tenant: closed loops of large claims of new ids, some of which the gateway refuses.

Requests are generated while sending: their number is unknown in advance, since refusals are cheap.
"""

import asyncio
import json
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import uvloop

from bench.load.kinds import PACKED
from oncegate.clock import SystemClock

_HEAD = (
    "POST /v1/namespaces/{namespace}/ids:claim HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {kind}\r\n"
    "oncegate-call: 0\r\noncegate-token: {token}\r\ncontent-length: {size}\r\n\r\n"
)


@dataclass
class _Counts:
    """Counts of requests; `dropped`: connections that the gateway closed before a complete response."""

    answered: int = 0
    refused: int = 0
    dropped: int = 0


def tenant(job: dict[str, Any], go: Callable[[], None]) -> dict[str, float]:
    """Claims in `namespace` with `clients` for `seconds`; `obeys`: waits for the `retry_after_ms` of a refusal.

    The rate is in answered ids per second; `refused` and `dropped` are in requests per second.
    """
    counts = _Counts()
    os.nice(19)  # so that the other tenant, on the same core, sends its requests in time
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        seconds = runner.run(_drive(job, counts, go))
    rate = job["ids"] * counts.answered / seconds
    return {"rate": rate, "refused": counts.refused / seconds, "dropped": counts.dropped / seconds}


async def _drive(job: dict[str, Any], counts: _Counts, go: Callable[[], None]) -> float:
    go()
    began_s = time.perf_counter()
    end_s = began_s + job["seconds"]
    await asyncio.gather(*(_client(job, counts, end_s) for _ in range(job["clients"])))
    return time.perf_counter() - began_s


async def _client(job: dict[str, Any], counts: _Counts, end_s: float) -> None:
    while time.perf_counter() < end_s:
        reader, writer = await asyncio.open_connection("127.0.0.1", job["port"])
        try:
            while time.perf_counter() < end_s:
                pause_s = await _asked(job, counts, reader, writer)
                if job["obeys"] and pause_s:
                    left_s = max(0.0, end_s - time.perf_counter())
                    await SystemClock().sleep_ms(int(1_000 * min(pause_s, left_s)))
        except (ConnectionError, asyncio.IncompleteReadError):
            counts.dropped += 1
        finally:
            writer.close()


async def _asked(
    job: dict[str, Any], counts: _Counts, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> float:
    """Sends one claim; returns the seconds to wait after a refusal. Raises RuntimeError for any other error."""
    body = os.urandom(16 * job["ids"])
    head = _HEAD.format(namespace=job["namespace"], kind=PACKED, token=secrets.token_hex(16), size=len(body))
    writer.write(head.encode() + body)
    said = await reader.readuntil(b"\r\n\r\n")
    size = next(line for line in said.split(b"\r\n") if line.startswith(b"content-length: "))
    answer = await reader.readexactly(int(size.removeprefix(b"content-length: ")))
    if said[9:12] == b"200":
        counts.answered += 1
        return 0.0
    if said[9:12] not in (b"429", b"503"):
        raise RuntimeError(f"answered {said[:12]!r} {answer[:200]!r}")
    counts.refused += 1
    return float(json.loads(answer)["retry_after_ms"]) / 1_000
