"""The circumstances of each kind of walk, and the promises that may break in it."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Knobs:
    """A kind of walk.

    kind: a stream with one write per batch; foreachBatch with `writes`; `df.write` with txnAppId and no run. equal: all
    writes of a batch bring the same rows. restores: when an older copy of the checkpoint is put back. drops: time
    passes, so owners give up stages or stages expire. advice: the writes that get a writeId after SECOND_WRITE. storm:
    many kills, starts and restores. lively: after each walk one driver alone, without faults, must finish. accepted:
    promises that are known to break seldom in these circumstances; counted.
    """

    name: str
    kind: Literal["stream", "foreach_batch", "batch"] = "stream"
    writes: int = 1
    write_ids: bool = False
    equal: bool = False
    deterministic: bool = True
    digests: Literal["known", "unknown", "mixed"] = "known"
    digest_read: Literal["when the batch begins", "in commit"] = "when the batch begins"
    version: str = "0"
    restores: Literal["", "at rest", "any time"] = ""
    drops: bool = False
    first_wins: bool = False
    advice: Literal["", "the later ones", "all"] = ""
    storm: bool = False
    lively: bool = False
    accepted: frozenset[str] = frozenset()


# With known digests everything must hold, whatever happens.
KNOWN = (
    Knobs("stream, restored", restores="any time", drops=True),
    Knobs("stream, restored often", restores="any time", storm=True),
    Knobs("two writes, writeIds, restored often", "foreach_batch", 2, write_ids=True, restores="any time", storm=True),
    Knobs("stream, not deterministic", deterministic=False, drops=True, lively=True),
    Knobs("stream, not deterministic, restored", deterministic=False, restores="any time", drops=True),
    Knobs("stream, first wins, restored", first_wins=True, restores="any time"),
    Knobs("two writes, writeIds, restored", "foreach_batch", 2, write_ids=True, restores="any time", drops=True),
    Knobs("two writes, restored", "foreach_batch", 2, restores="any time", drops=True),
    Knobs("two equal writes", "foreach_batch", 2, equal=True, restores="any time"),
    Knobs("two writes, advice followed", "foreach_batch", 2, advice="the later ones", drops=True),
    Knobs("two equal writes, advice followed", "foreach_batch", 2, equal=True, advice="the later ones", drops=True),
)

# Without digests everything must hold unless an older copy is put back while a driver lives.
UNKNOWN = (
    Knobs("stream, unknown, restored at rest", digests="unknown", restores="at rest", storm=True),
    Knobs("stream, mixed, restored at rest", deterministic=False, digests="mixed", restores="at rest", storm=True),
    Knobs("stream, mixed", digests="mixed", drops=True, lively=True),
    Knobs("stream, first wins, unknown", deterministic=False, digests="unknown", first_wins=True, lively=True),
    Knobs("two writes, writeIds, unknown", "foreach_batch", 2, write_ids=True, digests="unknown", lively=True),
    Knobs("two equal writes, unknown", "foreach_batch", 2, equal=True, digests="unknown", drops=True),
    Knobs("df.write", "batch", drops=True, lively=True),
    Knobs("df.write, version is a date", "batch", version="2026-11-20", drops=True, lively=True),
    Knobs("df.write, first wins", "batch", deterministic=False, first_wins=True, lively=True),
    Knobs("df.write, not deterministic", "batch", deterministic=False, drops=True),
)

# The exception: without a digest, an older copy is put back while a driver lives. Its rows may be published twice. If
# that driver also writes the commit log, a batch of the new history is skipped. With first_wins the user agreed to it.
_EITHER = frozenset({"TWICE", "DROP"})
RISKY = (
    Knobs("stream, unknown, restored", digests="unknown", restores="any time", storm=True, accepted=_EITHER),
    Knobs("stream, mixed, restored", digests="mixed", restores="any time", storm=True, accepted=_EITHER),
    Knobs(
        "stream, unknown, first wins, restored",
        digests="unknown",
        first_wins=True,
        restores="any time",
        storm=True,
        accepted=_EITHER,
    ),
)

# Former or mistaken versions of the rules, which show why the rules are needed.
WRONG = (
    Knobs("the digest is read in commit", restores="any time", storm=True, digest_read="in commit"),
    Knobs("every write gets a writeId after SECOND_WRITE", "foreach_batch", 2, advice="all"),
)

HOLDING = KNOWN + UNKNOWN
