"""How much may be in flight: requests, and bytes reserved before a body is read."""

from oncegate.core.errors import Overloaded, TooLarge
from oncegate.engine.limits import Limits


class Admission:
    """Counts what is in flight; refuses at once rather than queue."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.requests = 0
        self.size_bytes = 0

    def hold(self, size_bytes: int) -> "Hold":
        """Reserve room for one request with a body of `size_bytes`, from `with` to its end.

        There it raises TooLarge (fix) or Overloaded (retry), before anything was read or written.
        """
        return Hold(self, size_bytes)

    def take(self, size_bytes: int) -> None:
        """Reserve; as `hold` says. `give` is to follow."""
        if size_bytes > self._limits.body_bytes:
            raise TooLarge(f"a body of {size_bytes} bytes; at most {self._limits.body_bytes} are read")
        if self.requests >= self._limits.requests_in_flight:
            raise Overloaded(f"{self.requests} requests in flight; nothing was written")
        if self.size_bytes + size_bytes > self._limits.bytes_in_flight:
            raise Overloaded(f"{self.size_bytes} bytes in flight, no room for {size_bytes}; nothing was written")
        self.requests += 1
        self.size_bytes += size_bytes

    def give(self, size_bytes: int) -> None:
        """Give back what was taken."""
        self.requests -= 1
        self.size_bytes -= size_bytes


class Hold:
    """Room reserved for one request."""

    __slots__ = ("_admission", "_size_bytes")

    def __init__(self, admission: Admission, size_bytes: int) -> None:
        self._admission = admission
        self._size_bytes = size_bytes

    def __enter__(self) -> None:
        self._admission.take(self._size_bytes)

    def __exit__(self, *_: object) -> None:
        self._admission.give(self._size_bytes)
