"""Holds a namespace's settings, retirement times of ids, forgotten dedup scopes, and ids of external topics.

Each part is a pure function of the ledger's entries.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from oncegate.core.claims import LeaseExpiry
from oncegate.core.entries.kinds import Entry, IdentifiedBy, NamespaceSet, Retired, SetForgotten, SetWritten
from oncegate.index.part import Undo

# Ids retire by buckets of a 24th of their retention, so at most 8 % late; each bucket is one short entry.
BUCKETS_PER_HORIZON = 24
BUCKET_MS_MIN = 1_000
# A restart loses the partial bucket: a process that is restarted daily still counts 23 hours of it.
BUCKET_MS_MAX = 3_600_000
# The namespace's settings, and the ledger's clock at its last retirements.
SettingsSnapshot = tuple[NamespaceSet, tuple[int, ...]]


def bucket_ms(horizon_ms: int) -> int:
    """Returns the length of an expiry bucket, rounded up so that every id lives at least the whole retention."""
    return min(max(BUCKET_MS_MIN, -(-horizon_ms // BUCKETS_PER_HORIZON)), BUCKET_MS_MAX)


def buckets_kept(horizon_ms: int) -> int:
    """Returns the number of buckets in the retention."""
    return max(BUCKETS_PER_HORIZON, -(-horizon_ms // bucket_ms(horizon_ms)))


class NamespaceSettings:
    """The current settings, and the position of their entry.

    buckets: the ledger's clock at the last retirements, oldest first, as many as the retention has.
    let_expire: called with `lease_expiry` whenever it may have changed.
    """

    def __init__(self, let_expire: Callable[[LeaseExpiry], None]) -> None:
        self.in_force = NamespaceSet(0, 1, 0)
        self.position = 0
        self.buckets: tuple[int, ...] = ()
        self._let_expire = let_expire

    def apply(self, position: int, entry: Entry, _now_ms: int = 0) -> Undo | None:
        """Applies one entry. Returns its undo, or None. A change of the bucket length discards the counted buckets."""
        if not isinstance(entry, NamespaceSet | Retired):
            return None
        before = self.in_force, self.position, self.buckets
        if isinstance(entry, Retired):
            self.buckets = (*self.buckets, entry.wall_ms)[-buckets_kept(self.in_force.horizon_ms) :]
            known_from_ms = max(self.in_force.known_from_ms, entry.before_wall_ms)
            self.in_force = replace(self.in_force, known_from_ms=known_from_ms)
        else:
            self.buckets = self.buckets if entry.horizon_ms == self.in_force.horizon_ms else ()
            self.in_force, self.position = entry, position
            self._obey()

        def undo() -> None:
            self.in_force, self.position, self.buckets = before
            self._obey()

        return undo

    def snapshot(self) -> SettingsSnapshot:
        return self.in_force, self.buckets

    def restore(self, saved: SettingsSnapshot) -> None:
        self.in_force, self.buckets = saved
        self._obey()

    def _obey(self) -> None:
        self._let_expire(LeaseExpiry(self.in_force.lease_expiry))


def absent() -> None:
    """Raises ValueError, since every snapshot must contain the settings."""
    raise ValueError("the saved index has no settings")


class IdSetsSnapshot(NamedTuple):
    """A snapshot of forgotten dedup scopes and of external topics.

    forgotten: by scope, how often it was forgotten, and the token that did it last.
    written: (scope, topic, topic id).
    others: the same for rows identified otherwise: (how, name, topic, topic id).
    """

    forgotten: dict[str, tuple[int, bytes]]
    written: list[tuple[str, str, bytes]]
    others: tuple[tuple[int, str, str, bytes], ...] = ()


class IdSetIndex:
    """The dedup scopes of one shard that were forgotten, and the ids of external topics."""

    def __init__(self) -> None:
        self._forgotten: dict[str, tuple[int, bytes]] = {}
        self._topics: dict[tuple[int, str], dict[str, bytes]] = {}

    def generation(self, id_set: str) -> int:
        """Returns how often a dedup scope was forgotten as a whole."""
        return self._forgotten.get(id_set, (0, b""))[0]

    @property
    def forgotten_sets(self) -> list[str]:
        """Returns the names of the dedup scopes that were forgotten as a whole, sorted."""
        return sorted(self._forgotten)

    def forgotten_by(self, id_set: str) -> bytes:
        """Returns the token of the last request to forget a dedup scope; empty if it was never forgotten."""
        return self._forgotten.get(id_set, (0, b""))[1]

    def topic_id(self, identified_by: IdentifiedBy, name: str, topic: str) -> bytes | None:
        """Returns the id that a topic had when rows of a dedup scope, producer or app were first written to it; None if
        none were.
        """
        return self._topics.get((identified_by, name), {}).get(topic)

    def apply(self, position: int, entry: Entry, _now_ms: int = 0) -> Undo | None:
        match entry:
            case SetForgotten(id_set=id_set):
                return self._forget(id_set, entry.token)
            case SetWritten(id_set=name):
                return self._write((entry.identified_by, name), entry.topic, entry.topic_id)
        return None

    def _forget(self, id_set: str, token: bytes) -> Undo:
        before, topics = self._forgotten.get(id_set), self._topics.pop((IdentifiedBy.IDS, id_set), None)
        self._forgotten[id_set] = self.generation(id_set) + 1, token

        def undo() -> None:
            if before is None:
                del self._forgotten[id_set]
            else:
                self._forgotten[id_set] = before
            if topics is not None:
                self._topics[IdentifiedBy.IDS, id_set] = topics

        return undo

    def _write(self, key: tuple[int, str], topic: str, topic_id: bytes) -> Undo:
        topics = self._topics.setdefault(key, {})
        before = topics.get(topic)
        topics[topic] = topic_id

        def undo() -> None:
            if before is None:
                del topics[topic]
            else:
                topics[topic] = before

        return undo

    def snapshot(self) -> IdSetsSnapshot:
        every = [(*key, topic, topic_id) for key, topics in self._topics.items() for topic, topic_id in topics.items()]
        written = [(name, topic, topic_id) for by, name, topic, topic_id in every if by == IdentifiedBy.IDS]
        return IdSetsSnapshot(dict(self._forgotten), written, tuple(one for one in every if one[0] != IdentifiedBy.IDS))

    def restore(self, saved: IdSetsSnapshot) -> None:
        self._forgotten, self._topics = dict(saved.forgotten), {}
        for by, name, topic, topic_id in (*((IdentifiedBy.IDS, *one) for one in saved.written), *saved.others):
            self._topics.setdefault((by, name), {})[topic] = topic_id
