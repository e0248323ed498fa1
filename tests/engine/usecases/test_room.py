"""Room in the index is reserved once per grant, by whichever code applies it; without room nothing is written."""

from collections.abc import Callable, Coroutine
from typing import Any

import pyarrow as pa
import pytest

from oncegate.core.errors import Overloaded
from oncegate.engine.requests import ClaimRequest, ProduceRequest, TakeRequest
from oncegate.index.claims.store import ClaimStore
from tests.support.index.claim_index import contents
from tests.support.memory_gateway import Served, id16, rows_of, serving

Ask = Callable[[Served, Any], Coroutine[Any, Any, Any]]


async def claim(served: Served, ids: Any) -> Any:
    # With firsts, so that it is decided alone.
    return await served.shard.claims.claim(ClaimRequest(id16(1), 1, ids, locate=True), served.deadline())


async def take(served: Served, ids: Any) -> Any:
    return await served.shard.claims.take(TakeRequest(id16(1), ids), served.deadline())


async def produce(served: Served, ids: Any) -> Any:
    request = ProduceRequest("t", id16(1), 1, rows_of(1, 2, 3), ids)
    return await served.namespace.records.produce(request, served.deadline())


each_way = pytest.mark.parametrize("ask", [claim, take, produce])


def ids_of(served: Served) -> Any:
    return served.namespace.fingerprints().of_array(pa.array(["a", "b", "c"]))


@each_way
async def test_room_for_its_ids_is_made_once(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    make_room, asked = ClaimStore.make_room, list[int]()

    def noted(store: ClaimStore, ids: int, now_ms: int, *more: Any, **named: Any) -> None:
        asked.append(ids)
        make_room(store, ids, now_ms, *more, **named)

    async with serving() as served:
        monkeypatch.setattr(ClaimStore, "make_room", noted)
        await ask(served, ids_of(served))
    assert asked == [3]


@each_way
async def test_without_room_nothing_is_written_and_the_next_one_is(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_args: Any, **_named: Any) -> None:
        raise Overloaded("no row is free; nothing was written")

    async with serving() as served:
        index, ids = served.shard.journal.index, ids_of(served)
        before = served.namespace.mark
        with monkeypatch.context() as patch:
            patch.setattr(ClaimStore, "make_room", full)
            with pytest.raises(Overloaded):
                await ask(served, ids)
        assert (contents(index.claims), index.topics.names(), served.namespace.mark) == ({}, [], before)
        await ask(served, ids)
        assert index.claims.ids == 3
