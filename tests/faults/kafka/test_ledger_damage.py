"""A ledger on Kafka that was truncated, set back or recreated, or whose topics or keys are wrong, never serves."""

import asyncio
import base64
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from aiokafka.errors import TopicAuthorizationFailedError
from confluent_kafka import TopicPartition

from oncegate.core.errors import BadRequest, KeyMismatch, LedgerDamaged, LedgerDown, LedgerFull, NotFound, OncegateError
from oncegate.ledgers.kafka.ledgers import open_kafka
from oncegate.ports import Ledger, TrimRanges
from oncegate.testing.ledger_places import BIG, chunk_of, outputs_of, publish, range_of, snapshot_of
from tests.support.kafka_broker import WAIT_S, Broker
from tests.support.kafka_ledger import Prefix, entries
from tests.support.kafka_topics import configure, make, put, remove

pytestmark = pytest.mark.slow


@pytest.fixture
def prefix(broker: Broker) -> Prefix:
    return Prefix(broker)


async def appended(prefix: Prefix, *bodies: bytes) -> None:
    async with prefix.opened() as opened:
        for body in bodies:
            await opened.ledger.append([body], [])


async def refused(prefix: Prefix, words: str, kind: type[OncegateError] = LedgerDamaged) -> None:
    """Checks two openings, so that the first refused one has written nothing that makes the second succeed."""
    for _ in range(2):
        with pytest.raises(kind, match=words):
            async with prefix.opened():
                pass


async def test_a_ledger_whose_first_frames_are_gone_never_serves(prefix: Prefix, broker: Broker) -> None:
    await appended(prefix, b"a", b"b", b"c")
    cut = TopicPartition(prefix.frames, 0, 3)
    broker.admin.delete_records([cut])[cut].result(WAIT_S)
    await refused(prefix, "lacks its first frames")


async def test_a_ledger_that_ends_before_its_witness_never_serves(prefix: Prefix, broker: Broker) -> None:
    await appended(prefix, b"a")
    ahead = {"serial": 99, "position": 98, "chain": base64.b64encode(bytes(16)).decode()}
    put(broker, f"{prefix.name}.namespaces", f"w/{prefix.name}.default/1/1", ahead)
    await refused(prefix, "acknowledged entries would be forgotten")


async def test_a_ledger_of_another_history_than_its_witness_saw_never_serves(prefix: Prefix, broker: Broker) -> None:
    await appended(prefix, b"a", b"b")
    other = {"serial": 2, "position": 1, "chain": base64.b64encode(bytes(16)).decode()}
    put(broker, f"{prefix.name}.namespaces", f"w/{prefix.name}.default/1/7", other)
    # Among several witnesses the one that saw most decides.
    await appended_nothing(prefix)
    other["serial"], other["position"] = 4, 3
    put(broker, f"{prefix.name}.namespaces", f"w/{prefix.name}.default/1/7", other)
    await refused(prefix, "another history")


async def appended_nothing(prefix: Prefix) -> None:
    async with prefix.opened():
        pass


async def test_a_recreated_ledger_never_serves(prefix: Prefix, broker: Broker) -> None:
    await appended(prefix, b"a")
    remove(broker, prefix.frames)
    await refused(prefix, "are missing")
    make(broker, prefix.frames)
    await refused(prefix, "was made anew")


async def test_records_of_others_in_its_topic_are_refused(prefix: Prefix, broker: Broker) -> None:
    await appended(prefix, b"a")
    put(broker, prefix.frames, "somebody", "else")
    await refused(prefix, "no frame begins there")


async def test_a_missing_list_is_not_recreated(prefix: Prefix, broker: Broker) -> None:
    await appended(prefix, b"a")
    remove(broker, f"{prefix.name}.namespaces")
    await refused(prefix, "put the list back")


async def test_topics_that_the_list_does_not_know_are_not_taken_over(prefix: Prefix, broker: Broker) -> None:
    await appended(prefix, b"a")
    make(broker, f"{prefix.name}.other.states")
    put(broker, f"{prefix.name}.other.states", "somebody", "else")
    async with open_kafka(prefix.place()) as ledgers:
        with pytest.raises(LedgerDamaged, match="does not list"):
            await ledgers.create("other")
        assert ledgers.names() == ["default"]


async def test_foreign_topics_of_a_namespace_are_accepted_while_they_are_empty(prefix: Prefix, broker: Broker) -> None:
    await appended(prefix, b"a")
    make(broker, f"{prefix.name}.other.states", unclean_leader_election_enable="false", retention_bytes="-1")
    async with open_kafka(prefix.place()) as ledgers:
        await ledgers.create("other")
        async with ledgers.open("other") as opened:
            await opened.ledger.append([b"b"], [])


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("cleanup.policy", "compact"),
        ("retention.ms", "604800000"),
        ("unclean.leader.election.enable", "true"),
        ("max.message.bytes", "900000"),
    ],
)
async def test_topics_that_would_lose_something_are_refused_by_name(
    prefix: Prefix, broker: Broker, setting: str, value: str
) -> None:
    await appended(prefix, b"a")
    configure(broker, prefix.frames, setting, value)
    await refused(prefix, f"{prefix.frames} has {setting}={value}")


async def test_settings_that_change_under_an_owner_end_its_ownership(
    prefix: Prefix, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncegate.ledgers.server.ledgers.CHECK_S", 0.0)
    monkeypatch.setattr("oncegate.ledgers.server.ledgers.KEEP_UP_S", 0.05)
    async with prefix.opened() as opened:
        await opened.ledger.append([b"a"], [])
        configure(broker, prefix.frames, "retention.ms", "86400000")
        with pytest.raises(LedgerDamaged, match=r"retention\.ms=86400000, not -1"):
            await appended_until_refused(opened.ledger)


async def test_a_topic_recreated_under_an_owner_ends_its_ownership_with_the_next_append(
    prefix: Prefix, broker: Broker
) -> None:
    async with prefix.opened() as opened:
        for body in (b"a", b"b"):
            await opened.ledger.append([body], [])
        remove(broker, prefix.frames)
        make(broker, prefix.frames)
        with pytest.raises(LedgerDamaged, match=f"{prefix.frames} goes on at offset .* made anew or cut"):
            await appended_until_taken(opened.ledger)
        with pytest.raises(LedgerDamaged):
            await opened.ledger.append([b"d"], [])
    await refused(prefix, "topic")


async def appended_until_taken(ledger: Ledger) -> None:
    """A broker may not know a new topic for a moment."""
    async with asyncio.timeout(WAIT_S):
        while True:
            with suppress(LedgerFull):
                await ledger.append([b"c"], [])
                return


async def test_frames_that_are_deleted_under_an_owner_end_its_ownership(
    prefix: Prefix, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncegate.ledgers.server.ledgers.CHECK_S", 0.0)
    monkeypatch.setattr("oncegate.ledgers.server.ledgers.KEEP_UP_S", 0.05)
    async with prefix.opened() as opened:
        # An owner's own deletion is none of these.
        await opened.ledger.append([b"a"], [])
        await opened.ledger.compact(1, snapshot_of(b"state"))
        await opened.ledger.keep_up()  # type: ignore[attr-defined]
        await opened.ledger.check_frames()  # type: ignore[attr-defined]
        await opened.ledger.append([b"b"], [])
        cut = TopicPartition(prefix.frames, 0, broker.ends(prefix.frames)[1])
        broker.admin.delete_records([cut])[cut].result(WAIT_S)
        with pytest.raises(LedgerDamaged, match=f"{prefix.frames} has offsets .* are needed"):
            await appended_until_refused(opened.ledger)


async def appended_until_refused(ledger: Ledger) -> None:
    async with asyncio.timeout(WAIT_S):
        for number in count():
            await ledger.append([b"%d" % number], [])


async def test_an_upkeep_that_fails_while_appends_succeed_ends_the_ownership(
    prefix: Prefix, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forbidden(*_: object) -> None:
        raise TopicAuthorizationFailedError(f"{prefix.name}.namespaces")

    monkeypatch.setattr("oncegate.ledgers.kafka.shard.ledger.BEHIND_S", 0.0)
    monkeypatch.setattr("oncegate.ledgers.server.ledgers.KEEP_UP_S", 3_600.0)
    async with prefix.opened() as opened:
        ledger: Any = opened.ledger
        monkeypatch.setattr("oncegate.ledgers.kafka.namespaces.NamespaceTopic.witness", forbidden)
        await ledger.append([b"a"], [])
        await ledger.keep_up()
        # Nothing has been written since. The brokers may be unavailable, which the next append will show.
        await ledger.keep_up()
        await ledger.append([b"b"], [])
        await ledger.keep_up()
        with pytest.raises(LedgerDown, match=r"upkeep .* TopicAuthorizationFailed"):
            await ledger.append([b"c"], [])
        with pytest.raises(LedgerDown):
            opened.require_owner()  # no append has failed


async def test_an_upkeep_that_raises_is_reported_by_the_next_append(
    prefix: Prefix, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("oncegate.ledgers.server.ledgers.KEEP_UP_S", 0.05)
    async with prefix.opened() as opened:
        monkeypatch.setattr("oncegate.ledgers.kafka.shard.ledger.KafkaLedger.keep_up", broken)
        with pytest.raises(LedgerDown, match="ZeroDivisionError"):
            await appended_until_refused(opened.ledger)
        with pytest.raises(LedgerDown):
            opened.require_owner()  # no append has failed
        monkeypatch.undo()


async def test_fewer_replicas_than_configured_are_refused(prefix: Prefix) -> None:
    await appended(prefix, b"a")
    place = prefix.place().replace("replication=1", "replication=3").replace("min_insync=1", "min_insync=2")
    with pytest.raises(LedgerDamaged, match=r"min\.insync\.replicas=1, less than 2.* 1 replicas, not 3"):
        async with open_kafka(place):
            pass


async def test_without_a_list_there_is_nothing_to_open(prefix: Prefix) -> None:
    with pytest.raises(NotFound):
        async with open_kafka(prefix.place()):
            pass


async def test_compacted_records_are_deleted_and_the_rest_is_read(prefix: Prefix, broker: Broker) -> None:
    async with prefix.opened() as opened:
        ledger = opened.ledger
        await ledger.append([b"a"], [range_of(1, 3), publish(0, 1, topic="u")])
        await ledger.append([b"b"], [range_of(2, 3), publish(0, 2)])
        await ledger.append([b"c"], [])
        await ledger.append([b"d"], [TrimRanges("u", 0, 3)])
        await ledger.compact(3, snapshot_of(b"state"))
        await ledger.keep_up()  # type: ignore[attr-defined]
        assert await entries(ledger) == [b"state", b"d"]
        assert await outputs_of(opened).fetch("t", 0, 0, 9, BIG) == [chunk_of(0, range_of(2, 3))]
    low = {topic: broker.low(f"{prefix.name}.default.{topic}") for topic in ("ledger", "outputs")}
    assert all(offset > 0 for offset in low.values()), low
    async with prefix.opened() as opened:
        assert await entries(opened.ledger) == [b"state", b"d"]
        assert await outputs_of(opened).fetch("t", 0, 0, 9, BIG) == [chunk_of(0, range_of(2, 3))]
        assert await outputs_of(opened).fetch("u", 0, 3, 9, BIG) == []


@pytest.fixture
def masters(tmp_path: Path) -> list[Path]:
    files = [tmp_path / f"master-{number}.key" for number in range(2)]
    for number, file in enumerate(files):
        file.write_text(f"{number:064x}\n")
    return files


async def test_another_master_key_is_refused_before_anything_is_written(broker: Broker, masters: list[Path]) -> None:
    first, second = masters
    prefix = Prefix(broker, f"master_key={first}")
    async with prefix.opened() as opened:
        key = opened.key
        await opened.ledger.append([b"a"], [])
    wrong = Prefix(broker, f"master_key={second}")
    wrong.name = prefix.name
    await refused(wrong, "another master key", KeyMismatch)
    wrong.options = "bare_key=yes"
    await refused(wrong, "names none", KeyMismatch)
    both = f"master_key={second}&old_master_key={first}"
    async with prefix.opened(options=both) as opened:
        assert opened.key == key
    async with prefix.opened(options=f"master_key={second}") as opened:
        assert (opened.key, await entries(opened.ledger)) == (key, [b"a"])
    await refused(prefix, "another master key", KeyMismatch)


async def test_a_bare_key_is_in_no_topic_of_a_ledger_with_a_master_key(broker: Broker, masters: list[Path]) -> None:
    prefix = Prefix(broker, f"master_key={masters[0]}")
    async with prefix.opened() as opened:
        key = opened.key
        await opened.ledger.append([b"a"], [])
        await opened.ledger.compact(1, snapshot_of(b"state"))
    written = b"".join(
        value
        for topic in ("namespaces", "default.ledger", "default.states")
        for value in broker.values(f"{prefix.name}.{topic}")
    )
    assert written
    assert key not in written
    assert base64.b64encode(key).rstrip(b"=")[:-1] not in written


async def test_a_witness_elsewhere_is_refused() -> None:
    with pytest.raises(BadRequest, match="witness"):
        async with open_kafka("//localhost:1/p?bare_key=yes", witness="/tmp/witness"):
            pass
