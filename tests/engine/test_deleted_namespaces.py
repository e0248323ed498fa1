"""A namespace is deleted without confirmation only while it is empty; its name can be reused without leftovers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pyarrow as pa
import pytest

from oncegate.core.claims import Verb
from oncegate.core.errors import (
    BadRequest,
    DeadlinePassed,
    LedgerBehind,
    LedgerDown,
    LedgerFull,
    NotEmpty,
    NotFound,
    Recovering,
    UnknownClaim,
)
from oncegate.engine.producer_requests import DriverRequest
from oncegate.engine.recovery.owner import REOPEN_MS
from oncegate.engine.requests import ClaimRequest, ClaimResult, SettingsRequest, TopicRequest
from oncegate.ports import Mark, OpenLedger
from tests.support.memory_gateway import GatedLedgers, Served, id16, run_ready_tasks, serving, verdicts_of

NAME = "mail"


async def claim(served: Served, *ids: str, token: int = 1) -> ClaimResult:
    namespace = served.gateway.namespace(NAME)
    prints = namespace.fingerprints().of_array(pa.array(ids, pa.string()))
    return await namespace.claims.claim(ClaimRequest(id16(token), 1, prints), served.deadline())


async def delete(served: Served, confirm: str | None = None, *marks: Mark, timeout_ms: int | None = None) -> None:
    await served.gateway.delete(NAME, confirm, marks, served.deadline(timeout_ms))


async def with_ids(served: Served) -> None:
    await claim(served, "a", "b")


async def with_a_topic(served: Served) -> None:
    await served.gateway.namespace(NAME).topics.create(TopicRequest("t"), served.deadline())


async def with_a_driver(served: Served) -> None:
    await served.gateway.namespace(NAME).drivers.register(DriverRequest("job", id16(1)), served.deadline())


async def test_a_namespace_that_holds_nothing_is_deleted_unasked() -> None:
    async with serving() as served:
        await served.gateway.create(NAME)
        await served.gateway.namespace(NAME).settings.configure(
            SettingsRequest(0, auto_create_topics=False), served.deadline()
        )
        await delete(served)
        assert served.gateway.namespaces() == served.ledgers.names() == ["default"]
        assert served.gateway.readiness() == {"default": "SERVING"}
        with pytest.raises(NotFound):
            served.gateway.namespace(NAME)
        with pytest.raises(NotFound):
            await delete(served)
        assert ("namespace_deleted", {"namespace": NAME}) in served.events.seen


@pytest.mark.parametrize(
    ("fill", "held"),
    [(with_ids, {"ids": 2}), (with_a_topic, {"topics": 1}), (with_a_driver, {"drivers": 1})],
)
async def test_a_non_empty_namespace_is_kept_until_its_name_is_given(fill: Any, held: dict[str, int]) -> None:
    async with serving() as served:
        await served.gateway.create(NAME)
        await fill(served)
        with pytest.raises(NotEmpty, match=r"\?confirm=mail.*nothing was deleted") as refused:
            await delete(served)
        assert refused.value.extra["holds"] == held
        with pytest.raises(BadRequest, match="confirm is 'other', not the name of namespace mail"):
            await delete(served, "other")
        assert served.gateway.namespace(NAME).mark.position
        await delete(served, NAME)
        assert served.gateway.namespaces() == ["default"]


async def test_released_ids_are_not_held() -> None:
    async with serving() as served:
        await served.gateway.create(NAME)
        granted = await claim(served, "a")
        assert granted.claim is not None
        await served.gateway.namespace(NAME).claims.settle(Verb.RELEASE, granted.claim, served.deadline())
        await delete(served)
        assert served.gateway.namespaces() == ["default"]


async def test_the_default_namespace_is_never_deleted() -> None:
    async with serving() as served:
        for confirm in (None, "default"):
            with pytest.raises(BadRequest, match="each start makes it"):
                await served.gateway.delete("default", confirm, (), served.deadline())
        assert verdicts_of(await served.claim("a")) == ["GRANTED"]


async def test_a_name_that_is_used_again_knows_nothing_of_the_old_ids_marks_and_claims() -> None:
    async with serving() as served:
        await served.gateway.create(NAME)
        granted = await claim(served, "a")
        old = served.gateway.namespace(NAME).mark
        await delete(served, NAME)
        assert await served.gateway.create(NAME)
        namespace = served.gateway.namespace(NAME)
        with pytest.raises(LedgerBehind, match="created anew"):
            namespace.require(old)
        assert granted.claim is not None
        with pytest.raises(UnknownClaim):
            await namespace.claims.settle(Verb.COMPLETE, granted.claim, served.deadline())
        assert namespace.home.journal.index.held() == {}
        assert verdicts_of(await claim(served, "a", token=2)) == ["GRANTED"]


async def test_a_late_repeat_does_not_delete_what_was_made_since() -> None:
    async with serving() as served:
        await served.gateway.create(NAME)
        old = served.gateway.namespace(NAME).mark
        await delete(served, NAME, old)
        await served.gateway.create(NAME)
        with pytest.raises(LedgerBehind):
            await delete(served, NAME, old)
        assert served.gateway.namespaces() == ["default", NAME]


async def test_requests_under_way_are_answered_and_later_ones_refused() -> None:
    async with serving() as served:
        await served.gateway.create(NAME)
        namespace = served.gateway.namespace(NAME)
        served.disk.hold()
        first = await served.begin(claim(served, "a"))
        deletion = await served.begin(delete(served, NAME))
        assert not deletion.done()
        with pytest.raises(Recovering, match="is being deleted; nothing was written"):
            served.gateway.namespace(NAME)
        prints = namespace.fingerprints().of_array(pa.array(["b"], pa.string()))
        with pytest.raises(Recovering, match="is being deleted; nothing was written"):
            await namespace.claims.claim(ClaimRequest(id16(2), 1, prints), served.deadline())
        assert served.gateway.readiness() == {"default": "SERVING"}
        await served.disk.release()
        await deletion
        assert verdicts_of(first.result()) == ["GRANTED"]


async def test_changes_that_are_not_durable_yet_count_as_held() -> None:
    async with serving() as served:
        await served.gateway.create(NAME)
        granted = await claim(served, "a")
        assert granted.claim is not None
        served.disk.hold()
        served.disk.faults = ["full"]
        settling = served.gateway.namespace(NAME).claims.settle(Verb.RELEASE, granted.claim, served.deadline())
        released = await served.begin(settling)
        deletion = await served.begin(delete(served))
        await served.disk.release()
        for refused in (released, deletion):
            with pytest.raises(LedgerFull):
                await refused
        assert served.gateway.namespace(NAME).home.journal.index.held() == {"ids": 1}


async def test_a_disconnected_caller_does_not_stop_a_deletion() -> None:
    async with serving() as served:
        await served.gateway.create(NAME)
        await claim(served, "a")
        served.disk.hold()
        await served.begin(claim(served, "b", token=2))
        deletion = await served.begin(delete(served, NAME))
        deletion.cancel()
        await served.disk.release()
        assert await served.gateway.create(NAME), "it waits for the deletion, and makes a new one"
        assert verdicts_of(await claim(served, "a")) == ["GRANTED"]


async def test_a_deletion_that_came_too_late_is_refused() -> None:
    async with serving() as served:
        await served.gateway.create(NAME)
        deadline = served.deadline(10)
        served.clock.advance(10)
        with pytest.raises(DeadlinePassed):
            await served.gateway.delete(NAME, NAME, (), deadline)
        assert served.gateway.namespaces() == ["default", NAME]


async def test_a_namespace_that_is_down_is_deleted_by_name_alone() -> None:
    async with serving() as served:
        await served.gateway.create(NAME)
        served.disk.refuse_to_open = OSError(5, "Input/output error")
        served.disk.faults = ["lost"]
        with pytest.raises(LedgerDown):
            await claim(served, "a")
        await run_ready_tasks()
        with pytest.raises((Recovering, LedgerDown)):
            await delete(served)
        await delete(served, NAME)
        assert served.gateway.namespaces() == ["default"]


async def test_a_ledger_that_cannot_be_deleted_serves_on() -> None:
    class Full(GatedLedgers):
        async def delete(self, namespace: str) -> None:
            raise LedgerDown("the disk failed")

    async with serving(Full()) as served:
        await served.gateway.create(NAME)
        await claim(served, "a")
        with pytest.raises(LedgerDown, match="the disk failed"):
            await delete(served, NAME)
        assert served.gateway.readiness() == {"default": "SERVING", NAME: "SERVING"}
        assert verdicts_of(await claim(served, "a", token=2)) == ["BUSY"]


async def test_deleted_namespaces_make_room_for_others() -> None:
    async with serving(namespaces=2) as served:
        for _ in range(3):
            assert await served.gateway.create(NAME)
            await delete(served)


async def test_a_caller_that_waits_for_an_opening_namespace_gets_an_error_when_it_is_deleted() -> None:
    class Slow(GatedLedgers):
        gate = asyncio.Event()

        @asynccontextmanager
        async def open(self, namespace: str) -> AsyncIterator[OpenLedger]:
            await self.gate.wait()
            async with super().open(namespace) as opened:
                yield opened

    ledgers = Slow()
    ledgers.gate.set()
    async with serving(ledgers) as served:
        await served.gateway.create(NAME)
        ledgers.gate.clear()
        served.disk.faults = ["lost"]
        with pytest.raises(LedgerDown):
            await claim(served, "a")
        await run_ready_tasks()
        served.clock.advance(REOPEN_MS)
        await run_ready_tasks()
        waiting = await served.begin(served.gateway.create(NAME))
        assert not waiting.done()
        await delete(served, NAME)
        await run_ready_tasks()
        assert waiting.done()
        with pytest.raises(Recovering, match="is being deleted"):
            await waiting
