"""Lists what an operator looks at first: producers by their last activity, and claims whose lease is over."""

from dataclasses import dataclass
from heapq import nlargest

import numpy as np

from oncegate.engine.commit.journal import Journal
from oncegate.index.table.rows import OPEN


@dataclass(frozen=True)
class ProducerSummary:
    """Tells where one producer stands; None before there is such a sequence. `unacked`: claimed above the watermark."""

    producer: str
    driver: str
    epoch: int
    claimed_to: int | None
    watermark: int | None
    unacked: int
    lease_left_ms: int
    position: int


@dataclass(frozen=True)
class LeftClaim:
    """Tells one open claim whose lease is over: whether its ids are written is in doubt."""

    claim: bytes
    token: bytes
    call: int
    ids: int
    over_ms: int
    wall_ms: int


class Overview:
    """Reads the index of one shard; nothing is written."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def producers(self, count: int) -> tuple[list[ProducerSummary], int]:
        """Lists up to `count` producers, that of the newest entry first, and tells how many there are; once durable."""
        known, now_ms = self._journal.index.producers.producers, self._journal.clock.monotonic_ms()
        found = []
        for one in nlargest(count, known.values(), key=lambda producer: producer.position):
            claimed = -1 if one.claimed_to is None else one.claimed_to
            acked = -1 if one.watermark is None else one.watermark
            who = one.name, one.driver, one.epoch, one.claimed_to, one.watermark
            found.append(ProducerSummary(*who, max(0, claimed - acked), one.lease_left_ms(now_ms), one.position))
        await self._journal.group_commit.durable(max((one.position for one in found), default=0))
        return found, len(known)

    async def left_claims(self, count: int) -> tuple[list[LeftClaim], int]:
        """Lists up to `count` open claims whose lease is over, the longest first, and tells how many; once durable."""
        rows, now_ms = self._journal.index.claims.rows, self._journal.clock.monotonic_ms()
        holders, made = rows.holders, rows.made
        is_left = (
            (holders.state[:made] == OPEN) & (holders.named[:made] > 0) & (holders.lease_until_ms[:made] <= now_ms)
        )
        left = np.flatnonzero(is_left)
        left = left[np.argsort(holders.lease_until_ms[left], kind="stable")]
        by_claim: dict[bytes, LeftClaim] = {}
        for row in left.tolist():
            claim, ids = rows.claim[row].tobytes(), int(holders.named[row])
            if claim in by_claim:  # of ids that were free, and of those that were taken over
                ids += by_claim[claim].ids
            token, over_ms = holders.token[row].tobytes(), now_ms - int(holders.lease_until_ms[row])
            by_claim[claim] = LeftClaim(claim, token, int(holders.call[row]), ids, over_ms, int(rows.wall_ms[row]))
        await self._journal.group_commit.durable(self._journal.group_commit.next_position - 1)
        return list(by_claim.values())[:count], len(by_claim)
