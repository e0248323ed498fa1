"""A ledger that always refuses one part of a group: only that part's request is refused."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from oncegate.core.entries.codec import decode
from oncegate.core.errors import LedgerFull, OncegateError, TooLarge
from oncegate.engine.commit.proven import DECIDED_AGAIN
from oncegate.ports import AppendRefused, OpenLedger, OutputChange, WriteRange
from tests.support.index.claim_index import contents
from tests.support.memory_gateway import (
    GatedLedger,
    GatedLedgers,
    Served,
    rows_of,
    run_ready_tasks,
    serving,
    verdicts_of,
    winner,
)

# A value that is in no row of the other requests.
LARGE = 424_242


class ChoosyLedger(GatedLedger):
    """Refuses rows that contain `LARGE`; names the first output with such rows if `naming` is set."""

    naming = False
    refused_kinds: str = ""

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Any:
        mark = LARGE.to_bytes(8, "little")
        large = [at for at, one in enumerate(outputs) if isinstance(one, WriteRange) and mark in one.data]
        kinds = [type(decode(entry)).__name__ for entry in entries]
        if large or self.refused_kinds in kinds:
            await self._disk.gate.wait()
            self._disk.refused.append(kinds)
            raise AppendRefused(TooLarge("more than the topic takes"), large[0] if self.naming else None)
        return await super().append(entries, outputs)


class ChoosyLedgers(GatedLedgers):
    def __init__(self, names: bool = False) -> None:
        super().__init__()
        self.naming = names
        self.disk.refused = []  # type: ignore[attr-defined]

    def gated(self, opened: OpenLedger) -> GatedLedger:
        assert opened.outputs is not None
        self.choosy = ChoosyLedger(opened.ledger, opened.outputs, self.disk)
        self.choosy.naming = self.naming
        return self.choosy


@pytest.fixture(params=[False, True], ids=["unnamed", "named"])
async def served(request: Any) -> AsyncIterator[Served]:
    async with serving(ChoosyLedgers(request.param)) as served:
        yield served


async def ends(served: Served, *tasks: "asyncio.Task[Any]") -> list[Any]:
    await served.disk.release()
    async with asyncio.timeout(20):
        return await asyncio.gather(*tasks, return_exceptions=True)


async def behind_an_append(served: Served, *asked: Any) -> "list[asyncio.Task[Any]]":
    """Makes requests that wait in one group for a blocked append."""
    served.disk.hold()
    first = await served.begin(served.claim("first", token=900))
    return [first, *[await served.begin(one) for one in asked]]


@pytest.mark.parametrize("place", range(5))
async def test_the_refused_request_gets_the_error_and_all_others_are_written_once(served: Served, place: int) -> None:
    numbers = [1, 2, 3, 4]
    numbers.insert(place, LARGE)
    asked = [served.produce(rows_of(number), call=number) for number in numbers]
    outcomes = (await ends(served, *await behind_an_append(served, *asked)))[1:]
    refused = outcomes.pop(place)
    assert isinstance(refused, TooLarge)
    assert refused.detail == "more than the topic takes"
    assert [one.rows for one in outcomes] == [1, 1, 1, 1]
    assert await served.read() == [1, 2, 3, 4], "in the order in which they came"
    assert served.gateway.readiness() == {"default": "SERVING"}, "one request is no full ledger"


async def test_changes_before_the_refused_one_keep_their_decision(served: Served) -> None:
    claim, *_ = outcomes = await ends(
        served,
        *(
            await behind_an_append(
                served, served.claim("a", token=1), served.produce(rows_of(LARGE)), served.claim("a")
            )
        ),
    )
    assert isinstance(outcomes[2], TooLarge)
    assert verdicts_of(outcomes[1]) == ["GRANTED"]
    kinds = [kind for group in served.disk.kinds() for kind in group]
    assert kinds.count("Claimed") == 2, "it was not decided twice"
    assert claim.claim != outcomes[1].claim


async def test_what_rests_on_the_refused_one_is_decided_without_it(served: Served) -> None:
    """The refused entry creates the topic; a request that relied on it now creates it itself."""
    refused, after = (
        await ends(
            served, *await behind_an_append(served, served.produce(rows_of(LARGE)), served.produce(rows_of(1), call=2))
        )
    )[1:]
    assert isinstance(refused, TooLarge)
    assert (after.rows, await served.read()) == (1, [1])
    kinds = [kind for group in served.disk.kinds() for kind in group]
    assert kinds.count("TopicCreated") == 1


async def test_a_refused_group_is_not_answered_before_it_is_written(served: Served) -> None:
    tasks = await behind_an_append(served, served.produce(rows_of(LARGE)), served.produce(rows_of(1), call=2))
    served.disk.gate.set()
    while not served.disk.refused:  # type: ignore[attr-defined]
        await run_ready_tasks(1)
        assert not tasks[2].done()
    outcomes = await ends(served, *tasks)
    assert outcomes[2].rows == 1


async def test_a_refused_commit_leaves_its_stages_and_the_index_as_the_ledger_has_it(served: Served) -> None:
    before = contents(served.shard.journal.index.claims)
    with pytest.raises(TooLarge):
        await served.produce(rows_of(LARGE))
    assert contents(served.shard.journal.index.claims) == before
    assert served.shard.journal.index.topics.names() == []
    staged = winner(await served.stage(rows_of(7)))
    assert (await served.commit(staged)).outcome == "COMMITTED"


async def test_after_a_refused_change_of_several_claims_all_retry_because_none_can_be_blamed() -> None:
    async with serving(ChoosyLedgers()) as served:
        served.ledgers.choosy.refused_kinds = "Claimed"  # type: ignore[attr-defined]
        tasks = [served.start(served.claim(str(n), token=n)) for n in range(1, 4)]
        for error in await ends(served, *tasks):
            assert isinstance(error, LedgerFull)
        assert len(served.disk.refused) == 1, "and it is not tried again for them"  # type: ignore[attr-defined]
        served.ledgers.choosy.refused_kinds = ""  # type: ignore[attr-defined]
        assert verdicts_of(await served.claim("1")) == ["GRANTED"]


async def test_a_change_that_is_undone_with_several_others_is_finally_answered_with_retry() -> None:
    """Nothing is refused permanently: the client retries."""
    async with serving(ChoosyLedgers()) as served:
        group_commit, tries = served.shard.group_commit, []

        async def undone(_position: int) -> None:
            tries.append(1)
            group_commit.undone += 1
            raise LedgerFull("undone with another's")

        group_commit.durable = undone  # type: ignore[method-assign]
        with pytest.raises(OncegateError) as raised:
            await served.produce(rows_of(1))
        assert isinstance(raised.value, LedgerFull)
        assert len(tries) == DECIDED_AGAIN + 1
