"""A read stops at its caller's deadline, wherever it waits: 504, without an effect, and no work continues."""

import asyncio
import io
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from oncegate.runtime.logging import LogObserver, open_log
from oncegate.transports.http.app import About, create_app
from tests.support.http_app import Http
from tests.support.memory_gateway import GatedLedger, Served, rows_of, run_ready_tasks
from tests.support.producing_lanes import Lanes
from tests.support.sealed import eviction, filled

ROOT = "/v1/namespaces/default"
RECORDS = f"{ROOT}/topics/topic/partitions/0/records"
TIMEOUT_MS = 1_000
WAITED = {"Oncegate-Timeout-Ms": str(TIMEOUT_MS)}


@asynccontextmanager
async def slow_http() -> AsyncIterator[tuple[Http, Served]]:
    """Yields the application over a gateway whose ledger and clock are controlled; ids leave memory early."""
    async with eviction() as served:
        log = io.StringIO()
        app = create_app(LogObserver(open_log("text", log)), About("held:", "0" * 16), served.gateway)
        yield Http(app, served.gateway, log), served


async def given_up(http: Http, served: Served, path: str) -> None:
    """Checks that the read waits until its deadline, to the millisecond."""
    reading = await served.begin(http.call("GET", path, headers=WAITED))
    served.clock.advance(TIMEOUT_MS - 1)
    await run_ready_tasks()
    assert not reading.done()
    served.clock.advance(1)
    await run_ready_tasks()
    problem = reading.result().problem(504, "DEADLINE")
    assert (problem["effect"], problem["action"]) == ("none", "retry")
    assert "nothing was changed" in problem["detail"]
    assert http.gateway.admission.requests == 0


async def produced(served: Served) -> None:
    await served.produce(rows_of(1, 2, 3))


async def claimed(served: Served) -> None:
    await served.claim("a")


async def registered(served: Served) -> None:
    await Lanes(served).register()


# The preparation of each read, and its path.
RESTS_ON: dict[str, tuple[Callable[[Served], Coroutine[Any, Any, None]], str]] = {
    "rows": (produced, f"{RECORDS}?offset=0"),
    "a topic": (produced, f"{ROOT}/topics/topic"),
    "an id": (claimed, f"{ROOT}/ids:explain?id=a"),
    "a producer": (registered, f"{ROOT}/producers/p"),
}


@pytest.mark.parametrize("what", RESTS_ON)
async def test_a_read_of_what_is_not_durable_yet_waits_no_longer_than_its_caller(what: str) -> None:
    write, path = RESTS_ON[what]
    async with slow_http() as (http, served):
        served.disk.hold()
        writing = await served.begin(write(served))
        await given_up(http, served, path)
        await served.disk.release()
        assert writing.exception() is None
        assert (await http.call("GET", path, headers=WAITED)).status == 200


async def test_rows_that_a_slow_disk_does_not_bring_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, ended = asyncio.Event(), asyncio.Event()

    async def fetch(*_: object) -> Any:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with slow_http() as (http, served):
        await produced(served)
        with monkeypatch.context() as patched:
            patched.setattr(GatedLedger, "fetch", fetch)
            await given_up(http, served, RECORDS)
        assert asked.is_set()
        assert ended.is_set(), "no read continues without a reader"
        assert (await http.call("GET", RECORDS, headers=WAITED)).status == 200


async def test_a_read_in_several_steps_is_abandoned_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    goes = 0
    good = GatedLedger.fetch

    async def fetch(self: GatedLedger, *asked: Any) -> Any:
        nonlocal goes
        goes += 1
        served.clock.advance(TIMEOUT_MS // 2)
        await run_ready_tasks()
        return (await good(self, *asked))[:1]

    async with slow_http() as (http, served):
        for call in range(5):
            await served.produce(rows_of(call), call=call)
        monkeypatch.setattr(GatedLedger, "fetch", fetch)
        (await http.call("GET", RECORDS, headers=WAITED)).problem(504, "DEADLINE")
        await run_ready_tasks()
        assert 2 <= goes < 5, "one that was begun may end"


async def test_an_old_id_reported_too_late_by_slow_runs_is_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    async with slow_http() as (http, served):
        await filled(served)
        cold = served.shard.journal.index.claims.cold
        assert cold.runs
        find = type(cold).find
        path = f"{ROOT}/ids:explain?id=id%200"

        def slowly(self: Any, ids: Any) -> Any:
            served.clock.advance(TIMEOUT_MS)
            return find(self, ids)

        with monkeypatch.context() as patched:
            patched.setattr(type(cold), "find", slowly)
            problem = (await http.call("GET", path, headers=WAITED)).problem(504, "DEADLINE")
        assert problem["effect"] == "none"
        assert (await http.call("GET", path, headers=WAITED)).json["state"] == "DONE"
        assert (await http.call("GET", path)).json["state"] == "DONE", "without a deadline it waits"


@pytest.mark.parametrize("wrong", ["0", "-1", "1.5", "soon", str(2**32)])
async def test_a_deadline_that_is_none_is_refused_by_every_read(wrong: str) -> None:
    async with slow_http() as (http, served):
        await produced(served)
        for path in (RECORDS, f"{ROOT}/topics/topic", f"{ROOT}/topics", ROOT, f"{ROOT}/ids:explain?id=a"):
            (await http.call("GET", path, headers={"Oncegate-Timeout-Ms": wrong})).problem(400, "BAD_REQUEST")
