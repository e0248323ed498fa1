"""Hot routes: answered without the framework, as the framework would answer them."""

import asyncio
import re
from types import SimpleNamespace
from typing import Any

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from oncegate.transports.http.routes import TABLE
from oncegate.transports.http.server import fast_path
from oncegate.transports.http.server.protocol import KEEP_ALIVE_S, Protocol
from tests.support.http_app import CLAIM, PACKED, Reply, breaking, open_http, read_reply, request, served, token
from tests.support.http_requests import CASES, RAW, claim_json, message, packed, roundabout

NS = "/v1/namespaces/default"
HOT = {
    f"{NS}/ids:claim": {"namespace": "default"},
    f"{NS}/ids:take": {"namespace": "default"},
    f"{NS}/ids:lookup": {"namespace": "default"},
    f"{NS}/claims/abc:renew": {"namespace": "default", "claim": "abc"},
    f"{NS}/claims/abc:complete": {"namespace": "default", "claim": "abc"},
    f"{NS}/claims/a:b:release": {"namespace": "default", "claim": "a:b"},
    f"{NS}/topics/t/records:produce": {"namespace": "default", "topic": "t"},
    f"{NS}/batches:stage": {"namespace": "default"},
}
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def shown(reply: Reply) -> Any:
    """Returns the parts of a reply that do not differ in every answer, such as names and times."""
    own = re.compile(r"passed \d+ ms")
    headers = {name: value for name, value in reply.headers.items() if name not in ("date", "content-length")}
    if reply.headers["content-type"] == "application/problem+json":
        return (
            reply.status,
            headers,
            {name: own.sub("", str(value)) for name, value in reply.json.items() if name != "trace_id"},
        )
    return reply.status, headers, re.sub(rb'"claim":"\w+"', b"", reply.body)


@pytest.mark.parametrize("path", HOT)
def test_names_used_by_a_hot_path_are_read_from_it(path: str) -> None:
    found = TABLE.route_of("POST", path)
    assert found is not None
    assert found[1] == HOT[path]


@pytest.mark.parametrize(
    "way", ["1.1", "1.0", "1.1\r\nExpect: 100-continue", "1.1\r\nConnection: upgrade\r\nUpgrade: h2c"]
)
async def test_requests_of_every_route_go_past_the_framework_but_those_that_are_not_plain(way: str) -> None:
    async with open_http() as http:
        for route in TABLE.routes:
            wire = protocol(http.app, FakeLoop())
            path = re.sub(r"\{(\w+)(:path)?\}", "a%20b", route.path)
            wire.data_received(request(route.method, path).replace(b"HTTP/1.1", f"HTTP/{way}".encode(), 1))
            assert isinstance(wire.cycle, fast_path.Exchange) == (way == "1.1"), path
            assert (wire.cycle.scope["path"], wire.cycle.scope["raw_path"]) == (path.replace("%20", " "), path.encode())


@pytest.fixture(scope="module")
def bad() -> dict[str, bytes]:
    """Returns the bad requests of hot routes."""
    hot = [re.compile(rb"POST /v1/namespaces/default/(ids:claim|claims/[^ ]*:|topics/[^ ]*:produce|batches:stage)")]
    return {name: raw for name, (raw, *_) in CASES.items() if hot[0].match(raw)}


async def test_bad_requests_are_refused_in_the_same_words_both_ways(bad: dict[str, bytes]) -> None:
    assert len(bad) > 40
    async with served(body_bytes=100_000, ids_per_request=1_000, record_bytes=5_000) as http:
        for name, raw in bad.items():
            ways = [await http.send(way) for way in (raw, roundabout(raw))]
            if "verb that does not exist" not in name:
                assert shown(ways[0]) == shown(ways[1]), name
            assert ways[0].status >= 400


async def test_good_requests_are_answered_with_the_same_bytes_and_fields_both_ways() -> None:
    async with served() as http:
        for raw in (message(token=token(), ids=["a", "b", "a"]), packed(bytes(48), Oncegate_Token=token())):
            await http.send(raw)  # from here on all three are held: repeats change nothing
            assert shown(await http.send(raw)) == shown(await http.send(roundabout(raw)))


async def test_requests_sent_at_once_on_one_connection_are_answered_in_their_order() -> None:
    async with served() as http:
        reader, writer = await asyncio.open_connection("127.0.0.1", http.program.port)
        hot, slow = message(token=token(), ids=["a"]), request("GET", "/healthz/live")
        writer.write(hot + slow + roundabout(hot) + hot)
        replies = [await asyncio.wait_for(read_reply(reader), 20) for _ in range(4)]
        writer.close()
    assert [reply.status for reply in replies] == [200] * 4
    assert "verdicts" not in replies[1].json
    assert replies[0].json == replies[2].json == replies[3].json


async def test_a_body_that_comes_in_pieces_is_waited_for() -> None:
    async with served() as http:
        reader, writer = await asyncio.open_connection("127.0.0.1", http.program.port)
        raw = message(token=token(), ids=["a"])
        for piece in (raw[:-30], raw[-30:-1], raw[-1:]):
            writer.write(piece)
            for _ in range(5):  # answered after the piece was read: connections are read in turn
                await http.send(request("GET", "/healthz/live"))
        assert (await asyncio.wait_for(read_reply(reader), 20)).json["verdicts"] == [{"verdict": "GRANTED"}]
        writer.close()


async def test_a_caller_that_wants_no_more_is_answered_and_let_go() -> None:
    async with served() as http:
        reader, writer = await asyncio.open_connection("127.0.0.1", http.program.port)
        writer.write(claim_json(b'{"token":"%s","call":0,"ids":["a"]}' % token().encode(), Connection="close"))
        reply = await asyncio.wait_for(read_reply(reader), 20)
        assert (reply.status, reply.headers["connection"]) == (200, "close")
        assert await asyncio.wait_for(reader.read(), 20) == b""
        writer.close()


async def test_a_bug_in_a_hot_route_is_a_problem_with_the_callers_trace_and_a_line_in_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    breaking(monkeypatch, "/v1/namespaces/{namespace}/ids:claim", broken)
    async with served() as http:
        raw = packed(bytes(16), traceparent=f"00-{TRACE}-00f067aa0ba902b7-01")
        found = (await http.send(raw)).problem(500, "INTERNAL")
        assert (found["trace_id"], found["effect"]) == (TRACE, "unknown")
        assert "ZeroDivisionError: a bug" in http.log.getvalue()
        assert (await http.send(request("GET", "/healthz/live"))).status == 200


async def test_an_application_of_others_gets_every_request_itself() -> None:
    wire = protocol(nobody, FakeLoop())
    wire.data_received(request("POST", CLAIM, bytes(16), Content_Type=PACKED, **RAW))
    assert not isinstance(wire.cycle, fast_path.Exchange)


async def nobody(scope: Any, receive: Any, send: Any) -> None:
    """An application that is not ours."""


NOW_S = "oncegate.transports.http.server.protocol.now_s"


class FakeLoop:
    """A loop with a manual clock that records scheduled calls without running them."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.timers: list[tuple[float, Any]] = []

    def time(self) -> float:
        return self.now_s

    def call_later(self, delay_s: float, then: Any) -> Any:
        self.timers.append((self.now_s + delay_s, then))
        return SimpleNamespace(cancel=lambda: None)

    def create_task(self, work: Any, **_: object) -> Any:
        work.close()
        return asyncio.get_running_loop().create_future()

    def pass_time(self, to_s: float) -> None:
        while self.timers and self.timers[0][0] <= to_s:
            self.now_s, then = self.timers.pop(0)
            then()
        self.now_s = to_s


class FakeTransport:
    def __init__(self) -> None:
        self.closed = False

    def get_extra_info(self, name: str) -> None:
        return None

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def write(self, data: bytes) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


def protocol(app: Any, loop: Any) -> Protocol:
    """Returns a connection that was just made."""
    config = Config(
        app,
        http=Protocol,
        ws="none",
        interface="asgi3",
        log_config=None,
        timeout_keep_alive=KEEP_ALIVE_S,
        proxy_headers=False,
    )
    config.load()
    wire = Protocol(config, ServerState(), {}, loop)
    wire.connection_made(FakeTransport())  # type: ignore[arg-type]
    return wire


@pytest.mark.parametrize("begun", [b"", b"POST /v1/name"])
async def test_a_connection_without_a_whole_head_is_closed_after_its_time(
    begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = FakeLoop()
    monkeypatch.setattr(NOW_S, loop.time)
    wire = protocol(nobody, loop)
    loop.pass_time(KEEP_ALIVE_S - 1)
    wire.data_received(begun)
    assert not wire.transport.is_closing()
    loop.pass_time(KEEP_ALIVE_S)
    assert wire.transport.is_closing()


async def test_a_connection_rests_from_its_last_answer_on_and_never_while_one_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = FakeLoop()
    monkeypatch.setattr(NOW_S, loop.time)
    wire = protocol(nobody, loop)
    loop.pass_time(50)
    wire.data_received(request("POST", CLAIM, bytes(16), Content_Type=PACKED, **RAW))
    loop.pass_time(10 * KEEP_ALIVE_S)
    assert not wire.transport.is_closing(), "a long answer"
    wire.cycle.response_complete = True
    wire.on_response_complete()
    loop.pass_time(11 * KEEP_ALIVE_S - 1)
    assert not wire.transport.is_closing()
    loop.pass_time(11 * KEEP_ALIVE_S)
    assert wire.transport.is_closing()
