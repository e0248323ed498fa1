"""Deliveries and resolvers against a real gateway: doubts are resolved by asking the sink, never by assumption."""

import json
import struct
from collections.abc import Callable, Sequence

import pytest

from oncegate_spark import Gateway, InDoubt, SinkRefused
from oncegate_spark.delivery import Delivered, Delivery, FunctionSink, Record, Resolved, Resolver
from oncegate_spark.errors import BadId, BadOption, Outcome
from tests.support.stub_gateway import Answer, Asked, StubGateway

pytestmark = pytest.mark.server
LEASE_MS = 1_000  # the shortest there is


class Shelf:
    """A sink that keeps its records in order. `faults` are called in turn with the records, before they are written."""

    def __init__(self, *faults: Callable[["Shelf", Sequence[Record]], None]) -> None:
        self.held: list[str] = []
        self.asked: list[list[str]] = []
        self.faults = list(faults)

    def write(self, records: Sequence[Record]) -> None:
        if self.faults:
            self.faults.pop(0)(self, records)
        self.held += [record.id for record in records]

    def find(self, ids: Sequence[str]) -> set[str]:
        self.asked.append(list(ids))
        return set(ids) & set(self.held)

    def sink(self, records_max: int = 10) -> FunctionSink:
        return FunctionSink(self.write, self.find, records_max=records_max)


def lost_before(shelf: Shelf, records: Sequence[Record]) -> None:
    raise TimeoutError("before anything")


def lost_after_one(shelf: Shelf, records: Sequence[Record]) -> None:
    shelf.held.append(records[0].id)
    raise TimeoutError("after the first")


def refused(shelf: Shelf, records: Sequence[Record]) -> None:
    raise SinkRefused("no such account")


def records(*ids: str) -> list[Record]:
    return [Record(one) for one in ids]


def died(gateway: Gateway, *ids: str) -> None:
    """Claims ids as a writer that then dies."""
    gateway.attempt().claim(list(ids), LEASE_MS)


def test_each_record_is_written_once_and_then_known(gateway: Gateway) -> None:
    shelf = Shelf()
    delivery = Delivery(gateway, shelf.sink(2))
    assert delivery.deliver(records("a", "b", "a", "c")) == Delivered(written=3, duplicates=1)
    assert delivery.deliver(records("c", "d")) == Delivered(written=1, duplicates=1)
    assert (shelf.held, shelf.asked) == (["a", "b", "c", "d"], [])


def test_rows_of_a_dead_writer_are_found_in_the_sink_and_not_written_again(gateway: Gateway) -> None:
    shelf = Shelf()
    died(gateway, "a", "b")
    shelf.held.append("a")
    assert Delivery(gateway, shelf.sink()).deliver(records("a", "b", "c")) == Delivered(written=2, found=1)
    assert sorted(shelf.held) == ["a", "b", "c"]
    assert shelf.asked == [["a", "b"]]
    assert {gateway.explain(one)["state"] for one in "abc"} == {"DONE"}


def test_an_answer_that_was_lost_is_looked_up_before_anything_is_written_again(gateway: Gateway) -> None:
    shelf = Shelf(lost_after_one, lost_before)
    assert Delivery(gateway, shelf.sink()).deliver(records("a", "b")) == Delivered(written=2)
    assert shelf.held == ["a", "b"]
    assert shelf.asked == [["a", "b"], ["b"]]


def test_a_sink_that_never_answers_leaves_its_records_in_doubt_and_the_next_asks_first(gateway: Gateway) -> None:
    shelf = Shelf(lost_after_one, lost_before)
    delivery = Delivery(gateway, shelf.sink(), lease_ms=LEASE_MS, tries_max=2)
    with pytest.raises(InDoubt, match="failed 2 times") as caught:
        delivery.deliver(records("a", "b"))
    assert (caught.value.ids, caught.value.outcome) == (["b"], Outcome.UNKNOWN)
    shelf.asked.clear()
    assert delivery.deliver(records("a", "b")) == Delivered(written=1, found=1)
    assert (shelf.held, shelf.asked) == (["a", "b"], [["a", "b"]])


def test_a_sink_that_cannot_be_asked_leaves_them_in_doubt_and_nothing_is_released(gateway: Gateway) -> None:
    shelf = Shelf()
    died(gateway, "a")
    blind = FunctionSink(shelf.write)
    for _ in range(2):  # the second attempt gets the error too: the first has not freed the id
        with pytest.raises(InDoubt, match="oncegate resolve"):
            Delivery(gateway, blind, lease_ms=LEASE_MS).deliver(records("a"))
    assert shelf.held == []

    def out_of_order(ids: Sequence[str]) -> set[str]:
        raise ConnectionError("the sink is away")

    with pytest.raises(InDoubt, match="the sink is away"):
        Delivery(gateway, FunctionSink(shelf.write, out_of_order), lease_ms=LEASE_MS).deliver(records("a"))
    assert Delivery(gateway, shelf.sink()).deliver(records("a")) == Delivered(written=1)


def test_rows_refused_by_a_sink_are_free_at_once(gateway: Gateway) -> None:
    shelf = Shelf(refused)
    delivery = Delivery(gateway, shelf.sink())
    with pytest.raises(SinkRefused, match="no such account") as caught:
        delivery.deliver(records("a"))
    assert caught.value.outcome is Outcome.NOT_WRITTEN
    assert gateway.explain("a")["state"] == "ABSENT"
    assert delivery.deliver(records("a")) == Delivered(written=1)


def test_a_refusal_after_a_lost_answer_or_beside_what_is_there_frees_nothing(gateway: Gateway) -> None:
    shelf = Shelf(lost_before, refused)
    with pytest.raises(SinkRefused):
        Delivery(gateway, shelf.sink()).deliver(records("a"))
    assert gateway.explain("a")["state"] == "CLAIMED_LIVE"
    died(gateway, "b", "c")
    shelf.held.append("b")
    shelf.faults.append(refused)
    with pytest.raises(SinkRefused):
        Delivery(gateway, shelf.sink()).deliver(records("b", "c"))
    assert {gateway.explain(one)["state"] for one in "bc"} == {"CLAIMED_LIVE"}


def test_ids_taken_over_during_the_write_are_asked_for_again_until_they_are_done() -> None:
    """The new holder has fenced this writer and asked the sink, so it decides the outcome."""
    # both granted; then one taken by another, and one completed by this attempt
    verdicts = iter([b"\x01\x01", b"\x02\x22"])

    def answer(asked: Asked) -> Answer:
        if asked.path.endswith("ids:claim"):
            said = next(verdicts)
            claim = b"c" * 16 if b"\x01" in said else bytes(16)
            return Answer(body=struct.pack("<16sII", claim, 30_000, len(said)) + said)
        said = {"state": "DONE", "settled": 1, "taken_over": 1, "lease_ms": 0}
        return Answer(body=json.dumps(said).encode())

    shelf = Shelf()
    with StubGateway(otherwise=answer) as stub, Gateway(stub.url) as gateway:
        assert Delivery(gateway, shelf.sink()).deliver(records("a", "b")) == Delivered(written=2)
    assert shelf.held == ["a", "b"]
    assert [asked.path.rpartition(":")[2] for asked in stub.asked] == ["claim", "complete", "claim"]


def test_ids_and_sizes_are_checked_before_anything_is_asked(gateway: Gateway) -> None:
    with pytest.raises(BadId, match="''"):
        Delivery(gateway, Shelf().sink()).deliver(records("a", ""))
    with pytest.raises(BadOption, match="records_max"):
        Delivery(gateway, Shelf().sink(0)).deliver(records("a"))
    assert gateway.explain("a")["state"] == "ABSENT"


def test_a_resolver_completes_what_the_sink_has_and_frees_what_it_has_not(gateway: Gateway) -> None:
    shelf = Shelf()
    shelf.held += ["a", "d"]
    died(gateway, "a", "b")
    Delivery(gateway, Shelf().sink()).deliver(records("c"))
    while gateway.explain("a")["state"] != "CLAIMED_OVER":
        pass
    with gateway.attempt() as other:
        claimed = other.claim(["d"])
        assert Resolver(gateway, shelf.sink()).resolve(["a", "b", "c", "d", "e", "a"]) == Resolved(1, 1, 1)
        other.release(claimed)
    states = {one: gateway.explain(one)["state"] for one in "abce"}
    assert states == {"a": "DONE", "b": "ABSENT", "c": "DONE", "e": "ABSENT"}
    assert shelf.asked == [["a", "b"]]
    assert gateway.attempt().claim(["b"]).in_doubt == []


def test_a_resolver_reports_the_lease_expiry_of_its_namespace(gateway: Gateway) -> None:
    gateway.create_namespace(lease_expiry="hold")
    died(gateway, "kept", "kept too")
    while gateway.explain("kept")["state"] != "CLAIMED_OVER":
        pass
    assert Resolver(gateway, Shelf().sink()).resolve(["kept", "kept too", "other"]) == Resolved(held=2)


def test_a_resolver_whose_sink_is_away_leaves_all_in_doubt(gateway: Gateway) -> None:
    died(gateway, "a")
    while gateway.explain("a")["state"] != "CLAIMED_OVER":
        pass
    with pytest.raises(InDoubt):
        Resolver(gateway, FunctionSink(Shelf().write), lease_ms=LEASE_MS).resolve(["a"])
    while gateway.explain("a")["state"] != "CLAIMED_OVER":
        pass
    assert gateway.attempt().claim(["a"]).in_doubt == ["a"]
