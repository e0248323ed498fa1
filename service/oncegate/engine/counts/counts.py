"""Counts what one process answers for a shard, by the table of `engine.counters`."""

from collections.abc import Sequence

import numpy as np

from oncegate.arraytypes import U8
from oncegate.core.causes import Cause
from oncegate.core.producers import ProducerAction as SequenceAction
from oncegate.core.verdicts import Flag
from oncegate.engine.counters import BY_CAUSE, COUNTERS, DUPLICATES, OWN_DUPLICATES, CounterRow
from oncegate.engine.counts.clients import CLIENT
from oncegate.engine.counts.duplicate_log import DuplicateLog
from oncegate.engine.counts.histogram import Histogram
from oncegate.index.claims.firsts import Duplicates
from oncegate.index.shard import ShardIndex
from oncegate.index.table.arrays import SAME_INDEX

# Upper bounds, in ms: an append is a sync of a disk, or a transaction of brokers with its deadlines.
APPEND_MS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_000, 2_000, 5_000, 10_000, 30_000)
# Upper bounds: one append has at most some hundred requests in flight.
CHANGES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024)
# Upper bounds, in ms: a claim waits for others, for the append before its own, and for its own.
CLAIM_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000)
# Upper bounds, in ms, of a duplicate's age: from a retry at once to horizons that somebody may think of.
_S, _H, _D = 1_000, 3_600_000, 86_400_000
AGE_MS = (_S, 10 * _S, 60 * _S, 600 * _S, _H, 6 * _H, _D, 3 * _D, 7 * _D, 14 * _D, 30 * _D, 90 * _D)

_OWN_BIT = int(Flag.OWN)
_BY_ACTION = {action: row.name for row in COUNTERS for action in row.actions}
_BY_SEQUENCE_ACTION = {action: row.name for row in COUNTERS for action in row.sequence_actions}
# Up to so many answers a list costs less than an array's functions do.
_FEW = 32


class Counts:
    """Counts what one process answers, by `COUNTERS`, from 0; also over several ownerships of one ledger.

    appends: how long each durable append of the ledger took, in ms; changes: of how many changes it was. claims: how
    long each answered claim waited, from its ids to what it rests on. ages: how old the firsts of duplicates were.
    log: where duplicates are told one by one; None: nowhere.
    """

    def __init__(self, log: DuplicateLog | None = None) -> None:
        self._log = log
        self._counts = {row.name: 0 for row in COUNTERS if row.read is None}
        self._highest: dict[str, int] = {}
        self.appends, self.claims, self.ages = Histogram(APPEND_MS), Histogram(CLAIM_MS), Histogram(AGE_MS)
        self.changes = Histogram(CHANGES)

    @property
    def seen_max(self) -> int:
        """Tells how many duplicates of one request are to be described one by one."""
        return 0 if self._log is None else self._log.room

    def add(self, row: CounterRow, count: int = 1) -> None:
        """Counts so many more of `row`; KeyError for one that is read of the index."""
        self._counts[row.name] += count

    def add_cause(self, cause: Cause, count: int) -> None:
        """Counts so many rows, or sequences, that came again for this cause."""
        self._add_causes([count if one is cause else 0 for one in Cause])
        self.add_brought(count)

    def add_brought(self, count: int) -> None:
        """Counts so many ids, sequences or rows for the client whose request it is."""
        if (client := CLIENT.get()) is not None:
            client.ids += count

    def _add_causes(self, by_cause: Sequence[int]) -> None:
        """Counts duplicates by cause, for the namespace and for the client whose request it is."""
        for row, count in zip(BY_CAUSE, by_cause, strict=True):
            self._counts[row.name] += count
        if (client := CLIENT.get()) is not None:
            client.add(by_cause)

    def add_ids(self, actions: U8, verdicts: U8, duplicates: Duplicates | None) -> None:
        """Counts one request's ids: what was done about each (`core.claims.Action`, SAME_INDEX), and its verdict; and
        what is known of those that are duplicates, None: none is."""
        if (client := CLIENT.get()) is not None:
            client.ids += len(actions)
        if same := actions.tobytes().count(SAME_INDEX):
            self._add_causes([same if one is Cause.UPSTREAM else 0 for one in Cause])
        if duplicates is not None:
            self._add_causes(np.bincount(duplicates.causes, minlength=len(Cause)).tolist())
            self.ages.add(self.ages.tally(duplicates.ages_ms))
            if self._log is not None:
                self._log.add(duplicates.seen, len(duplicates.causes))
        if len(actions) > _FEW:
            self._add(_BY_ACTION, actions, verdicts)
            return
        counts = self._counts
        for action, verdict in zip(actions.tolist(), verdicts.tolist(), strict=True):
            counts[OWN_DUPLICATES.name if verdict & _OWN_BIT else _BY_ACTION[action]] += 1

    def add_sequences(self, actions: U8, verdicts: U8, cause: Cause = Cause.TASK_RETRY) -> None:
        """Counts one request's sequences: what was done about each (`core.producers.Action`), its verdict, and why
        those came again that other attempts wrote."""
        self._add(_BY_SEQUENCE_ACTION, actions, verdicts)
        own, by_cause = int(np.count_nonzero(verdicts & Flag.OWN)), [0] * len(Cause)
        by_cause[Cause.CLIENT_RETRY] = own
        by_cause[cause] = int(np.count_nonzero(actions == SequenceAction.DUPLICATE)) - own
        self._add_causes(by_cause)
        self.add_brought(len(actions))

    def _add(self, names: dict[int, str], actions: U8, verdicts: U8) -> None:
        by_action = np.bincount(actions, minlength=256)
        for action, name in names.items():
            self._counts[name] += int(by_action[action])
        own = int(np.count_nonzero(verdicts & Flag.OWN))
        self._counts[DUPLICATES.name] -= own
        self._counts[OWN_DUPLICATES.name] += own

    def all(self, index: ShardIndex) -> dict[str, int]:
        """Returns every counter of the table by its name, in the table's order."""
        return {row.name: self._counts[row.name] if row.read is None else row.read(index) for row in COUNTERS}

    def shown(self, row: CounterRow, index: ShardIndex | None) -> int | None:
        """Returns a counter for whoever computes rates of it; None: it is read of the index, and there is none.

        What grows is never told less than before: the index takes back what a full disk refused.
        """
        if row.read is None:
            return self._counts[row.name]
        if index is None:
            return None
        value = row.read(index)
        if row.grows:
            value = self._highest[row.name] = max(value, self._highest.get(row.name, 0))
        return value
