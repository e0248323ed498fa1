"""Sets producer epochs in the transactional-id records on a broker's disk, as thousands of restarts would."""

import struct
from collections.abc import Mapping
from pathlib import Path

from crc32c import crc32c

from tests.support.kafka_broker import Broker

# The last epoch that a coordinator assigns; the next one is reserved for fencing.
LAST_EPOCH = 0x7FFF - 1
# The head of a batch: base offset, and length of the rest. The checksum covers everything after itself.
_HEAD = struct.Struct(">qi")
_CHECKSUM_AT, _SUMMED_FROM = 17, 21
# The value of a transactional id's record, after a length of one or two bytes: version, producer id, epoch.
_VALUE = struct.Struct(">hqh")
_VERSIONS = (0, 1)


def set_epochs(broker: Broker, epochs: Mapping[str, int]) -> None:
    """Kills the broker, sets the epoch in all records of these transactional ids, and restarts it."""
    broker.cluster.kill_node(1)
    try:
        logs = list((broker.cluster.folder / "broker-1").glob("__transaction_state-*/*.log"))
        found = {name for log in logs for name in _set(log, epochs)}
        assert found == set(epochs), f"no coordinator knows {set(epochs) - found}"
    finally:
        broker.cluster.start_node(1)


def _set(log: Path, epochs: Mapping[str, int]) -> set[str]:
    data, found = bytearray(log.read_bytes()), set()
    for name, epoch in epochs.items():
        key = struct.pack(">hh", 0, len(name)) + name.encode()
        at = data.find(key)
        while at >= 0:
            # A zigzag varint of one byte is below 128.
            value_at = at + len(key) + (1 if data[at + len(key)] < 0x80 else 2)
            version, producer_id, _ = _VALUE.unpack_from(data, value_at)
            assert version in _VERSIONS, f"not a format that this test knows: {version}"
            _VALUE.pack_into(data, value_at, version, producer_id, epoch)
            found.add(name)
            at = data.find(key, value_at)
    _sum_up(data)
    if found:
        log.write_bytes(data)
    return found


def _sum_up(data: bytearray) -> None:
    """Recomputes the checksum of each batch."""
    at = 0
    while at + _HEAD.size <= len(data) and (length := _HEAD.unpack_from(data, at)[1]):
        end = at + _HEAD.size + length
        struct.pack_into(">I", data, at + _CHECKSUM_AT, crc32c(data[at + _SUMMED_FROM : end]))
        at = end
