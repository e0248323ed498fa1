"""A scenario for each row of the commit table: entries applied to a real index, which then gives the facts."""

from collections.abc import Callable
from dataclasses import dataclass

from oncegate.core.batches import Facts
from oncegate.core.entries.kinds import Asked, Committed, Entry, Name, Part, Staged
from oncegate.index.batches import BatchIndex, Winner, totals
from oncegate.index.committed_names import NAMES_REMEMBERED

RUN, LATER_RUN = b"run 1", b"run 2"
INPUT, OTHER_INPUT, BEFORE, OTHER_BEFORE = (bytes([n]) * 32 for n in range(1, 5))


def id16(number: int) -> bytes:
    return number.to_bytes(16, "little")


def winner(token: int = 1, rows: int = 10, fingerprint: int = 77, chunks: int = 1) -> Winner:
    return Winner(id16(token), chunks, rows, id16(fingerprint))


class Told:
    """An index, and the number of entries applied to it."""

    def __init__(self) -> None:
        self.index = BatchIndex()
        self._position = 0

    def tell(self, entry: Entry) -> None:
        self._position += 1
        self.index.apply(self._position, entry)

    def staged(self, name: Name, token: int = 1, chunk: int = 0, rows: int = 10, fingerprint: int = 77) -> None:
        parts = (Part(0, rows, 100, id16(1000 * token + chunk)),)
        chunk_of = (name, "run:1", id16(token), chunk, bytes(32))
        self.tell(Staged(*chunk_of, rows, 100, id16(fingerprint), b"schema", parts, 0))

    def committed(
        self,
        name: Name,
        run: bytes | None = RUN,
        nonce: int = 1,
        digest: bytes | None = INPUT,
        winners: tuple[Winner, ...] = (winner(),),
        reads: bytes = b"",
    ) -> None:
        rows, fingerprint = totals(winners)
        tokens = tuple(one.token + one.chunks.to_bytes(4, "little") for one in winners)
        self.tell(Committed(name, run, id16(nonce), tokens, digest, fingerprint, rows, (), 0, reads_digest=reads))

    def asked(self, name: Name, run: bytes | None, nonce: int, outcome: str, digest: bytes = b"") -> None:
        self.tell(Asked(name, run, id16(nonce), outcome, 10, 1, 0, digest))

    def facts(
        self,
        name: Name,
        run: bytes | None = RUN,
        nonce: int = 9,
        winners: tuple[Winner, ...] = (winner(),),
        digest: bytes | None = INPUT,
        previous: bytes | None = None,
        first_wins: bool = False,
        reads: bytes | None = None,
    ) -> Facts:
        return self.index.facts(name, run, id16(nonce), winners, digest, previous, first_wins, reads)


def batch(version: str, write_id: str = "") -> Name:
    return Name("query", version, "topic", write_id)


BATCH = batch("5")


@dataclass(frozen=True)
class Scenario:
    """A scenario; `row`: the name of the row that must decide."""

    row: str
    facts: Callable[[], Facts]


def _new(staged: bool = True, before: Name | None = None, name: Name = BATCH, previous: bytes | None = BEFORE) -> Facts:
    told = Told()
    if before is not None:
        told.committed(before, digest=OTHER_BEFORE)
    if staged:
        told.staged(name)
    return told.facts(name, previous=previous)


def _two_chunks(told_chunks: int, rows: int, fingerprint: int) -> Facts:
    told = Told()
    told.staged(BATCH, chunk=0, rows=10, fingerprint=2**128 - 1)
    told.staged(BATCH, chunk=1, rows=5, fingerprint=3)
    return told.facts(BATCH, winners=(winner(chunks=told_chunks, rows=rows, fingerprint=fingerprint),))


def _again(
    run: bytes | None = LATER_RUN,
    nonce: int = 9,
    digest: bytes | None = INPUT,
    rows: int = 10,
    fingerprint: int = 77,
    first_wins: bool = False,
    committed_digest: bytes | None = INPUT,
    committed_run: bytes | None = RUN,
    asked_by: bytes | None = None,
    later_names: int = 0,
    reads: bytes | None = None,
    committed_reads: bytes = b"",
) -> Facts:
    told = Told()
    told.committed(BATCH, run=committed_run, digest=committed_digest, reads=committed_reads)
    if asked_by is not None:
        told.asked(BATCH, asked_by, 2, "DUPLICATE")
    for number in range(later_names):
        told.committed(batch(str(6 + number)), nonce=100 + number)
    brought = (winner(rows=rows, fingerprint=fingerprint),)
    return told.facts(BATCH, run, nonce, brought, digest, None, first_wins, reads)


def _after(*committed: str, version: str = "5", run: bytes | None = None, previous: bytes | None = None) -> Facts:
    """Returns the facts of a fully staged version's commit by a job, after these versions were committed."""
    told = Told()
    for number, one in enumerate(committed):
        told.committed(batch(one), run=None, nonce=100 + number, digest=None)
    told.staged(batch(version))
    return told.facts(batch(version), run, digest=None, previous=previous)


def _behind_a_restored(previous: bytes) -> Facts:
    """Returns the facts of batch 5 after batch 4 was committed and a restored checkpoint read it again under another
    entry."""
    told = Told()
    told.committed(batch("4"), digest=BEFORE, reads=READ)
    told.asked(batch("4"), LATER_RUN, 2, "DUPLICATE", OTHER_BEFORE)
    told.staged(BATCH)
    return told.facts(BATCH, previous=previous)


READ, OTHER_READ = id16(41) * 2, id16(42) * 2
_LOWER, _SAME_READS = "new, a higher version is committed", "other entry, same files and offsets"
_BEFORE = "the previous batch was committed with other input"
_MISSING, _NEW = "new, a stage is missing", "new, every winner is staged"
_AGAIN, _SECOND = "the same commit again", "this run has asked for this name before"
_SAME, _OTHER = "same input", "other input"
_FORGOTTEN, _SAME_ROWS = "input unknown, rows dropped", "input unknown, same rows"
_FIRST_WINS, _CONFLICT = "input unknown, other rows, first wins", "input unknown, other rows"

SCENARIOS: dict[str, Scenario] = {
    "a zombie committed the batch before with other input": Scenario(_BEFORE, lambda: _new(before=batch("4"))),
    "the same, and the stage is missing too": Scenario(_BEFORE, lambda: _new(False, batch("4"))),
    "the same under a writeId": Scenario(_BEFORE, lambda: _new(True, batch("4", "late"), batch("5", "late"))),
    "another writeId's previous batch is irrelevant": Scenario(_NEW, lambda: _new(True, batch("4", "late"))),
    "another topic's previous batch is irrelevant": Scenario(
        _NEW, lambda: _new(before=Name("query", "4", "elsewhere"))
    ),
    "batch 10 follows batch 9": Scenario(_BEFORE, lambda: _new(True, batch("9"), batch("10"))),
    "nothing comes before batch 0": Scenario(_NEW, lambda: _new(True, batch("-1"), batch("0"))),
    "the batch before brought along as it was committed": Scenario(
        _NEW, lambda: _new(before=batch("4"), previous=OTHER_BEFORE)
    ),
    "the batch before is not known to who commits": Scenario(_NEW, lambda: _new(before=batch("4"), previous=None)),
    "the batch before was never committed": Scenario(_NEW, _new),
    "a version that is a date has nothing before it": Scenario(
        _NEW, lambda: _new(True, batch("2026-11-19"), batch("2026-11-20"))
    ),
    "a version in other digits has nothing before it": Scenario(_NEW, lambda: _new(True, batch("4"), batch("\u0665"))),
    "a version with a leading zero has nothing before it": Scenario(_NEW, lambda: _new(True, batch("4"), batch("05"))),
    "a version of 5,000 digits has nothing before it": Scenario(
        _NEW, lambda: _new(True, batch("4"), batch("5" * 5000))
    ),
    "a job's version below one that is committed": Scenario(_LOWER, lambda: _after("6")),
    "a version below the highest of several": Scenario(_LOWER, lambda: _after("9", "10", "1")),
    "numbers are compared as numbers": Scenario(_NEW, lambda: _after("9", version="10")),
    "a version of 19 digits below another": Scenario(_LOWER, lambda: _after(f"{2**63 - 1}", version=f"{2**63 - 2}")),
    "a version above all that are committed": Scenario(_NEW, lambda: _after("3", "4")),
    "a version that is a date has no order": Scenario(_NEW, lambda: _after("2026-11-20", version="2026-11-19")),
    "a number above a text": Scenario(_NEW, lambda: _after("z")),
    "a text below a number": Scenario(_NEW, lambda: _after("6", version="05")),
    "a query's batch below one that is committed": Scenario(_NEW, lambda: _after("6", run=RUN)),
    "a batch that names the one before": Scenario(_NEW, lambda: _after("6", previous=BEFORE)),
    "a version long below": Scenario(_LOWER, lambda: _after(*map(str, range(6, 8 + NAMES_REMEMBERED)))),
    "a version below one that only the older names have": Scenario(
        _LOWER, lambda: _after("6", *(f"x{number}" for number in range(NAMES_REMEMBERED)))
    ),
    "a restored checkpoint reads the same again": Scenario(
        _SAME_READS, lambda: _again(digest=OTHER_INPUT, reads=READ, committed_reads=READ)
    ),
    "the same with other rows": Scenario(
        _SAME_READS, lambda: _again(digest=OTHER_INPUT, rows=11, reads=READ, committed_reads=READ)
    ),
    "a restored checkpoint reads the same again, long after": Scenario(
        _SAME_READS,
        lambda: _again(digest=OTHER_INPUT, reads=READ, committed_reads=READ, later_names=NAMES_REMEMBERED),
    ),
    "one run writes twice what it has read": Scenario(
        _SECOND, lambda: _again(RUN, digest=OTHER_INPUT, reads=READ, committed_reads=READ)
    ),
    "a restored checkpoint reads something else": Scenario(
        _OTHER, lambda: _again(digest=OTHER_INPUT, reads=OTHER_READ, committed_reads=READ)
    ),
    "other reads under an unknown entry": Scenario(
        _OTHER, lambda: _again(digest=None, reads=OTHER_READ, committed_reads=READ)
    ),
    "a batch from before reads were kept": Scenario(_OTHER, lambda: _again(digest=OTHER_INPUT, reads=READ)),
    "a batch from before reads were kept, replayed": Scenario(_SAME, lambda: _again(reads=READ)),
    "a client that brings no reads": Scenario(_OTHER, lambda: _again(digest=OTHER_INPUT, committed_reads=READ)),
    "the batch behind one that a restored checkpoint read again": Scenario(
        _NEW, lambda: _behind_a_restored(OTHER_BEFORE)
    ),
    "the same by the driver from before": Scenario(_BEFORE, lambda: _behind_a_restored(BEFORE)),
    "a stage never came": Scenario(_MISSING, lambda: _new(False)),
    "the last chunk of a stage is missing": Scenario(_MISSING, lambda: _two_chunks(3, 15, 2)),
    "a stage has a chunk more than its message": Scenario(_MISSING, lambda: _two_chunks(1, 10, 2**128 - 1)),
    "a stage has other rows than its message": Scenario(_MISSING, lambda: _two_chunks(2, 15, 3)),
    "a winner's message lists rows without a chunk": Scenario(
        _MISSING, lambda: Told().facts(BATCH, winners=(winner(chunks=0),))
    ),
    "a winner that reports nothing sent has staged rows": Scenario(
        _MISSING, lambda: _told_and_denied()
    ),
    "the first commit of a name": Scenario(_NEW, _new),
    "two chunks whose prints add up beyond 128 bits": Scenario(_NEW, lambda: _two_chunks(2, 15, 2)),
    "a batch without rows": Scenario(_NEW, lambda: Told().facts(BATCH, winners=())),
    "the reply was lost": Scenario(_AGAIN, lambda: _again(RUN, nonce=1)),
    "the reply was lost and the run is not known": Scenario(_AGAIN, lambda: _again(None, nonce=1, committed_run=None)),
    "the reply was lost and the name forgotten": Scenario(
        _AGAIN, lambda: _again(RUN, nonce=1, later_names=NAMES_REMEMBERED)
    ),
    "one run writes twice, equal rows": Scenario(_SECOND, lambda: _again(RUN)),
    "one run writes twice, other rows": Scenario(_SECOND, lambda: _again(RUN, rows=11, fingerprint=78)),
    "one run writes twice, unknown input": Scenario(_SECOND, lambda: _again(RUN, digest=None)),
    "one run writes twice and first_wins is set": Scenario(_SECOND, lambda: _again(RUN, first_wins=True)),
    "a later run writes twice, its first write was a duplicate": Scenario(
        _SECOND, lambda: _again(LATER_RUN, asked_by=LATER_RUN)
    ),
    "the same ask of a later run again": Scenario(_SAME, lambda: _again(LATER_RUN, nonce=2, asked_by=LATER_RUN)),
    "jobs without a run are never one run": Scenario(
        _SAME_ROWS, lambda: _again(None, digest=None, committed_run=None)
    ),
    "a replay of one input": Scenario(_SAME, _again),
    "a replay of one input with other rows": Scenario(_SAME, lambda: _again(rows=11, fingerprint=78)),
    "a replay of one input, long after": Scenario(_SAME, lambda: _again(later_names=NAMES_REMEMBERED)),
    "a restored checkpoint used the number again": Scenario(_OTHER, lambda: _again(digest=OTHER_INPUT, rows=11)),
    "the same with equal rows": Scenario(_OTHER, lambda: _again(digest=OTHER_INPUT)),
    "the same with first_wins": Scenario(_OTHER, lambda: _again(digest=OTHER_INPUT, first_wins=True)),
    "the same, long after": Scenario(
        _OTHER, lambda: _again(digest=OTHER_INPUT, later_names=NAMES_REMEMBERED)
    ),
    "rows long forgotten, input unknown": Scenario(
        _FORGOTTEN, lambda: _again(digest=None, later_names=NAMES_REMEMBERED)
    ),
    "the same with first_wins, long after": Scenario(
        _FORGOTTEN, lambda: _again(digest=None, first_wins=True, later_names=NAMES_REMEMBERED)
    ),
    "the thousandth name is still compared": Scenario(
        _SAME_ROWS, lambda: _again(digest=None, later_names=NAMES_REMEMBERED - 1)
    ),
    "the same rows, input unknown": Scenario(_SAME_ROWS, lambda: _again(digest=None, committed_digest=None)),
    "the same rows, input known only now": Scenario(_SAME_ROWS, lambda: _again(committed_digest=None)),
    "the same rows, input known only then": Scenario(_SAME_ROWS, lambda: _again(digest=None)),
    "other rows, input unknown, the first wins": Scenario(
        _FIRST_WINS, lambda: _again(digest=None, rows=11, first_wins=True)
    ),
    "another number of rows, input unknown": Scenario(_CONFLICT, lambda: _again(digest=None, rows=11)),
    "another fingerprint, input unknown": Scenario(_CONFLICT, lambda: _again(digest=None, fingerprint=78)),
}  # fmt: skip


def _told_and_denied() -> Facts:
    told = Told()
    told.staged(BATCH)
    return told.facts(BATCH, winners=(winner(chunks=0, rows=0, fingerprint=0),))
