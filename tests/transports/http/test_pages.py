"""Lists have pages: bounded by default, with no name missed or repeated, whatever is created meanwhile."""

import pytest

from oncegate.testing import LocalGateway
from oncegate.transports.pages import LIMIT, LIMIT_MAX, page
from oncegate_spark import Gateway
from oncegate_spark.protocol.calls import topics as calls
from tests.support.http_app import JSON, Http, open_http

NS = "/v1/namespaces/default"


async def make_topics(http: Http, *names: str) -> None:
    for name in names:
        reply = await http.call("PUT", f"{NS}/topics/{name}", b"{}", {"Content-Type": JSON})
        assert reply.status == 201


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 6, 7])
def test_pages_hold_every_name_once(limit: int) -> None:
    names, told, after = list("abcdef"), [], ""
    pages = 0
    while after is not None:
        found, after = page(names, after, limit)
        assert 0 < len(found) <= limit
        told += found
        pages += 1
    assert (told, pages) == (names, -(-6 // limit))
    assert page([], "", limit) == ([], None)


def test_a_page_continues_after_a_name_that_is_gone_and_lists_one_that_came() -> None:
    assert page(["a", "d", "e"], "c", 1) == (["d"], "d")
    assert page(["a", "c2", "d"], "c", 5) == (["c2", "d"], None)


async def test_topics_come_page_by_page_and_a_hundred_without_being_asked() -> None:
    async with open_http() as http:
        names = [f"t{number:03}" for number in range(LIMIT + 2)]
        await make_topics(http, *reversed(names))
        first = (await http.get(f"{NS}/topics")).json
        assert (first["topics"], first["next"]) == (names[:LIMIT], names[LIMIT - 1])
        second = (await http.get(f"{NS}/topics?after={first['next']}&limit=1")).json
        assert (second["topics"], second["next"]) == (names[LIMIT : LIMIT + 1], names[LIMIT])
        last = (await http.get(f"{NS}/topics?after={second['next']}")).json
        assert (last["topics"], last["next"]) == (names[LIMIT + 1 :], None)


async def test_namespaces_come_page_by_page() -> None:
    async with open_http() as http:
        for name in ("mail", "ads"):
            assert (await http.call("PUT", f"/v1/namespaces/{name}")).status == 201
        assert (await http.get("/v1/namespaces?limit=2")).json == {"namespaces": ["ads", "default"], "next": "default"}
        assert (await http.get("/v1/namespaces?after=default")).json == {"namespaces": ["mail"], "next": None}


@pytest.mark.parametrize("query", ["limit=0", f"limit={LIMIT_MAX + 1}", "limit=-1", "limit=all", "page=2", "limit="])
async def test_a_page_that_there_cannot_be_is_refused(query: str) -> None:
    async with open_http() as http:
        for path in ("/v1/namespaces", f"{NS}/topics"):
            (await http.get(f"{path}?{query}")).problem(400, "BAD_REQUEST")


def test_a_client_lists_the_topics_of_all_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "PAGE_NAMES", 2)
    with LocalGateway() as local, Gateway(local.url) as gateway:
        assert gateway.topics() == []
        for name in "ebdac":
            gateway.create_topic(name)
        assert gateway.topics() == ["a", "b", "c", "d", "e"]
