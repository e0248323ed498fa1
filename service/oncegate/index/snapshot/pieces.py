"""The whole index as entries, and back: what stands in a collected ledger in place of those that made it."""

from collections.abc import Iterable, Iterator

import msgspec

from oncegate.core.entries.kinds import NamespaceSet, SnapshotPiece
from oncegate.index.batches import BatchesSnapshot, BatchIndex
from oncegate.index.claims.batch_scopes import ScopesSnapshot
from oncegate.index.claims.index import ClaimIndex
from oncegate.index.lsm.archives import ArchivesSnapshot
from oncegate.index.producers.index import ProducerIndex
from oncegate.index.snapshot.claims_reader import ClaimsReader
from oncegate.index.snapshot.producers import ProducersSnapshot
from oncegate.index.snapshot.producers import load as load_producers
from oncegate.index.snapshot.producers import save as save_producers
from oncegate.index.topics import TopicIndex, TopicsSnapshot

# A piece is one entry: far below what a frame may hold, large enough that there are few.
PIECE_BYTES = 16 << 20
# The namespace's settings, and the ledger's clock at its last retirements.
SettingsSnapshot = tuple[NamespaceSet, tuple[int, ...]]
_CLAIMS, _BATCHES, _TOPICS, _SETTINGS, _END = "claims/", "batches", "topics", "settings", "end"
_PRODUCERS, _SCOPES, _EVICTED = "producers", "scopes", "sealed"


def saving(
    claims: ClaimIndex,
    batches: BatchIndex,
    topics: TopicIndex,
    producers: ProducerIndex,
    settings: NamespaceSet,
    buckets: tuple[int, ...],
) -> Iterator[list[SnapshotPiece]]:
    """Everything that is known at the call, what waits for the ledger included; `part` counts the pieces that still
    come. In steps of a few milliseconds, between which anything may change: all but the claims is copied at once.

    A step raises SnapshotStopped when the claims could not be saved to the end.
    """
    others = (
        (_BATCHES, msgspec.msgpack.encode(batches.save())),
        (_TOPICS, msgspec.msgpack.encode(topics.save())),
        (_PRODUCERS, msgspec.msgpack.encode(save_producers(producers))),
        (_SCOPES, msgspec.msgpack.encode(claims.scopes.save())),
        (_EVICTED, msgspec.msgpack.encode(claims.sealed.save())),
        (_SETTINGS, msgspec.msgpack.encode((settings, buckets))),
    )
    return _steps(claims.saving(), others)


def _steps(
    claims: Iterator[list[tuple[str, bytes]]], others: Iterable[tuple[str, bytes]]
) -> Iterator[list[SnapshotPiece]]:
    for ready in claims:
        yield [piece for name, data in ready for piece in _pieces(_CLAIMS + name, data)]
    yield [*(piece for name, data in others for piece in _pieces(name, data)), SnapshotPiece(_END, 0, b"")]


def _pieces(what: str, data: bytes) -> Iterator[SnapshotPiece]:
    parts = max(1, -(-len(data) // PIECE_BYTES))
    for number in range(parts):
        yield SnapshotPiece(what, parts - 1 - number, data[number * PIECE_BYTES : (number + 1) * PIECE_BYTES])


_NONE = msgspec.msgpack.encode([])


class SnapshotReader:
    """Puts the pieces together as they are read; ValueError when they do not belong together."""

    def __init__(self, claims: ClaimIndex, batches: BatchIndex, topics: TopicIndex, producers: ProducerIndex) -> None:
        self._claims, self._batches, self._topics, self._producers = claims, batches, topics, producers
        self._whole: dict[str, bytes] = {}
        self._begun: list[SnapshotPiece] = []
        self._loader: ClaimsReader | None = None

    def take(self, piece: SnapshotPiece) -> SettingsSnapshot | None:
        """One piece; the settings and buckets once everything is there and loaded."""
        if piece.what == _END:
            return self._load()
        if self._begun and (self._begun[-1].what, self._begun[-1].part) != (piece.what, piece.part + 1):
            raise ValueError(f"piece {piece.part} of {piece.what} does not follow {self._begun[-1].what}")
        self._begun.append(piece)
        if piece.part == 0:
            data = b"".join(one.data for one in self._begun)
            self._begun = []
            self._take(piece.what, data)
        return None

    def _take(self, what: str, data: bytes) -> None:
        """Claims go into their index as they come: the next ones are read meanwhile, and all of them never held."""
        if what.startswith(_CLAIMS):
            self._loader = self._loader or self._claims.loading()
            self._loader.take(what.removeprefix(_CLAIMS), data)
        else:
            self._whole[what] = data

    def _load(self) -> SettingsSnapshot:
        try:
            self._batches.load(msgspec.msgpack.decode(self._whole[_BATCHES], type=BatchesSnapshot))
            self._topics.load(msgspec.msgpack.decode(self._whole[_TOPICS], type=TopicsSnapshot))
            # What was saved before there were producers has none.
            if _PRODUCERS in self._whole:
                load_producers(self._producers, msgspec.msgpack.decode(self._whole[_PRODUCERS], type=ProducersSnapshot))
            scopes = msgspec.msgpack.decode(self._whole.get(_SCOPES, _NONE), type=ScopesSnapshot)
            settings: SettingsSnapshot = msgspec.msgpack.decode(self._whole[_SETTINGS], type=SettingsSnapshot)
            if _EVICTED in self._whole:
                self._claims.sealed.load(msgspec.msgpack.decode(self._whole[_EVICTED], type=ArchivesSnapshot))
        except (KeyError, msgspec.MsgspecError) as error:
            raise ValueError(f"the saved index cannot be read: {error}") from error
        if self._loader is None:
            raise ValueError("the saved index has no claims")
        self._loader.finish()
        self._claims.scopes.load(scopes)
        self._whole, self._loader = {}, None
        return settings
