"""Reads replies as http.client does, but for two things that it takes for replies: interim ones, and half a head."""

import http.client
from typing import Any

# An intermediary sends one or two (RFC 8297); a peer that sends nothing else has no reply.
INTERIM_MAX = 16


class Response(http.client.HTTPResponse):
    """A final reply whose head is whole; interim ones before it are passed over (RFC 9110, 15.2).

    http.client returns 102 and 103 as the reply, and leaves the real one to the next request on the connection; and it
    takes the end of a connection in the middle of a head for the end of the head.
    """

    def begin(self) -> None:
        """Reads the head. Raises HTTPException where the connection ends before it does."""
        self._begin()
        for _ in range(INTERIM_MAX):
            if self.status >= http.client.OK:
                return
            unread: Any = None
            self.headers = self.msg = unread
            self._begin()
        raise http.client.HTTPException(f"more than {INTERIM_MAX} interim replies and no other")

    def _begin(self) -> None:
        reading, lines = self.fp, _Lines(self.fp)
        head: Any = lines
        self.fp = head
        try:
            super().begin()
        finally:
            self.fp = reading
        if lines.last not in (b"\r\n", b"\n"):
            raise http.client.IncompleteRead(lines.last)


class _Lines:
    """What http.client reads a head from; keeps the last line, which is empty at the end of a whole one."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.last = b""

    def readline(self, limit: int = -1) -> bytes:
        self.last = self._file.readline(limit)
        return self.last

    def close(self) -> None:
        self._file.close()
