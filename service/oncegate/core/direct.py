"""Decision tables for sequences that clients write directly into Kafka: the only place that decides about them.

This file reads no clock and does no I/O. P1..P6 and LOSS are the properties of RELIABILITY.md that a cell serves.

Theory of operation
===================

A client writes rows into its topic and a record of their sequences into a topic of the ledger, both in one Kafka
transaction. The transactional id of its lane fences earlier writers of the lane. The owner reads the records and enters
them into the ledger, then trims them from the record topic.

A client that does not know whether sequences were written asks. It fences all earlier writers of its lane first.
Whatever they committed is then readable, and nobody else can commit any more. Hence a sequence that is missing from the
committed records was not written. The owner may deny a sequence only if it has read the records to their end after the
question arrived, and has afterwards proven that it still owns the ledger. Without that proof a successor may already
have entered and trimmed the record. This is the read index of Raft (Ongaro 2014, 6.4): an absence is reported only
after a proof of ownership that began later.

  ASK    (record, reading)    -> the answer to "was this sequence written?", or what has to happen before the answer
  ACK    (coverage, reading)  -> whether an ack of all sequences up to one is entered as a single interval
  ENTER  content              -> whether a record that was read is entered into the ledger
  TRIM   state of its entry   -> whether a record that was entered may be deleted

Invariants:

  1. A written sequence is never reported as absent (P1), and an unwritten one never as written (LOSS).
  2. A record is deleted only once its entry is durable and the owner has proven its ownership since (P1).
  3. A record that cannot be read stops its partition: skipping it would write its rows again (P1).
"""

from enum import IntEnum

from oncegate.core.cells import Cell


class RecordState(IntEnum):
    """The state of a sequence's record. FOUND: it was read, but its entry is not durable yet."""

    ABSENT = 0
    FOUND = 1
    ENTERED = 2


class ReadProgress(IntEnum):
    """The owner's progress since a question arrived.

    BEFORE: it has read nothing.
    READ: it has read up to the end of the records at that time, uncommitted ones included.
    PROVEN: and a ledger commit of this owner, begun after that read, has succeeded.
    """

    BEFORE = 0
    READ = 1
    PROVEN = 2


class QuestionOutcome(IntEnum):
    """The outcome of a question: an answer, or the step that must precede it."""

    READ_ON = 0
    COMMIT = 1
    DUPLICATE = 2
    NOT_THERE = 3


_ENTERED = Cell(
    QuestionOutcome.DUPLICATE,
    "an entered sequence is a duplicate",
    "it is committed, and the ledger records it for ever (P1)",
)
_FOUND = Cell(
    QuestionOutcome.COMMIT,
    "a record is answered once its entry is durable",
    "a successor would know only the record, which this owner may trim (P1)",
)

ASK: dict[tuple[RecordState, ReadProgress], Cell[QuestionOutcome]] = {
    (RecordState.ABSENT, ReadProgress.BEFORE): Cell(
        QuestionOutcome.READ_ON,
        "nothing is absent before the records were read to their end",
        "the previous writer may just have committed and died before anybody got the answer (P1)",
    ),
    (RecordState.ABSENT, ReadProgress.READ): Cell(
        QuestionOutcome.COMMIT,
        "a superseded owner denies nothing",
        "its successor may have entered and trimmed the record, so that this owner does not find it (P1)",
    ),
    (RecordState.ABSENT, ReadProgress.PROVEN): Cell(
        QuestionOutcome.NOT_THERE,
        "the caller has fenced all earlier writers, and the owner has read everything that they committed",
        "nobody else can commit it any more, so the caller writes it (P6)",
    ),
    **dict.fromkeys([(RecordState.FOUND, reading) for reading in ReadProgress], _FOUND),
    **dict.fromkeys([(RecordState.ENTERED, reading) for reading in ReadProgress], _ENTERED),
}


class Cover(IntEnum):
    """The extent to which the sequences up to an acked one are known to be written.

    BEYOND: no sequence as high as the acked one was written.
    OPEN: some of those below it are not known to be written.
    WHOLE: all of them are known to be written.
    """

    BEYOND = 0
    OPEN = 1
    WHOLE = 2


class Acking(IntEnum):
    """The effect of an ack, a promise that no sequence up to the acked one will come again."""

    READ_ON = 0
    REFUSE = 1
    ENTER = 2
    NOTHING = 3


_UNREAD = Cell(
    Acking.READ_ON,
    "an ack covers no unread record",
    "a record read later would repeat sequences that the ack covers, as if rows had been written twice",
)
_BEYOND = Cell(
    Acking.REFUSE,
    "unwritten sequences are not acked",
    "sequences up to there that come later would be answered as written, and be lost (LOSS)",
)
_OPEN = Cell(
    Acking.ENTER,
    "acked sequences become one interval",
    "its holes are never written, and without them a lane is described by one number",
)
_WHOLE = Cell(Acking.NOTHING, "an ack of a single interval adds nothing", "it may come again with each question")

ACK: dict[tuple[Cover, ReadProgress], Cell[Acking]] = {
    (Cover.BEYOND, ReadProgress.BEFORE): _UNREAD,
    (Cover.OPEN, ReadProgress.BEFORE): _UNREAD,
    **{(Cover.BEYOND, reading): _BEYOND for reading in (ReadProgress.READ, ReadProgress.PROVEN)},
    **{(Cover.OPEN, reading): _OPEN for reading in (ReadProgress.READ, ReadProgress.PROVEN)},
    **dict.fromkeys([(Cover.WHOLE, reading) for reading in ReadProgress], _WHOLE),
}


class Content(IntEnum):
    """The content of a lane record compared with the ledger's entries.

    FOREIGN: it belongs to none of this ledger's lanes, or cannot be read.
    OVERLAPPING: some of its sequences are also in another record.
    """

    FOREIGN = 0
    NEW = 1
    OVERLAPPING = 2


class Entering(IntEnum):
    """The action on a lane record that was read."""

    REFUSE = 0
    ENTER = 1
    ENTER_AND_WARN = 2


ENTER: dict[Content, Cell[Entering]] = {
    Content.FOREIGN: Cell(
        Entering.REFUSE,
        "a partition with an unreadable record is not answered for",
        "it may be the record of a later version: if it were skipped, its rows would be written again (P1)",
    ),
    Content.NEW: Cell(
        Entering.ENTER,
        "a committed record is entered",
        "the ledger has one writer and is the only source of truth (P1)",
    ),
    Content.OVERLAPPING: Cell(
        Entering.ENTER_AND_WARN,
        "sequences that were written twice are entered with a warning",
        "a client wrote without a grant, or before it had fenced: its rows exist twice",
    ),
}


class EntryState(IntEnum):
    """The progress of a lane record's ledger entry. `ReadProgress.PROVEN` is the corresponding proof for a missing
    record.

    PROVEN: a ledger commit of this owner, begun after the entry was durable, has succeeded.
    """

    QUEUED = 0
    DURABLE = 1
    PROVEN = 2


class Trimming(IntEnum):
    """The action on a lane record whose sequences were entered into the ledger."""

    KEEP = 0
    TRIM = 1


TRIM: dict[EntryState, Cell[Trimming]] = {
    EntryState.QUEUED: Cell(
        Trimming.KEEP, "a record is kept until its entry is durable", "it is the only evidence of the write (P1)"
    ),
    EntryState.DURABLE: Cell(
        Trimming.KEEP, "a superseded owner deletes nothing", "its successor may be reading there (P1)"
    ),
    EntryState.PROVEN: Cell(
        Trimming.TRIM, "an entered record is redundant", "the topic holds only records that are not entered yet"
    ),
}
