"""The election of the one gateway that owns the ledgers below a prefix, and its successors."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest

from oncegate.core.errors import LedgerFenced, Recovering
from oncegate.ledgers.server.election import BEAT_S, LOOK_S, STUCK_S, Election
from oncegate.ledgers.server.holders import Beat, Changes, Holder, Holders
from oncegate.testing.clock import turned_loop

TAKEOVER_MS = 2_000
# Above `LOOK_S`, and times that a float holds exactly: a standby looks once after each, and boundaries are met.
STEP_S = 0.5

pytestmark = pytest.mark.turned


class List:
    """A list of namespaces without servers. `before_change`: another gateway's action before a change is decided."""

    def __init__(self, holder: str = "") -> None:
        self.listed = Holders(Holder(holder, 1 if holder else 0))
        self.away = self.is_stuck = False
        self.looks = 0
        self.before_change: Callable[[], None] = lambda: None
        self.at_goodbye: Callable[[], None] = lambda: None
        # The total number of looks at each change.
        self.changes: list[int] = []

    async def refresh(self) -> Holders:
        if self.away:
            raise OSError("the servers are away")
        self.looks += 1
        if self.is_stuck:
            await asyncio.Event().wait()
        return self.listed

    async def change(self, decide: Callable[[Holders], Changes]) -> None:
        self.changes.append(self.looks)
        self.before_change()
        for _, holder in decide(self.listed):
            assert isinstance(holder, Holder)
            self.listed.holder = holder

    async def beat(self, gateway: str, beat: Beat | None) -> None:
        if beat is not None and beat.gone:
            self.at_goodbye()
        if beat is None:
            del self.listed.beats[gateway]
        else:
            self.listed.beats[gateway] = beat


@asynccontextmanager
async def standing_by(listed: List, takeover_ms: int = TAKEOVER_MS) -> AsyncIterator[tuple[Election, list[str]]]:
    """A standby that has looked once."""
    followed: list[str] = []
    election = Election(listed, takeover_ms, lambda error: followed.append(error.detail))
    election.stand_by()
    election.start()
    await turned_loop().settle()
    try:
        yield election, followed
    finally:
        await election.close()


@pytest.mark.parametrize("holder", ["", "another"])
async def test_without_an_owner_or_after_its_goodbye_a_standby_is_next_at_once(holder: str) -> None:
    listed = List(holder)
    listed.listed.beats = {holder: Beat(7, gone=True)} if holder else {}
    async with standing_by(listed, 600_000) as (election, _):
        assert await election.wait_for(0)
        assert listed.listed.holder.gateway == election.gateway
        assert set(listed.listed.beats) == {election.gateway}
    assert listed.listed.beats[election.gateway].gone


async def test_an_owner_that_beats_is_not_superseded_and_a_silent_one_is() -> None:
    loop, listed = turned_loop(), List("another")
    async with standing_by(listed) as (election, _):
        for number in range(20):
            await listed.beat("another", Beat(number))
            await loop.turn(STEP_S)
        assert listed.changes == []
        for _ in range(3):
            await loop.turn(STEP_S)
        assert not election.leads, "0.5 s before the silence has lasted long enough"
        await loop.turn(STEP_S)
        assert election.leads


async def test_a_standby_looks_five_times_a_second() -> None:
    loop, listed = turned_loop(), List("another")
    async with standing_by(listed):
        for looks in range(1, 6):
            await loop.turn(LOOK_S * 0.99)
            assert listed.looks == looks
            await loop.turn(LOOK_S * 0.02)
            assert listed.looks == looks + 1


async def test_an_owner_reads_the_list_once_a_second_and_a_gateway_without_ledgers_never() -> None:
    loop, listed = turned_loop(), List()
    election = Election(listed, TAKEOVER_MS, lambda _: None)
    election.start()
    for _ in range(16):
        await loop.turn(0.25)
    assert listed.looks == 0
    await listed.change(election.lead)
    for _ in range(16):
        await loop.turn(0.25)
    assert listed.looks == 4
    await election.close()


async def test_a_standby_that_waits_is_woken_once_it_is_the_owner() -> None:
    loop, listed = turned_loop(), List("another")
    async with standing_by(listed) as (election, _):
        waiting = asyncio.create_task(election.wait_for(600))
        for _ in range(3):
            await loop.turn(STEP_S)
            assert not waiting.done()
        await loop.turn(STEP_S)
        assert waiting.done()
        assert await waiting


async def test_a_time_in_which_nothing_could_be_heard_is_no_silence() -> None:
    loop, listed = turned_loop(), List("another")
    async with standing_by(listed) as (election, _):
        listed.away = True
        for _ in range(10):
            await loop.turn(STEP_S)
        listed.away = False
        for _ in range(4):
            await loop.turn(STEP_S)
            assert not election.leads
        await loop.turn(STEP_S)
        assert election.leads


@pytest.mark.parametrize(("gap_s", "leads"), [(1.0, True), (1.125, False)], ids=["half", "more than half"])
async def test_silence_counts_where_looks_are_at_most_half_the_takeover_apart(gap_s: float, leads: bool) -> None:
    """A standby that slept for longer has not listened: the holder may have been heard meanwhile."""
    loop, listed = turned_loop(), List("another")
    async with standing_by(listed) as (election, _):
        await loop.turn(gap_s)
        await loop.turn(TAKEOVER_MS / 1_000 - 1.0)
        assert election.leads is leads


async def test_a_holder_beats_once_a_second() -> None:
    loop, listed = turned_loop(), List()
    async with standing_by(listed) as (election, _):
        assert listed.listed.beats == {election.gateway: Beat(1)}
        for number in range(1, 4):
            await loop.turn(BEAT_S - 0.25)
            assert listed.listed.beats[election.gateway] == Beat(number)
            await loop.turn(0.25)
            assert listed.listed.beats[election.gateway] == Beat(number + 1)


async def test_a_list_that_cannot_be_read_to_its_end_for_five_seconds_is_freed_by_a_change_of_nothing() -> None:
    loop, listed = turned_loop(), List("another")
    async with standing_by(listed):
        listed.is_stuck = True
        await loop.turn(LOOK_S)
        await loop.turn(STUCK_S - 0.25)
        assert listed.changes == []
        await loop.turn(0.25)
        assert len(listed.changes) == 1
        assert listed.listed.holder == Holder("another", 1)


async def test_who_stands_by_is_refused_with_the_owner_named_until_it_is_the_owner() -> None:
    listed = List("another")
    election = Election(listed, TAKEOVER_MS, lambda _: None)
    election.require_lead()
    election.stand_by()
    with pytest.raises(Recovering, match="gateway another owns the ledgers; nothing was written"):
        election.require_lead()
    listed.listed.beats = {"another": Beat(7, gone=True)}
    with pytest.raises(Recovering, match="no gateway owns the ledgers now"):
        election.require_lead()
    listed.listed.holder, listed.listed.beats = Holder(), {}
    with pytest.raises(Recovering, match="no gateway owns the ledgers now"):
        election.require_lead()
    listed.listed.holder = Holder(election.gateway, 2)
    election.require_lead()


async def test_a_gateway_that_says_goodbye_looks_and_beats_no_more() -> None:
    """A beat behind the goodbye would be taken for a word of a gateway that is there."""
    listed, looking = List(), list[bool]()
    listed.at_goodbye = lambda: looking.append("election" in {task.get_name() for task in asyncio.all_tasks()})
    async with standing_by(listed) as (election, _):
        assert await election.wait_for(0)
    assert looking == [False]


async def test_a_standby_that_was_late_is_not_chosen() -> None:
    listed = List()

    def first() -> None:
        listed.before_change = lambda: None
        listed.listed.holder, listed.listed.beats = Holder("first", 1), {"first": Beat(1)}

    listed.before_change = first
    async with standing_by(listed, 600_000) as (election, _):
        await turned_loop().turn(STEP_S)
        assert listed.changes
        assert not election.leads
        assert listed.listed.holder == Holder("first", 1)
        assert election.described() == "gateway first owns the ledgers"


async def test_a_superseded_holder_is_notified_once_and_becomes_a_standby() -> None:
    loop, listed = turned_loop(), List()
    async with standing_by(listed, 600_000) as (election, followed):
        assert election.leads
        listed.listed.holder, listed.listed.beats = Holder("next", 2), {"next": Beat(1)}
        await loop.turn(BEAT_S)
        assert followed
        with pytest.raises(LedgerFenced, match="gateway next owns the ledgers now"):
            election.lead(listed.listed)
        await listed.beat("next", Beat(2, gone=True))
        await loop.turn(STEP_S)
        assert election.leads
        assert len(followed) == 1


async def test_an_opener_that_was_followed_before_it_looked_does_not_become_the_holder_again() -> None:
    """The opener has led if the term after its own is another's; its own may never have been written."""
    listed = List("another")
    election = Election(listed, 600_000, lambda _: None)
    for _ in range(2):
        assert election.lead(listed.listed) == [("o/", Holder(election.gateway, 2))]
    listed.listed.holder = Holder("next", 2)
    assert election.lead(listed.listed) == [("o/", Holder(election.gateway, 3))]
    listed.listed.holder = Holder("one more", 4)
    for _ in range(2):
        with pytest.raises(LedgerFenced, match="gateway one more owns the ledgers now"):
            election.lead(listed.listed)


async def test_an_opener_superseded_before_it_looked_gets_an_error() -> None:
    listed, followed = List(), list[str]()
    election = Election(listed, 600_000, lambda error: followed.append(error.detail))
    assert election.lead(listed.listed)
    listed.listed.holder = Holder("next", 2)
    election.start()
    await turned_loop().settle()
    await election.close()
    assert "gateway next owns the ledgers now" in followed[0]


def test_a_list_has_the_last_holder_and_the_last_beats_that_its_records_name() -> None:
    listed = Holders()
    for holder in (Holder("a", 1), Holder("b", 2)):
        assert listed.take_of_gateways("o", "", msgspec.json.encode(holder))
    for gateway, beat in (("a", Beat(3)), ("b", Beat(4)), ("a", Beat(5, gone=True))):
        assert listed.take_of_gateways("b", gateway, msgspec.json.encode(beat))
    assert (listed.holder, listed.beats) == (Holder("b", 2), {"a": Beat(5, gone=True), "b": Beat(4)})
    assert listed.take_of_gateways("b", "a", None)
    assert listed.take_of_gateways("b", "a", None)
    assert (listed.holder, listed.beats) == (Holder("b", 2), {"b": Beat(4)})


@pytest.mark.parametrize(("kind", "value"), [("o", None), ("n", None), ("n", b"{}"), ("", b"{}")])
def test_a_record_that_is_of_no_gateway_changes_no_holder_and_no_beat(kind: str, value: bytes | None) -> None:
    listed = Holders(Holder("a", 1), {"a": Beat(2)})
    assert not listed.take_of_gateways(kind, "a", value)
    assert listed == Holders(Holder("a", 1), {"a": Beat(2)})
