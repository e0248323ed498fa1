"""Defines all counters of a shard in one table, from which counting, the API's reply, /metrics and their documentation
derive.

The table has two kinds of rows. A row with `read` is read from the index on request; most of these are in the ledger
and survive a restart. `Counts` counts the others as answers are given, from 0 at the start of the process: by the
action for an id (`actions`) or for a sequence (`sequence_actions`), or in a use case, which names the row.

A new counter is a row here and, if a use case counts it, one call of `Counts.add` there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from oncegate.core.causes import KNOWN_FROM, Cause
from oncegate.core.claims import Action
from oncegate.core.producers import ProducerAction as SequenceAction
from oncegate.index.shard import ShardIndex
from oncegate.index.table.arrays import SAME_INDEX


@dataclass(frozen=True)
class CounterRow:
    """A counter: its name, unit, meaning and source.

    grows: it never decreases while the process runs, except for changes that a full disk refused.
    metric: its name at /metrics, if other than `name`.
    label: a name and a value that distinguish several rows of one metric.
    scale: the value of one unit at /metrics, in base units.
    """

    name: str
    unit: str
    meaning: str
    actions: tuple[int, ...] = ()
    sequence_actions: tuple[int, ...] = ()
    read: Callable[[ShardIndex], int] | None = None
    grows: bool = True
    metric: str = ""
    label: tuple[str, str] | None = None
    scale: float = 1.0


def _answered(
    name: str, verdict: str, meaning: str, actions: tuple[int, ...] = (), sequence_actions: tuple[int, ...] = ()
) -> CounterRow:
    label = ("verdict", verdict)
    return CounterRow(name, "ids", meaning, actions, sequence_actions, metric="answered_ids", label=label)


def _now(name: str, unit: str, meaning: str, read: Callable[[ShardIndex], int], **more: Any) -> CounterRow:
    """Returns a row for a gauge, a value that may decrease."""
    return CounterRow(name, unit, meaning, read=read, grows=False, **more)


OWN_DUPLICATES = _answered(
    "own_duplicates", "own_duplicate", "answered DUPLICATE with `own`: the attempt that asks had written it itself"
)
DUPLICATES = _answered(
    "duplicates",
    "duplicate",
    "answered DUPLICATE, but for own_duplicates",
    (Action.DUPLICATE,),
    (SequenceAction.DUPLICATE,),
)
STALE = _answered(
    "stale", "stale", "answered STALE: their batch or sequence was acked", sequence_actions=(SequenceAction.STALE,)
)
SHADOWED = CounterRow("shadowed_ids", "ids", "told GRANTED in shadow mode that would have been told something else")
UNCHECKED = CounterRow(
    "unchecked_ids", "ids", "told GRANTED and unchecked, for the ledger was down and on_ledger_down is pass_marked"
)
COMPLETED = CounterRow("completed", "claims", "completed", metric="completed_claims")
RELEASED = CounterRow("released", "claims", "released", metric="released_claims")
LOOKED_UP = CounterRow("looked_up", "ids", "told what is known of them, and not granted", metric="looked_up_ids")
PRODUCED_ROWS = CounterRow("produced_rows", "rows", "written by produce")
STAGED_ROWS = CounterRow("staged_rows", "rows", "staged, whatever became of them")
COMMITTED_ROWS = CounterRow("committed_rows", "rows", "published by commits")
DUPLICATE_COMMITS = CounterRow("duplicate_commits", "commits", "answered DUPLICATE: the name was committed before")
OTHER_REPLAYS = CounterRow(
    "other_replays", "commits", "of these, those that brought other rows than were committed: the first output stays"
)
LOWER_VERSIONS = CounterRow(
    "lower_versions", "commits", "skipped, and answered DUPLICATE: a higher version of the job is committed"
)
LANE_DUPLICATES = CounterRow(
    "lane_duplicates",
    "ids",
    "told as written to clients that ask before they write themselves (write=direct)",
    metric="lane_duplicate_ids",
)
LANE_DOUBLES = CounterRow(
    "lane_doubles",
    "records",
    "of clients that wrote themselves what another record says too: their rows are there twice",
    metric="lane_double_records",
)
COMPACTIONS = CounterRow("compactions", "snapshots", "that replaced the ledger's entries")
FAILED_COMPACTIONS = CounterRow("failed_compactions", "snapshots", "that could not be made, or found no room")


def _appended(end: str, meaning: str) -> CounterRow:
    return CounterRow(f"appends_{end}", "appends", meaning, metric="appends", label=("end", end))


APPENDED = _appended("durable", "of the ledger that are durable: group commits, on Kafka transactions")
APPENDS_REFUSED = _appended("refused", "that the ledger refused: nothing was written, and it goes on")
APPENDS_LOST = _appended(
    "lost", "that ended the ownership, for somebody else owns the ledger, or it is unknown whether they were written"
)


def _refused(quota: str, meaning: str) -> CounterRow:
    name = f"refused_by_{quota}"
    return CounterRow(name, "requests", meaning, metric="quota_refusals", label=("quota", quota))


QUOTA_IDS = _refused("ids", "refused, for the namespace had brought its `ids_per_second`")
QUOTA_BYTES = _refused("bytes", "refused, for the namespace had brought its `bytes_per_second`")
QUOTA_CLAIMS = _refused("open_claims", "refused, for `open_claims` of the namespace were open")
QUOTA_TENANT_IDS = _refused("tenant_ids", "refused, for its tenant had brought its `tenant_ids_per_second`")
QUOTA_TENANT_BYTES = _refused("tenant_bytes", "refused, for its tenant had brought its `tenant_bytes_per_second`")
QUOTA_TENANT_CLAIMS = _refused("tenant_open_claims", "refused, for `tenant_open_claims` of its tenant were open")
QUOTA_STAGES = _refused("stages", "refused, for there was no room for further stages")

# Indexed by `Cause`. Repeats that were not written, whether they were answered DUPLICATE, SAME or not at all.
BY_CAUSE: tuple[CounterRow, ...] = tuple(
    CounterRow(
        f"duplicates_{cause.name.lower()}",
        "ids",
        KNOWN_FROM[cause],
        metric="duplicates",
        label=("cause", cause.name.lower()),
    )
    for cause in Cause
)

COUNTERS: tuple[CounterRow, ...] = (
    _answered(
        "granted",
        "granted",
        "granted for the first time, or taken over",
        (Action.GRANT, Action.TAKE_OVER),
        (SequenceAction.GRANT, SequenceAction.TAKE_OVER),
    ),
    _answered(
        "granted_again",
        "granted_again",
        "granted again to a repeat of the same request",
        (Action.GRANT_AGAIN,),
        (SequenceAction.GRANT_AGAIN,),
    ),
    DUPLICATES,
    OWN_DUPLICATES,
    _answered(
        "conflicts",
        "conflict",
        "answered CONFLICT: written with another payload",
        (Action.CONFLICT,),
        (SequenceAction.CONFLICT,),
    ),
    _answered("busy", "busy", "answered BUSY: another holds them", (Action.BUSY,), (SequenceAction.BUSY,)),
    _answered(
        "held",
        "held",
        "answered BUSY though their holder's lease ran out: `lease_expiry` is hold",
        (Action.HOLD,),
        (SequenceAction.HOLD,),
    ),
    _answered(
        "in_doubt",
        "in_doubt",
        "answered IN_DOUBT: their holder's lease ran out, and `lease_expiry` is fail",
        (Action.IN_DOUBT,),
        (SequenceAction.IN_DOUBT,),
    ),
    _answered(
        "same",
        "same",
        "answered SAME: the request, or the attempt, names them twice",
        (Action.SAME, SAME_INDEX),
        (SequenceAction.SAME,),
    ),
    STALE,
    _answered(
        "past_horizon",
        "past_horizon",
        "answered STALE: by the time that they carry they are older than what is still known",
        (Action.STALE,),
    ),
    SHADOWED,
    UNCHECKED,
    LOOKED_UP,
    *BY_CAUSE,
    COMPLETED,
    RELEASED,
    PRODUCED_ROWS,
    STAGED_ROWS,
    COMMITTED_ROWS,
    DUPLICATE_COMMITS,
    OTHER_REPLAYS,
    LOWER_VERSIONS,
    LANE_DUPLICATES,
    LANE_DOUBLES,
    QUOTA_IDS,
    QUOTA_BYTES,
    QUOTA_CLAIMS,
    QUOTA_STAGES,
    QUOTA_TENANT_IDS,
    QUOTA_TENANT_BYTES,
    QUOTA_TENANT_CLAIMS,
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
        read=lambda index: index.claims.registry.forgotten_early,
        metric="claims_forgotten_early",
    ),
    _now(
        "results_bytes",
        "bytes",
        "of memory that results of completed claims take, at this moment",
        lambda index: index.claims.rows.results.size_bytes,
    ),
    CounterRow(
        "results_forgotten",
        "results",
        "forgotten for memory, while their ids are known",
        read=lambda index: index.claims.rows.results.forgotten,
    ),
    CounterRow(
        "spilled_rows",
        "rows",
        "written after they had waited on a client's disk while the gateway was down (`on_down` is spill), since the "
        "ledger was made",
        read=lambda index: index.spilled_rows.rows,
    ),
    _now("open_claims", "claims", "open at this moment", lambda index: index.claims.open_claims),
    _now(
        "ids",
        "ids",
        "known at this moment: held, done or taken, since the ledger was made",
        lambda index: index.claims.known_ids,
    ),
    _now(
        "cold_ids",
        "ids",
        "of these, those that left memory, since the ledger was made",
        lambda index: index.claims.archives.ids,
    ),
    CounterRow(
        "cold_asked",
        "ids",
        "asked for in the runs of cold ids",
        read=lambda index: index.claims.cold.looks.asked,
        metric="cold_asked_ids",
    ),
    CounterRow(
        "cold_looked_up",
        "look-ups",
        "made in runs for these, where a filter did not skip one",
        read=lambda index: index.claims.cold.looks.looked_up,
        metric="cold_look_ups",
    ),
    CounterRow(
        "cold_in_vain",
        "look-ups",
        "of these, for ids that are in no run",
        read=lambda index: index.claims.cold.looks.in_vain,
        metric="cold_look_ups_in_vain",
    ),
    _now(
        "cold_fpr_ppm",
        "ids in a million",
        "of those in no run, that filters let pass",
        lambda index: round(1_000_000 * index.claims.cold.looks.false_positive_rate),
        metric="cold_false_positive_ratio",
        scale=1e-6,
    ),
    _now("cold_runs", "runs", "that cold ids lie in, at this moment", lambda index: len(index.claims.cold.runs)),
    _now(
        "cold_bytes",
        "bytes",
        "of memory that their filters and fences take",
        lambda index: index.claims.cold.size_bytes,
    ),
    _now(
        "stage_bytes",
        "bytes",
        "staged and not committed, at this moment",
        lambda index: index.batches.stage_bytes,
    ),
    CounterRow(
        "suppressed_rows",
        "rows",
        "brought to commits and not published, since the ledger was made",
        read=lambda index: index.batches.suppressed_rows,
    ),
    CounterRow(
        "lane_rows",
        "rows",
        "that clients wrote themselves (write=direct), with holes that were acked, since the ledger was made",
        read=lambda index: index.lanes.rows,
    ),
    _now(
        "lanes", "lanes", "by which clients write themselves, since the ledger was made", lambda index: len(index.lanes)
    ),
    COMPACTIONS,
    FAILED_COMPACTIONS,
    APPENDED,
    APPENDS_REFUSED,
    APPENDS_LOST,
)


def description() -> str:
    """Returns the table as one text, for documents: each counter with its unit and meaning."""
    rows = "; ".join(f"{row.name} ({row.unit}): {row.meaning}" for row in COUNTERS)
    return f"by name; sequences count as ids; since the process started, where nothing else is said. {rows}"
