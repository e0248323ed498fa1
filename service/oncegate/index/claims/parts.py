"""Lists the snapshot parts of claims: rows and slots, batch scopes, archives, results, writers."""

from contextlib import closing
from functools import partial

import msgspec

from oncegate.index.claims.batch_scopes import BatchScopes, ScopesSnapshot
from oncegate.index.claims.snapshot import ClaimsReader, WritersSnapshot, begin, restore_results, restore_writers
from oncegate.index.claims.store import ClaimStore
from oncegate.index.lsm.archives import ArchivesSnapshot
from oncegate.index.part import IndexPart, Steps, whole

_PREFIX = "claims/"
ResultsSnapshot = list[tuple[int, bytes]]


class ClaimParts:
    """The snapshot parts of claims; `index.claims.apply` applies entries to all of them.

    results, writers: by saved row number, separate from the claims' own pieces, so that older versions ignore them. A
    snapshot of them belongs to the snapshot of `claims` that was begun last.
    """

    def __init__(self, store: ClaimStore) -> None:
        self._store = store
        self._results: ResultsSnapshot = []
        self._writers: WritersSnapshot = b"", b"", {}
        archives, absent = store.archives, partial(restore_results, store, None)
        self.claims = IndexPart(("claims",), self._begin, partial(_PrefixedReader, store), count=self._count)
        self.scopes = IndexPart(("scopes",), partial(_scopes_steps, store.scopes), partial(_ScopesReader, store.scopes))
        self.archives = whole("sealed", ArchivesSnapshot, archives.snapshot, archives.restore)
        load_results, load_writers = partial(restore_results, store), partial(restore_writers, store)
        self.results = whole("results", ResultsSnapshot, lambda: self._results, load_results, absent=absent)
        self.writers = whole("writers", WritersSnapshot, lambda: self._writers, load_writers)

    def _begin(self) -> Steps:
        steps, self._results, self._writers = begin(self._store)
        return _prefixed(steps)

    def _count(self) -> dict[str, int]:
        return {"ids": self._store.known_ids}


def _prefixed(steps: Steps) -> Steps:
    with closing(steps):
        for pieces in steps:
            yield [(_PREFIX + name, data) for name, data in pieces]


class _PrefixedReader(ClaimsReader):
    """Restores claims from pieces; the prefix of a piece's name is its kind."""

    def take(self, name: str, data: bytes) -> None:
        super().take(name.removeprefix(_PREFIX), data)


def _scopes_steps(scopes: BatchScopes) -> Steps:
    return ([("scopes", msgspec.msgpack.encode(batches))] for batches in scopes.snapshot())


class _ScopesReader:
    """Restores batch scopes after the rows."""

    def __init__(self, scopes: BatchScopes) -> None:
        self._scopes = scopes
        self._saved: ScopesSnapshot = []

    def take(self, _what: str, data: bytes) -> None:
        self._saved += msgspec.msgpack.decode(data, type=ScopesSnapshot)

    def finish(self) -> None:
        self._scopes.restore(self._saved)
