"""Keeps the settings of a namespace, and when its ids retire: a pure function of the ledger's entries."""

from collections.abc import Callable
from dataclasses import replace

from oncegate.core.claims import LeaseExpiry
from oncegate.core.entries.kinds import Entry, NamespaceSet, Retired
from oncegate.index.part import Undo

# Ids retire by buckets of a 24th of the horizon, so at most 8 % of it late; each bucket is one short entry.
BUCKETS_PER_HORIZON = 24
BUCKET_MS_MIN = 1_000
# A restart loses the count of the bucket that is not full: a process that is started daily still counts 23 hours.
BUCKET_MS_MAX = 3_600_000
# The namespace's settings, and the ledger's clock at its last retirements.
SettingsSnapshot = tuple[NamespaceSet, tuple[int, ...]]


def bucket_ms(horizon_ms: int) -> int:
    """Returns the length of a bucket of ids that retire together, rounded up: each is known for the horizon at
    least."""
    return min(max(BUCKET_MS_MIN, -(-horizon_ms // BUCKETS_PER_HORIZON)), BUCKET_MS_MAX)


def buckets_kept(horizon_ms: int) -> int:
    """Computes how many buckets make the horizon."""
    return max(BUCKETS_PER_HORIZON, -(-horizon_ms // bucket_ms(horizon_ms)))


class NamespaceSettings:
    """Holds the settings in force and the position of their entry.

    buckets: the ledger's clock at the last retirements, oldest first, as many as the horizon has.
    let_expire: called with `lease_expiry` whenever it may have changed.
    """

    def __init__(self, let_expire: Callable[[LeaseExpiry], None]) -> None:
        self.in_force = NamespaceSet(0, 1, 0)
        self.position = 0
        self.buckets: tuple[int, ...] = ()
        self._let_expire = let_expire

    def apply(self, position: int, entry: Entry, _now_ms: int = 0) -> Undo | None:
        """Applies one entry; returns what undoes it, or None. Buckets of another length add up to nothing."""
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
        """Returns the settings and the buckets."""
        return self.in_force, self.buckets

    def restore(self, saved: SettingsSnapshot) -> None:
        """Puts saved settings in force."""
        self.in_force, self.buckets = saved
        self._obey()

    def _obey(self) -> None:
        """Applies the `lease_expiry` in force."""
        self._let_expire(LeaseExpiry(self.in_force.lease_expiry))


def absent() -> None:
    """Raises ValueError: each version saves the settings."""
    raise ValueError("the saved index has no settings")
