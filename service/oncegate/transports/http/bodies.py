"""Receives request bodies: whole, within their deadline and minimum rate, with each part counted on arrival."""

import asyncio
import math
import mmap
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import numpy as np

from oncegate.clock import now_s
from oncegate.core.errors import BadRequest, BodyTooSlow, DeadlinePassed, LengthRequired, OncegateError
from oncegate.engine.deadline import Deadline
from oncegate.engine.limits import Limits
from oncegate.transports.decode.identifiers import whole_number

# Below this size, bypassing the HTTP parser takes longer than the copies that it saves.
_FILLED_BYTES = 128 << 10


class Filled(Protocol):
    """A body being received into memory. ended: true if the body is complete, false if the caller disconnected."""

    ended: "asyncio.Future[bool]"

    def stop(self) -> None:
        """Stops receiving; must be called in every case."""


# Starts receiving the body into a buffer of its length; the callback gets the number of bytes of each part.
Fill = Callable[[memoryview, Callable[[int], None]], Filled]


def body_length(headers: Mapping[str, str], wanted: bool, allowed: bool = False) -> int:
    """Returns the declared length of the body; 0 without Content-Length, if no body is `wanted`.

    Raises:
        LengthRequired: the body is chunked, or `wanted` and without Content-Length.
        BadRequest: there is a body, neither `wanted` nor `allowed`.
    """
    if "transfer-encoding" in headers:
        raise LengthRequired("chunked bodies are not read: room is reserved from Content-Length before reading")
    text = headers.get("content-length")
    if text is None:
        if wanted:
            raise LengthRequired("the header Content-Length is missing")
        return 0
    length = whole_number(text, "Content-Length", 2**63 - 1)
    if length and not wanted and not allowed:
        raise BadRequest(f"this call takes no body, {length} bytes were announced")
    return length


class Wire(Protocol):
    """The source of a request's body."""

    @property
    def fill(self) -> Fill | None:
        """Returns the function that receives a large body into memory; None if this is not supported."""

    @property
    def receive(self) -> Callable[[], Awaitable[Any]]:
        """Returns the ASGI `receive` of the request."""

    def take_body(self) -> bytes | None:
        """Returns the whole body, once, if it has arrived; None if it still has to be received."""


class Coming:
    """A body being received; reception is aborted at the caller's deadline or below the minimum rate.

    in_one_piece: a large body that has not arrived yet is received into one contiguous buffer.
    """

    _end_s = math.inf

    def __init__(self, wire: Wire, size_bytes: int, limits: Limits, in_one_piece: bool) -> None:
        self._wire, self._size_bytes, self._limits = wire, size_bytes, limits
        self._fill = wire.fill if in_one_piece and size_bytes >= _FILLED_BYTES else None
        self._began_s, self._received = now_s(), 0

    async def read(self, deadline: Deadline, arrived: Callable[[int], None]) -> bytes | memoryview:
        """Reads exactly the declared size; calls `arrived` with the number of bytes of each part.

        Raises:
            BadRequest: the caller disconnected, or the body's length differs from Content-Length.
            DeadlinePassed: the body was incomplete at the deadline.
            BodyTooSlow: the body fell below the minimum rate.
            Exception: any error that `arrived` raises.
        """
        if self._size_bytes == 0:
            return b""
        if (left_ms := deadline.left_ms) is not None:
            self._end_s = self._began_s + max(left_ms, 0) / 1000
        whole = self._wire.take_body()
        if whole is not None:
            arrived(len(whole))
        elif self._fill is not None:
            return await self._filled(self._fill, arrived)
        else:
            whole = b"".join(await self._parts(arrived))
        if len(whole) != self._size_bytes:
            size = self._size_bytes
            raise BadRequest(f"the body has {len(whole)} bytes, Content-Length said {size}; nothing was written")
        return whole

    @property
    def _behind_s(self) -> float:
        """Returns the time at which the body falls below the minimum rate if no more bytes arrive."""
        limits = self._limits
        return self._began_s + limits.body_grace_ms / 1000 + self._received / limits.body_bytes_per_second_min

    async def _parts(self, arrived: Callable[[int], None]) -> list[bytes]:
        parts: list[bytes] = []
        more = True
        while more:
            message = await self._next()
            if message["type"] == "http.disconnect":
                raise BadRequest(f"the body ended after {self._so_far}; nothing was written")
            parts.append(message.get("body", b""))
            arrived(len(parts[-1]))
            self._received += len(parts[-1])
            more = message.get("more_body", False)
        return parts

    async def _filled(self, fill: Fill, arrived: Callable[[int], None]) -> memoryview:
        def came(size_bytes: int) -> None:
            arrived(size_bytes)
            self._received += size_bytes

        room = _room(self._size_bytes)
        filling = fill(room, came)
        try:
            while not filling.ended.done():
                await self._wait(filling.ended)
        finally:
            filling.stop()
        if not filling.ended.result():
            raise BadRequest(f"the body ended after {self._so_far}; nothing was written")
        return room.toreadonly()

    async def _wait(self, ended: "asyncio.Future[bool]") -> None:
        """Waits for the end of the body, at most until the minimum rate is missed if no more bytes arrive.

        Raises DeadlinePassed or BodyTooSlow if it is late even with the bytes that arrived meanwhile.
        """
        try:
            async with asyncio.timeout_at(min(self._end_s, self._behind_s)):
                await asyncio.wait((ended,))
        except TimeoutError:
            if now_s() >= min(self._end_s, self._behind_s):
                raise self._late() from None

    async def _next(self) -> Any:
        try:
            async with asyncio.timeout_at(min(self._end_s, self._behind_s)):
                return await self._wire.receive()
        except TimeoutError:
            raise self._late() from None

    def _late(self) -> OncegateError:
        if self._end_s <= self._behind_s:
            return DeadlinePassed(f"{self._so_far} came before the deadline; nothing was written")
        least = self._limits.body_bytes_per_second_min
        return BodyTooSlow(f"{self._so_far} came, less than {least} a second; nothing was written")

    @property
    def _so_far(self) -> str:
        return f"{self._received} of {self._size_bytes} bytes of the body"


def _room(size_bytes: int) -> memoryview:
    """Returns a page-aligned buffer for a body, so that it can be written with direct I/O.

    The buffer is not zeroed: pages that no byte has reached use no memory.
    """
    whole = np.empty(size_bytes + mmap.PAGESIZE, np.uint8)
    start = -whole.__array_interface__["data"][0] % mmap.PAGESIZE
    return whole[start : start + size_bytes].data
