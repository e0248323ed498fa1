"""Sends each record by HTTP with an Idempotency-Key made from its id.

The header is that of https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/: a server that honours
it takes a request of a key once, and answers its repeats as it answered the first.
"""

import hashlib
import http.client
import ssl
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import quote, urlsplit

from oncegate_spark.delivery.sink import Record
from oncegate_spark.errors import BadOption, InDoubt, SinkRefused

TIMEOUT_MS = 10_000  # a third of a lease: an answer that is late is asked for again before the claim is over
KEY_CHARACTERS_MAX = 255  # what servers take that have a limit
ANSWER_BYTES_MAX = 1 << 20  # of an answer's body, which is read only to use the connection again
# The server has not decided: busy, or another request of this key is under way (409, as the draft says).
_LATER = frozenset({408, 409, 423, 425, 429})


def idempotency_key(record_id: str) -> str:
    """Return an id's key: percent-encoded, so that other ids have other keys; a SHA-256 where that is too long."""
    key = quote(record_id, safe="")
    return key if len(key) <= KEY_CHARACTERS_MAX else f"%sha256-{hashlib.sha256(record_id.encode()).hexdigest()}"


class HttpSink:
    """Sends each record's body, bytes, in a request of its own.

    find: tells which ids the server has, where it can be asked; without it a record in doubt is sent again, under its
    key. quoted: the key as a string of structured fields, as the draft has it; False for servers that take it bare.

    Promise: once, if the server honours the key for as long as a record may be delivered again; else at least once. An
    answer 2xx means written. 408, 409, 423, 425, 429, 5xx, a timeout and a broken connection say nothing: the record is
    in doubt, and sent again under its key. Any other answer refuses it, as no connection does: SinkRefused; InDoubt
    where it was in doubt before, for this answer does not say what became of an earlier request.
    """

    records_max = 1  # each has an answer of its own

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
        self._doubtful: set[str] = set()  # asked for last, and sent again next: an earlier request may take effect yet

    def write(self, records: Sequence[Record]) -> None:
        """Send each record, and return once all are answered by 2xx."""
        doubtful, self._doubtful = self._doubtful, set()
        for record in records:
            try:
                self._write(record)
            except SinkRefused as refused:
                if record.id not in doubtful:
                    raise
                raise InDoubt(
                    f"unknown: whether an earlier request of record {record.id!r} is written; this one is not: "
                    f"{refused}. Mend that, and deliver the record again: it goes under the same key",
                    ids=[record.id],
                ) from refused

    def find(self, ids: Sequence[str]) -> set[str]:
        """Ask the function that was given; without one no record is found, and each is sent again under its key."""
        present = set() if self._find is None else self._find(ids)
        self._doubtful = set(ids) - present
        return present

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _write(self, record: Record) -> None:
        status, reason = self._sent(record)
        if 200 <= status < 300:
            return
        if status >= 500 or status in _LATER:
            raise TimeoutError(f"{self._host} answered {status} {reason}: whether {record.id!r} is written is unknown")
        raise SinkRefused(f"{self._host} refuses record {record.id!r} by {status} {reason}; it was not written")

    def _sent(self, record: Record) -> tuple[int, str]:
        """Send one; what was answered. Raises OSError, HTTPException: unknown."""
        key = idempotency_key(record.id)
        headers = {**self._headers, "Idempotency-Key": f'"{key}"' if self._quoted else key}
        connection = self._connected()
        try:
            connection.request(self._method, self._path, record.body, headers)
            answer = connection.getresponse()
            answer.read(ANSWER_BYTES_MAX)
            if not answer.isclosed():
                self.close()
        except BaseException:  # as a body of another type: half a request was sent over the connection
            self.close()
            raise
        return answer.status, answer.reason

    def _connected(self) -> http.client.HTTPConnection:
        """Connect, if it is not. Raises SinkRefused: nothing was sent."""
        if self._connection is None:
            where = (self._host, self._port)
            if self._tls is None:
                connection = http.client.HTTPConnection(*where, timeout=self._timeout_s)
            else:
                connection = http.client.HTTPSConnection(*where, timeout=self._timeout_s, context=self._tls)
            try:
                connection.connect()
            except OSError as error:
                connection.close()  # its socket is open where TLS has failed
                raise SinkRefused(f"{self._host}: no connection: {error}; nothing was sent; try again later") from error
            self._connection = connection
        return self._connection
