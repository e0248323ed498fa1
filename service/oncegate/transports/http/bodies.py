"""Bodies on their way: whole, in time, and counted as they come; large ones of rows in one piece of memory."""

import asyncio
import math
import mmap
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from fastapi import Request
from starlette.types import Message

from oncegate.core.errors import BadRequest, BodyTooSlow, DeadlinePassed, OncegateError
from oncegate.engine.deadline import Deadline
from oncegate.engine.limits import Limits

# To receive a smaller one past the parser takes longer than its copies do.
_FILLED_BYTES = 128 << 10


class Filled(Protocol):
    """A body on its way into memory. ended: true once it is whole, false when the caller went away."""

    ended: "asyncio.Future[bool]"

    def stop(self) -> None:
        """Receives no more of it; to be called in any case."""


# Receives the body into memory that is as long, and is called with the bytes of each part.
Fill = Callable[[memoryview, Callable[[int], None]], Filled]


async def read_body(
    request: Request,
    size_bytes: int,
    deadline: Deadline,
    arrived: Callable[[int], None],
    limits: Limits,
    fill: Fill | None = None,
) -> bytes | memoryview:
    """Reads exactly `size_bytes`; `arrived` is called with the bytes of each part as it comes.

    fill: takes a large body that is not there yet; a memoryview is returned then.

    Raises BadRequest: the caller went away before; DeadlinePassed, BodyTooSlow: they did not come in time; what
    `arrived` raises.
    """
    if size_bytes == 0:
        return b""
    whole: bytes | None = getattr(request, "whole_body", None)
    if whole is None:
        coming = _Coming(request, size_bytes, deadline, limits)
        if fill is not None and size_bytes >= _FILLED_BYTES:
            return await coming.filled(fill, arrived)
        parts = await coming.received(arrived)
    else:
        arrived(len(whole))
        parts = [whole]
    if _size(parts) != size_bytes:
        raise BadRequest(f"the body has {_size(parts)} bytes, Content-Length said {size_bytes}; nothing was written")
    return parts[0] if len(parts) == 1 else b"".join(parts)


class _Coming:
    """A body on its way; it is given up at the caller's deadline, or when it falls behind the least rate."""

    def __init__(self, request: Request, size_bytes: int, deadline: Deadline, limits: Limits) -> None:
        self._request, self._size_bytes, self._limits = request, size_bytes, limits
        self._loop = asyncio.get_running_loop()
        self._began_s, self._received = self._loop.time(), 0
        left_ms = deadline.left_ms
        self._end_s = math.inf if left_ms is None else self._began_s + max(left_ms, 0) / 1000

    @property
    def _behind_s(self) -> float:
        """When it has fallen behind, if nothing more comes."""
        limits = self._limits
        return self._began_s + limits.body_grace_ms / 1000 + self._received / limits.body_bytes_per_second_min

    async def received(self, arrived: Callable[[int], None]) -> list[bytes]:
        """Returns the body's parts. Raises as `read_body`."""
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

    async def filled(self, fill: Fill, arrived: Callable[[int], None]) -> memoryview:
        """Returns the body, received in one piece of memory. Raises as `read_body`."""

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
        """Waits for the end, or until the body would have fallen behind if nothing more had come."""
        try:
            async with asyncio.timeout_at(min(self._end_s, self._behind_s)):
                await asyncio.wait((ended,))
        except TimeoutError:
            if self._loop.time() >= min(self._end_s, self._behind_s):
                raise self._late() from None

    async def _next(self) -> Message:
        try:
            async with asyncio.timeout_at(min(self._end_s, self._behind_s)):
                return await self._request.receive()
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
    """Memory for a body, on a page boundary, so that a disk can take it from there.

    It is not filled with zeros: pages that no byte has reached take nothing.
    """
    whole = np.empty(size_bytes + mmap.PAGESIZE, np.uint8)
    start = -whole.__array_interface__["data"][0] % mmap.PAGESIZE
    return whole[start : start + size_bytes].data


def _size(parts: Sequence[bytes]) -> int:
    return sum(map(len, parts))
