"""How much may be in flight: requests, and bytes reserved before a body is read."""

from collections.abc import Iterator
from contextlib import contextmanager

from oncegate.core.errors import Overloaded, TooLarge
from oncegate.engine.limits import Limits


class Admission:
    """Counts what is in flight; refuses at once rather than queue."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.requests = 0
        self.size_bytes = 0

    @contextmanager
    def hold(self, size_bytes: int) -> Iterator[None]:
        """Reserve room for one request with a body of `size_bytes`.

        Raises TooLarge (fix) or Overloaded (retry), before anything was read or written.
        """
        if size_bytes > self._limits.body_bytes:
            raise TooLarge(f"a body of {size_bytes} bytes; at most {self._limits.body_bytes} are read")
        if self.requests >= self._limits.requests_in_flight:
            raise Overloaded(f"{self.requests} requests in flight; nothing was written")
        if self.size_bytes + size_bytes > self._limits.bytes_in_flight:
            raise Overloaded(f"{self.size_bytes} bytes in flight, no room for {size_bytes}; nothing was written")
        self.requests += 1
        self.size_bytes += size_bytes
        try:
            yield
        finally:
            self.requests -= 1
            self.size_bytes -= size_bytes
