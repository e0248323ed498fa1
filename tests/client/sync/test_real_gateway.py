"""Every call of both clients against a real gateway."""

import itertools
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from oncegate_spark import Gateway
from oncegate_spark.errors import BadId, LedgerBehind, NotCompleted, NotEmpty, NotFound, Refused
from oncegate_spark.protocol import codecs
from oncegate_spark.protocol.effort import new_token
from oncegate_spark.protocol.names import BatchName
from tests.support.clients import Connect
from tests.support.gateway_process import GatewayProcess

pytestmark = pytest.mark.server
COUNT = itertools.count()
SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64())])


@pytest.fixture
def client(gateway_process: GatewayProcess, connect: Connect) -> Iterator[Any]:
    with connect(gateway_process.url, f"real-{next(COUNT)}", timeout_ms=20_000) as made:
        made.create_namespace()
        yield made


def rows(*ids: str) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.string()), "n": pa.array(range(len(ids)), pa.int64())})


def there(client: Any, topic: str = "t") -> Counter[str]:
    table = client.read(topic)
    return Counter() if table is None else Counter(table.column("id").to_pylist())


def test_a_claim_is_completed_and_then_known(client: Any) -> None:
    with client.attempt() as attempt:
        claimed = attempt.claim(["a", "b", "a"])
        assert (claimed.granted, claimed.dropped) == (["a", "b"], ["a"])
        with attempt.holding(claimed):
            assert client.explain("a")["state"] == "CLAIMED_LIVE"
        attempt.complete(claimed)
        assert attempt.claim(["a", "b"]).dropped == ["a", "b"]


def test_released_ids_can_be_claimed_by_others(client: Any) -> None:
    with client.attempt() as attempt:
        attempt.release(attempt.claim(["a"]))
    with client.attempt() as other:
        other.complete(other.claim(["a"]))
    assert client.explain("a")["state"] == "DONE"


def test_a_namespace_is_deleted_by_name_and_the_same_client_makes_it_again(client: Any) -> None:
    with client.attempt() as attempt:
        attempt.complete(attempt.claim(["a"]))
    with pytest.raises(NotEmpty) as refused:
        client.delete_namespace()
    assert refused.value.holds == {"ids": 1}
    client.delete_namespace(confirm=client.namespace)
    with pytest.raises(NotFound):
        client.describe()
    client.create_namespace()
    assert client.explain("a")["state"] == "ABSENT"


def left_open(client: Any) -> None:
    with client.attempt() as attempt:
        attempt.claim(["a"])


def test_leaving_an_attempt_with_an_open_claim_warns_and_releases_nothing(client: Any) -> None:
    with pytest.raises(NotCompleted):
        left_open(client)
    assert client.explain("a")["state"] == "CLAIMED_LIVE"


def test_rows_with_ids_are_written_once_however_often_they_are_produced(client: Any) -> None:
    with client.attempt() as attempt:
        first = attempt.produce("t", rows("a", "b", "a"), id_col="id")
        again = attempt.produce("t", rows("b", "c"), id_col="id")
    with client.attempt() as other:
        third = other.produce("t", rows("a", "b", "c", "d"), id_col="id")
    assert (first.rows, first.suppressed) == (2, 1)
    assert (again.rows, again.own) == (1, 1)
    assert (third.rows, third.suppressed) == (1, 3)
    assert there(client) == Counter("abcd")


def test_an_id_is_one_id_in_every_form_and_through_every_call(client: Any) -> None:
    with client.attempt(id_set="one") as attempt:
        attempt.produce("t", pa.table({"id": [7, 8], "n": [1, 1]}), id_col="id")
        assert attempt.claim(["7"]).dropped == ["7"]
        assert client.take("owner", [8, 10], id_set="one").granted == [10]
        attempt.produce("pairs", pa.table({"a": ["x"], "b": [1]}), id_col=["a", "b"])
        assert attempt.claim([("x", "1")]).dropped == [("x", "1")]
    assert client.explain("x1", "", id_set="one")["state"] == "ABSENT"
    assert client.explain("x", "1", id_set="one")["state"] == "DONE"
    assert client.explain("x", "1")["state"] == "ABSENT"


def test_ids_of_python_values_meet_those_of_typed_rows(client: Any) -> None:
    day, noon = date(2026, 11, 20), datetime(2026, 11, 20, 12, tzinfo=UTC)
    one, amount = UUID(int=7), Decimal("1.50")
    table = pa.table({"at": pa.array([noon], pa.timestamp("ms", "Asia/Tokyo")), "amount": pa.array([amount])})
    with client.attempt(id_set="typed") as attempt:
        attempt.produce("typed", table, id_col="at,amount")
        assert attempt.claim([(noon, Decimal("1.5"))]).dropped == [(noon, Decimal("1.5"))]
        with pytest.raises(BadId, match=r"^ids\[1\]\[0\] is of type datetime without a time zone"):
            attempt.claim([(noon, amount), (noon.replace(tzinfo=None), amount)])
    # A date before a time does not truncate it, and a time without a zone is no instant.
    for wrong in ([day, noon], [noon, noon.replace(tzinfo=None)]):
        for call in (client.look_up, lambda ids: client.take("owner", ids)):
            with pytest.raises(BadId, match=r"^ids\[1\] is of type datetime"):
                call(wrong)
    client.take("owner", [one], id_set="typed")
    assert client.look_up([str(one)], "typed").written == [str(one)]
    assert client.explain(one, id_set="typed")["state"] == client.explain(str(one), id_set="typed")["state"] == "TAKEN"
    with pytest.raises(BadId, match="must be text here"):
        client.explain(noon, id_set="typed")


def test_a_row_that_a_live_claim_holds_is_waited_for_and_then_dropped(client: Any, gateway_process: Any) -> None:
    """The other attempt completes when it sees that the first write of the rest is visible."""
    with Gateway(gateway_process.url, client.namespace) as other, other.attempt(id_set="t") as holder:
        claimed = holder.claim(["b"], 60_000)
        first = client.produce("t", new_token(), 0, body("a", "b"), "id")
        assert (first.verdicts.unsettled, first.verdicts.id_set) == (1, "t")
        holder.complete(claimed)
        with client.attempt() as attempt:
            written = attempt.produce("t", rows("a", "b", "c"), id_col="id")
    assert (written.rows, written.suppressed) == (1, 2)
    assert there(client) == Counter("ac")


def body(*ids: str) -> bytes:
    return codecs.stream(rows(*ids).to_batches())


def test_more_rows_than_one_request_takes_go_in_several(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codecs, "IDS_MAX", 10)
    with client.attempt() as attempt:
        written = attempt.produce("t", rows(*[f"id-{n % 40}" for n in range(100)]), id_col="id")
    assert (written.rows, written.own, written.suppressed) == (40, 60, 0)
    assert there(client) == Counter(f"id-{n}" for n in range(40))


def test_a_producer_is_explained_by_all_its_pages(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oncegate_spark.protocol.calls.producers.PAGE_INTERVALS", 2)
    producer = client.producer("paged", driver="pages")
    producer.register()
    producer.complete(producer.claim(list(range(0, 10, 2))))
    producer.claim([20, 22, 24])
    explained = producer.explain()
    assert explained["done"] == [[n, n] for n in range(0, 10, 2)]
    assert explained["open"] == [[20, 20], [22, 22], [24, 24]]
    assert "next" not in explained


def test_keys_choose_the_partition_and_offsets_have_no_holes(client: Any) -> None:
    client.create_topic("t", partitions=3, schema=SCHEMA)
    with client.attempt() as attempt:
        for n in range(5):
            attempt.produce("t", rows(*[f"{n}-{m}" for m in range(20)]), key_col="n")
    topic = client.topic("t")
    assert topic.schema == SCHEMA
    assert topic.partitions == 3
    assert sum(topic.high_offsets) == 100
    homes = [client.fetch("t", partition=p)[0] for p in range(3)]
    keys = [set() if table is None else set(table.column("n").to_pylist()) for table in homes]
    assert sum(len(one) for one in keys) == len(set().union(*keys)) == 20
    assert there(client).total() == 100


def test_a_topic_is_read_by_columns_and_in_parts(client: Any) -> None:
    with client.attempt() as attempt:
        attempt.produce("t", rows("a", "b", "c"))
    table, following = client.fetch("t", 1, 1, columns=["n"])
    assert (table.to_pydict(), following) == ({"n": [1]}, 2)
    assert client.read("t", columns="n").column_names == ["n"]
    with pytest.raises(Refused):
        client.fetch("t", columns=["nowhere"])
    with pytest.raises(LedgerBehind):
        client.fetch("t", 4)


def test_a_topics_retention_may_change_and_its_shape_may_not(client: Any) -> None:
    client.create_topic("t", partitions=2, schema=SCHEMA)
    client.create_topic("t", partitions=2, retention_ms=3_600_000)
    assert client.topic("t").retention_ms == 3_600_000
    other_shapes = {"PARTITIONS": {"partitions": 3}, "SCHEMA": {"schema": pa.schema([("x", pa.string())])}}
    for code, change in other_shapes.items():
        with pytest.raises(Refused) as refused:
            client.create_topic("t", **change)
        assert refused.value.code == code


def test_a_topic_may_be_made_without_saying_anything_of_it(client: Any) -> None:
    client.create_topic("t")
    assert (client.topic("t").schema, client.topic("t").partitions, client.read("t")) == (None, 1, None)


def test_topics_are_made_by_their_first_write_unless_the_namespace_forbids_it(client: Any, connect: Connect) -> None:
    with pytest.raises(NotFound):
        client.read("t")
    with connect(client.url, f"{client.namespace}-strict", timeout_ms=20_000) as strict:
        strict.create_namespace(auto_create_topics=False)
        with strict.attempt() as attempt, pytest.raises(NotFound):
            attempt.produce("t", rows("a"))


def test_taken_ids_belong_to_their_owner_permanently(client: Any) -> None:
    with client.attempt() as attempt:
        attempt.complete(attempt.claim(["done"]))
    assert client.take("mine", ["done"]).granted == ["done"]
    with client.attempt(id_set="dedup") as attempt:
        attempt.complete(attempt.claim(["done", "written"]))
    mine = client.take("mine", ["a", "b", "a", "written"])
    assert (mine.granted, mine.dropped) == (["a", "b"], ["a", "written"])
    assert client.take("mine", ["a", "b"]).granted == ["a", "b"]
    assert client.take("theirs", ["a", "c"]).granted == ["c"]


def test_a_staged_batch_goes_to_partitions_by_key_and_is_published_once(client: Any) -> None:
    client.create_topic("t", partitions=2)
    name, token = BatchName("app", "0", "t"), new_token()
    done = client.stage(name, "run:r", token, 0, body(*[str(n) for n in range(20)]), key_col="id")
    winner = {"token": token, "chunks": 1, "rows": 20, "fingerprint": done.fingerprint.to_bytes(16, "little").hex()}
    order = {"run": "r" * 8, "nonce": new_token(), "winners": [winner], "digest": None, "previous_digest": None}
    assert client.commit(name, order).rows == 20
    assert all(client.topic("t").high_offsets)
    assert there(client) == Counter(str(n) for n in range(20))
    client.abort(name, [token])
    assert there(client).total() == 20
