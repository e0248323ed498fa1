"""Extends aiokafka's client: reports connection failures, reloads credentials, and sends batches without copying.

aiokafka only logs why it cannot connect, and retries; a `Client` also reports the error to its `Watch`. When the
brokers refuse a client's credentials, their files are read again.
"""

import asyncio
import select
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from aiokafka.client import AIOKafkaClient, ConnectionGroup
from aiokafka.conn import AIOKafkaConnection, CloseReason
from aiokafka.errors import KafkaConnectionError, KafkaError, NoBrokersAvailable, StaleMetadata
from aiokafka.protocol.admin import SaslAuthenticateRequest
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.protocol.types import Array, Bytes, Int32, Schema
from aiokafka.structs import TopicPartition
from aiokafka.util import wait_for

from oncegate.clock import now_s
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.refusals import Caller, NoAnswer, refusal_of
from oncegate.ledgers.kafka.security import credentials_of
from oncegate.ledgers.kafka.watch import SESSION_PART, Watch

# Node id of a missing leader.
NO_LEADER = -1
# Timeout for closing a client's sockets.
CLOSE_S = 2.0
# The peer has closed the connection. Systems without POLLRDHUP report POLLHUP.
_ENDED = getattr(select, "POLLRDHUP", select.POLLHUP)
# Close reasons that were not caused by this side.
_CUT = (CloseReason.CONNECTION_BROKEN, CloseReason.CONNECTION_TIMEOUT, CloseReason.OUT_OF_SYNC)
# Prefixes of the arguments that a client passes on to its connections.
_SECURITY = ("security_", "sasl_", "ssl_")


class Session(AIOKafkaConnection):  # type: ignore[misc]
    """Connection to a broker, with an expiry time.

    Batches are written to the socket without copying and must not change until they are answered.
    """

    # The expiry, in time of the event loop.
    until = float("inf")
    watch: Watch | None = None

    @property
    def has_ended(self) -> bool:
        """True if the peer has closed the connection, even if the event loop has not processed that yet."""
        if self._writer is None or not self.connected():
            return False
        if self._writer.is_closing():
            return True  # a reset closed the socket, and the reader has not noticed yet
        ends = select.poll()
        ends.register(self._writer.get_extra_info("socket"), _ENDED)
        return bool(ends.poll(0))

    def send(self, request: Any, expect_response: bool = True) -> Any:
        """Sends a request as aiokafka does; a login also sets the session's expiry.

        Raises KafkaConnectionError: there is no connection, or it is closed.
        """
        if isinstance(request, SaslAuthenticateRequest):
            return self._logged_in(super().send(request, expect_response))
        if self._writer is None or not isinstance(request, ProduceRequest) or not expect_response:
            return super().send(request, expect_response)
        prepared, number = request.prepare(self._versions), self._next_correlation_id()
        head = prepared.build_request_header(correlation_id=number, client_id=self._client_id)
        parts = [head.encode(), *parts_of(prepared.SCHEMA, [prepared.get_item(name) for name in prepared.SCHEMA.names])]
        self._writer.writelines([Int32.encode(sum(map(len, parts))), *parts])
        answer = self._loop.create_future()
        self._requests.append((number, prepared, answer))
        return wait_for(answer, self._request_timeout)

    def close(self, reason: Any = None, exc: BaseException | None = None) -> Any:
        """Aborts the connection; aiokafka's `close` flushes, and over TLS waits for the broker's close_notify."""
        if self.watch is not None and reason in _CUT:
            self.watch.cut()
        if self._writer is not None:
            # Abort first: Python before 3.11.4 cannot abort a closing transport whose peer has already closed.
            self._writer.transport.abort()
        return super().close(reason, exc)

    async def _do_sasl_handshake(self) -> None:
        """Runs aiokafka's SASL handshake; converts the errors of a malformed answer to NoAnswer."""
        try:
            await super()._do_sasl_handshake()
        except (ValueError, LookupError, AssertionError) as error:
            raise NoAnswer(f"{type(error).__name__}: {error}") from error

    async def _logged_in(self, answer: Awaitable[Any]) -> Any:
        login = await answer
        if session_ms := getattr(login, "session_lifetime_ms", 0):
            self.until = now_s() + session_ms * SESSION_PART / 1000
        return login


def parts_of(kind: Any, value: Any) -> Iterator[Any]:
    """Yields the encoding of a value of an aiokafka type in pieces; `bytes` values are yielded without copying."""
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


class Client(AIOKafkaClient):  # type: ignore[misc]
    """Client of one cluster. `watch` receives each connection, refusal and answer.

    `settings`: aiokafka's arguments for connections and security.
    """

    def __init__(self, settings: Mapping[str, Any], watch: Watch) -> None:
        super().__init__(**settings)
        self._settings = settings
        self._watch = watch

    async def bootstrap(self) -> None:
        """Reads the cluster's metadata from the first broker that returns any.

        Raises KafkaConnectionError: no broker answers; NoBrokersAvailable: the answers list no broker. Both are
        retriable.
        """
        names_none = False
        for host, port, _ in self.hosts:
            try:
                session = await self._session(host, port)
            except (OSError, KafkaError):
                continue
            try:
                self.cluster.update_metadata(await session.send(MetadataRequest([])))
            except (KafkaError, TimeoutError):
                session.close()
                continue
            session.close()
            if self.cluster.brokers():
                break
            names_none = True
        else:
            if names_none:
                raise NoBrokersAvailable("brokers answer, and name no broker of their cluster yet: try again")
            raise KafkaConnectionError(f"Unable to bootstrap from {self.hosts}")
        if self._sync_task is None:  # type: ignore[has-type]
            self._sync_task = asyncio.create_task(self._md_synchronizer())

    async def _get_conn(self, node_id: Any, *, group: Any = ConnectionGroup.DEFAULT, no_hint: bool = False) -> Any:
        """Returns an open session to a broker; if the broker cannot be reached,
        refreshes the metadata and returns None.
        """
        key = (node_id, group)
        if (session := self._conns.get(key)) is not None and session.connected():
            return session
        try:
            if (broker := self.cluster.broker_metadata(node_id)) is None:
                raise StaleMetadata(f"Broker id {node_id} not in current metadata")
            async with self._get_conn_lock:
                if (session := self._conns.get(key)) is None or not session.connected():
                    session = await self._session(broker.host, broker.port, self._on_connection_closed)
                    self._conns[key] = session
        except (OSError, KafkaError):
            self.force_metadata_update()
            return None
        return session

    async def _session(self, host: str, port: int, on_close: Callable[..., None] | None = None) -> Session:
        """Connects to a broker. If it refuses the credentials, reloads their files and retries once if they changed."""
        credentials = credentials_of(self._settings)
        try:
            try:
                tried = credentials.now
                session = await self._connected(host, port, tried, on_close)
            except (OSError, KafkaError) as error:
                if refusal_of(error, Caller.of(self._settings)) is None or not credentials.newer_than(tried):
                    raise
                session = await self._connected(host, port, credentials.now, on_close)
        except (OSError, KafkaError) as error:
            self._watch.not_connected((host, port), error)
            raise
        session.watch = self._watch
        self._watch.connected((host, port), session)
        return session

    async def _connected(
        self, host: str, port: int, credentials: Mapping[str, Any], on_close: Callable[..., None] | None
    ) -> Session:
        security = {name: value for name, value in self._settings.items() if name.startswith(_SECURITY)}
        session = Session(
            host,
            port,
            client_id=self._client_id,
            request_timeout_ms=self._request_timeout_ms,
            max_idle_ms=self._connections_max_idle_ms,
            on_close=on_close,
            **{**security, **credentials},
        )
        await session.connect()
        return session

    async def send(self, node_id: Any, request: Any, *, group: Any = ConnectionGroup.DEFAULT) -> Any:
        """Sends a request to a broker and returns its answer. Raises KafkaError."""
        self._watch.require()
        answer = await super().send(node_id, request, group=group)
        self._watch.answered(answer)
        return answer

    async def partitions_of(self, topic: str) -> set[int]:
        """Returns the partition numbers of a topic. Raises KafkaError: the topic does not exist or is hidden."""
        numbers: set[int] = await self._wait_on_metadata(topic)
        return numbers

    def leader_of(self, partition: Partition) -> int:
        """Returns the node id of a partition's leader, or `NO_LEADER` if it has none or none is known."""
        leader = self.cluster.leader_for_partition(TopicPartition(*partition))
        return NO_LEADER if leader is None else int(leader)

    async def drop(self) -> None:
        """Closes all connections without flushing; unanswered requests fail."""
        for session in list(self._conns.values()):
            session.close()
        with suppress(KafkaError, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self.close()
