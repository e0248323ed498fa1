"""The driver of an index with more requests about free ids: produce, take and retirement."""

from collections.abc import Sequence

import numpy as np

from oncegate.core.entries.kinds import Produced, Retired, Taken
from oncegate.index.claims.apply import ClaimUndo
from oncegate.index.claims.results import ClaimDecision
from oncegate.index.table.arrays import NO_DIGESTS
from tests.support.index.driver import Answer, Driver, name


def digest_of(ids: Sequence[int]) -> bytes:
    return bytes(i % 251 for i in ids)[:16].ljust(16, b"!")


class VerbDriver(Driver):
    """A driver for all verbs; for `take`, `token` is the owner."""

    def asks(
        self,
        verb: str,
        token: str,
        call: int,
        ids: Sequence[int],
        only: Sequence[int] | None = None,
        digests: np.ndarray = NO_DIGESTS,
    ) -> ClaimDecision:
        """Decides a request. `only`: the ids to look up if the request and its digest named more."""
        seen = self.fingerprints(ids if only is None else only)
        if verb == "take":
            return self.index.decide_take(name(token), seen, self.now_ms)
        return self.index.decide(name(token), call, digest_of(ids), seen, self.now_ms, verb, digests)

    def does(
        self,
        verb: str,
        token: str,
        call: int,
        ids: Sequence[int],
        settled: bool = True,
        digests: np.ndarray = NO_DIGESTS,
    ) -> Answer:
        """Decides a request and applies its grants. `digests`: the payload digest of each id; a take has none."""
        if verb == "claim":
            return self.claim(token, call, ids, settled=settled, digests=digests)
        decision = self.asks(verb, token, call, ids, digests=digests)
        if not len(decision.fresh) and not len(decision.taken):
            return Answer(decision, decision.claim, None)
        granted = (decision.fresh.tobytes(), decision.taken.tobytes())
        self.index.make_room(len(decision.fresh) + len(decision.taken), self.now_ms, digests=bool(decision.digests))
        if verb == "take":
            return Answer(decision, None, self.apply(Taken(name(token), 6_000 + self.now_ms, *granted), settled))
        claim, rows = name(f"{token}{call}/{self.position}"), len(decision.fresh) + len(decision.taken)
        who = (claim, name(token), call, digest_of(ids), 5_000 + self.now_ms)
        return Answer(
            decision, claim, self.apply(Produced("t", 1, 9, rows, 0, *who, *granted, decision.digests), settled)
        )

    def retire(self, before_wall_ms: int, settled: bool = True) -> ClaimUndo:
        return self.apply(Retired(before_wall_ms, 4_000 + self.now_ms), settled)
