"""Namespaces over HTTP: deleted by name, without confirmation only if empty; created with a body that arrives
slowly."""

import asyncio

import pytest

from tests.support.http_app import JSON, open_http, request, served, token
from tests.support.http_requests import LIVE

NS = "/v1/namespaces/mail"
CLAIM = f"{NS}/ids:claim"


async def test_a_namespace_is_deleted_by_its_name_and_its_marks_are_refused_by_the_next_one() -> None:
    async with open_http() as http:
        assert (await http.call("PUT", NS)).status == 201
        empty = await http.call("DELETE", NS)
        assert (empty.status, empty.json) == (200, {"namespace": "mail"})
        (await http.call("DELETE", NS)).problem(404, "NOT_FOUND")
        assert (await http.call("PUT", NS)).status == 201
        claimed = await http.post_json(CLAIM, {"token": token(), "call": 0, "ids": ["a", "b"]})
        mark = {"Oncegate-Ledger": claimed.headers["oncegate-ledger"]}
        refused = (await http.call("DELETE", NS)).problem(409, "NOT_EMPTY")
        assert (refused["action"], refused["effect"], refused["holds"]) == ("fix", "none", {"ids": 2})
        assert (await http.call("DELETE", f"{NS}?confirm=mail", headers=mark)).status == 200
        (await http.get(NS)).problem(404, "NOT_FOUND")
        assert (await http.get("/v1/namespaces")).json == {"namespaces": ["default"], "next": None}
        assert (await http.call("PUT", NS)).status == 201
        (await http.call("DELETE", f"{NS}?confirm=mail", headers=mark)).problem(409, "LEDGER_BEHIND")
        again = await http.post_json(CLAIM, {"token": token(), "call": 0, "ids": ["a"]}, mark)
        again.problem(409, "LEDGER_BEHIND")
        settled = await http.post_json(f"{NS}/claims/{claimed.json['claim']}:complete", {})
        assert settled.status >= 400


@pytest.mark.parametrize("query", ["confirm=other", "confirm=", "confirm=mail&confirm=mail", "force=1", "confirm"])
async def test_a_deletion_that_does_not_give_the_name_exactly_once_deletes_nothing(query: str) -> None:
    async with open_http() as http:
        await http.call("PUT", NS)
        (await http.call("DELETE", f"{NS}?{query}")).problem(400, "BAD_REQUEST")
        assert (await http.get(NS)).status == 200


async def test_a_deletion_takes_no_body_and_default_is_never_deleted() -> None:
    async with open_http() as http:
        await http.call("PUT", NS)
        (await http.call("DELETE", NS, b"{}", {"Content-Type": JSON})).problem(400, "BAD_REQUEST")
        assert (await http.get(NS)).status == 200
        (await http.call("DELETE", "/v1/namespaces/default?confirm=default")).problem(400, "BAD_REQUEST")
        assert (await http.get("/v1/namespaces/default")).status == 200


async def test_settings_that_are_announced_and_do_not_come_take_no_room_from_others() -> None:
    async with served(body_bytes=1_000, bytes_in_flight=1_500) as http:
        head = request("PUT", NS, Content_Type=JSON, Content_Length="1000")
        waiting = [asyncio.create_task(http.send(head)) for _ in range(8)]
        admission = http.program.gateway.admission
        async with asyncio.timeout(20):
            while admission.requests < 8:
                await http.send(LIVE)
        assert admission.size_bytes == 0
        part = asyncio.create_task(http.send(head, b"{" * 500))
        async with asyncio.timeout(20):
            while admission.size_bytes < 500:
                await http.send(LIVE)
        for one in (*waiting, part):
            one.cancel()
        async with asyncio.timeout(20):
            while admission.requests or admission.size_bytes:
                await http.send(LIVE)
