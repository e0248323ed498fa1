"""Both clients against a real gateway: results of completions, row offsets, offsets of a lost reply."""

import itertools
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from oncegate_spark import BadOption, Place, Refused
from oncegate_spark.protocol import codecs
from oncegate_spark.protocol.answers import Produced, ProducedOffsets, Written
from oncegate_spark.protocol.codecs import stream
from oncegate_spark.protocol.effort import new_token
from oncegate_spark.protocol.packed import FirstPlaces, Verdicts
from tests.support.clients import Connect
from tests.support.gateway_process import GatewayProcess

COUNT = itertools.count()
RESULT = b"departed 18:05"
server = pytest.mark.server


@pytest.fixture
def client(gateway_process: GatewayProcess, connect: Connect) -> Iterator[Any]:
    with connect(gateway_process.url, f"firsts-{next(COUNT)}", timeout_ms=20_000) as made:
        made.create_namespace()
        yield made


@server
def test_a_duplicate_brings_the_result_of_the_first(client: Any) -> None:
    with client.attempt() as attempt:
        assert attempt.complete(attempt.claim(["a", "b"]), RESULT) == RESULT
        assert attempt.complete(attempt.claim(["c"])) is None
    with client.attempt() as other:
        asked = other.claim(["b", "new", "c", "a"], locate=True)
        assert asked.results == (RESULT, None, None, RESULT)
        assert asked.places == (None,) * 4
        assert asked.granted == ["new"]
        plain = other.claim(["a"])
        assert (plain.results, plain.places) == ((), ())
        other.complete(asked)


@server
def test_the_first_result_is_returned(client: Any) -> None:
    with client.attempt() as attempt:
        claimed = attempt.claim(["a"])
        assert attempt.complete(claimed, RESULT) == RESULT
        assert attempt.complete(claimed, b"another") == RESULT


@server
def test_a_result_that_is_no_bytes_or_too_long_is_refused_and_the_claim_stays(client: Any) -> None:
    with client.attempt() as attempt:
        claimed = attempt.claim(["a"])
        with pytest.raises(BadOption, match="bytes"):
            attempt.complete(claimed, "text")
        with pytest.raises(Refused, match="257"):
            attempt.complete(claimed, bytes(257))
        assert attempt.complete(claimed, bytes(256)) == bytes(256)


@server
def test_a_look_up_reports_written_and_held_ids_and_grants_nothing(client: Any) -> None:
    rows = pa.table({"id": ["a", "b"]})
    with client.attempt() as attempt:
        attempt.produce("t", rows, id_col="id")
        claimed = client.attempt(id_set="t").claim(["held"], 600_000)
        for _ in range(2):
            looked_up = client.look_up(["a", "new", "held", "b"], "t")
            assert (looked_up.written, looked_up.held, looked_up.granted) == (["a", "b"], ["held"], [])
        assert client.look_up(["a"]).written == [], "of the set of claimed ids, where none is"
        assert claimed.granted == ["held"]


@server
def test_claims_and_takes_return_row_offsets(client: Any) -> None:
    rows = pa.table({"id": ["x", "y", "z"]})
    with client.attempt(id_set="t") as attempt:
        attempt.produce("t", rows, id_col="id")
        asked = attempt.claim(["z", "x"], locate=True)
    assert asked.places == (Place("t", 0, 2), Place("t", 0, 0))
    taken = client.take("job", ["y", "new"], id_set="t", locate=True)
    assert (taken.places, taken.granted) == ((Place("t", 0, 1), None), ["new"])


@server
def test_producing_row_by_row_returns_row_offsets_over_several_requests(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codecs, "IDS_MAX", 2)
    with client.attempt() as first:
        first.produce("t", pa.table({"id": ["x", "y"]}), id_col="id")
    with client.attempt(id_set="t") as claiming:
        claiming.complete(claiming.claim(["claimed"]), RESULT)
    with client.attempt() as second:
        rows = pa.table({"id": ["new", "y", "claimed", "new too", "x"]})
        written = second.produce("t", rows, id_col="id", locate=True)
        assert written.places == [None, Place("t", 0, 1), None, None, Place("t", 0, 0)]
        assert written.results == [None, None, RESULT, None, None]
        assert (written.rows, written.suppressed) == (2, 3)
        plain = second.produce("t", rows, id_col="id")
        assert (plain.places, plain.results, plain.own, plain.suppressed) == ([], [], 2, 3)


def test_locate_without_ids_is_refused_before_anything_is_sent(connect: Connect) -> None:
    with connect("http://127.0.0.1:9", "nobody") as client, client.attempt() as attempt:
        with pytest.raises(BadOption, match="locate returns the first row of each id: name the ids by id_col"):
            attempt.produce("t", pa.table({"id": ["x"]}), locate=True)
        with pytest.raises(BadOption, match="locate returns the first row of each id"):
            client.produce("t", attempt.token, 0, b"", locate=True)


@server
def test_a_repeated_request_returns_the_row_offsets_of_the_first(client: Any) -> None:
    token, body = new_token(), stream(pa.table({"id": ["x", "y"]}).to_batches())
    first, again = [client.produce("t", token, 0, body, id_col="id") for _ in range(2)]
    assert (first.offsets, first.before) == ((ProducedOffsets(0, 0, 2),), ())
    assert (again.offsets, again.before) == ((), (ProducedOffsets(0, 0, 2),))


def test_written_rows_add_up_with_those_of_a_lost_reply() -> None:
    written = Written()
    written.add(Produced(1, (ProducedOffsets(0, 5, 1),), None, (ProducedOffsets(0, 0, 2),)))
    assert (written.offsets, written.before) == ([ProducedOffsets(0, 5, 1)], [ProducedOffsets(0, 0, 2)])


@pytest.mark.parametrize("body", [b"", bytes(7), bytes(8) + b"more", b"\1\0\0\0\xff\0\0\0", bytes(4) + bytes(16)])
def test_firsts_that_cannot_be_read_are_no_answer(body: bytes) -> None:
    with pytest.raises(ValueError, match="firsts of 1 ids"):
        FirstPlaces.read(body, [True])


def test_an_answer_with_unrequested_firsts_is_refused() -> None:
    body = bytes(16) + bytes(4) + b"\1\0\0\0" + b"\2" + bytes(8)
    with pytest.raises(Refused):
        Verdicts.read(body, 1)
