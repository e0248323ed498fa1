"""Waits for a settled state: an idle server, and a Redis that is not rehashing."""

import time

import redis as redis_library

from bench.load.server import Served

# A server is idle if it uses less than this share of its core for this time.
QUIET_SHARE, QUIET_S = 0.05, 0.5
SETTLE_S = 120.0


def wait_until_quiet(served: Served) -> None:
    """Waits until the server is idle. Raises RuntimeError on timeout."""
    end_s = time.monotonic() + SETTLE_S
    while time.monotonic() < end_s:
        before_s = served.cpu_s
        time.sleep(QUIET_S)
        if served.cpu_s - before_s < QUIET_SHARE * QUIET_S:
            return
    raise RuntimeError(f"the server on port {served.port} was still busy after {SETTLE_S:.0f} s")


def pack(port: int) -> None:
    """Rewrites a Redis's AOF as one snapshot; a start from it creates tables in their final size, without rehashing."""
    with redis_library.Redis(port=port) as client:
        client.bgrewriteaof()
        end_s = time.monotonic() + SETTLE_S
        while client.info("persistence")["aof_rewrite_in_progress"]:
            if time.monotonic() > end_s:
                raise RuntimeError(f"the AOF was not rewritten within {SETTLE_S:.0f} s")
            time.sleep(0.05)


def rehashing(port: int, key: bytes) -> bool:
    """Returns whether the table of a Redis set is being rehashed."""
    with redis_library.Redis(port=port) as client:
        return "rehashing target" in str(client.execute_command("DEBUG", "HTSTATS-KEY", key))
