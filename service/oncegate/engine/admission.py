"""Bounds the requests in flight, and the bytes of their bodies, reserved as they come."""

from oncegate.core.errors import Overloaded, TooLarge
from oncegate.engine.limits import Limits


class Admission:
    """Counts requests and bytes in flight, and refuses at once rather than queue."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.requests = 0
        self.size_bytes = 0
        # How many were refused for want of room since the process started.
        self.refused = 0

    def hold(self, size_bytes: int) -> "Hold":
        """Reserves room for one request with a body of `size_bytes`, from `with` to its end.

        There it raises TooLarge (fix) or Overloaded (retry), before anything was read or written.
        """
        return Hold(self, size_bytes)

    def take(self, size_bytes: int) -> None:
        """Reserves room as `hold` does; `give` has to follow."""
        self.enter(size_bytes)
        self.size_bytes += size_bytes

    def enter(self, size_bytes: int) -> None:
        """Lets in one request whose body will have `size_bytes`, if there is room for it now; `grow` takes that room.

        Raises as `hold`. `give` has to follow.
        """
        if size_bytes > self._limits.body_bytes:
            raise TooLarge(f"a body of {size_bytes} bytes; at most {self._limits.body_bytes} are read")
        if self.requests >= self._limits.requests_in_flight:
            raise self._overloaded(f"{self.requests} requests in flight")
        if self.size_bytes + size_bytes > self._limits.bytes_in_flight:
            raise self._overloaded(f"{self.size_bytes} bytes in flight, no room for {size_bytes}")
        self.requests += 1

    def grow(self, size_bytes: int) -> None:
        """Reserves room for so many bytes more of a request that was let in. Raises Overloaded."""
        if self.size_bytes + size_bytes > self._limits.bytes_in_flight:
            raise self._overloaded(f"{self.size_bytes} bytes in flight, no room for {size_bytes} more")
        self.size_bytes += size_bytes

    def _overloaded(self, why: str) -> Overloaded:
        self.refused += 1
        return Overloaded(f"{why}; nothing was written")

    def give(self, size_bytes: int) -> None:
        """Gives back what `take` reserved."""
        self.requests -= 1
        self.size_bytes -= size_bytes


class Hold:
    """Reserves room for one request, from `with` to its end."""

    __slots__ = ("_admission", "_size_bytes")

    def __init__(self, admission: Admission, size_bytes: int) -> None:
        self._admission = admission
        self._size_bytes = size_bytes

    def __enter__(self) -> None:
        self._admission.take(self._size_bytes)

    def __exit__(self, *_: object) -> None:
        self._admission.give(self._size_bytes)
