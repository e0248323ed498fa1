"""Sends each record by HTTP with an Idempotency-Key derived from its id.

The header is that of https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/: a server that
supports it executes the first request of a key, and answers repeats with the first response.
"""

import hashlib
import http.client
import ssl
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import quote, urlsplit

from oncegate_spark.delivery.sink import Record
from oncegate_spark.errors import BadOption, InDoubt, SinkRefused

TIMEOUT_MS = 10_000  # a third of a lease, so that a late response is asked for again before the claim expires
KEY_CHARACTERS_MAX = 255  # limit of the servers that have one
ANSWER_BYTES_MAX = 1 << 20  # of a response body, which is read only to reuse the connection
# The server has not decided: it is busy, or another request with this key is in progress (409 in the draft).
_LATER = frozenset({408, 409, 423, 425, 429})


def idempotency_key(record_id: str) -> str:
    """Returns an id's key: percent-encoded, which is injective; a SHA-256 if that is too long."""
    key = quote(record_id, safe="")
    return key if len(key) <= KEY_CHARACTERS_MAX else f"%sha256-{hashlib.sha256(record_id.encode()).hexdigest()}"


class HttpSink:
    """Sends each record's body, bytes, in a request of its own.

    Args:
        find: returns the ids that the server has; without it a record in doubt is sent again under its key
        quoted: sends the key as a structured-fields string, as in the draft; False for servers that expect it bare

    Guarantee: once if the server honours the key for as long as a record may be delivered again, else at least once. A
    2xx response means written. After 408, 409, 423, 425, 429, 5xx, a timeout or a broken connection the record is in
    doubt, and sent again under its key. Any other response, or no connection, raises SinkRefused; InDoubt if the record
    was in doubt before, since the response does not reveal the effect of an earlier request.
    """

    records_max = 1  # each record has a response of its own

    def __init__(
        self,
        url: str,
        *,
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
        timeout_ms: int = TIMEOUT_MS,
        quoted: bool = True,
        find: Callable[[Sequence[str]], set[str]] | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadOption(f'url is {url!r}; write HttpSink("https://host/path"); nothing was sent')
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._host, self._port = parts.hostname, parts.port
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._method, self._headers, self._quoted = method, dict(headers or {}), quoted
        self._timeout_s, self._find = timeout_ms / 1000, find
        self._connection: http.client.HTTPConnection | None = None
        # in doubt at the last find(); an earlier request for these may still take effect
        self._doubtful: set[str] = set()

    def write(self, records: Sequence[Record]) -> None:
        """Sends each record; returns once all have a 2xx response."""
        doubtful, self._doubtful = self._doubtful, set()
        for record in records:
            try:
                self._write(record)
            except SinkRefused as refused:
                if record.id not in doubtful:
                    raise
                raise InDoubt(
                    f"unknown: whether an earlier request for record {record.id!r} took effect; this one did not: "
                    f"{refused}. Fix the cause and deliver the record again: it uses the same key",
                    ids=[record.id],
                ) from refused

    def find(self, ids: Sequence[str]) -> set[str]:
        """Calls the given function; without one returns no ids, so that each record is sent again under its key."""
        present = set() if self._find is None else self._find(ids)
        self._doubtful = set(ids) - present
        return present

    def close(self) -> None:
        """Closes the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _write(self, record: Record) -> None:
        status, reason = self._sent(record)
        if 200 <= status < 300:
            return
        if status >= 500 or status in _LATER:
            raise TimeoutError(f"{self._host} answered {status} {reason}: whether {record.id!r} is written is unknown")
        raise SinkRefused(f"{self._host} rejected record {record.id!r} with {status} {reason}; it was not written")

    def _sent(self, record: Record) -> tuple[int, str]:
        """Sends one record; returns status and reason. Raises OSError and HTTPException: effect unknown."""
        key = idempotency_key(record.id)
        headers = {**self._headers, "Idempotency-Key": f'"{key}"' if self._quoted else key}
        connection = self._connected()
        try:
            connection.request(self._method, self._path, record.body, headers)
            answer = connection.getresponse()
            answer.read(ANSWER_BYTES_MAX)
            if not answer.isclosed():
                self.close()
        except BaseException:  # for instance a body of the wrong type: half of a request is on the connection
            self.close()
            raise
        return answer.status, answer.reason

    def _connected(self) -> http.client.HTTPConnection:
        """Connects if necessary. Raises SinkRefused: nothing was sent."""
        if self._connection is None:
            where = (self._host, self._port)
            if self._tls is None:
                connection = http.client.HTTPConnection(*where, timeout=self._timeout_s)
            else:
                connection = http.client.HTTPSConnection(*where, timeout=self._timeout_s, context=self._tls)
            try:
                connection.connect()
            except OSError as error:
                connection.close()  # its socket is still open after a TLS failure
                raise SinkRefused(f"{self._host}: no connection: {error}; nothing was sent; retry later") from error
            self._connection = connection
        return self._connection
