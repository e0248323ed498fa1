"""Holds the staged chunks and the committed names of batches. A pure function of the ledger's entries.

A snapshot has these pieces:

names/<n>        some of the last committed names
older_names/<n>  records of older ones, as `index.committed_names` describes them
older_reads/<n>  the same, with the digest of what they read in place of that of their input
stages/<n>       some of the stages
batches          the rest, after the others
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import msgspec

from oncegate.core.batches import DigestMatch, Facts
from oncegate.core.entries.kinds import Asked, Committed, Dropped, Entry, Name, Part, Staged
from oncegate.index.committed_names import CommittedName, CommittedNames, short_digest, short_nonce
from oncegate.index.part import IndexPart, Steps, Undo

_LATER_BATCH_ID = re.compile("[1-9][0-9]{0,18}")
_RECORDS = ("older_names", "older_reads")
# Items encoded in one step, in a millisecond or two; blocks are already bytes, a MiB of them.
_NAMES_PER_PIECE, _STAGES_PER_PIECE, _BLOCKS_PER_PIECE = 500, 500, 34

_Named = tuple[Name, CommittedName]
_encode = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class StagedChunk:
    """A staged chunk.

    sha256: of its bytes.
    fingerprint: of its rows, 16 bytes.
    schema: the topic's, in IPC form.
    parts: the ranges that hold its rows.
    position: the log position that staged it.
    key_partitions: number of partitions over which its rows were distributed by key; 0: they have no keys.
    writer: encoded by `core.writers`; empty if unknown.
    column_topics: external topics named by the column `topic`; empty: all rows go to the batch's topic.
    """

    sha256: bytes
    rows: int
    size_bytes: int
    fingerprint: bytes
    schema: bytes
    parts: tuple[Part, ...]
    position: int
    key_partitions: int = 0
    writer: bytes = b""
    column_topics: tuple[bytes, ...] = ()


@dataclass(slots=True)
class Stage:
    """The chunks that one attempt staged under one name."""

    owner: str
    token: bytes
    chunks: dict[int, StagedChunk] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(chunk.rows for chunk in self.chunks.values())

    @property
    def fingerprint(self) -> bytes:
        """Returns the sum of the chunks' fingerprints modulo 2^128: 16 bytes, independent of the order of rows and
        chunks.
        """
        total = sum(int.from_bytes(chunk.fingerprint, "little") for chunk in self.chunks.values())
        return (total % (1 << 128)).to_bytes(16, "little")

    @property
    def writer(self) -> bytes:
        """Returns the writer of the stage, encoded by `core.writers`; empty if unknown."""
        return next((chunk.writer for chunk in self.chunks.values()), b"")

    @property
    def first_position(self) -> int:
        """Returns the log position of the oldest chunk."""
        return min(chunk.position for chunk in self.chunks.values())

    @property
    def parts(self) -> list[Part]:
        return [part for number in sorted(self.chunks) for part in self.chunks[number].parts]


@dataclass(frozen=True, slots=True)
class Winner:
    """The stage of a task whose attempt won, as its commit message describes it: chunks, rows and fingerprint."""

    token: bytes
    chunks: int
    rows: int
    fingerprint: bytes


class BatchIndex:
    """Stages and committed names. Chunks are few and large, so Python objects suffice."""

    def __init__(self) -> None:
        self.committed = CommittedNames()
        self.stages: dict[Name, dict[bytes, Stage]] = {}
        self.stage_bytes = 0
        self.suppressed_rows = 0

    def restore_stages(self, stages: Sequence[tuple[Name, Stage]]) -> None:
        """Replaces all stages with the given ones."""
        self.stages, self.stage_bytes = {}, 0
        for name, stage in stages:
            self._restore(name, [stage])

    def stage(self, name: Name, token: bytes) -> Stage | None:
        """Returns the stage that a token has under a batch name; None if there is none."""
        return self.stages.get(name, {}).get(token)

    def all_stages(self) -> Iterator[tuple[Name, Stage]]:
        for name, stages in self.stages.items():
            for stage in stages.values():
                yield name, stage

    def stages_there(self, name: Name, winners: Sequence[Winner]) -> bool:
        """Returns whether every winner's stage is complete: its chunks 0..n-1, with the rows of its message."""
        return all(self._is_whole(name, winner) for winner in winners)

    def _is_whole(self, name: Name, winner: Winner) -> bool:
        stage = self.stage(name, winner.token)
        if winner.chunks == 0:
            return winner.rows == 0 and stage is None
        if stage is None or sorted(stage.chunks) != list(range(winner.chunks)):
            return False
        return stage.rows == winner.rows and stage.fingerprint == winner.fingerprint

    def facts(
        self,
        name: Name,
        run: bytes | None,
        nonce: bytes,
        winners: Sequence[Winner],
        digest: bytes | None,
        previous_digest: bytes | None,
        first_wins: bool,
        reads: bytes | None = None,
    ) -> Facts:
        """Collects the facts about this commit for `core.batches.COMMIT`. reads: digest of what the batch reads."""
        record = self.committed.get(name)
        if record is None:
            before = self._name_before(name)
            known = None if before is None else before.digest
            previous = DigestMatch.compare(known, short_digest(previous_digest))
            # Spark numbers a query's batches consecutively, and a batch without tasks commits nothing: its rows may
            # come later.
            is_ordered = run is None and previous_digest is None
            higher = is_ordered and self.committed.higher_name(name) is not None
            return Facts(False, self.stages_there(name, winners), previous, higher_version=higher)
        rows, fingerprint = totals(winners)
        return Facts(
            committed=True,
            same_nonce=short_nonce(nonce) == record.nonce,
            run_asked=run is not None and any(r == run and n != nonce for r, n in record.asks),
            digests=DigestMatch.compare(record.digest, short_digest(digest)),
            reads=DigestMatch.compare(record.reads, short_digest(reads)),
            rows_equal=None if record.fingerprint is None else (record.rows, record.fingerprint) == (rows, fingerprint),
            first_wins=first_wins,
        )

    def _name_before(self, name: Name) -> CommittedName | None:
        """Returns the name of batch n-1 for batch n; None if the version is not a batch id of Spark, or is the
        first."""
        if not _LATER_BATCH_ID.fullmatch(name.version):
            return None
        return self.committed.get(replace(name, version=str(int(name.version) - 1)))

    def apply(self, position: int, entry: Entry, _now_ms: int = 0) -> Undo | None:
        if isinstance(entry, Staged):
            return self._staged(position, entry)
        if isinstance(entry, Dropped):
            return self._dropped(entry)
        if isinstance(entry, Committed):
            return self._committed(position, entry)
        if isinstance(entry, Asked):
            return self._asked(position, entry)
        return None

    def _staged(self, position: int, entry: Staged) -> Undo:
        name = entry.name
        stages = self.stages.setdefault(name, {})
        stage = stages.setdefault(entry.token, Stage(entry.owner, entry.token))
        stage.chunks[entry.chunk] = StagedChunk(
            entry.sha256,
            entry.rows,
            entry.size_bytes,
            entry.fingerprint,
            entry.schema,
            entry.parts,
            position,
            entry.key_partitions,
            entry.writer,
            entry.column_topics,
        )
        self.stage_bytes += entry.size_bytes

        def undo() -> None:
            del stage.chunks[entry.chunk]
            self.stage_bytes -= entry.size_bytes
            if not stage.chunks:
                self.stages[name].pop(entry.token)
                self._tidy(name)

        return undo

    def _dropped(self, entry: Dropped) -> Undo:
        name = entry.name
        gone = [stage for token in entry.tokens if (stage := self.stage(name, token)) is not None]
        for stage in gone:
            self._forget(name, stage)
        return lambda: self._restore(name, gone)

    def _committed(self, position: int, entry: Committed) -> Undo:
        name = entry.name
        gone = list(self.stages.get(name, {}).values())
        won = {winner[:16] for winner in entry.winners}
        suppressed = sum(stage.rows for stage in gone if stage.token not in won)
        for stage in gone:
            self._forget(name, stage)
        record = CommittedName(
            run=entry.run,
            nonce=short_nonce(entry.nonce),
            digest=short_digest(entry.digest),
            reads=short_digest(entry.reads_digest or None),
            rows=entry.rows,
            fingerprint=entry.fingerprint,
            spans=entry.spans,
            suppressed_rows=suppressed,
            wall_ms=entry.wall_ms,
            position=position,
            kept_position=position,
            asks=((entry.run, entry.nonce),),
        )
        self.suppressed_rows += suppressed
        undo_commit = self.committed.commit(name, record)

        def undo() -> None:
            undo_commit()
            self.suppressed_rows -= suppressed
            self._restore(name, gone)

        return undo

    def _asked(self, position: int, entry: Asked) -> Undo:
        known, undo_ask = self.committed.ask(
            position, entry.name, (entry.run, entry.nonce), short_digest(entry.digest or None)
        )
        suppressed = 0 if known or entry.outcome != "DUPLICATE" else entry.rows
        self.suppressed_rows += suppressed

        def undo() -> None:
            self.suppressed_rows -= suppressed
            undo_ask()

        return undo

    def _forget(self, name: Name, stage: Stage) -> None:
        self.stages[name].pop(stage.token)
        self._tidy(name)
        self.stage_bytes -= sum(chunk.size_bytes for chunk in stage.chunks.values())

    def _restore(self, name: Name, stages: list[Stage]) -> None:
        for stage in stages:
            self.stages.setdefault(name, {})[stage.token] = stage
            self.stage_bytes += sum(chunk.size_bytes for chunk in stage.chunks.values())

    def _tidy(self, name: Name) -> None:
        if not self.stages[name]:
            del self.stages[name]


def totals(winners: Sequence[Winner]) -> tuple[int, bytes]:
    """Returns the rows of all winners, and the sum of their fingerprints modulo 2^128."""
    total = sum(int.from_bytes(winner.fingerprint, "little") for winner in winners)
    return sum(winner.rows for winner in winners), (total % (1 << 128)).to_bytes(16, "little")


def part(index: BatchIndex) -> IndexPart:
    """Returns stages and committed names as a part of a shard's index."""
    kinds = ("names", "older_names", "older_reads", "stages", "batches")

    def count() -> dict[str, int]:
        return {"stages": sum(1 for _ in index.all_stages()), "batches": len(index.committed)}

    return IndexPart(kinds, partial(snapshot_steps, index), partial(BatchesReader, index), index.apply, count)


@dataclass(frozen=True, slots=True)
class BatchesSnapshot:
    """The content of a snapshot's last piece: two counters, and the number of preceding pieces."""

    suppressed_rows: int
    older_position: int
    pieces: int


def snapshot_steps(index: BatchIndex) -> Steps:
    """Creates a snapshot of the current state in steps; entries may be applied between steps."""
    committed = index.committed
    names, older, reads = list(committed.last.items()), committed.older.frozen(), committed.older_reads.frozen()
    stages = [(name, Stage(stage.owner, stage.token, dict(stage.chunks))) for name, stage in index.all_stages()]
    lists: list[tuple[str, list[Any], int]] = [
        ("names", names, _NAMES_PER_PIECE),
        ("older_names", older, _BLOCKS_PER_PIECE),
        ("older_reads", reads, _BLOCKS_PER_PIECE),
        ("stages", stages, _STAGES_PER_PIECE),
    ]
    return _steps(lists, index.suppressed_rows, committed.older_position)


def _steps(lists: list[tuple[str, list[Any], int]], suppressed_rows: int, older_position: int) -> Steps:
    pieces = 0
    for kind, listed, count in lists:
        for number, at in enumerate(range(0, len(listed), count)):
            some = listed[at : at + count]
            yield [(f"{kind}/{number}", b"".join(some) if kind in _RECORDS else _encode(some))]
            pieces += 1
    yield [("batches", _encode(BatchesSnapshot(suppressed_rows, older_position, pieces)))]


class BatchesReader:
    """Restores an empty index from its pieces, in their order. Raises ValueError if they do not belong together."""

    def __init__(self, index: BatchIndex) -> None:
        self._index = index
        self._names: list[_Named] = []
        self._stages: list[tuple[Name, Stage]] = []
        self._taken = 0
        self._whole = False

    def take(self, what: str, data: bytes) -> None:
        kind = what.partition("/")[0]
        if kind == "batches":
            self._end(msgspec.msgpack.decode(data, type=BatchesSnapshot))
            return
        self._taken += 1
        if kind == "names":
            self._names += msgspec.msgpack.decode(data, type=list[_Named])
        elif kind == "stages":
            self._stages += msgspec.msgpack.decode(data, type=list[tuple[Name, Stage]])
        elif kind == "older_reads":
            self._index.committed.older_reads.extend(data)
        else:
            self._index.committed.older.extend(data)

    def finish(self) -> None:
        """Checks that the last piece was read. Raises ValueError."""
        if not self._whole:
            raise ValueError("the saved index has no batches")

    def _end(self, rest: BatchesSnapshot) -> None:
        if rest.pieces != self._taken:
            raise ValueError(f"{self._taken} pieces of batches instead of {rest.pieces}")
        names, stages = self._names, self._stages
        self._index.committed.restore(names)
        self._index.committed.older_position = rest.older_position
        self._index.restore_stages(stages)
        self._index.suppressed_rows = rest.suppressed_rows
        self._names, self._stages, self._whole = [], [], True
