"""What goes to the socket for a produce request: the bytes that aiokafka would make, batches from where they lie."""

from typing import Any

import pytest
from aiokafka.protocol.produce import ProduceRequest

from oncegate.ledgers.kafka.client import parts_of

TOPICS = [("rows", [(0, bytearray(b"first")), (3, bytearray())]), ("ledger", [(0, memoryview(b"frame"))])]


def asked(version: int) -> Any:
    """A produce request as aiokafka prepares it for a broker of this version."""
    return ProduceRequest(None if version < 3 else "id", -1, 30_000, TOPICS).prepare({0: (version, version)})


def parts(request: Any) -> list[Any]:
    return list(parts_of(request.SCHEMA, [request.get_item(name) for name in request.SCHEMA.names]))


@pytest.mark.parametrize("version", range(8))
def test_the_parts_of_a_produce_request_are_byte_for_byte_what_aiokafka_encodes(version: int) -> None:
    assert b"".join(parts(asked(version))) == asked(version).encode()


def test_a_batch_is_not_copied_on_its_way_to_the_socket() -> None:
    found = [id(part) for part in parts(asked(7))]
    assert all(id(batch) in found for _, batches in TOPICS for _, batch in batches)
