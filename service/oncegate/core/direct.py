"""What is told of sequences that clients write into Kafka themselves: tables, the only place that decides.

A client commits rows and a record of their sequences in one transaction of its own, fenced by the transactional id of
its lane; the owner reads the records and enters them into the ledger. Whoever asks has fenced all before him first, so
what is not among the records that were committed by then was not written, and nobody else will write it.

This file reads no clock and does no I/O. P1..P6 and LOSS are the properties of RELIABILITY.md that a cell serves.
Source: read index of Raft (Ongaro 2014, 6.4): what is told as absent waits for a proof of ownership that began later.
"""

from enum import IntEnum

from oncegate.core.cells import Cell


class RecordState(IntEnum):
    """Names what is known of a sequence's record. FOUND: it was read, and its entry is not durable yet."""

    ABSENT = 0
    FOUND = 1
    ENTERED = 2


class ReadProgress(IntEnum):
    """Names how far the owner has read since the question came.

    BEFORE: not at all. READ: up to where the records then ended, what is not committed included. PROVEN: and a ledger
    commit of this owner has succeeded that began after that.
    """

    BEFORE = 0
    READ = 1
    PROVEN = 2


class QuestionOutcome(IntEnum):
    """Names what becomes of a question: an answer, or what is to be done before it can be given."""

    READ_ON = 0
    COMMIT = 1
    DUPLICATE = 2
    NOT_THERE = 3


_ENTERED = Cell(
    QuestionOutcome.DUPLICATE,
    "what was entered is a duplicate",
    "it is committed, and the ledger says so for ever (P1)",
)
_FOUND = Cell(
    QuestionOutcome.COMMIT,
    "what was found is told once its entry is durable",
    "a successor would know only of the record, which this owner may trim (P1)",
)

ASK: dict[tuple[RecordState, ReadProgress], Cell[QuestionOutcome]] = {
    (RecordState.ABSENT, ReadProgress.BEFORE): Cell(
        QuestionOutcome.READ_ON,
        "nothing is absent before the records were read to their end",
        "the one before may have committed a moment ago, and died before anybody was told (P1)",
    ),
    (RecordState.ABSENT, ReadProgress.READ): Cell(
        QuestionOutcome.COMMIT,
        "an owner that was followed denies nothing",
        "its successor may have entered the record and trimmed it, so that this one does not find it (P1)",
    ),
    (RecordState.ABSENT, ReadProgress.PROVEN): Cell(
        QuestionOutcome.NOT_THERE,
        "who asks has fenced all before him, and the owner has read all that they committed",
        "nobody else can commit it any more, so he writes it (P6)",
    ),
    **dict.fromkeys([(RecordState.FOUND, reading) for reading in ReadProgress], _FOUND),
    **dict.fromkeys([(RecordState.ENTERED, reading) for reading in ReadProgress], _ENTERED),
}


class Cover(IntEnum):
    """Names what is known of the sequences up to one that is acked. BEYOND: none that is as high was written. OPEN:
    some of those below it are not known as written. WHOLE: all of them are."""

    BEYOND = 0
    OPEN = 1
    WHOLE = 2


class Acking(IntEnum):
    """Names what becomes of an ack: nothing brings a sequence up to this one any more."""

    READ_ON = 0
    REFUSE = 1
    ENTER = 2
    NOTHING = 3


_UNREAD = Cell(
    Acking.READ_ON,
    "an ack covers nothing that was not read",
    "a record that is read later would say again what it covers, as if rows were there twice",
)
_BEYOND = Cell(
    Acking.REFUSE,
    "what was not written is not acked",
    "what comes up to there later would be told as written, and be lost (LOSS)",
)
_OPEN = Cell(
    Acking.ENTER,
    "what is acked is one interval",
    "its holes come from nobody any more, and without them a lane is known by one number",
)
_WHOLE = Cell(Acking.NOTHING, "an ack of what is one interval says nothing new", "it may come again with each question")

ACK: dict[tuple[Cover, ReadProgress], Cell[Acking]] = {
    (Cover.BEYOND, ReadProgress.BEFORE): _UNREAD,
    (Cover.OPEN, ReadProgress.BEFORE): _UNREAD,
    **{(Cover.BEYOND, reading): _BEYOND for reading in (ReadProgress.READ, ReadProgress.PROVEN)},
    **{(Cover.OPEN, reading): _OPEN for reading in (ReadProgress.READ, ReadProgress.PROVEN)},
    **dict.fromkeys([(Cover.WHOLE, reading) for reading in ReadProgress], _WHOLE),
}


class Content(IntEnum):
    """Names what a record says, seen from what is entered.

    FOREIGN: it is none of this ledger's lanes, or cannot be read. OVERLAPPING: some of it another record says too.
    """

    FOREIGN = 0
    NEW = 1
    OVERLAPPING = 2


class Entering(IntEnum):
    """Names what becomes of a record."""

    REFUSE = 0
    ENTER = 1
    ENTER_AND_WARN = 2


ENTER: dict[Content, Cell[Entering]] = {
    Content.FOREIGN: Cell(
        Entering.REFUSE,
        "nothing is told of a partition that holds what cannot be read",
        "it may be the record of a later version: passed over, its rows would be written again (P1)",
    ),
    Content.NEW: Cell(
        Entering.ENTER, "what was committed is entered", "the ledger has one writer, and is the only truth (P1)"
    ),
    Content.OVERLAPPING: Cell(
        Entering.ENTER_AND_WARN,
        "what was written twice is entered and told",
        "a client wrote what it was not told to, or before it had fenced: its rows are there twice",
    ),
}


class EntryState(IntEnum):
    """Names how far the entry of a record has come; `Reading.PROVEN` says the same of an absence.

    PROVEN: a ledger commit of this owner has succeeded that began after the entry was durable.
    """

    QUEUED = 0
    DURABLE = 1
    PROVEN = 2


class Trimming(IntEnum):
    """Names what becomes of a record that was entered."""

    KEEP = 0
    TRIM = 1


TRIM: dict[EntryState, Cell[Trimming]] = {
    EntryState.QUEUED: Cell(
        Trimming.KEEP, "a record is kept until its entry is durable", "nothing else says that it was written (P1)"
    ),
    EntryState.DURABLE: Cell(
        Trimming.KEEP, "an owner that was followed deletes nothing", "its successor may be reading there (P1)"
    ),
    EntryState.PROVEN: Cell(
        Trimming.TRIM, "what the ledger says is said once", "the topic stays as short as what nobody has entered"
    ),
}
