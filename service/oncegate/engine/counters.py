"""Lists what a shard counts in one table, from which counting, the API's answer and its documents derive.

Two kinds of rows. A row with `read` is read of the index when somebody asks: most of these stand in the ledger, and a
restart knows them. The others are counted by `Counts` as answers are given, from 0 when the process starts: by what was
done about an id (`actions`) or a sequence (`sequence_actions`), or by a use case, which names the row.

A new counter is a row here, and where a use case counts it, one `Counts.add` there.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from oncegate.arraytypes import U8
from oncegate.core.claims import Action
from oncegate.core.producers import Action as SequenceAction
from oncegate.core.verdicts import Flag
from oncegate.index.shard import ShardIndex
from oncegate.index.table.arrays import SAME_INDEX


@dataclass(frozen=True)
class CounterRow:
    """Says what one counter counts, in which unit, and by what; `labels`: what its values are told apart by."""

    name: str
    unit: str
    meaning: str
    actions: tuple[int, ...] = ()
    sequence_actions: tuple[int, ...] = ()
    read: Callable[[ShardIndex], int] | None = None
    labels: tuple[str, ...] = ("namespace",)


OWN_DUPLICATES = CounterRow(
    "own_duplicates", "ids", "answered DUPLICATE with `own`: the attempt that asks had written it itself"
)
STALE = CounterRow(
    "stale", "ids", "answered STALE: their batch or sequence was acked", sequence_actions=(SequenceAction.STALE,)
)
COMPLETED = CounterRow("completed", "claims", "completed")
RELEASED = CounterRow("released", "claims", "released")
PRODUCED_ROWS = CounterRow("produced_rows", "rows", "written by produce")
STAGED_ROWS = CounterRow("staged_rows", "rows", "staged, whatever became of them")
COMMITTED_ROWS = CounterRow("committed_rows", "rows", "published by commits")
DUPLICATE_COMMITS = CounterRow("duplicate_commits", "commits", "answered DUPLICATE: the name was committed before")

COUNTERS: tuple[CounterRow, ...] = (
    CounterRow(
        "granted",
        "ids",
        "granted for the first time, or taken over",
        (Action.GRANT, Action.TAKE_OVER),
        (SequenceAction.GRANT, SequenceAction.TAKE_OVER),
    ),
    CounterRow(
        "granted_again",
        "ids",
        "granted again to a repeat of the same request",
        (Action.GRANT_AGAIN,),
        (SequenceAction.GRANT_AGAIN,),
    ),
    CounterRow(
        "duplicates",
        "ids",
        "answered DUPLICATE, but for own_duplicates",
        (Action.DUPLICATE,),
        (SequenceAction.DUPLICATE,),
    ),
    OWN_DUPLICATES,
    CounterRow("conflicts", "ids", "answered CONFLICT: written with another payload", (Action.CONFLICT,)),
    CounterRow("busy", "ids", "answered BUSY: another holds them", (Action.BUSY,), (SequenceAction.BUSY,)),
    CounterRow(
        "same",
        "ids",
        "answered SAME: the request, or the attempt, names them twice",
        (Action.SAME, SAME_INDEX),
        (SequenceAction.SAME,),
    ),
    STALE,
    COMPLETED,
    RELEASED,
    PRODUCED_ROWS,
    STAGED_ROWS,
    COMMITTED_ROWS,
    DUPLICATE_COMMITS,
    CounterRow(
        "takeovers",
        "ids",
        "granted though an earlier holder may have written them, since the ledger was made",
        read=lambda index: index.claims.takeovers + index.producers.takeovers,
    ),
    CounterRow(
        "forgotten_early",
        "claims",
        "settled claims forgotten before settled_claim_ms, for memory was short",
        read=lambda index: index.claims.forgotten_early,
    ),
    CounterRow(
        "results_bytes",
        "bytes",
        "of memory that results of completed claims take, at this moment",
        read=lambda index: index.claims.results_bytes,
    ),
    CounterRow(
        "results_forgotten",
        "results",
        "forgotten for memory, while their ids are known",
        read=lambda index: index.claims.results_forgotten,
    ),
    CounterRow("open_claims", "claims", "open at this moment", read=lambda index: index.claims.open_claims),
    CounterRow(
        "ids",
        "ids",
        "known at this moment: held, done or taken, since the ledger was made",
        read=lambda index: index.claims.known_ids,
    ),
    CounterRow(
        "cold_ids",
        "ids",
        "of these, those that left memory, since the ledger was made",
        read=lambda index: index.claims.archives.ids,
    ),
    CounterRow(
        "cold_asked",
        "ids",
        "asked for in the runs of cold ids",
        read=lambda index: index.claims.cold.looks.asked,
    ),
    CounterRow(
        "cold_looked_up",
        "look-ups",
        "made in runs for these, where a filter did not skip one",
        read=lambda index: index.claims.cold.looks.looked_up,
    ),
    CounterRow(
        "cold_in_vain",
        "look-ups",
        "of these, for ids that are in no run",
        read=lambda index: index.claims.cold.looks.in_vain,
    ),
    CounterRow(
        "cold_fpr_ppm",
        "ids in a million",
        "of those in no run, that filters let pass",
        read=lambda index: round(1_000_000 * index.claims.cold.looks.false_positive_rate),
    ),
    CounterRow(
        "cold_runs", "runs", "that cold ids lie in, at this moment", read=lambda index: len(index.claims.cold.runs)
    ),
    CounterRow(
        "cold_bytes",
        "bytes",
        "of memory that their filters and fences take",
        read=lambda index: index.claims.cold.size_bytes,
    ),
    CounterRow(
        "stage_bytes",
        "bytes",
        "staged and not committed, at this moment",
        read=lambda index: index.batches.stage_bytes,
    ),
    CounterRow(
        "suppressed_rows",
        "rows",
        "brought to commits and not published, since the ledger was made",
        read=lambda index: index.batches.suppressed_rows,
    ),
)

_OWN_BIT = int(Flag.OWN)
_BY_ACTION = {action: row.name for row in COUNTERS for action in row.actions}
_BY_SEQUENCE_ACTION = {action: row.name for row in COUNTERS for action in row.sequence_actions}
_OWN, _NOT_OWN = OWN_DUPLICATES.name, _BY_ACTION[Action.DUPLICATE]
# Up to so many answers a list costs less than an array's functions do.
_FEW = 32


class Counts:
    """Counts what one process answers, by `COUNTERS`, from 0."""

    def __init__(self) -> None:
        self._counts = {row.name: 0 for row in COUNTERS if row.read is None}

    def add(self, row: CounterRow, count: int = 1) -> None:
        """Counts so many more of `row`; KeyError for one that is read of the index."""
        self._counts[row.name] += count

    def add_ids(self, actions: U8, verdicts: U8) -> None:
        """Counts one request's ids: what was done about each (`core.claims.Action`, SAME_INDEX), and its verdict."""
        if len(actions) > _FEW:
            self._add(_BY_ACTION, actions, verdicts)
            return
        counts = self._counts
        for action, verdict in zip(actions.tolist(), verdicts.tolist(), strict=True):
            counts[_OWN if verdict & _OWN_BIT else _BY_ACTION[action]] += 1

    def add_sequences(self, actions: U8, verdicts: U8) -> None:
        """Counts one request's sequences: what was done about each (`core.producers.Action`), and its verdict."""
        self._add(_BY_SEQUENCE_ACTION, actions, verdicts)

    def _add(self, names: dict[int, str], actions: U8, verdicts: U8) -> None:
        by_action = np.bincount(actions, minlength=256)
        for action, name in names.items():
            self._counts[name] += int(by_action[action])
        own = int(np.count_nonzero(verdicts & Flag.OWN))
        self._counts[_NOT_OWN] -= own
        self._counts[_OWN] += own

    def all(self, index: ShardIndex) -> dict[str, int]:
        """Returns every counter of the table by its name, in the table's order."""
        return {row.name: self._counts[row.name] if row.read is None else row.read(index) for row in COUNTERS}


def description() -> str:
    """Renders the table as one text, for documents: each counter with its unit and meaning."""
    rows = "; ".join(f"{row.name} ({row.unit}): {row.meaning}" for row in COUNTERS)
    return f"by name; sequences count as ids; since the process started, where nothing else is said. {rows}"
