"""Makes a whole shard's index into entries, and back: they replace those that made it when a ledger is compacted."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import chain

import msgspec

from oncegate.core.entries.kinds import NamespaceSet, SnapshotPiece
from oncegate.index.audit_trail import AuditSnapshot, AuditTrail
from oncegate.index.batches import BatchIndex
from oncegate.index.claims.batch_scopes import ScopesSnapshot
from oncegate.index.claims.index import ClaimIndex
from oncegate.index.id_sets import IdSetIndex, IdSetsSnapshot
from oncegate.index.lanes import LaneIndex, LanesSnapshot
from oncegate.index.lsm.archives import ArchivesSnapshot
from oncegate.index.producers.index import ProducerIndex
from oncegate.index.snapshot.batches import KINDS as BATCHES_KINDS
from oncegate.index.snapshot.batches import BatchesReader
from oncegate.index.snapshot.batches import snapshot_steps as batches_steps
from oncegate.index.snapshot.claims_reader import ClaimsReader, restore_results, restore_writers
from oncegate.index.snapshot.claims_writer import WritersSnapshot
from oncegate.index.snapshot.claims_writer import begin as begin_claims
from oncegate.index.snapshot.producers import KINDS as PRODUCERS_KINDS
from oncegate.index.snapshot.producers import ProducersReader, ProducerWriters, producer_writers
from oncegate.index.snapshot.producers import snapshot_steps as producers_steps
from oncegate.index.snapshot.topics import KINDS as TOPICS_KINDS
from oncegate.index.snapshot.topics import TopicsReader
from oncegate.index.snapshot.topics import snapshot_steps as topics_steps
from oncegate.index.source_ids import SourceIdsSnapshot
from oncegate.index.source_offsets import SourceOffsets, SourceOffsetsSnapshot
from oncegate.index.spilled_rows import SpilledSnapshot
from oncegate.index.topics import TopicIndex

# A piece is one entry: far below what a frame may hold, large enough that there are few.
PIECE_BYTES = 16 << 20
# The namespace's settings, and the ledger's clock at its last retirements.
SettingsSnapshot = tuple[NamespaceSet, tuple[int, ...]]
_CLAIMS, _SETTINGS, _END = "claims/", "settings", "end"
_SCOPES, _EVICTED, _RESULTS, _SOURCE_OFFSETS = "scopes", "sealed", "results", "source_offsets"
_LANES, _AUDIT, _SPILLED, _WRITERS = "lanes", "audit_trail", "spilled_rows", "writers"
_PRODUCER_WRITERS, _ID_SETS, _SOURCE_IDS = "producer_writers", "id_sets", "source_ids"
# What claims were completed with, and who made them, by row: beside the claims' own pieces, so that older builds pass
# it over, as they do with source offsets.
ResultsSnapshot = list[tuple[int, bytes]]


def snapshot_steps(
    claims: ClaimIndex,
    batches: BatchIndex,
    topics: TopicIndex,
    producers: ProducerIndex,
    source_offsets: SourceOffsets,
    lanes: LaneIndex,
    audit_trail: AuditTrail,
    id_sets: IdSetIndex,
    settings: SettingsSnapshot,
) -> Generator[list[SnapshotPiece], None, None]:
    """Makes pieces of everything that is known at the call, what waits for the ledger included.

    `part` counts the pieces that still come. In steps of a few milliseconds, between which anything may change: lists
    of names, and of what else there is, are copied at once, and all of the archives, each of which is a MiB of ids.

    A step raises SnapshotStopped when the claims could not be gone through to the end. To be gone through, or closed.
    """
    steps, results, writers = begin_claims(claims.store)
    others = (
        (_EVICTED, msgspec.msgpack.encode(claims.archives.snapshot())),
        (_SETTINGS, msgspec.msgpack.encode(settings)),
        (_RESULTS, msgspec.msgpack.encode(results)),
        (_WRITERS, msgspec.msgpack.encode(writers)),
        (_PRODUCER_WRITERS, msgspec.msgpack.encode(producer_writers(producers.store))),
        (_SOURCE_OFFSETS, msgspec.msgpack.encode(source_offsets.snapshot())),
        (_AUDIT, msgspec.msgpack.encode(audit_trail.snapshot())),
        (_SPILLED, msgspec.msgpack.encode(audit_trail.spilled.snapshot())),
        (_LANES, msgspec.msgpack.encode(lanes.snapshot())),
        (_ID_SETS, msgspec.msgpack.encode(id_sets.snapshot())),
        (_SOURCE_IDS, msgspec.msgpack.encode(producers.source_ids.snapshot())),
    )
    scopes = ([(_SCOPES, msgspec.msgpack.encode(some))] for some in claims.scopes.snapshot())
    saved = batches_steps(batches), topics_steps(topics), producers_steps(producers.store), scopes
    return _steps(steps, saved, others)


def _steps(
    claims: Generator[list[tuple[str, bytes]], None, None],
    saved: Sequence[Generator[list[tuple[str, bytes]], None, None]],
    others: Iterable[tuple[str, bytes]],
) -> Generator[list[SnapshotPiece], None, None]:
    # Closed whatever the end, for an error's traceback would keep them, and with them the index.
    with ExitStack() as closed:
        for steps in (claims, *saved):
            closed.enter_context(closing(steps))
        for ready in claims:
            yield [piece for name, data in ready for piece in _pieces(_CLAIMS + name, data)]
        for ready in chain(*saved):
            yield [piece for name, data in ready for piece in _pieces(name, data)]
    yield [*(piece for name, data in others for piece in _pieces(name, data)), SnapshotPiece(_END, 0, b"")]


def _pieces(what: str, data: bytes) -> Iterator[SnapshotPiece]:
    parts = max(1, -(-len(data) // PIECE_BYTES))
    for number in range(parts):
        yield SnapshotPiece(what, parts - 1 - number, data[number * PIECE_BYTES : (number + 1) * PIECE_BYTES])


class SnapshotReader:
    """Restores a shard's index from its pieces, as they are read; ValueError when they do not belong together."""

    def __init__(
        self,
        claims: ClaimIndex,
        batches: BatchIndex,
        topics: TopicIndex,
        producers: ProducerIndex,
        source_offsets: SourceOffsets,
        lanes: LaneIndex,
        audit_trail: AuditTrail,
        id_sets: IdSetIndex,
    ) -> None:
        self._claims, self._producers = claims, ProducersReader(producers.store)
        self._source_ids = producers.source_ids
        self._source_offsets, self._lanes, self._audit_trail = source_offsets, lanes, audit_trail
        self._id_sets = id_sets
        self._scopes: ScopesSnapshot = []
        self._batches, self._topics = BatchesReader(batches), TopicsReader(topics)
        self._whole: dict[str, bytes] = {}
        self._begun: list[SnapshotPiece] = []
        self._reader: ClaimsReader | None = None

    def take(self, piece: SnapshotPiece) -> SettingsSnapshot | None:
        """Takes one piece in; returns the settings and buckets once everything is there and restored."""
        if piece.what == _END:
            return self._restore()
        if self._begun and (self._begun[-1].what, self._begun[-1].part) != (piece.what, piece.part + 1):
            raise ValueError(f"piece {piece.part} of {piece.what} does not follow {self._begun[-1].what}")
        self._begun.append(piece)
        if piece.part == 0:
            data = b"".join(one.data for one in self._begun)
            self._begun = []
            self._take(piece.what, data)
        return None

    def _take(self, what: str, data: bytes) -> None:
        """Claims, names and ranges go into their index as they come: the next are read meanwhile, never all held."""
        kind = what.partition("/")[0]
        if what.startswith(_CLAIMS):
            self._reader = self._reader or ClaimsReader(self._claims.store)
            self._reader.take(what.removeprefix(_CLAIMS), data)
        elif kind in BATCHES_KINDS:
            self._batches.take(what, data)
        elif kind in TOPICS_KINDS:
            self._topics.take(what, data)
        elif kind in PRODUCERS_KINDS:
            self._producers.take(what, data)
        elif kind == _SCOPES:
            self._scopes += msgspec.msgpack.decode(data, type=ScopesSnapshot)
        else:
            self._whole[what] = data

    def _restore(self) -> SettingsSnapshot:
        try:
            results = None
            if _RESULTS in self._whole:
                results = msgspec.msgpack.decode(self._whole[_RESULTS], type=ResultsSnapshot)
            settings: SettingsSnapshot = msgspec.msgpack.decode(self._whole[_SETTINGS], type=SettingsSnapshot)
            if _SOURCE_OFFSETS in self._whole:
                saved = msgspec.msgpack.decode(self._whole[_SOURCE_OFFSETS], type=SourceOffsetsSnapshot)
                self._source_offsets.restore(saved)
            if _AUDIT in self._whole:
                self._audit_trail.restore(msgspec.msgpack.decode(self._whole[_AUDIT], type=AuditSnapshot))
            if _SPILLED in self._whole:
                spilled = msgspec.msgpack.decode(self._whole[_SPILLED], type=SpilledSnapshot)
                self._audit_trail.spilled.restore(spilled)
            if _LANES in self._whole:
                self._lanes.restore(msgspec.msgpack.decode(self._whole[_LANES], type=LanesSnapshot))
            writers: WritersSnapshot = b"", b"", {}
            if _WRITERS in self._whole:
                writers = msgspec.msgpack.decode(self._whole[_WRITERS], type=WritersSnapshot)
            of_producers: ProducerWriters = []
            if _PRODUCER_WRITERS in self._whole:
                of_producers = msgspec.msgpack.decode(self._whole[_PRODUCER_WRITERS], type=ProducerWriters)
            if _ID_SETS in self._whole:
                self._id_sets.restore(msgspec.msgpack.decode(self._whole[_ID_SETS], type=IdSetsSnapshot))
            if _SOURCE_IDS in self._whole:
                self._source_ids.restore(msgspec.msgpack.decode(self._whole[_SOURCE_IDS], type=SourceIdsSnapshot))
            if _EVICTED in self._whole:
                self._claims.archives.restore(msgspec.msgpack.decode(self._whole[_EVICTED], type=ArchivesSnapshot))
        except (KeyError, msgspec.MsgspecError) as error:
            raise ValueError(f"the saved index cannot be read: {error}") from error
        if self._reader is None:
            raise ValueError("the saved index has no claims")
        for reader in (self._reader, self._batches, self._topics, self._producers):
            reader.finish()
        restore_results(self._claims.store, results)
        restore_writers(self._claims.store, writers)
        self._producers.restore_writers(of_producers)
        self._claims.scopes.restore(self._scopes)
        self._whole, self._reader, self._scopes = {}, None, []
        return settings
