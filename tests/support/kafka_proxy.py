"""A proxy for a Kafka broker that parses frames and counts, holds or loses requests and answers."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

# API keys of the Kafka protocol.
PRODUCE, DELETE_RECORDS, INIT_PRODUCER_ID, ADD_PARTITIONS, END_TXN, SASL_AUTHENTICATE = 0, 21, 22, 24, 26, 36
# Used instead of the API key for requests of producers without a transaction.
NO_TRANSACTION = -1
_SIZE_BYTES = 4


class KafkaProxy:
    """`seen` counts requests by API key, `struck` those that met a fault.

    A fault applies to the next request of that API key, or to the one after `after` more. PRODUCE and INIT_PRODUCER_ID
    count only with a transaction, because an owner also writes beats and witnesses without one.

    hold(api): the request waits until `release`; with `cut` the client's connection is closed, the broker's is kept.

    hold_answer(api): the broker gets the request, and the answer waits until `release`.

    lose(api): the broker never gets the request, and the client's connection is closed.

    lose_answer(api): the broker gets the request, and the client's connection is closed instead of the answer.

    answer_error(api, code): the broker executes the request, and the answer reports this error.
    """

    def __init__(self, broker_port: int) -> None:
        self._broker_port = broker_port
        self.seen: Counter[int] = Counter()
        self.struck: Counter[int] = Counter()
        # Number of EndTxn requests for a transaction that had already ended.
        self.ended_again = 0
        self.held = asyncio.Event()
        self._released = asyncio.Event()
        # By fault and API key, the number of requests to pass on first.
        self._due: dict[tuple[str, int], int] = {}
        # Bytes in answers, and their replacement.
        self._spoil = (b"", b"")
        self._error_code = 0
        self._cut = False
        self._clients: set[asyncio.StreamWriter] = set()
        # Transactional ids whose transaction has partitions and no EndTxn yet.
        self._open: set[bytes] = set()
        # Number of transactions with partitions that each transactional id has begun.
        self.begun: Counter[bytes] = Counter()

    def hold(self, api: int, *, cut: bool = False, after: int = 0) -> None:
        """Holds the next request of this kind until `release`; sets `held` when it arrives."""
        self._cut = cut
        self._hold("hold", api, after)

    def hold_answer(self, api: int, *, after: int = 0) -> None:
        """Holds the answer to the next request of this kind until `release`; sets `held` when it arrives."""
        self._hold("hold answer", api, after)

    def _hold(self, fault: str, api: int, after: int) -> None:
        self._due[fault, api] = after
        self.held.clear()
        self._released.clear()

    def release(self) -> None:
        """Releases the request or answer that is held."""
        self._released.set()

    def lose(self, api: int, *, after: int = 0) -> None:
        """Closes the client's connection instead of forwarding the next request of this kind."""
        self._due["lose", api] = after

    def lose_answer(self, api: int, *, after: int = 0) -> None:
        """Closes the client's connection instead of answering the next request of this kind."""
        self._due["lose answer", api] = after

    def answer_error(self, api: int, code: int) -> None:
        """Puts this error code into the answer to the next request of this kind."""
        self._error_code = code
        self._due["error", api] = 0

    def forget(self) -> None:
        """Releases what is held and cancels all pending faults."""
        self._due.clear()
        self.release()

    def spoil_answers(self, old: bytes, new: bytes) -> None:
        """Replaces bytes by others of the same length in every answer that contains them."""
        assert len(old) == len(new)
        self._spoil = (old, new)

    def cut(self) -> None:
        """Closes every client's connection, as a restarting broker does."""
        for client in self._clients:
            client.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one client's connection until either side closes it."""
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._broker_port)
        except OSError:
            writer.close()
            return
        # Faults by the correlation id of the request.
        answers: dict[bytes, str] = {}
        self._clients.add(writer)
        answering = asyncio.create_task(self._answers(up_reader, writer, answers))
        try:
            while frame := await _frame(reader):
                if not await self._request(frame, writer, up_writer, answers):
                    break
        finally:
            self._clients.discard(writer)
            writer.close()
            up_writer.close()
            # The end of a test cancels the task that waits here.
            with suppress(asyncio.CancelledError):
                await asyncio.wait({answering})

    async def _request(
        self, frame: bytes, writer: asyncio.StreamWriter, up_writer: asyncio.StreamWriter, answers: dict[bytes, str]
    ) -> bool:
        """Forwards one request. Returns False if the client's connection is to be closed."""
        api = int.from_bytes(frame[:2], "big")
        if api in (PRODUCE, INIT_PRODUCER_ID) and _transactional_id(frame) is None:
            api = NO_TRANSACTION
        self.seen[api] += 1
        self._count_end(api, frame)
        if self._is_due("lose", api):
            return False
        for fault in ("lose answer", "hold answer", "error"):
            if self._is_due(fault, api):
                answers[frame[4:8]] = fault
        if self._is_due("hold", api):
            if self._cut:
                writer.close()
            self.held.set()
            await self._released.wait()
        up_writer.write(len(frame).to_bytes(_SIZE_BYTES, "big") + frame)
        with suppress(ConnectionError):
            await up_writer.drain()
        return True

    async def _answers(
        self, up_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: dict[bytes, str]
    ) -> None:
        while frame := await _frame(up_reader):
            fault = answers.pop(frame[:4], None)
            if fault == "lose answer":
                break
            if fault == "hold answer":
                self.held.set()
                await self._released.wait()
            if fault == "error":
                frame = _with_error(frame, self._error_code)
            writer.write(len(frame).to_bytes(_SIZE_BYTES, "big") + frame.replace(*self._spoil))
        writer.close()

    def _is_due(self, fault: str, api: int) -> bool:
        """Returns whether this request is due for the fault, and if so removes the fault."""
        if (fault, api) not in self._due:
            return False
        self._due[fault, api] -= 1
        if self._due[fault, api] >= 0:
            return False
        del self._due[fault, api]
        self.struck[api] += 1
        return True

    def _count_end(self, api: int, frame: bytes) -> None:
        if api not in (ADD_PARTITIONS, END_TXN):
            return
        transactional_id = _transactional_id(frame) or b""
        if api == ADD_PARTITIONS:
            self.begun[transactional_id] += transactional_id not in self._open
            self._open.add(transactional_id)
        elif transactional_id in self._open:
            self._open.discard(transactional_id)
        else:
            self.ended_again += 1


def _transactional_id(frame: bytes) -> bytes | None:
    """Returns the transactional id, which follows the client id in the versions that aiokafka sends."""
    at = 10 + max(int.from_bytes(frame[8:10], "big", signed=True), 0)
    length = int.from_bytes(frame[at : at + 2], "big", signed=True)
    return None if length < 0 else frame[at + 2 : at + 2 + length]


def _with_error(answer: bytes, code: int) -> bytes:
    """Returns the answer to EndTxn or InitProducerId with an error code after the correlation id and throttle time."""
    return answer[:8] + code.to_bytes(2, "big", signed=True) + answer[10:]


async def _frame(reader: asyncio.StreamReader) -> bytes:
    """Returns the next whole frame, or b"" if the connection has ended."""
    try:
        size = int.from_bytes(await reader.readexactly(_SIZE_BYTES), "big")
        return await reader.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


@asynccontextmanager
async def proxied(port: int, broker_port: int) -> AsyncIterator[KafkaProxy]:
    """Runs a proxy on `port` of 127.0.0.1 for the broker at `broker_port`."""
    proxy = KafkaProxy(broker_port)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", port)
    try:
        yield proxy
    finally:
        proxy.release()
        server.close()
