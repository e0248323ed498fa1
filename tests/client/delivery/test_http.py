"""The HTTP sink against a real server that honours Idempotency-Key and loses answers."""

import gc
from contextlib import closing

import pytest

from deploy.ports import free_port
from oncegate_spark import Gateway, InDoubt, SinkRefused
from oncegate_spark.delivery import Delivered, Delivery, HttpSink, Record, idempotency_key
from oncegate_spark.errors import BadOption, Outcome
from tests.support.payments_server import PaymentsServer

pytestmark = pytest.mark.server
TWO = [Record("o-1", b"o-1"), Record("o-2", b"o-2")]
ONCE = {"o-1": 1, "o-2": 1}


@pytest.mark.parametrize("fault", ["lose", "hang_up", "hold", 500, 503, 429, 409])
def test_a_request_without_an_answer_is_sent_again_under_its_key_and_paid_once(gateway: Gateway, fault: str) -> None:
    with PaymentsServer(fault) as server, closing(HttpSink(server.url, timeout_ms=500)) as sink:
        assert Delivery(gateway, sink).deliver(TWO) == Delivered(written=2)
    assert (server.paid, server.keys) == (ONCE, ['"o-1"', '"o-1"', '"o-2"'])


def test_requests_a_dead_writer_may_have_sent_are_repeated_under_their_key_and_paid_once(gateway: Gateway) -> None:
    with PaymentsServer() as server:
        sink = HttpSink(server.url)
        gateway.attempt().claim(["o-1"], 1_000)
        sink.write(TWO[:1])  # and dies before it completes
        assert Delivery(gateway, sink).deliver(TWO) == Delivered(written=2)
        sink.close()
    assert server.paid == ONCE


def test_a_server_that_can_be_asked_is_asked_instead(gateway: Gateway) -> None:
    with PaymentsServer("lose") as server:
        sink = HttpSink(server.url, find=lambda ids: {one for one in ids if server.paid[one]})
        assert Delivery(gateway, sink).deliver(TWO) == Delivered(written=2)
        sink.close()
    assert (server.paid, server.keys) == (ONCE, ['"o-1"', '"o-2"'])


def test_a_server_that_only_fails_leaves_the_record_in_doubt(gateway: Gateway) -> None:
    with PaymentsServer(*[500] * 2) as server:
        sink = HttpSink(server.url)
        with pytest.raises(InDoubt, match="answered 500") as caught:
            Delivery(gateway, sink, tries_max=2).deliver(TWO)
        sink.close()
    assert caught.value.ids == ["o-1"]
    assert gateway.explain("o-1")["state"] == "CLAIMED_LIVE"


def test_requests_refused_or_not_received_by_the_server_are_free_at_once(gateway: Gateway) -> None:
    with PaymentsServer(422) as server, closing(HttpSink(server.url)) as sink, pytest.raises(SinkRefused, match="422"):
        Delivery(gateway, sink).deliver(TWO)
    with pytest.raises(SinkRefused, match="nothing was sent"):
        Delivery(gateway, HttpSink(f"http://127.0.0.1:{free_port()}")).deliver(TWO)
    assert {gateway.explain(record.id)["state"] for record in TWO} == {"ABSENT"}


def test_a_refusal_after_a_request_that_may_have_paid_is_unknown_and_frees_nothing(
    gateway: Gateway,
) -> None:
    with PaymentsServer("lose", 401) as server, closing(HttpSink(server.url)) as sink:
        with pytest.raises(InDoubt, match="401") as lost:
            Delivery(gateway, sink).deliver(TWO[:1])
        gateway.attempt().claim(["o-2"], 1_000)
        sink.write(TWO[1:])  # and dies before it completes
    assert server.paid == ONCE
    with pytest.raises(InDoubt, match="no connection") as taken_over:
        Delivery(gateway, sink).deliver(TWO[1:])
    assert [error.value.outcome for error in (lost, taken_over)] == [Outcome.UNKNOWN] * 2
    assert {gateway.explain(record.id)["state"] for record in TWO} == {"CLAIMED_LIVE"}


def test_other_ids_have_other_keys_that_any_header_may_hold() -> None:
    ids = ["a", "a b", 'a"b', "a%20b", "é", "\n", "x" * 255, "x" * 256, "x" * 257]
    keys = [idempotency_key(one) for one in ids]
    assert len(set(keys)) == len(ids)
    assert all(key.isascii() and key.isprintable() and '"' not in key and len(key) <= 255 for key in keys)


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(BadOption, match="https://host"):
        HttpSink("localhost:80")


def test_body_that_cannot_be_sent_leaves_no_connection_with_half_a_request() -> None:
    with PaymentsServer() as server, closing(HttpSink(server.url)) as sink:
        with pytest.raises(UnicodeEncodeError):
            sink.write([Record("o-1", "\u2603")])
        sink.write([Record("o-2", b"o-2")])
    assert server.paid == {"o-2": 1}


def test_socket_is_closed_where_the_other_side_speaks_no_tls() -> None:
    with PaymentsServer() as server, closing(HttpSink(server.url.replace("http:", "https:"))) as sink:
        with pytest.raises(SinkRefused, match=r"no connection.*nothing was sent"):
            sink.write(TWO[:1])
        gc.collect()  # an open socket would warn here, which is an error
    assert server.paid == {}
