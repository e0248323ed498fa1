"""Lists recently active producers, and claims whose lease has expired."""

from dataclasses import dataclass
from heapq import nlargest

import numpy as np

from oncegate.engine.commit.journal import Journal
from oncegate.index.table.rows import OPEN


@dataclass(frozen=True)
class ProducerSummary:
    """The state of one producer. None: there is no such sequence yet. `unacked`: claimed above the watermark."""

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
    """An open claim whose lease has expired: whether its ids are written is unknown."""

    claim: bytes
    token: bytes
    call: int
    ids: int
    over_ms: int
    wall_ms: int


class Overview:
    """The overview lists for an operator, read from the index of one shard."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def producers(self, count: int) -> tuple[list[ProducerSummary], int]:
        """Returns up to `count` producers, most recently active first, and how many there are in total; waits until
        both are durable."""
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
        """Returns up to `count` open claims whose lease has expired, oldest first, and how many there are in total;
        waits until they are durable."""
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
            if claim in by_claim:  # a claim has one row for free ids, and one for ids it took over
                ids += by_claim[claim].ids
            token, over_ms = holders.token[row].tobytes(), now_ms - int(holders.lease_until_ms[row])
            by_claim[claim] = LeftClaim(claim, token, int(holders.call[row]), ids, over_ms, int(rows.wall_ms[row]))
        await self._journal.group_commit.durable(self._journal.group_commit.next_position - 1)
        return list(by_claim.values())[:count], len(by_claim)
