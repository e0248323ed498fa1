"""A sample of each kind of entry, with a distinct value in every field: the content of the golden files.

`python -m tests.core.samples` writes tests/golden/entries/<kind>.hex for kinds that have none. It never rewrites an
existing file: ledgers hold these bytes, so a change of them needs a new version of the format.
"""

import struct
import sys
from dataclasses import replace
from pathlib import Path

from oncegate.core.entries.codec import encode
from oncegate.core.entries.kinds import (
    Archived,
    Asked,
    Audited,
    Claimed,
    Committed,
    Completed,
    Dropped,
    Entry,
    Evicted,
    IdentifiedBy,
    Name,
    NamespaceSet,
    Opened,
    Part,
    Probe,
    Produced,
    Released,
    Retired,
    SetForgotten,
    SetWritten,
    SnapshotPiece,
    Span,
    Staged,
    Taken,
    TopicCreated,
    TopicSet,
    Trimmed,
)
from oncegate.core.entries.producers import (
    Acked,
    DriverRegistered,
    LaneOpened,
    LaneWritten,
    ProducerRegistered,
    Resolved,
    Scoped,
    SequencesClaimed,
    SequencesCompleted,
    SequencesReleased,
    SourceNamed,
)
from oncegate.core.writers import WriterId
from oncegate.core.writers import encode as encode_writer

GOLDEN = Path(__file__).parents[1] / "golden" / "entries"
WALL_MS = 1_795_219_200_123
WRITER = encode_writer(WriterId("départs", "5f0c", "41", 3, 1, 11, 2, 40, True))


def b16(first: int) -> bytes:
    return bytes(range(first, first + 16))


CLAIMED = Claimed(b16(0x20), b16(0x30), 5, b16(0x40), 30_000, WALL_MS, b16(0x50) + b16(0x60), b16(0x70))
PRODUCED = Produced(
    topic="departures",
    partition=11,
    first_offset=2**40,
    rows=3,
    size_bytes=65_536,
    claim=b16(0x20),
    token=b16(0x30),
    call=6,
    digest=b16(0x40),
    wall_ms=WALL_MS,
    fresh=b16(0x50) + b16(0x60),
    taken=b16(0x70),
    digests=bytes(range(12)),
    id_set="flights",
)
SAMPLES: dict[str, Entry] = {
    "opened": Opened(7, 1, b16(0x10), WALL_MS),
    "claimed": CLAIMED,
    "claimed_with_payloads": replace(CLAIMED, digests=bytes(range(12))),
    "claimed_in_a_set": replace(CLAIMED, digests=bytes(range(12)), id_set="départs"),
    "claimed_by_a_writer": replace(CLAIMED, writer=WRITER),
    "completed": Completed(b16(0x20), WALL_MS),
    "completed_with_a_result": Completed(b16(0x20), WALL_MS, b"\x00departed 18:05"),
    "released": Released(b16(0x20), WALL_MS),
    "topic_created": TopicCreated("départs", 12, b"schema", 86_400_000, 2**36, WALL_MS),
    "produced": PRODUCED,
    "produced_over_another": replace(PRODUCED, taken_at=bytes((1, 0, 0, 0))),
    "produced_by_a_writer": replace(PRODUCED, writer=WRITER),
    "produced_spilled": replace(PRODUCED, spilled_ms=WALL_MS - 60_000, spilled_by="loader-3"),
    "produced_plain": Produced(
        "departures", 0, 2**40, 10_000, 2**20, b16(0x20), b16(0x30), 6, bytes(16), WALL_MS, b"", b""
    ),
    "staged": Staged(
        name=Name("flights", "41", "departures", "late"),
        owner="run:5f0c",
        token=b16(0x30),
        chunk=3,
        sha256=bytes(range(32)),
        rows=1_000,
        size_bytes=65_536,
        fingerprint=b16(0x80),
        schema=b"schema",
        parts=(Part(0, 400, 20_480, b16(0x90)), Part(11, 600, 45_056, b16(0x91))),
        wall_ms=WALL_MS,
    ),
    "staged_by_key": Staged(
        Name("flights", "41", "departures"),
        "job:5f0c",
        b16(0x30),
        0,
        bytes(range(32)),
        1,
        512,
        b16(0x80),
        b"schema",
        (Part(3, 1, 512, b16(0x90)),),
        WALL_MS,
        key_partitions=4,
    ),
    "staged_by_a_writer": Staged(
        Name("flights", "41", "departures"),
        "job:5f0c",
        b16(0x30),
        0,
        bytes(range(32)),
        1,
        512,
        b16(0x80),
        b"schema",
        (Part(3, 1, 512, b16(0x90)),),
        WALL_MS,
        writer=WRITER,
    ),
    "staged_into_topics_of_a_column": Staged(
        Name("flights", "41", "departures"),
        "job:5f0c",
        b16(0x30),
        0,
        bytes(range(32)),
        1,
        512,
        b16(0x80),
        b"schema",
        (Part(3, 1, 512, b16(0x90)),),
        WALL_MS,
        writer=WRITER,
        column_topics=("départs".encode(), b"arrivals"),
    ),
    "dropped": Dropped(Name("flights", "41", "departures"), (b16(0x30), b16(0x31)), "aborted", WALL_MS),
    "committed": Committed(
        name=Name("flights", "42", "departures"),
        run=b"5f0c",
        nonce=b16(0xA0),
        winners=(b16(0x30) + b"\x02\x00\x00\x00", b16(0x31) + b"\x00\x00\x00\x00"),
        digest=bytes(range(32, 64)),
        fingerprint=b16(0xB0),
        rows=2**33,
        spans=(Span(0, 2**41, 2**33 - 1, 2**35), Span(11, 2**42, 1, 512)),
        wall_ms=WALL_MS,
    ),
    "committed_unknown": Committed(
        Name("daily", "2026-11-20", "departures"), None, b16(0xA0), (), None, bytes(16), 0, (), WALL_MS
    ),
    "committed_with_source_offsets": Committed(
        Name("flights", "42", "departures"),
        b"5f0c",
        b16(0xA0),
        (),
        bytes(range(32, 64)),
        bytes(16),
        0,
        (),
        WALL_MS,
        b'[{"events":{"0":17}}]',
    ),
    "committed_with_reads": Committed(
        Name("flights", "42", "departures"),
        b"5f0c",
        b16(0xA0),
        (),
        bytes(range(32, 64)),
        bytes(16),
        0,
        (),
        WALL_MS,
        reads_digest=bytes(range(64, 96)),
    ),
    "source_named": SourceNamed("départs", "events-3@départs", "AbCdEfGhIjKlMnOpQrStUv", WALL_MS),
    "asked_with_another_digest": Asked(
        Name("flights", "42", "departures"), b"5f0d", b16(0xA1), "DUPLICATE", 1_000, 1, WALL_MS, bytes(range(32, 64))
    ),
    "asked": Asked(Name("flights", "42", "departures"), b"5f0d", b16(0xA1), "DUPLICATE", 1_000, 2, WALL_MS),
    "probe": Probe(WALL_MS),
    "topic_set": TopicSet("départs", b"schema", 3_600_000, 2**37, WALL_MS),
    "topic_set_wider": TopicSet("départs", b"schema", 0, 0, WALL_MS, 2),
    "trimmed": Trimmed("departures", 11, 2**41, WALL_MS),
    "taken": Taken(b16(0xC0), WALL_MS, b16(0x50) + b16(0x60), b16(0x70)),
    "taken_in_a_set": Taken(b16(0xC0), WALL_MS, b16(0x50), b"", ""),
    "taken_by_a_writer": Taken(b16(0xC0), WALL_MS, b16(0x50), b"", writer=WRITER),
    "retired": Retired(WALL_MS - 604_800_000, WALL_MS),
    "namespace_set": NamespaceSet(604_800_000, 1, WALL_MS),
    "namespace_set_with_record_headers": NamespaceSet(604_800_000, 1, WALL_MS, 1),
    "namespace_set_with_lease_expiry": NamespaceSet(604_800_000, 1, WALL_MS, 0, 2),
    "namespace_set_in_shadow": NamespaceSet(604_800_000, 1, WALL_MS, shadow=1),
    "namespace_set_to_pass_marked": NamespaceSet(604_800_000, 1, WALL_MS, on_ledger_down=1),
    "namespace_set_with_id_time": NamespaceSet(604_800_000, 1, WALL_MS, id_time=1, known_from_ms=WALL_MS),
    "saved": SnapshotPiece("claims.rows", 2, bytes(range(64))),
    "sealed": Evicted(2**33, (Archived(bytes(16), 0, 5, WALL_MS, 4_000), Archived(b16(0xD0), 1, 6, 7, 1)), WALL_MS),
    "driver_registered": DriverRegistered("flights", 3, b16(0x30), WALL_MS),
    "producer_registered_dense": ProducerRegistered("p", 1, 1, b16(0x30), "flights", 30_000, WALL_MS, 1),
    "producer_registered": ProducerRegistered("events-3", 2**33, 9, b16(0x30), "flights", 30_000, WALL_MS),
    "producer_registered_by_a_writer": ProducerRegistered(
        "events-3", 2**33, 9, b16(0x30), "flights", 30_000, WALL_MS, writer=WRITER
    ),
    "sequences_claimed": SequencesClaimed(
        2**33, 9, 4, b16(0x40), 30_000, WALL_MS, struct.pack("<4Q", 2**40, 2**40 + 9, 2**41, 2**41), bytes(range(16))
    ),
    "sequences_claimed_and_written": SequencesClaimed(
        2**33, 9, 4, b16(0x40), 30_000, WALL_MS, struct.pack("<2Q", 2**40, 2**40 + 9), b"", written_before=3
    ),
    "sequences_claimed_with_payloads": SequencesClaimed(
        2**33,
        9,
        4,
        b16(0x40),
        30_000,
        WALL_MS,
        struct.pack("<4Q", 2**40, 2**40 + 9, 2**41, 2**41),
        bytes(range(16)),
        struct.pack("<3I", 7, 2**31, 2**32 - 1),
    ),
    "sequences_completed": SequencesCompleted(2**33, 9, 4, WALL_MS),
    "sequences_released": SequencesReleased(2**33, 9, 5, WALL_MS),
    "resolved": Resolved(2**33, bytes(16), 0, "ops", "not in the sink", struct.pack("<2Q", 17, 18), WALL_MS),
    "audited": Audited("forget", "ids of set 'orders'", 2**33, "operator (ada)", "lost with a disk", WALL_MS),
    "resolved_claim": Resolved(0, b16(0x20), 1, "ops", "found in the sink", b"", WALL_MS),
    "resolved_by_another_verb": Resolved(
        0, b16(0x20), 0, "ops", "its pod was evicted", b"", WALL_MS, verb="release", ids=2**33
    ),
    "resolved_of_a_named_producer": Resolved(
        7, bytes(16), 1, "ops", "in the sink", struct.pack("<2Q", 17, 18), WALL_MS, producer="events/3"
    ),
    "acked_but_for_some": Acked("flights", 3, 42, b"", WALL_MS, struct.pack("<2Q", 17, 40)),
    "acked_with_source_offsets": Acked("flights", 3, 0, b"", WALL_MS, b"", "departures", b'[{"events":{"0":17}}]'),
    "acked": Acked("flights", 3, 42, struct.pack("<4Q", 2**33, 2**40, 7, 2**41), WALL_MS),
    "scoped": Scoped(b16(0x20), "flights", 42),
    "lane_opened": LaneOpened(2**33, "départs", "events-3", 3, WALL_MS),
    "set_forgotten": SetForgotten("commandes", b16(0x70), WALL_MS),
    "set_written": SetWritten("commandes", "départs", b16(0x80), WALL_MS),
    "set_written_by_batches": SetWritten("flights", "départs", b16(0x80), WALL_MS, IdentifiedBy.BATCHES),
    "lane_written": LaneWritten(2**33, 2**41, struct.pack("<4Q", 17, 18, 20, 2**64 - 2), WALL_MS),
}


def main() -> int:
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for name, entry in SAMPLES.items():
        path = GOLDEN / f"{name}.hex"
        if not path.exists():
            path.write_text(encode(entry).hex("\n", -32) + "\n")
            print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
