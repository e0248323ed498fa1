"""Reads a ledger's topics with another client than the gateway's, and says what is wrong with them.

Frames follow one another in serials, positions and chain; no id is granted that somebody holds; every range that a
frame names is there with its bytes, and nothing is visible that no frame names; no transaction is left open.
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
from oncegate.ledgers.kafka.shard.assembly import Assembly
from oncegate.ledgers.kafka.shard.blobs import OUTPUTS, STAGES
from tests.support.kafka_broker import Broker

FINGERPRINT_BYTES = 16
# No gateway of the matrix has a transaction open for longer, on a busy machine too. A coordinator that was started
# again writes the markers of what it has acknowledged a while later: readers see it then.
ENDED_S = 60


@dataclass
class Audit:
    """What was read: `frames` in their order, and in `wrong` a line for each thing that is not as it was promised."""

    frames: list[Frame] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def audited(broker: Broker, prefix: str, topics: Sequence[str]) -> Audit:
    """Reads all topics of the default namespace below the prefix; `topics`: where its rows are."""
    found = Audit()
    for name in (*topics, *(f"{prefix}.default.{one}" for one in ("ledger", "outputs", "stages", "states"))):
        found.wrong += open_transactions(broker, name)
    _read_frames(broker, f"{prefix}.default.ledger", found)
    check_frames(found)
    for counter, name in ((OUTPUTS, "outputs"), (STAGES, "stages")):
        _check_outputs(broker, f"{prefix}.default.{name}", counter, found)
    check_sent(found, {topic: len(broker.messages(Partition(topic, 0))) for topic in topics})
    return found


def _read_frames(broker: Broker, topic: str, found: Audit) -> None:
    assembly = Assembly(topic)
    try:
        for message in broker.messages(Partition(topic, 0)):
            found.frames += assembly.add(message.offset(), message.value())
        assembly.require_whole()
    except LedgerDamaged as error:
        found.wrong.append(str(error))


def check_frames(found: Audit) -> None:
    """Holds the frames against one another."""
    _check_links(found)
    _check_grants(found)


def _check_links(found: Audit) -> None:
    for before, after in zip(found.frames, found.frames[1:], strict=False):
        serial, position = before.end.serial + 1, before.end.position + 1
        if (after.serial, after.first_position, after.previous_chain) != (serial, position, before.chain):
            found.wrong.append(f"frame {after.serial} at position {after.first_position} follows {before.end}")


def _check_grants(found: Audit) -> None:
    """An id that is held is granted as a takeover, or not at all."""
    holders: dict[bytes, bytes] = {}
    for frame in found.frames:
        for body in frame.body.entries:
            match decode(body):
                case Claimed() | Produced() as entry:
                    again = [one for one in _fingerprints(entry.fresh) if one in holders]
                    found.wrong += [f"frame {frame.serial} grants id {one.hex()} again" for one in again]
                    holders |= dict.fromkeys(_fingerprints(entry.fresh + entry.taken), entry.claim)
                case Released() as entry:
                    holders = {one: claim for one, claim in holders.items() if claim != entry.claim}


def _fingerprints(packed: bytes) -> list[bytes]:
    return [packed[at : at + FINGERPRINT_BYTES] for at in range(0, len(packed), FINGERPRINT_BYTES)]


def _check_outputs(broker: Broker, topic: str, counter: int, found: Audit) -> None:
    low = broker.low(topic)
    records = {message.offset(): message.value() for message in broker.messages(Partition(topic, 0))}
    changes = [change for frame in found.frames for change in frame.body.changes]
    named: set[int] = set()
    for change in changes:
        # Stages that nobody needs any more are deleted.
        if isinstance(change, Wrote) and change.location.counter == counter and change.location.offset >= low:
            offsets = _offsets(change.location, records)
            named.update(offsets)
            if sha256(b"".join(records[one] for one in offsets)).digest() != change.location.sha256:
                found.wrong.append(f"{topic}: a frame names other bytes at offset {change.location.offset}")
    # Frames before a collection are gone, and with them the names of what they wrote.
    if not any(isinstance(change, Compacted) for change in changes) and records.keys() - named:
        found.wrong.append(f"{topic}: visible, and named by no frame: offsets {sorted(records.keys() - named)[:5]}")


def check_sent(found: Audit, there: Mapping[str, int]) -> None:
    """Holds the records that are `there`, by topic, against those that frames say they were written with."""
    changes = [change for frame in found.frames for change in frame.body.changes]
    if any(isinstance(change, Compacted) for change in changes):
        return
    named = Counter[str]()
    for change in changes:
        if isinstance(change, Sent):
            named[change.topic] += change.records
    for topic, records in there.items():
        if named[topic] != records:
            found.wrong.append(f"{topic}: {records} records are visible, and frames name {named[topic]}")


def _offsets(at: Location, records: dict[int, bytes]) -> list[int]:
    """The offsets of the records that make up a range."""
    found, left = [], at.length
    for offset in sorted(one for one in records if one >= at.offset):
        if left <= 0:
            break
        found.append(offset)
        left -= len(records[offset])
    return found


def open_transactions(broker: Broker, topic: str) -> Iterable[str]:
    """Returns once all is visible that was committed until now, or a line: a transaction is open that does not end."""
    _, end = broker.ends(topic)
    until = time.monotonic() + ENDED_S
    while (stable := broker.ends(topic)[0]) < end:
        if time.monotonic() > until:
            return [f"{topic}: a transaction is open at offset {stable} of {end}"]
    return []
