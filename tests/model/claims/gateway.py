"""A gateway reduced to its decisions: the real tables and the real index, over a ledger that is a list of bytes.

This file contains no rule. `ClaimIndex.decide` decides verdicts and `SETTLE` effects; entries are encoded, decoded and
applied. The ledger may refuse (`refuse`), and the process may die and restart (`crash`).
"""

import random
from collections.abc import Sequence

import numpy as np

from oncegate.core import claims as decisions
from oncegate.core.claims import Effect, LeaseExpiry, Verb
from oncegate.core.entries.codec import decode, encode
from oncegate.core.entries.kinds import Claimed, Completed, Entry, Released
from oncegate.core.errors import LedgerFull, ReleasedClaim, UnknownClaim
from oncegate.core.verdicts import BY_BYTE
from oncegate.index.claims.replay import replay
from oncegate.index.claims.store import Widths
from oncegate.index.table.arrays import SAME_INDEX
from tests.model.kit.replies import Broken, ClaimReply, SettleReply
from tests.support.index.claim_index import ClaimIndex


class Gateway:
    def __init__(
        self,
        widths: Widths,
        compiled: bool,
        fingerprints: np.ndarray,
        rng: random.Random,
        expiry: LeaseExpiry = LeaseExpiry.TAKEOVER,
    ) -> None:
        self._expiry = expiry
        self._widths, self._compiled, self._rng = widths, compiled, rng
        self.fingerprints = fingerprints
        self.ledger: list[bytes] = []
        self.now_ms = 0
        self.refuse = False
        self.index = self._empty()

    def _empty(self) -> ClaimIndex:
        index = ClaimIndex(self._widths, self._compiled)
        index.store.let_expire(self._expiry)
        return index

    def claim(self, token: bytes, call: int, ids: Sequence[int], lease_ms: int) -> ClaimReply:
        """Claims ids. Raises TokenReused, Overloaded, LedgerFull."""
        digest = bytes(ids).ljust(16, b"\xff")
        decision = self.index.decide(token, call, digest, self.fingerprints[list(ids)], self.now_ms)
        claim = decision.claim
        if decision.again and claim is not None:
            self.index.renew(claim, self.now_ms)
        if len(decision.fresh) or len(decision.taken):
            claim = claim or self._rng.randbytes(16)
            self.index.make_room(len(decision.fresh) + len(decision.taken), self.now_ms)
            fresh, taken = decision.fresh.tobytes(), decision.taken.tobytes()
            self._write(Claimed(claim, token, call, digest, lease_ms, 0, fresh, taken))
        rows = [BY_BYTE[byte] for byte in decision.verdicts.tolist()]
        verdicts = {
            i: row for i, row, action in zip(ids, rows, decision.actions.tolist(), strict=True) if action != SAME_INDEX
        }
        return ClaimReply(claim if any(row.may_write for row in rows) else None, verdicts)

    def settle(self, verb: Verb, claim: bytes) -> SettleReply:
        """Settles a claim. Raises UnknownClaim, ReleasedClaim, LedgerFull."""
        view = self.index.view(claim, self.now_ms)
        effect = decisions.SETTLE[verb, view.state].effect
        if effect is Effect.REFUSE_UNKNOWN:
            raise UnknownClaim("")
        if effect is Effect.REFUSE_RELEASED:
            raise ReleasedClaim("")
        if effect is Effect.EXTEND:
            self.index.renew(claim, self.now_ms)
        elif effect is Effect.MARK_DONE:
            self._write(Completed(claim, 0))
        elif effect is Effect.FREE:
            self._write(Released(claim, 0))
        return SettleReply(view.named, view.granted - view.named)

    def _write(self, entry: Entry) -> None:
        raw = encode(entry)
        applied = decode(raw)
        assert isinstance(applied, Claimed | Completed | Released)
        undo = self.index.apply(len(self.ledger) + 1, applied, self.now_ms)
        if self.refuse:
            if self._rng.random() < 0.5:
                self.index.sweep(self.now_ms)
            self.index.undo(undo)
            raise LedgerFull("")
        self.ledger.append(raw)
        self.index.settle(undo)

    def rebuilt(self) -> ClaimIndex:
        index = self._empty()
        entries = ((position, decode(raw)) for position, raw in enumerate(self.ledger, 1))
        replay(entries, index.store, self.now_ms)
        return index

    def check_replay(self) -> ClaimIndex:
        """Checks P3 and returns the index that a new process would have."""
        index = self.rebuilt()
        for name in ("takeovers", "open_claims", "ids"):
            live, replayed = getattr(self.index, name), getattr(index, name)
            if live != replayed:
                raise Broken("P3", f"{name}: index {live}, replay {replayed}")
        if self.index.contents() != index.contents():
            raise Broken("P3", f"index {self.index.contents()}, replay {index.contents()}")
        return index

    def crash(self) -> None:
        self.index = self.check_replay()

    def sweep(self, claims: Sequence[bytes]) -> None:
        """Sweeps, and checks that no answer has changed."""
        before = self._everything(claims)
        self.index.sweep(self.now_ms)
        if before != self._everything(claims):
            raise Broken("SWEEP", "a sweep changed an answer")

    def _everything(self, claims: Sequence[bytes]) -> object:
        views = [self.index.view(claim, self.now_ms) for claim in claims]
        return views, self.index.contents(), self.index.ids, self.index.open_claims

    def is_done(self, i: int) -> bool:
        explained = self.index.explain(self.fingerprints[i].tobytes(), self.now_ms)
        return explained.state is decisions.IdState.DONE
