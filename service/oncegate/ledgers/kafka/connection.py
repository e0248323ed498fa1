"""Sends record batches to brokers from where they lie: aiokafka copies each eight times on its way to the socket."""

from collections.abc import Iterator
from typing import Any

from aiokafka.conn import AIOKafkaConnection
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.protocol.types import Array, Bytes, Int32, Schema
from aiokafka.util import wait_for


class Connection(AIOKafkaConnection):  # type: ignore[misc]
    """Connects to a broker as aiokafka does; batches go to the socket uncopied, and stay as they are until answered."""

    def send(self, request: Any, expect_response: bool = True) -> Any:
        """Sends as aiokafka does. Raises KafkaConnectionError: there is no connection, or it has ended."""
        if self._writer is None or not isinstance(request, ProduceRequest) or not expect_response:
            return super().send(request, expect_response)
        asked, number = request.prepare(self._versions), self._next_correlation_id()
        head = asked.build_request_header(correlation_id=number, client_id=self._client_id)
        parts = [head.encode(), *parts_of(asked.SCHEMA, [asked.get_item(name) for name in asked.SCHEMA.names])]
        self._writer.writelines([Int32.encode(sum(map(len, parts))), *parts])
        answer = self._loop.create_future()
        self._requests.append((number, asked, answer))
        return wait_for(answer, self._request_timeout)


def parts_of(kind: Any, value: Any) -> Iterator[Any]:
    """Yields what `encode` of one of aiokafka's types returns, in pieces: bytes in a value are pieces themselves."""
    if type(kind) is Schema:
        for field, item in zip(kind.fields, value, strict=True):
            yield from parts_of(field, item)
    elif type(kind) is Array and value is not None:
        yield Int32.encode(len(value))
        for item in value:
            yield from parts_of(kind.array_of, item)
    elif kind is Bytes and value is not None:
        yield Int32.encode(len(value))
        yield value
    else:
        yield kind.encode(value)
