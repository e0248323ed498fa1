"""The HTTP front of the peers: the gateway's HTTP server over a Redis, or over nothing.

Answers a POST of packed ids (16 raw bytes each) in the gateway's packed form. With `--redis`, it decides one id by
`SET NX EX` through redis-py's asyncio client. Without, it grants every id and remembers nothing, which is the upper
bound of any gateway with this server.
"""

import argparse
import asyncio
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import redis.asyncio
import uvloop

from oncegate.doors import bound
from oncegate.transports.http.server.protocol import listening

EXPIRES_S = 3_600
_HEAD = struct.Struct("<16sII")
_GRANTED, _DUPLICATE = b"\x01", b"\x02"

Decide = Callable[[bytes], Awaitable[bytes]]
Message = dict[str, Any]


def application(decide: Decide) -> Callable[..., Awaitable[None]]:
    """Returns an ASGI application with one route, which answers a verdict byte per id."""

    async def serve(scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[..., Any]) -> None:
        parts, more = [], True
        while more:
            message = await receive()
            parts.append(message.get("body", b""))
            more = message.get("more_body", False)
        verdicts = await decide(parts[0] if len(parts) == 1 else b"".join(parts))
        answer = _HEAD.pack(bytes(16), 30_000, len(verdicts)) + verdicts
        length = str(len(answer)).encode()
        headers = [(b"content-type", b"application/vnd.oncegate.packed"), (b"content-length", length)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    return serve


async def nothing(ids: bytes) -> bytes:
    """Grants every id of 16 bytes."""
    return _GRANTED * (len(ids) // 16)


def by_redis(port: int) -> Decide:
    """Returns a decision by one `SET NX EX` on the Redis at a port of 127.0.0.1."""
    client = redis.asyncio.Redis(port=port, max_connections=1_024)

    async def decide(ids: bytes) -> bytes:
        return _GRANTED if await client.set(ids, b"1", nx=True, ex=EXPIRES_S) else _DUPLICATE

    return decide


async def serve(decide: Decide, say_port: Callable[[str], object]) -> None:
    """Serves the decision over HTTP on a free port of 127.0.0.1 until cancelled; passes the port to `say_port`."""
    with bound("127.0.0.1", 0) as sock:
        async with listening(cast(Any, application(decide)), sock, 1_000):
            say_port(f"{sock.getsockname()[1]}\n")
            await asyncio.Event().wait()


def main() -> None:
    """Starts the server that the command line describes."""
    parser = argparse.ArgumentParser(prog="bench.load.front")
    parser.add_argument("--redis", type=int, default=None, help="port of a Redis")
    parser.add_argument("--port-file", type=Path, required=True)
    options = parser.parse_args()
    decide = nothing if options.redis is None else by_redis(options.redis)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(decide, options.port_file.write_text))


if __name__ == "__main__":
    main()
