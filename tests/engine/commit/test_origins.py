"""The writer and number of each record: assigned once, whatever is repeated, refused or restarted."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from oncegate.core.claims import Verb
from oncegate.core.entries.kinds import Name
from oncegate.core.errors import BadRequest, LedgerFull
from oncegate.engine.commit.origins import of_batch
from oncegate.engine.maintenance.scheduler import COMPACT_AGAIN_MS
from oncegate.engine.requests import ProduceRequest, SettingsRequest
from oncegate.ports import Origin
from tests.support.memory_gateway import (
    GatedLedgers,
    Served,
    id16,
    rows_of,
    run_ready_tasks,
    serving,
    verdicts_of,
    wait_until,
    winner,
)
from tests.support.producing_lanes import Lanes
from tests.support.sending import SendingLedgers

GOLDEN = {
    golden["what"]: golden
    for golden in json.loads((Path(__file__).parents[2] / "golden/kafka/record_headers.json").read_text())
}


@asynccontextmanager
async def telling(ledgers: SendingLedgers | None = None) -> AsyncIterator[tuple[Served, SendingLedgers]]:
    """Yields a gateway whose default namespace adds headers to records."""
    ledgers = ledgers or SendingLedgers()
    async with serving(ledgers) as served:
        await served.namespace.settings.configure(SettingsRequest(record_headers=True), served.deadline())
        yield served, ledgers


BOTH = SettingsRequest(auto_create_topics=False, record_headers=True)


async def produce(served: Served, *numbers: int, token: int = 1, call: int = 1, payloads: str | None = None) -> Any:
    """Produces rows whose column `n` is the id."""
    ids = served.namespace.fingerprints().of_array(pa.array([str(number) for number in numbers], pa.string()))
    digests = None if payloads is None else served.namespace.payloads.of_columns([pa.array(list(payloads))])
    ask = ProduceRequest("topic", id16(token), call, rows_of(*numbers), ids, digests=digests)
    return await served.namespace.records.produce(ask, served.deadline())


def parts_of(origin: Origin | None) -> tuple[str, str, int, int]:
    """Returns namespace, producer, epoch, and the first row's number."""
    assert origin is not None
    first = origin.first if origin.sequences is None else int(origin.sequences[0])
    return origin.namespace, origin.producer, origin.epoch, first


def golden(what: str) -> tuple[str, str, int]:
    return GOLDEN[what]["namespace"], GOLDEN[what]["producer"], GOLDEN[what]["epoch"]


async def test_rows_by_id_are_numbered_as_they_are_written_and_not_as_they_came() -> None:
    async with telling() as (served, ledgers):
        await produce(served, 1, 2, 1, call=2**32 - 1)
        await produce(served, 2, 3, call=5)
        await produce(served, 3, call=6)
        first, second = ledgers.origins()
    assert parts_of(first) == (*golden("rows of a call"), 0)
    assert parts_of(second) == ("default", f"attempt:{id16(1).hex()}", 5, 0)


async def test_rows_of_a_repeat_continue_after_those_of_its_call() -> None:
    ledgers = SendingLedgers()
    async with telling(ledgers) as (served, _):
        claimed = await served.claim("2", token=9)
        assert verdicts_of(await produce(served, 1, 2, 3)) == ["GRANTED", "BUSY", "GRANTED"]
        await served.settle(Verb.RELEASE, claimed.claim)
        assert verdicts_of(await produce(served, 1, 2, 3)) == ["DUPLICATE+OWN", "GRANTED", "DUPLICATE+OWN"]
        assert [parts_of(one)[2:] for one in ledgers.origins()] == [(1, 0), (1, 2)]
        await served.claim("4", token=9, call=2)
        await produce(served, 3, 4, 5, token=2)
    async with telling(ledgers) as (served, _):
        served.clock.advance(served.shard.journal.limits.lease_ms + 1)
        await produce(served, 3, 4, 5, token=2)
    assert [parts_of(one)[2:] for one in ledgers.origins()] == [(1, 0), (1, 1)]


async def test_a_refused_request_that_comes_again_gets_the_same_answer() -> None:
    async with telling() as (served, ledgers):
        served.disk.faults = ["full"]
        with pytest.raises(LedgerFull):
            await produce(served, 1, 2)
        await run_ready_tasks()
        served.clock.advance(1_000)
        await run_ready_tasks()
        await produce(served, 1, 2)
        (origin,) = ledgers.origins()
    assert parts_of(origin) == ("default", f"attempt:{id16(1).hex()}", 1, 0)


async def test_a_repeat_of_rows_without_ids_gets_the_same_origin_so_that_a_reader_recognizes_it() -> None:
    async with telling() as (served, ledgers):
        for _ in range(2):
            await served.produce(rows_of(1, 2))
        origins = ledgers.origins()
    assert [parts_of(one) for one in origins] == [("default", f"attempt:{id16(1).hex()}", 1, 0)] * 2


async def test_payloads_digests_are_those_of_the_rows_that_are_written() -> None:
    async with telling() as (served, ledgers):
        await produce(served, 1, call=0)
        await produce(served, 1, 2, 3, call=1, payloads="xyz")
        before, origin = ledgers.origins()
        wanted = served.namespace.payloads.of_columns([pa.array(["y", "z"])])
    assert before is not None
    assert before.digests is None
    assert origin is not None
    assert origin.digests is not None
    assert parts_of(origin) == (*golden("rows of a call with payloads")[:2], 1, 0)
    assert np.array_equal(origin.digests, wanted)


async def test_rows_by_sequence_have_the_producers_name_its_epoch_and_their_own_numbers() -> None:
    async with telling() as (served, ledgers):
        lane = Lanes(served)
        await lane.driver()
        await lane.register()
        await lane.produce(0, [3, 5])
        await lane.produce(1, [3, 5, 9, 12])
        first, second = ledgers.origins()
    assert parts_of(first) == ("default", "producer:p", 1, 3)
    assert golden("by a producer's sequences")[1] == "producer:events-3"
    assert second is not None
    assert second.sequences is not None
    assert second.sequences.tolist() == [9, 12]


async def test_rows_of_a_batch_are_numbered_over_all_winners_and_chunks() -> None:
    name = Name("etl", "42", "flüge", '"second"')
    async with telling() as (served, ledgers):
        chunks = [await served.stage(rows_of(1, 2), name, token=1), await served.stage(rows_of(3), name, token=2)]
        await served.stage(rows_of(7), name, token=3)
        winners = winner(chunks[1], token=2), winner(chunks[0], token=1)
        await served.commit(*winners, name=name)
        (send,) = ledgers.sent
        staged = [entry for group in served.disk.appends for entry in group if type(entry).__name__ == "Staged"]
    assert parts_of(send.origin) == (*golden("a batch"), 0)
    ranges = {entry.token: entry.parts[0].range_id for entry in staged}  # type: ignore[union-attr]
    assert send.range_ids == (ranges[id16(2)], ranges[id16(1)])


@pytest.mark.parametrize(
    ("version", "epoch", "is_named"),
    [
        ("0", 0, False),
        ("18446744073709551615", 2**64 - 1, False),
        *((version, 0, True) for version in ("18446744073709551616", "00", "-1", "1.0", "٤", "2026-11-23", "9" * 500)),
    ],
)
def test_a_version_is_the_epoch_where_it_is_a_number_and_else_a_part_of_the_name(
    version: str, epoch: int, is_named: bool
) -> None:
    origin = of_batch("default", Name("etl", version, "flights"))
    named = ["etl", "flights", "", *([version] if is_named else [])]
    assert (json.loads(origin.producer.removeprefix("batch:")), origin.epoch) == (named, epoch)
    if version == "2026-11-23":
        assert parts_of(origin)[:3] == golden("a batch whose version is no number")


def test_no_two_batches_have_the_same_origin() -> None:
    parts = ["", "a", '"', '","', "\\", 'a","b', "\n", "é", "\\u00e9", "0"]
    names = [Name(app, version, "t", write) for app in parts for version in ("0", "1", *parts) for write in parts]
    assert len({parts_of(of_batch("n", name)) for name in names}) == len(set(names))


async def test_rows_are_checked_with_the_headers_that_they_will_have() -> None:
    async with telling() as (served, ledgers):
        await produce(served, 1)
        await served.produce(rows_of(2), call=2)
        await served.stage(rows_of(3))
        checked = [parts_of(one)[1] for one in ledgers.elsewhere.checked]
    attempt = f"attempt:{id16(1).hex()}"
    assert checked == [attempt, attempt, 'batch:["query","topic",""]']


async def test_without_the_setting_no_record_names_its_writer() -> None:
    ledgers = SendingLedgers()
    async with serving(ledgers) as served:
        await produce(served, 1)
        await served.commit(winner(await served.stage(rows_of(3))))
        assert not served.namespace.settings.record_headers
    assert ledgers.origins() == [None, None]
    assert set(ledgers.elsewhere.checked) == {None}


async def test_the_setting_is_refused_where_rows_stay_and_where_anything_is_there_and_nothing_else_changes() -> None:
    async with serving() as served:
        with pytest.raises(BadRequest, match=r"lie in topics of its own.*kafka://"):
            await served.namespace.settings.configure(BOTH, served.deadline())
        assert served.namespace.settings.auto_create_topics
        await served.namespace.settings.configure(SettingsRequest(record_headers=False), served.deadline())
    async with telling() as (served, _):
        await served.namespace.settings.configure(SettingsRequest(record_headers=False), served.deadline())
        await produce(served, 1)
        with pytest.raises(BadRequest, match="before anything is written"):
            await served.namespace.settings.configure(BOTH, served.deadline())
        assert (served.namespace.settings.auto_create_topics, served.namespace.settings.record_headers) == (True, False)


async def test_the_setting_is_kept_by_restarts_and_compactions_and_by_other_settings() -> None:
    ledgers: GatedLedgers = SendingLedgers()
    async with serving(ledgers) as served:
        await served.namespace.settings.configure(SettingsRequest(record_headers=True), served.deadline())
        await served.namespace.settings.configure(SettingsRequest(auto_create_topics=False), served.deadline())
    async with serving(ledgers, collect_bytes=1) as served:
        assert (served.namespace.settings.record_headers, served.namespace.settings.auto_create_topics) == (True, False)
        served.clock.advance(COMPACT_AGAIN_MS)
        served.shard.scheduler.step()
        await wait_until(lambda: "compaction" in served.events.names())
    async with serving(ledgers) as served:
        assert served.namespace.settings.record_headers
