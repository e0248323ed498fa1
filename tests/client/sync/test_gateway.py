"""The client over real sockets, against a scripted gateway."""

import json
import os
import pickle
import socket
import struct
import threading
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from oncegate_spark import AsyncGateway, Gateway, Outcome
from oncegate_spark.errors import (
    BadOption,
    BatchConflict,
    LedgerBehind,
    NotFound,
    Refused,
    TurnedAway,
    Unanswered,
    Unreachable,
    Unreadable,
)
from oncegate_spark.protocol.names import BatchName
from tests.support.client_clock import SteppedClock
from tests.support.clients import Connect
from tests.support.stub_gateway import LOST, Answer, StubGateway, problem

IDS = [pa.array(["a", "b"])]
NAME = BatchName("app", "7", "topic")
MARK = "00" * 16 + ":{}:" + "11" * 8


def granted(count: int = 2) -> Answer:
    return Answer(body=struct.pack("<16sII", b"c" * 16, 30_000, count) + b"\x01" * count)


@pytest.fixture
def gateway(connect: Connect) -> Connect:
    def made(stub: StubGateway, **more: Any) -> Any:
        return connect(stub.url, rng=Random(1), clock=SteppedClock(), **more)

    return made


def test_nothing_is_opened_before_the_first_request(gateway: Connect) -> None:
    with StubGateway() as stub, gateway(stub) as client:
        assert stub.connections == 0
        client.describe()
        client.describe()
        assert stub.connections == 1


def test_the_answer_of_an_interrupted_request_is_no_later_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> bytes:
        raise KeyboardInterrupt

    with StubGateway() as stub, Gateway(stub.url, clock=SteppedClock()) as client:
        with monkeypatch.context() as patch:
            patch.setattr("oncegate_spark.sync.connection.Response.read", interrupted)
            with pytest.raises(KeyboardInterrupt):
                client.describe()
        client.describe()
        assert (len(stub.asked), stub.connections) == (2, 2), "over a connection of its own, and at once"


def test_a_lost_reply_is_asked_for_again_with_the_same_token_and_call(gateway: Connect) -> None:
    with StubGateway(LOST, LOST, granted()) as stub, gateway(stub) as client:
        verdicts, _ = client.claim("ab" * 16, 3, IDS, lease_ms=9_000)
        assert verdicts.granted == 2
        assert len(stub.asked) == 3
        assert len({(a.path, a.body, a.headers["oncegate-token"], a.headers["oncegate-call"]) for a in stub.asked}) == 1
        assert stub.asked[0].headers["oncegate-lease-ms"] == "9000"


def test_half_an_answer_is_no_answer(gateway: Connect) -> None:
    whole = granted()
    half = Answer(body=whole.body, cut=len(whole.body) // 2)
    with StubGateway(half, granted()) as stub, gateway(stub) as client:
        verdicts, _ = client.claim("ab" * 16, 0, IDS)
        assert verdicts.granted == 2
        assert len(stub.asked) == 2


@pytest.mark.parametrize("head_cut", [17, 40, 90, 105])
def test_half_a_head_is_no_answer(gateway: Connect, head_cut: int) -> None:
    with StubGateway(replace(granted(), head_cut=head_cut), granted()) as stub, gateway(stub) as client:
        verdicts, _ = client.claim("ab" * 16, 0, IDS)
        assert verdicts.granted == 2
        assert len({(asked.headers["oncegate-token"], asked.headers["oncegate-call"]) for asked in stub.asked}) == 1
        assert len(stub.asked) == 2


INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"


def test_an_interim_reply_is_no_answer_and_leaves_none_to_the_next_call(gateway: Connect) -> None:
    answers = [replace(granted(), interim=INTERIM), Answer(body=granted().body[:-2] + b"\x02\x02", interim=INTERIM)]
    with StubGateway(*answers) as stub, gateway(stub) as client:
        assert [client.claim("ab" * 16, call, IDS)[0].granted for call in range(2)] == [2, 0]
        assert (len(stub.asked), stub.connections) == (2, 1)


def test_a_peer_that_sends_interim_replies_alone_has_not_answered(gateway: Connect) -> None:
    endless = Answer(interim=INTERIM * 400, lost=True)
    with StubGateway(endless, granted()) as stub, gateway(stub) as client:
        assert client.claim("ab" * 16, 0, IDS)[0].granted == 2
        assert len(stub.asked) == 2


def test_an_intermediate_proxys_page_is_not_taken_for_success(gateway: Connect) -> None:
    page = Answer(body=b"<html>Welcome to our network</html>", headers={"Content-Type": "text/html"})
    with StubGateway(page, page) as stub, gateway(stub) as client:
        for call in (client.create_namespace, client.delete_namespace):
            with pytest.raises(Unreadable) as raised:
                call()
            assert raised.value.outcome is Outcome.UNKNOWN


def test_a_delayed_answer_is_given_up_and_asked_for_again(connect: Connect) -> None:
    go = threading.Event()
    with StubGateway(Answer(held=go), granted()) as stub, connect(stub.url, timeout_ms=4_000) as client:
        verdicts, _ = client.claim("ab" * 16, 0, IDS)
        go.set()
        assert verdicts.granted == 2
        assert stub.asked[0].headers["oncegate-timeout-ms"] == "1000"


def test_a_connection_that_the_gateway_closed_meanwhile_is_opened_again(gateway: Connect) -> None:
    closing = Answer(headers={"Connection": "close"})
    with StubGateway(closing, Answer(), Answer(cut=2)) as stub, gateway(stub) as client:
        for _ in range(4):
            client.describe()
        assert stub.connections == 3


def test_a_superseded_gateway_is_left_for_another_one_at_the_same_name(gateway: Connect) -> None:
    """The reply closes the connection, so that the retry is routed again."""
    followed = replace(problem(503, "LEDGER_FENCED", "retry", retry_after_ms=1), headers={"Connection": "close"})
    with StubGateway(followed, granted()) as stub, gateway(stub) as client:
        assert client.claim("ab" * 16, 0, IDS)[0].granted == 2
        assert stub.connections == 2
        assert stub.asked[0].body == stub.asked[1].body


def test_without_a_gateway_nothing_was_written_and_the_error_reports_that(connect: Connect) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        client = connect(url, timeout_ms=5_000, clock=SteppedClock())
        with pytest.raises(
            Unreachable, match=rf"claim 0 of abab.*{url}.*5000 ms.*ConnectionRefused.*nothing was written"
        ) as raised:
            client.claim("ab" * 16, 0, IDS)
    assert raised.value.outcome is Outcome.NOT_WRITTEN


def test_a_gateway_that_never_answers_leaves_it_unknown(gateway: Connect) -> None:
    with StubGateway(otherwise=lambda asked: LOST) as stub, gateway(stub, timeout_ms=3_000) as client:
        with pytest.raises(Unanswered, match="unknown: whether the batch is published") as raised:
            client.commit(NAME, {})
        assert raised.value.outcome is Outcome.UNKNOWN
        assert len({asked.body for asked in stub.asked}) == 1


def test_retry_after_is_respected(connect: Connect) -> None:
    clock = SteppedClock()
    busy = problem(503, "OVERLOADED", "retry", retry_after_ms=4_321)
    with StubGateway(busy, Answer()) as stub, connect(stub.url, clock=clock) as client:
        client.describe()
    assert clock.slept_ms == [4_321]


def test_a_gateway_that_is_overloaded_to_the_end_has_written_nothing(gateway: Connect) -> None:
    full = problem(503, "OVERLOADED", "retry")
    with StubGateway(otherwise=lambda asked: full) as stub, gateway(stub) as client:
        with pytest.raises(TurnedAway) as raised:
            client.describe()
        assert raised.value.outcome is Outcome.NOT_WRITTEN
        assert len(stub.asked) > 5


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (problem(404, "NOT_FOUND", "fix"), NotFound),
        (problem(422, "TOKEN_REUSED", "fix"), Refused),
        (problem(409, "BATCH_CONFLICT", "stop"), BatchConflict),
        (problem(409, "LEDGER_BEHIND", "stop"), LedgerBehind),
    ],
)
def test_requests_refused_by_the_gateway_are_not_repeated(
    answer: Answer, kind: type[Exception], gateway: Connect
) -> None:
    with StubGateway(answer) as stub, gateway(stub) as client:
        with pytest.raises(kind, match="so it is"):
            client.commit(NAME, {})
        assert len(stub.asked) == 1


def test_a_refusal_that_comes_before_the_body_is_sent_is_read_all_the_same(connect: Connect) -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def refuse() -> None:
        peer, _ = listener.accept()
        with peer:
            peer.recv(1_024)
            body = problem(413, "TOO_LARGE", "fix").body
            peer.sendall(b"HTTP/1.1 413 X\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            while peer.recv(1 << 20):
                pass

    thread = threading.Thread(target=refuse)
    thread.start()
    with connect(f"http://127.0.0.1:{listener.getsockname()[1]}") as client, pytest.raises(Refused, match="TOO_LARGE"):
        client.produce("topic", "ab" * 16, 0, bytes(8 << 20))
    thread.join()
    listener.close()


def test_the_newest_mark_is_brought_back(gateway: Connect) -> None:
    answers = [Answer(headers={"Oncegate-Ledger": MARK.format(n)}) for n in (5, 9, 7)]
    with StubGateway(*answers) as stub, gateway(stub) as client:
        for _ in range(4):
            client.describe()
        brought = [asked.headers.get("oncegate-ledger") for asked in stub.asked]
        assert brought == [None, MARK.format(5), MARK.format(9), MARK.format(9)]
        assert client.twin().mark == MARK.format(9)


def test_stage_carries_name_owner_chunk_and_digest(gateway: Connect) -> None:
    said = {"outcome": "STAGED", "rows": 2, "fingerprint": "01" + "00" * 15, "chunk": 4}
    with StubGateway(Answer(body=json.dumps(said).encode())) as stub, gateway(stub) as client:
        staged = client.stage(BatchName("a p/p", "1", "t", "w"), "owner", "ab" * 16, 4, b"body")
        (requests,) = stub.asked
    assert (staged.committed, staged.rows, staged.fingerprint) == (False, 2, 1)
    assert requests.path.endswith(
        "/v1/namespaces/default/batches:stage?app=a+p%2Fp&version=1&topic=t&write_id=w&owner=owner&chunk=4"
    )
    assert requests.headers["content-digest"].startswith("sha-256=:")
    assert requests.headers["content-type"] == "application/vnd.apache.arrow.stream"


def test_a_connection_is_not_shared_with_a_forked_process(monkeypatch: pytest.MonkeyPatch) -> None:
    with StubGateway() as stub, Gateway(stub.url) as client:
        client.describe()
        monkeypatch.setattr(os, "getpid", lambda: -1)
        client.describe()
        assert stub.connections == 2


@pytest.mark.parametrize("kind", [Gateway, AsyncGateway])
def test_a_gateway_is_never_pickled(kind: Any) -> None:
    with pytest.raises(TypeError, match="create one where it is used"):
        pickle.dumps(kind("http://127.0.0.1:1"))


@pytest.mark.parametrize(
    "url",
    ["", "127.0.0.1:8080", "ftp://x", "http://", "http://x?y", "http://h:abc", "http://h:99999", "http://[", None],
)
def test_an_invalid_address_is_refused_at_once(url: Any, connect: Connect) -> None:
    with pytest.raises(BadOption, match="http://gateway:8080"):
        connect(url)


@pytest.mark.parametrize("timeout_ms", [0, -1, None, "1000", 1.5, True])
def test_an_invalid_time_is_refused_at_once_with_the_right_argument(timeout_ms: Any, connect: Connect) -> None:
    with pytest.raises(BadOption, match=r"timeout_ms is .*: write timeout_ms=120_000"):
        connect("http://127.0.0.1:1", timeout_ms=timeout_ms)
