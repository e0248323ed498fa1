"""A namespace with claims only: its entries are compacted once they greatly exceed the last snapshot."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from oncegate.core.claims import Verb
from oncegate.engine.maintenance.scheduler import COMPACT_AGAIN_MS
from tests.support.memory_gateway import GatedLedgers, Served, serving, verdicts_of, wait_until

COLLECT_BYTES = 4 << 10
# A finished claim is remembered for a while, so a snapshot is not small: the threshold is twice its size.
ROUNDS, CLAIMS_MAX = 100, 1_500
ROUNDS_OF_NEW = 40
LEASE_MS = 1_000
Round = Callable[[Served, int], Awaitable[None]]


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    """A gateway whose ledger was compacted since it was opened, so that later compactions depend only on later
    entries."""
    async with serving(collect_bytes=COLLECT_BYTES) as served:
        assert await claims_until_compacted(served, released, 0) <= CLAIMS_MAX
        yield served


async def released(served: Served, token: int) -> None:
    claimed = await served.claim("released", token=token)
    await served.settle(Verb.RELEASE, claimed.claim)


async def taken_over(served: Served, token: int) -> None:
    """Claims without a release: each claim takes over from the previous one after its lease."""
    served.clock.advance(2 * LEASE_MS)
    await served.claim("taken over", token=token, lease_ms=LEASE_MS)


async def completed(served: Served, token: int) -> None:
    claimed = await served.claim(f"id {token}", token=token)
    await served.settle(Verb.COMPLETE, claimed.claim)


async def claims_until_compacted(served: Served, one: Round, first: int) -> int:
    """Returns the number of claims until a compaction; more than CLAIMS_MAX if there was none."""
    before = served.events.names().count("compaction")
    for number in range(1, CLAIMS_MAX + 1):
        await one(served, first + number)
        if number % ROUNDS == 0:
            served.clock.advance(COMPACT_AGAIN_MS)
            served.shard.scheduler.step()
            await wait_until(lambda: not served.shard.snapshotter.compacting)
            if served.events.names().count("compaction") > before:
                return number
    return CLAIMS_MAX + 1


@pytest.mark.parametrize("one", [released, taken_over])
async def test_ids_that_were_let_go_of_or_taken_over_are_compacted_again_and_again(served: Served, one: Round) -> None:
    took = [await claims_until_compacted(served, one, 10_000 * number) for number in (1, 2)]
    assert max(took) <= CLAIMS_MAX


async def test_a_ledger_of_new_ids_alone_is_compacted_again_and_again() -> None:
    """A start reads the last snapshot and at most twice as much, and each id is rewritten only a few times."""
    ledgers = GatedLedgers()
    sizes: list[int] = []
    async with serving(ledgers, collect_bytes=COLLECT_BYTES) as served:
        for number in range(ROUNDS_OF_NEW):
            for token in range(ROUNDS):
                await completed(served, number * ROUNDS + token)
            served.clock.advance(COMPACT_AGAIN_MS)
            served.shard.scheduler.step()
            await wait_until(lambda: not served.shard.snapshotter.compacting)
            sizes = [int(str(one["size_bytes"])) for name, one in served.events.seen if name == "compaction"]
            last = sizes[-1] if sizes else 0
            assert served.shard.journal.size_bytes < max(COLLECT_BYTES, 2 * last)
    assert len(sizes) > 2, "not the first time alone"
    assert sum(sizes) < 3 * sizes[-1]
    async with serving(ledgers) as again:
        assert again.shard.journal.size_bytes < max(COLLECT_BYTES, 2 * sizes[-1])
        for number in (0, ROUNDS_OF_NEW * ROUNDS - 1):
            assert verdicts_of(await again.claim(f"id {number}", token=99_999, call=number)) == ["DUPLICATE"]
