"""Bad requests over a real socket: one clear error each, before any effect on the ledger."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.http_app import CLAIM, JSON, Reply, Served, read_reply, request, served, token
from tests.support.http_requests import CASES, LIVE, TOKEN, claim_json, message, roundabout

# A single gateway for all cases: each uses ids of its own.
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def http() -> AsyncIterator[Served]:
    async with served(body_bytes=100_000, ids_per_request=1_000, record_bytes=5_000) as found:
        yield found


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
async def test_a_bad_request_is_one_clear_error_and_leaves_the_ledger_where_it_was(
    case: tuple[bytes, int, str], http: Served
) -> None:
    raw, status, code = case
    before = http.position
    found = (await http.send(raw)).problem(status, code)
    assert "\n" not in found["detail"]
    assert http.position == before
    assert (await http.send(message())).json["verdicts"] == [{"verdict": "GRANTED"}], "the http still works"


async def test_an_unknown_namespace_is_answered_with_the_line_that_creates_it(http: Served) -> None:
    raw = request("POST", CLAIM.replace("default", "mail"), b"{}", Content_Type=JSON)
    detail = (await http.send(raw)).problem(404, "NOT_FOUND")["detail"]
    assert "curl -X PUT" in detail
    assert "/v1/namespaces/mail" in detail


async def test_chunked_bodies_are_refused_because_their_length_is_unknown(http: Served) -> None:
    raw = request("POST", CLAIM, Content_Type=JSON, Content_Length="", Transfer_Encoding="chunked")
    before = http.position
    found = (await http.send(raw, b"2\r\n{}\r\n0\r\n\r\n")).problem(411, "LENGTH_REQUIRED")
    assert "chunked" in found["detail"]
    assert http.position == before


async def test_a_body_over_the_limit_is_refused_before_a_byte_of_it_is_sent(http: Served) -> None:
    head = request("POST", CLAIM, Content_Type=JSON, Content_Length="100001", Expect="100-continue")
    (await http.send(head)).problem(413, "TOO_LARGE")


async def test_a_body_at_the_limit_is_read(http: Served) -> None:
    ids = {"token": TOKEN, "call": 0, "ids": ["a"]}
    body = json.dumps(ids).encode().ljust(100_000)
    assert (await http.send(claim_json(body))).status == 200


async def test_a_body_that_ends_early_takes_no_effect(http: Served) -> None:
    before = http.position
    whole = message()
    with pytest.raises((EOFError, ConnectionError)):
        await http.send(whole[:-5], end=True)
    assert http.position == before
    assert http.program.gateway.admission.requests == 0
    assert http.program.gateway.admission.size_bytes == 0


async def test_a_body_that_does_not_come_is_given_up_at_the_deadline_and_its_room_is_free_again(http: Served) -> None:
    before = http.position
    body = json.dumps({"token": TOKEN, "call": 0, "ids": ["a"]}).encode()
    raw = claim_json(body, Oncegate_Timeout_Ms="200")
    found = (await http.send(raw[:-5])).problem(504, "DEADLINE")
    assert (found["action"], found["effect"]) == ("retry", "none")
    assert http.position == before
    assert http.program.gateway.admission.size_bytes == 0


@pytest.mark.parametrize("together", [True, False])
async def test_bytes_beyond_the_content_length_do_not_cost_the_request_its_answer(together: bool, http: Served) -> None:
    pieces = [message() + b"GARBAGE\r\n\r\n"] if together else [message(), b"GARBAGE\r\n\r\n"]
    first = await http.send(*pieces)
    assert first.json["verdicts"] == [{"verdict": "GRANTED"}]
    assert (await http.send(message(token=token(), ids=["b"]))).status == 200


async def test_a_token_and_call_used_again_with_other_ids_are_refused(http: Served) -> None:
    await http.send(message())
    before = http.position
    (await http.send(message(ids=["b"]))).problem(422, "TOKEN_REUSED")
    assert http.position == before


async def test_a_released_claim_is_refused_and_repeated_settles_are_harmless(http: Served) -> None:
    claim = (await http.send(message())).json["claim"]

    async def settle(verb: str, path: str = "default") -> Reply:
        return await http.send(request("POST", f"/v1/namespaces/{path}/claims/{claim}:{verb}"))

    assert (await settle("release")).json["state"] == "RELEASED"
    before = http.position
    assert (await settle("release")).json["state"] == "RELEASED"
    for verb in ("complete", "renew"):
        assert (await settle(verb)).problem(409, "RELEASED_CLAIM")["action"] == "stop"
    await http.send(request("PUT", "/v1/namespaces/other"))
    (await settle("complete", "other")).problem(404, "UNKNOWN_CLAIM")
    assert http.position == before


async def test_bytes_and_requests_in_flight_are_bounded_before_bodies_are_read() -> None:
    async with served(body_bytes=1_000, bytes_in_flight=1_500) as http:
        head = request("POST", CLAIM, Content_Type=JSON, Content_Length="1000")
        waiting = asyncio.create_task(http.send(head, b"{" * 999))
        while http.program.gateway.admission.size_bytes < 999:
            await http.send(LIVE)
        found = (await http.send(head)).problem(503, "OVERLOADED")
        assert (found["action"], found["retry_after_ms"]) == ("retry", 200)
        waiting.cancel()
        while http.program.gateway.admission.size_bytes:
            await http.send(LIVE)
        assert (await http.send(message())).status == 200


async def test_bodies_that_are_announced_and_do_not_come_take_no_room_from_others() -> None:
    async with served(body_bytes=1_000, bytes_in_flight=1_500) as http:
        head = request("POST", CLAIM, Content_Type=JSON, Content_Length="1000")
        waiting = [asyncio.create_task(http.send(way(head))) for way in (bytes, roundabout) for _ in range(8)]
        async with asyncio.timeout(20):
            while http.program.gateway.admission.requests < 16:
                await http.send(LIVE)
        assert (await http.send(message())).status == 200
        assert http.program.gateway.admission.size_bytes == 0
        for one in waiting:
            one.cancel()


@pytest.mark.parametrize("way", [bytes, roundabout])
async def test_a_body_that_comes_too_slowly_is_cut_and_its_connection_closed(way: Any) -> None:
    async with served(body_grace_ms=50) as http:
        before, raw = http.position, way(message())
        found = await http.send(raw[:-5])
        assert found.headers["connection"] == "close"
        problem = found.problem(408, "BODY_TOO_SLOW")
        assert (problem["action"], problem["effect"]) == ("retry", "none")
        assert http.position == before
        assert (http.program.gateway.admission.requests, http.program.gateway.admission.size_bytes) == (0, 0)


async def test_a_body_that_keeps_the_rate_is_read_beyond_the_grace() -> None:
    body = json.dumps({"token": TOKEN, "call": 0, "ids": ["a"]}).encode().ljust(1_000)
    async with served(body_grace_ms=100, body_bytes_per_second_min=10) as http:
        reader, writer = await asyncio.open_connection("127.0.0.1", http.program.port)
        writer.write(claim_json(body)[:-10])
        end_s = asyncio.get_running_loop().time() + 0.3
        while asyncio.get_running_loop().time() < end_s:
            await http.send(LIVE)
        writer.write(body[-10:])
        assert (await asyncio.wait_for(read_reply(reader), 20)).status == 200
        writer.close()


@pytest.mark.parametrize("way", [bytes, roundabout])
async def test_a_half_sent_body_does_not_hold_a_shutdown(way: Any) -> None:
    async with served(shutdown_ms=40_000) as http:
        half = asyncio.create_task(http.send(way(message())[:-5]))
        while not http.program.gateway.admission.requests:
            await http.send(LIVE)
        await asyncio.wait_for(http.program.server.drain(), 10)
        assert (await half).problem(503, "STOPPING")["effect"] == "none"
