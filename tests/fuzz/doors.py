"""HTTP and gRPC of a real gateway as formats: no bytes that a client sends may cause an internal error."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import grpc

from oncegate.transports.grpc.methods import paths
from tests.fuzz.formats import Format, _streams
from tests.support.grpc_app import Both, both
from tests.support.http_app import ARROW, JSON, PACKED, request

WAIT_S = 60
# Statuses of an internal error.
BUGS = {500}
BAD_CODES = {grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL}
_NS = "/v1/namespaces/default"


class Stumbled(AssertionError):
    """Raised if the gateway answered with an internal error."""


@contextmanager
def opened() -> Iterator[tuple[Format, ...]]:
    """Yields the formats that HTTP and gRPC of a gateway read; the gateway runs in a separate thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def done(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(WAIT_S)

    door = both()
    doors = done(door.__aenter__())
    try:
        yield tuple(_http(doors, done)) + tuple(_grpc(doors, done))
    finally:
        done(door.__aexit__(None, None, None))
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _http(doors: Both, done: Any) -> Iterator[Format]:
    named = {"Oncegate_Token": "ab" * 16, "Oncegate_Call": "0"}
    json = [b'{"token": "%b", "call": 0, "ids": ["a", ["b", null]]}' % (b"ab" * 16)]
    for media, samples in ((JSON, json), (PACKED, [b"a" * 48]), (ARROW, _streams())):
        more = {} if media == JSON else named

        def read(body: bytes, media: str = media, more: dict[str, str] = more) -> None:
            reply = done(doors.http.send(request("POST", f"{_NS}/ids:claim", body, Content_Type=media, **more)))
            if reply.status in BUGS:
                raise Stumbled(reply.body)

        yield Format(f"claim over HTTP, {media}", lambda samples=samples: samples, read)  # type: ignore[misc]

    def produced(body: bytes) -> None:
        path = f"{_NS}/topics/t/records:produce?id_col=id"
        reply = done(doors.http.send(request("POST", path, body, Content_Type=ARROW, **named)))
        if reply.status in BUGS:
            raise Stumbled(reply.body)

    yield Format("rows over HTTP", _streams, produced)


def _grpc(doors: Both, done: Any) -> Iterator[Format]:
    for path, method in paths():
        message = method.message(namespace="default")
        for field in method.message.DESCRIPTOR.fields:
            if field.name in ("arrow", "packed", "token") and not field.is_repeated:
                setattr(message, field.name, _streams()[0] if field.name == "arrow" else b"t" * 16)

        def read(body: bytes, path: str = path) -> None:
            call = doors.channel.unary_unary(path)

            async def sent() -> None:
                try:
                    await call(body, timeout=WAIT_S)
                except grpc.aio.AioRpcError as error:
                    if error.code() in BAD_CODES:
                        raise Stumbled(error.details()) from error

            done(sent())

        samples = [message.SerializeToString(), method.message(namespace="default").SerializeToString()]
        yield Format(f"gRPC {path}", lambda samples=samples: samples, read)  # type: ignore[misc]
