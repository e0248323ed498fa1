"""Reads a ledger's topics with a client other than the gateway's, and reports inconsistencies.

Checks that frames are consecutive in serials, positions and chain; that no id is granted while another holds it; that
every range that a frame names exists with its bytes; that no visible record is unnamed; that no transaction is open.
"""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from oncegate.core.entries.codec import decode
from oncegate.core.entries.kinds import Claimed, Produced, Released
from oncegate.core.errors import LedgerDamaged
from oncegate.ledgers.catalog import Location, Wrote
from oncegate.ledgers.frames import Compacted, Frame, Sent
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.shard.blobs import OUTPUTS, STAGES, Assembly
from tests.support.kafka_broker import Broker

FINGERPRINT_BYTES = 16
# No gateway of the matrix keeps a transaction open for longer, even on a busy machine. A restarted coordinator writes
# the markers of the transactions that it has acknowledged with a delay, and readers see the markers only then.
ENDED_S = 60


@dataclass
class Audit:
    """The result of an audit: `frames` in order, and in `wrong` a line for each inconsistency."""

    frames: list[Frame] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def audited(broker: Broker, prefix: str, topics: Sequence[str]) -> Audit:
    """Reads all topics of the default namespace below the prefix; `topics`: those that hold its rows."""
    audit = Audit()
    for name in (*topics, *(f"{prefix}.default.{one}" for one in ("ledger", "outputs", "stages", "states"))):
        audit.wrong += open_transactions(broker, name)
    _read_frames(broker, f"{prefix}.default.ledger", audit)
    check_frames(audit)
    for counter, name in ((OUTPUTS, "outputs"), (STAGES, "stages")):
        _check_outputs(broker, f"{prefix}.default.{name}", counter, audit)
    check_sent(audit, {topic: len(broker.messages(Partition(topic, 0))) for topic in topics})
    return audit


def _read_frames(broker: Broker, topic: str, audit: Audit) -> None:
    assembly = Assembly(topic)
    try:
        for message in broker.messages(Partition(topic, 0)):
            audit.frames += assembly.add(message.offset(), message.value())
        assembly.require_whole()
    except LedgerDamaged as error:
        audit.wrong.append(str(error))


def check_frames(audit: Audit) -> None:
    """Checks the frames against each other."""
    _check_links(audit)
    _check_grants(audit)


def _check_links(audit: Audit) -> None:
    for before, after in zip(audit.frames, audit.frames[1:], strict=False):
        serial, position = before.end.serial + 1, before.end.position + 1
        if (after.serial, after.first_position, after.previous_chain) != (serial, position, before.chain):
            audit.wrong.append(f"frame {after.serial} at position {after.first_position} follows {before.end}")


def _check_grants(audit: Audit) -> None:
    """Checks that a held id is granted only as a takeover."""
    holders: dict[bytes, bytes] = {}
    for frame in audit.frames:
        for body in frame.body.entries:
            match decode(body):
                case Claimed() | Produced() as entry:
                    again = [one for one in _fingerprints(entry.fresh) if one in holders]
                    audit.wrong += [f"frame {frame.serial} grants id {one.hex()} again" for one in again]
                    holders |= dict.fromkeys(_fingerprints(entry.fresh + entry.taken), entry.claim)
                case Released() as entry:
                    holders = {one: claim for one, claim in holders.items() if claim != entry.claim}


def _fingerprints(packed: bytes) -> list[bytes]:
    return [packed[at : at + FINGERPRINT_BYTES] for at in range(0, len(packed), FINGERPRINT_BYTES)]


def _check_outputs(broker: Broker, topic: str, counter: int, audit: Audit) -> None:
    low = broker.low(topic)
    records = {message.offset(): message.value() for message in broker.messages(Partition(topic, 0))}
    changes = [change for frame in audit.frames for change in frame.body.changes]
    named: set[int] = set()
    for change in changes:
        # Stages that are no longer needed are deleted.
        if isinstance(change, Wrote) and change.location.counter == counter and change.location.offset >= low:
            offsets = _offsets(change.location, records)
            named.update(offsets)
            if sha256(b"".join(records[one] for one in offsets)).digest() != change.location.sha256:
                audit.wrong.append(f"{topic}: a frame names other bytes at offset {change.location.offset}")
    # A collection removed earlier frames, and with them the names of the records that they wrote.
    if not any(isinstance(change, Compacted) for change in changes) and records.keys() - named:
        audit.wrong.append(f"{topic}: visible, and named by no frame: offsets {sorted(records.keys() - named)[:5]}")


def check_sent(audit: Audit, there: Mapping[str, int]) -> None:
    """Compares the number of records in each topic (`there`) with the number that the frames name."""
    changes = [change for frame in audit.frames for change in frame.body.changes]
    if any(isinstance(change, Compacted) for change in changes):
        return
    named = Counter[str]()
    for change in changes:
        if isinstance(change, Sent):
            named[change.topic] += change.records
    for topic, records in there.items():
        if named[topic] != records:
            audit.wrong.append(f"{topic}: {records} records are visible, and frames name {named[topic]}")


def _offsets(at: Location, records: dict[int, bytes]) -> list[int]:
    """Returns the offsets of the records that make up a range."""
    offsets, left = [], at.length
    for offset in sorted(one for one in records if one >= at.offset):
        if left <= 0:
            break
        offsets.append(offset)
        left -= len(records[offset])
    return offsets


def open_transactions(broker: Broker, topic: str) -> Iterable[str]:
    """Returns an empty list once every record committed until now is visible, or a line about a transaction that stays
    open."""
    _, end = broker.ends(topic)
    until = time.monotonic() + ENDED_S
    while (stable := broker.ends(topic)[0]) < end:
        if time.monotonic() > until:
            return [f"{topic}: a transaction is open at offset {stable} of {end}"]
    return []
