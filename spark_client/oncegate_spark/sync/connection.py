"""The blocking client's connection, over the standard library and opened on first use.

Replies are parsed by http.client, except interim replies and truncated heads, both of which it takes for replies.
"""

import contextlib
import http.client
import os
import socket
import ssl
from typing import Any

from oncegate_spark.credentials import Credentials
from oncegate_spark.protocol.address import GatewayAddress, with_key
from oncegate_spark.protocol.calls.steps import Try
from oncegate_spark.protocol.effort import Reply, WireFailure, lower_names
from oncegate_spark.sync.clock import Clock

# A proxy sends one or two (RFC 8297); a peer that sends more never replies.
INTERIM_MAX = 16


class Response(http.client.HTTPResponse):
    """A final reply with a complete head; interim replies before it are skipped (RFC 9110, 15.2).

    http.client returns 102 and 103 as the reply, and leaves the real one to the next request on the connection. It also
    takes the end of the connection inside a head for the end of the head.
    """

    def begin(self) -> None:
        """Reads the head. Raises HTTPException if the connection ends inside it."""
        self._begin()
        for _ in range(INTERIM_MAX):
            if self.status >= http.client.OK:
                return
            unread: Any = None
            self.headers = self.msg = unread
            self._begin()
        raise http.client.HTTPException(f"more than {INTERIM_MAX} interim replies and no final one")

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
    """File from which http.client reads a head; keeps the last line, which is empty at the end of a complete head."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.last = b""

    def readline(self, limit: int = -1) -> bytes:
        self.last = self._file.readline(limit)
        return self.last

    def close(self) -> None:
        self._file.close()


READ_BYTES = 1 << 18


class Connection:
    """Sends one request at a time, for one thread. A connection inherited through a fork is dropped, not used."""

    def __init__(self, url: str, credentials: Credentials, clock: Clock) -> None:
        self._address = GatewayAddress.of(url, credentials)
        self._credentials = credentials
        self._tls: ssl.SSLContext | None = None
        self._clock = clock
        self._open: http.client.HTTPConnection | None = None
        self._owner = 0

    def exchange(self, step: Try) -> Reply:
        """Sends one request; returns the reply. Raises WireFailure, after which the connection is closed."""
        request, timeout_ms = step.request, step.timeout_ms
        began_ms = self._clock.monotonic_ms()
        sent = False
        try:
            connection = self._connected(timeout_ms)
            sent = True
            # The gateway may refuse a request before its body is sent; that reply is worth more than the broken pipe.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request(
                    request.method,
                    self._address.prefix + request.path,
                    request.body,
                    with_key(self._address, request.headers, self._credentials),
                )
            return self._reply(connection, began_ms, began_ms + timeout_ms)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise WireFailure.of(error, sent=sent) from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Closes the socket if one is open; the next exchange opens another."""
        connection, self._open = self._open, None
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.close()

    def _connected(self, timeout_ms: int) -> http.client.HTTPConnection:
        if self._owner != os.getpid():
            self.close()
        if self._open is None:
            connection = self._closed(timeout_ms / 1000)
            connection.connect()
            self._open, self._owner = connection, os.getpid()
        self._limit(self._open, timeout_ms)
        return self._open

    def _closed(self, timeout_s: float) -> http.client.HTTPConnection:
        host, port = self._address.host, self._address.port
        if self._address.secure:
            self._tls = self._tls or self._credentials.tls()
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, port, timeout=timeout_s, context=self._tls
            )
        else:
            connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
        connection.response_class = Response
        return connection

    def _reply(self, connection: http.client.HTTPConnection, began_ms: int, ends_ms: int) -> Reply:
        response = connection.getresponse()
        parts = []
        while True:
            self._limit(connection, ends_ms - self._clock.monotonic_ms())
            part = response.read(READ_BYTES)
            if not part:
                break
            parts.append(part)
        if response.length:  # closed before the announced length
            raise http.client.IncompleteRead(b"".join(parts), response.length)
        if response.will_close:
            self.close()
        return Reply(response.status, lower_names(response.getheaders()), b"".join(parts), began_ms)

    @staticmethod
    def _limit(connection: http.client.HTTPConnection, left_ms: int) -> None:
        if left_ms <= 0:
            raise TimeoutError
        sock: socket.socket | None = connection.sock
        if sock is not None:
            sock.settimeout(left_ms / 1000)
