"""Rows that a gateway compresses: read by another client, and inspected in the broker's file."""

import struct
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

from oncegate.ledgers.kafka.partition import Partition
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_broker import Broker
from tests.support.kafka_users import client_of, url
from tests.support.staged_batches import Batch

pytestmark = pytest.mark.slow
_prefixes = count()
# The head of a record batch of Kafka's format 2: base offset, length, leader epoch, magic, checksum, attributes.
_HEAD = struct.Struct(">qiibIh")
_CODEC, _CONTROL = 0b111, 0b100000
_BEFORE_LENGTH_ENDS = 12


def codecs_on_disk(broker: Broker, topic: str) -> list[tuple[int, int]]:
    """Returns the codec and length of each batch of rows in the broker's file of a topic's first partition."""
    (file,) = broker.cluster.folder.rglob(f"{topic}-0/{0:020}.log")
    return [(attributes & _CODEC, length) for length, attributes in _heads(file) if not attributes & _CONTROL]


def _heads(file: Path) -> Iterator[tuple[int, int]]:
    data, at = file.read_bytes(), 0
    while at + _HEAD.size <= len(data):
        _, length, _, magic, _, attributes = _HEAD.unpack_from(data, at)
        if not length:
            return  # space that the broker has preallocated after the last batch
        assert magic == 2
        yield length, attributes
        at += _BEFORE_LENGTH_ENDS + length


@pytest.mark.parametrize(("setting", "codec"), [("", 0), ("&compression=lz4", 3), ("&compression=zstd", 4)])
def test_rows_are_in_batches_of_the_configured_codec(broker: Broker, tmp_path: Path, setting: str, codec: int) -> None:
    topic, rows = broker.topic().topic, 2_000
    table = pa.table(
        {"key": [f"k-{row}" for row in range(rows)], "value": [f'{{"row": {row}}}' for row in range(rows)]}
    )
    ledger = url(broker, f"compressed-{next(_prefixes)}") + setting
    with GatewayProcess(tmp_path, ledger=ledger) as gateway, client_of(gateway) as client:
        with client.attempt() as attempt:
            attempt.produce(topic, table, id_col="key")
            attempt.produce(topic, table)
        batch = Batch(client, topic)
        batch.stage(table)
        batch.commit()
    found = [(message.key(), message.value()) for message in broker.messages(Partition(topic, 0))]
    wanted = [(f"k-{row}".encode(), f'{{"row": {row}}}'.encode()) for row in range(rows)]
    assert found == wanted * 3
    on_disk = codecs_on_disk(broker, topic)
    assert [one for one, _ in on_disk] == [codec] * 3
    plain_bytes = sum(len(key) + len(value) for key, value in wanted)
    assert all((length < plain_bytes) == bool(codec) for _, length in on_disk), on_disk


def test_a_batch_that_would_not_become_smaller_stays_as_it_is(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic().topic
    ledger = url(broker, f"compressed-{next(_prefixes)}") + "&compression=zstd"
    with GatewayProcess(tmp_path, ledger=ledger) as gateway, client_of(gateway) as client, client.attempt() as attempt:
        attempt.produce(topic, pa.table({"value": ["x"]}))
    assert broker.committed(Partition(topic, 0)) == [b"x"]
    assert [codec for codec, _ in codecs_on_disk(broker, topic)] == [0]
