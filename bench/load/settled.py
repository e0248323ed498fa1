"""Servers in a settled state: a Redis that rehashes nothing, and any server that has nothing left to do."""

import time

import redis as redis_library

from bench.load.server import Served

# A server that takes less of its core than this, for so long, does nothing but wait.
QUIET_SHARE, QUIET_S = 0.05, 0.5
SETTLE_S = 120.0


def wait_until_quiet(served: Served) -> None:
    """Returns once the server has nothing left to do; RuntimeError when it never comes to that."""
    end_s = time.monotonic() + SETTLE_S
    while time.monotonic() < end_s:
        before_s = served.cpu_s
        time.sleep(QUIET_S)
        if served.cpu_s - before_s < QUIET_SHARE * QUIET_S:
            return
    raise RuntimeError(f"the server on port {served.port} was still busy after {SETTLE_S:.0f} s")


def pack(port: int) -> None:
    """Rewrites a Redis's AOF as one snapshot: what starts from it gets tables of their final size, none rehashing."""
    with redis_library.Redis(port=port) as client:
        client.bgrewriteaof()
        end_s = time.monotonic() + SETTLE_S
        while client.info("persistence")["aof_rewrite_in_progress"]:
            if time.monotonic() > end_s:
                raise RuntimeError(f"the AOF was not rewritten within {SETTLE_S:.0f} s")
            time.sleep(0.05)


def rehashing(port: int, key: bytes) -> bool:
    """Tells whether the table of a Redis's set is spread over two at this moment."""
    with redis_library.Redis(port=port) as client:
        return "rehashing target" in str(client.execute_command("DEBUG", "HTSTATS-KEY", key))
