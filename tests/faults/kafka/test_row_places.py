"""The row offsets in answers point at the request's rows on the broker."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from oncegate_spark import Gateway
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_broker import WAIT_S, Broker
from tests.support.kafka_places import CommittedRecords, Record, post, produce
from tests.support.kafka_users import client_of, url
from tests.support.staged_batches import Batch

pytestmark = pytest.mark.slow

_tokens = count(1)


@pytest.fixture(scope="module")
def gateway(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path_factory.mktemp("gateway"), ledger=url(broker, "places")) as gateway:
        yield gateway


def keyed(*numbers: int) -> list[Record]:
    """Returns rows whose keys spread them over the partitions."""
    return [{"key": f"k-{number}", "value": f"v-{number}"} for number in numbers]


def values(records: list[Record]) -> list[str]:
    return [record["value"] for record in records]


def foreign(broker: Broker, topic: str, rows: int, partition: int = 0) -> None:
    """Writes rows of another producer to the topic."""
    producer = Producer({"bootstrap.servers": broker.cluster.bootstrap})
    for number in range(rows):
        producer.produce(topic, f"foreign-{number}".encode(), partition=partition)
    producer.flush(WAIT_S)


def test_rows_of_one_request_are_at_the_offsets_of_its_answer_and_of_its_repeat(
    broker: Broker, gateway: GatewayProcess
) -> None:
    topic, records, token = broker.topic(5).topic, keyed(*range(200)), next(_tokens)
    foreign(broker, topic, 3, partition=1)
    first = produce(gateway, topic, records, token)
    assert len({one["partition"] for one in first["offsets"]}) == 5
    foreign(broker, topic, 2, partition=1)
    again = produce(gateway, topic, records, token)
    assert (again["rows"], again["offsets"]) == (0, [])
    assert again["offsets_before"] == first["offsets"]
    lying = CommittedRecords(broker, {topic: 5})
    assert sorted(lying.in_ranges(topic, first["offsets"])) == sorted(values(records))
    other = produce(gateway, topic, records, next(_tokens))
    assert "offsets_before" not in other


@pytest.mark.parametrize("rows", [1, 2, 300])
def test_each_row_is_located_when_it_is_written_and_when_anybody_brings_it_again(
    broker: Broker, gateway: GatewayProcess, rows: int
) -> None:
    topic, token = broker.topic(4).topic, next(_tokens)
    records = keyed(*range(rows))
    first = produce(gateway, topic, records, token, locate=True)
    own = produce(gateway, topic, records, token, locate=True)
    other = produce(gateway, topic, list(reversed(records)), next(_tokens), locate=True)
    lying = CommittedRecords(broker, {topic: 4})
    assert lying.located(first) == lying.located(own) == values(records)
    assert lying.located(other) == values(records)[::-1]


def test_a_request_that_writes_some_of_its_rows_returns_all(broker: Broker, gateway: GatewayProcess) -> None:
    topic, mine = broker.topic(3).topic, keyed(*range(40))
    produce(gateway, topic, mine[::3], next(_tokens))
    foreign(broker, topic, 5)
    token = next(_tokens)
    first = produce(gateway, topic, mine, token, locate=True)
    again = produce(gateway, topic, mine, token, locate=True)
    lying = CommittedRecords(broker, {topic: 3})
    assert lying.located(first) == lying.located(again) == values(mine)
    granted = [record["value"] for number, record in enumerate(mine) if number % 3]
    assert sorted(lying.in_ranges(topic, again["offsets_before"])) == sorted(granted)


def test_rows_that_name_their_topics_are_returned_with_them(broker: Broker, gateway: GatewayProcess) -> None:
    one, other = broker.topic(2).topic, broker.topic(2).topic
    records = [{"key": f"k-{n}", "value": f"{one}-{n}", "topic": (one, other)[n % 2]} for n in range(20)]
    token = next(_tokens)
    first = produce(gateway, one, records, token, locate=True)
    again = produce(gateway, one, records, token, locate=True)
    lying = CommittedRecords(broker, {one: 2, other: 2})
    for ranges in (first["offsets"], again["offsets_before"]):
        assert sorted(lying.in_ranges(one, ranges)) == sorted(values(records))
        assert {part.get("topic") for part in ranges} == {None, other}
    assert lying.located(first) == lying.located(again) == values(records)
    assert {place["topic"] for place in (verdict["place"] for verdict in again["verdicts"])} == {one, other}


def test_a_partition_that_needs_several_batches_has_a_range_of_each_stretch(
    broker: Broker, gateway: GatewayProcess
) -> None:
    topic, token = broker.topic(2).topic, next(_tokens)
    filling = "x" * 300_000
    records = [{"id": n, "value": f"{n}-{filling}", "partition": n % 2} for n in range(12)]
    first = produce(gateway, topic, records, token, locate=True, id_col=["id"])
    again = produce(gateway, topic, records, token, locate=True, id_col=["id"])
    lying = CommittedRecords(broker, {topic: 2})
    assert sorted(lying.in_ranges(topic, first["offsets"])) == sorted(values(records))
    assert again["offsets_before"] == first["offsets"]
    assert lying.located(first) == lying.located(again) == values(records)


def test_rows_without_ids_are_returned_with_their_offsets(broker: Broker, gateway: GatewayProcess) -> None:
    topic, records = broker.topic(3).topic, keyed(*range(30))
    answer = produce(gateway, topic, records, next(_tokens), id_col=None)
    assert sorted(CommittedRecords(broker, {topic: 3}).in_ranges(topic, answer["offsets"])) == sorted(values(records))


def test_the_python_client_reads_offsets_topics_and_places(broker: Broker, gateway: GatewayProcess) -> None:
    one, other = broker.topic(2).topic, broker.topic(2).topic
    rows = pa.table({"key": list("abcdef"), "value": list("abcdef"), "topic": [one, other] * 3})
    with client_of(gateway) as client:
        first = client.attempt().produce(one, rows, id_col="key")
        again = client.attempt().produce(one, rows, id_col="key", locate=True)
    lying = CommittedRecords(broker, {one: 2, other: 2})
    told = [{**vars(part), "topic": part.topic or one} for part in first.offsets]
    assert sorted(lying.in_ranges(one, told)) == list("abcdef")
    assert [lying.at(vars(place)) for place in again.places if place is not None] == list("abcdef")


def test_explain_returns_the_row_s_own_offset(broker: Broker, gateway: GatewayProcess) -> None:
    topic = broker.topic(4).topic
    produce(gateway, topic, keyed(*range(50)), next(_tokens))
    lying = CommittedRecords(broker, {topic: 4})
    for number in (0, 7, 49):
        _, answer = gateway.ask("GET", f"/v1/namespaces/default/ids:explain?id=v-{number}&id_set={topic}")
        assert lying.values[answer["topic"], answer["partition"], answer["first_offset"]] == f"v-{number}"


def test_a_repeat_by_sequence_returns_the_first_answer_s_offsets(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic(3).topic
    records = [{**record, "n": number} for number, record in enumerate(keyed(*range(40)))]
    with GatewayProcess(tmp_path, ledger=url(broker, "places-of-sequences")) as gateway:
        driver = {"token": f"{next(_tokens):032x}"}
        token = next(_tokens)
        post(gateway, "/drivers/d:register", driver)
        post(gateway, "/producers/p:register", {"token": f"{token:032x}", "driver": "d"})
        request = {"id_col": None, "producer": "p", "epoch": 1, "sequence_col": "n"}
        first = produce(gateway, topic, records, token, **request)
        foreign(broker, topic, 2)
        again = produce(gateway, topic, records, token, **request)
        gateway.kill()
        gateway.start()
        later = produce(gateway, topic, records, token, **request)
    assert (again["rows"], again["offsets"]) == (0, [])
    assert first["offsets"] == again["offsets_before"] == later["offsets_before"]
    assert sorted(CommittedRecords(broker, {topic: 3}).in_ranges(topic, first["offsets"])) == sorted(values(records))


@pytest.mark.parametrize("ends", ["a restart", "another gateway"])
def test_places_outlive_a_gateway(broker: Broker, tmp_path: Path, ends: str) -> None:
    topic, ledger = broker.topic(3).topic, url(broker, f"places-{ends.split()[-1]}")
    records, token = keyed(*range(60)), next(_tokens)
    for name in ("owner", "next"):
        (tmp_path / name).mkdir()
    with GatewayProcess(tmp_path / "owner", "--standby", ledger=ledger) as owner:
        first = produce(owner, topic, records, token)
        follower = owner if ends == "a restart" else GatewayProcess(tmp_path / "next", "--standby", ledger=ledger)
        if follower is not owner:
            follower.stand_by()
        owner.kill()
        if follower is owner:
            owner.start()
        try:
            follower.wait_until("serves", follower.is_ready)
            foreign(broker, topic, 4)
            own = produce(follower, topic, records, token, locate=True)
            other = produce(follower, topic, records, next(_tokens), locate=True)
        finally:
            follower.kill()
    lying = CommittedRecords(broker, {topic: 3})
    assert own["offsets_before"] == first["offsets"]
    assert sorted(lying.in_ranges(topic, first["offsets"])) == sorted(values(records))
    assert lying.located(own) == lying.located(other) == values(records)


def batch_of(client: Gateway, topic: str, run: str, records: list[Record]) -> Batch:
    """Stages two chunks."""
    batch = Batch(client, topic, run)
    for part in (records[::2], records[1::2]):
        batch.stage(pa.Table.from_pylist(part))
    return batch


def test_a_commit_and_each_repeat_return_the_offsets_of_its_rows(broker: Broker, tmp_path: Path) -> None:
    topic, records = broker.topic(4).topic, keyed(*range(120))
    foreign(broker, topic, 3, partition=2)
    with GatewayProcess(tmp_path, ledger=url(broker, "places-of-batches")) as gateway:
        with client_of(gateway) as client:
            batch, replay = (batch_of(client, topic, run, records) for run in ("r" * 8, "s" * 8))
            done = batch.commit()
        foreign(broker, topic, 2, partition=2)
        gateway.kill()
        gateway.start()
        with client_of(gateway) as client:
            again = batch.through(client).commit()
            replay = replay.through(client).commit()
    assert [one.outcome for one in (done, again, replay)] == ["COMMITTED", "COMMITTED", "DUPLICATE"]
    assert done.offsets == again.offsets == replay.offsets
    told = [{**vars(part), "topic": topic} for part in done.offsets]
    assert sorted(CommittedRecords(broker, {topic: 4}).in_ranges(topic, told)) == sorted(values(records))
