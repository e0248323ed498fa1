"""A connection sends the bytes that aiokafka would, sends batches without copies, and notices when it has ended."""

import asyncio
import socket
import struct
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import NoBrokersAvailable
from aiokafka.protocol.metadata import MetadataResponse_v0
from aiokafka.protocol.produce import ProduceRequest

from oncegate.ledgers.kafka.client import Client, Session, parts_of
from oncegate.ledgers.kafka.transactions.guard import Guard
from tests.support.memory_gateway import run_ready_tasks

TOPICS = [("rows", [(0, bytearray(b"first")), (3, bytearray())]), ("ledger", [(0, memoryview(b"frame"))])]


def produce_request(version: int) -> Any:
    """Returns a produce request as aiokafka prepares it for a broker of this version."""
    return ProduceRequest(None if version < 3 else "id", -1, 30_000, TOPICS).prepare({0: (version, version)})


def parts(request: Any) -> list[Any]:
    return list(parts_of(request.SCHEMA, [request.get_item(name) for name in request.SCHEMA.names]))


@pytest.mark.parametrize("version", range(8))
def test_the_parts_of_a_produce_request_are_byte_for_byte_what_aiokafka_encodes(version: int) -> None:
    assert b"".join(parts(produce_request(version))) == produce_request(version).encode()


def test_a_batch_is_not_copied_on_its_way_to_the_socket() -> None:
    found = [id(part) for part in parts(produce_request(7))]
    assert all(id(batch) in found for _, batches in TOPICS for _, batch in batches)


class Unasked(Session):
    """Connects to a server that answers nothing."""

    async def _do_version_lookup(self) -> None: ...


async def test_a_connection_that_is_reset_has_ended_from_then_on_until_its_reader_sees_it() -> None:
    accepted: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
    server = await asyncio.start_server(lambda _, writer: accepted.put_nowait(writer), "127.0.0.1", 0)
    session = Unasked(*server.sockets[0].getsockname(), request_timeout_ms=10_000)
    await session.connect()
    broker = await accepted.get()
    broker.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert not session.has_ended
    broker.transport.abort()
    await run_ready_tasks(1)
    states = []
    while session.connected():
        states.append(session.has_ended)
        await run_ready_tasks(1)
    assert states
    assert all(states)
    server.close()


async def test_a_producer_whose_brokers_name_none_of_their_cluster_can_be_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker that is starting answers so."""
    closed: list[str] = []

    async def session(_: Client, host: str, port: int) -> Any:
        async def send(_: object) -> Any:
            return MetadataResponse_v0([], [])

        return SimpleNamespace(send=send, close=lambda: closed.append(f"{host}:{port}"))

    monkeypatch.setattr(Client, "_session", session)
    guard = Guard({"bootstrap_servers": ["127.0.0.1:1", "127.0.0.1:2"]}, "shard")
    with pytest.raises(NoBrokersAvailable, match="name no broker of their cluster yet: try again") as refused:
        await guard.start()
    assert refused.value.retriable
    assert guard.closed
    assert sorted(closed) == ["127.0.0.1:1", "127.0.0.1:2"]
