"""Serves claim streams: reads later requests while earlier ones commit, and responds in request order."""

import asyncio
from collections.abc import AsyncIterator, Callable
from secrets import token_hex
from typing import Any, Protocol

from oncegate.core.errors import BadRequest, Overloaded, Stopping
from oncegate.ports import Observer
from oncegate.transports.grpc import claims, producers
from oncegate.transports.grpc import gateway_pb2 as pb
from oncegate.transports.grpc.calls import GrpcAnswer, GrpcMethod, GrpcRefusal, OpenStream, begin, parsed, refuse
from oncegate.transports.grpc.errors import details_of

# Limit of read but unanswered requests per stream, which group commit combines. Further requests stay in the client by
# the flow control of HTTP/2.
READ_AHEAD = 8
# Limit of open streams: an idle stream holds a connection's buffers, and a job has a few executors.
STREAMS = 256
# By the field set in a StreamClaimsRequest.
REQUESTS: dict[str, GrpcMethod] = {name.lower(): method for name, method in claims.METHODS.items()} | {
    "ack": producers.METHODS["Ack"]
}
# By the type of a response's message, its field in a StreamClaimsResponse.
_ANSWERS = {
    field.message_type.full_name: field.name
    for field in pb.StreamClaimsResponse.DESCRIPTOR.oneofs_by_name["answer"].fields
    if field.message_type is not None
}
_STOPS = "the gateway stops: what it had read is answered; send the rest on another stream, with their tokens and calls"
_TOO_MANY = f"{STREAMS} streams are open, as many as there may be: send this one's requests as calls, or later"


class Streaming(OpenStream, Protocol):
    """The state that calls and streams share: also the open streams, and whether the server is stopping."""

    streams: "set[Stream]"
    stopping: bool


class Stream:
    """One stream: a task reads requests ahead, and `answers` yields their responses in order."""

    def __init__(self, opened: OpenStream, observer: Observer, name: str, requests: AsyncIterator[bytes], context: Any):
        self._opened, self._observer, self._name = opened, observer, name
        self._requests, self._context = requests, context
        self._room = asyncio.Semaphore(READ_AHEAD)
        self._begun: asyncio.Queue[asyncio.Task[GrpcAnswer | GrpcRefusal] | None] = asyncio.Queue()
        self._reading: asyncio.Task[None] | None = None
        self.stopped = False

    def stop(self) -> None:
        """Stops reading further requests; those already read are still answered."""
        self.stopped = True
        if self._reading is not None:
            self._reading.cancel()

    async def answers(self) -> AsyncIterator[pb.StreamClaimsResponse]:
        """Yields the response to each request in order, until the client ends the stream or `stop` is called."""
        self._reading = asyncio.create_task(self._read())
        try:
            while (begun := await self._begun.get()) is not None:
                # The engine finishes a request even when its client has disconnected.
                end = await asyncio.shield(begun)
                yield _answer(end)
                if isinstance(end, GrpcAnswer):
                    end.sent()
                self._room.release()
        finally:
            self._reading.cancel()

    async def _read(self) -> None:
        try:
            await self._room.acquire()
            async for body in self._requests:
                begun = begin(self._opened, self._observer, self._name, _request, body, self._context)
                self._begun.put_nowait(begun)
                await self._room.acquire()
        finally:
            self._begun.put_nowait(None)


def handler(opened: Streaming, observer: Observer, name: str) -> Callable[[AsyncIterator[bytes], Any], Any]:
    """Returns the handler of one method's streams."""

    async def answer(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        if opened.stopping:
            await refuse(context, GrpcRefusal(Stopping(_STOPS), token_hex(16)))
        if len(opened.streams) >= STREAMS:
            await refuse(context, GrpcRefusal(Overloaded(_TOO_MANY), token_hex(16)))
        stream = Stream(opened, observer, name, requests, context)
        opened.streams.add(stream)
        try:
            async for one in stream.answers():
                yield one.SerializeToString()
        finally:
            opened.streams.discard(stream)
        if stream.stopped:
            await refuse(context, GrpcRefusal(Stopping(_STOPS), token_hex(16)))

    return answer


def _request(body: bytes) -> tuple[GrpcMethod, Any]:
    message = parsed(pb.StreamClaimsRequest, body)
    kind = message.WhichOneof("request")
    if kind is None:
        raise BadRequest(f"the request is none of {', '.join(REQUESTS)}; nothing was written")
    return REQUESTS[kind], getattr(message, kind)


def _answer(end: GrpcAnswer | GrpcRefusal) -> pb.StreamClaimsResponse:
    if isinstance(end, GrpcRefusal):
        return pb.StreamClaimsResponse(refusal=details_of(end.error, end.trace_id))
    kind = _ANSWERS[end.message.DESCRIPTOR.full_name]
    return pb.StreamClaimsResponse(mark=end.mark, **{kind: end.message})
