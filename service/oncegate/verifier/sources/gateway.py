"""Calls a running gateway to look up ids, read rows of topics, and write rows.

Each call may be repeated: look-ups and reads change nothing, and a produce keeps its token and call.
"""

import base64
import http.client
import json
import os
import ssl
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np
import pyarrow as pa

from oncegate.arraytypes import U8
from oncegate.clock import SystemClock
from oncegate.core.errors import NotFound, OncegateError
from oncegate.verifier.address import API_KEY, address_of, check_private

_JSON, _ARROW, _PACKED = "application/json", "application/vnd.apache.arrow.stream", "application/vnd.oncegate.packed"
# A gateway that restarts, or a standby that takes over, is usually back within a minute. A gateway that never answered
# is not waited for, since its address is probably misspelt.
TRIED_S = 90.0
_TIMEOUT_S = 60.0
_PAUSE_S = 1.0
_HEAD_BYTES = 24


class TopicUnknown(OncegateError):
    """Raised when the gateway has no such namespace or topic."""


class GatewayClient:
    """A client of one gateway and namespace: one call at a time, over one connection.

    mark: the newest ledger position seen, "" for none. It is sent back, so that a gateway that has lost entries
    refuses. Each call raises NotFound if no gateway answers, and OncegateError with the gateway's message.
    """

    def __init__(
        self,
        url: str,
        namespace: str,
        mark: str = "",
        trusted: ssl.SSLContext | None = None,
        has_answered: bool = False,
    ) -> None:
        """Connects to a gateway. has_answered: it answered before, so it is waited for. Raises NotFound, BadRequest."""
        parts = address_of(url)
        self._url, self._host, self._port = url, parts.hostname, parts.port
        self._secure, self._trusted = parts.scheme == "https", trusted
        self._prefix = f"{parts.path.rstrip('/')}/v1/namespaces/{quote(namespace, safe='')}"
        self._connection: http.client.HTTPConnection | None = None
        self._has_answered = has_answered
        self._key = os.environ.get(API_KEY, "").strip()
        if self._key:
            check_private(parts)
        self.mark = mark
        self.repeats = 0  # requests that were sent again after a refusal or a failed connection

    def look_up(self, ids: pa.Table, id_set: str) -> U8:
        """Looks up ids, text or bytes. Returns a verdict byte for each, uint8 (n,)."""
        headers = {"Content-Type": _ARROW, "Accept": _PACKED, "Oncegate-Id-Set": quote(id_set, safe="")}
        _, body = self._call("POST", "/ids:lookup", headers, _stream(ids))
        return _verdicts(body, len(ids))

    def topic(self, name: str) -> list[tuple[int, int]]:
        """Returns the first retained offset and the end offset of each partition."""
        _, body = self._call("GET", f"/topics/{quote(name, safe='')}", {"Accept": _JSON})
        description = json.loads(body)
        return list(zip(description["low_offsets"], description["high_offsets"], strict=True))

    def schema(self, topic: str) -> pa.Schema | None:
        """Returns the column types of a topic; None if the topic does not exist or is still empty."""
        try:
            _, body = self._call("GET", f"/topics/{quote(topic, safe='')}", {"Accept": _JSON})
        except TopicUnknown:
            return None
        encoded = json.loads(body)["schema_ipc"]
        return None if encoded is None else pa.ipc.read_schema(pa.py_buffer(base64.b64decode(encoded)))

    def fetch(self, topic: str, partition: int, offset: int, rows: int, columns: list[str]) -> tuple[pa.Table, int]:
        """Returns up to `rows` rows of a partition, starting at an offset, and the offset to read next."""
        query = urlencode({"offset": offset, "max_rows": rows, "columns": ",".join(columns)})
        path = f"/topics/{quote(topic, safe='')}/partitions/{partition}/records?{query}"
        headers, body = self._call("GET", path, {"Accept": _ARROW})
        return pa.ipc.open_stream(body).read_all(), int(headers["oncegate-next-offset"])

    def produce(
        self,
        topic: str,
        rows: pa.Table,
        columns: list[str],
        id_set: str,
        token: str,
        call: int,
        digests: Sequence[str] = (),
    ) -> U8:
        """Writes the rows whose ids are free. Returns a verdict byte for each, uint8 (n,). digests: the payload
        columns.
        """
        named = {"id_col": ",".join(columns), "id_set": id_set}
        query = urlencode({**named, "digest_col": ",".join(digests)} if digests else named)
        headers = {"Content-Type": _ARROW, "Accept": _PACKED, "Oncegate-Token": token, "Oncegate-Call": str(call)}
        path = f"/topics/{quote(topic, safe='')}/records:produce?{query}"
        _, body = self._call("POST", path, headers, _stream(rows))
        return _verdicts(body, len(rows))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _call(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> tuple[Mapping[str, str], bytes]:
        """Sends a request until it is answered, for at most TRIED_S."""
        clock = SystemClock()
        until_ms = clock.monotonic_ms() + TRIED_S * 1000
        sent = {**headers, **({"Oncegate-Ledger": self.mark} if self.mark else {})}
        sent |= {"Authorization": f"Bearer {self._key}"} if self._key else {}
        while True:
            try:
                status, answered, data = self._exchange(method, self._prefix + path, sent, body)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if not self._has_answered or clock.monotonic_ms() > until_ms:
                    do = "what was done is kept" if self._has_answered else "start one, or name it with --url"
                    raise NotFound(f"no gateway answers at {self._url} ({error}); {do}") from error
                pause_s = _PAUSE_S
            else:
                if status < 300:
                    self.mark = answered.get("oncegate-ledger", self.mark)
                    return answered, data
                pause_s = _refusal(status, answered, data, clock.monotonic_ms() > until_ms)
            self.repeats += 1
            clock.block_ms(int(pause_s * 1000))

    def _exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> tuple[int, Mapping[str, str], bytes]:
        if self._connection is None:
            address: Any = {"host": self._host, "port": self._port, "timeout": _TIMEOUT_S}
            secure = http.client.HTTPSConnection
            self._connection = (
                secure(**address, context=self._trusted) if self._secure else http.client.HTTPConnection(**address)
            )
        self._connection.request(method, path, body, dict(headers))
        reply = self._connection.getresponse()
        self._has_answered = True
        return reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read()


def _refusal(status: int, headers: Mapping[str, str], body: bytes, is_last: bool) -> float:
    """Returns the seconds until the same request may be sent again. Raises OncegateError if it may not, or was tried
    too long.
    """
    try:
        problem: dict[str, Any] = json.loads(body)
        detail, action = problem["detail"], problem["action"]
    except (ValueError, KeyError):
        raise OncegateError(f"the gateway answered {status}") from None
    if problem.get("code") == "NOT_FOUND":
        raise TopicUnknown(f"{detail} ({action})")
    if action != "retry" or is_last:
        raise OncegateError(f"{detail} ({action})")
    return max(_PAUSE_S, float(headers.get("retry-after", 0)))


def _verdicts(body: bytes, count: int) -> U8:
    """Returns the verdicts of a packed answer. Raises OncegateError if their number is not `count`."""
    row_count = int.from_bytes(body[_HEAD_BYTES - 4 : _HEAD_BYTES], "little")
    if row_count != count:
        raise OncegateError(f"the gateway returned {row_count} verdicts for {count} ids")
    return np.frombuffer(body, np.uint8, count, _HEAD_BYTES)


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())
