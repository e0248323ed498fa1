"""Source offsets of a job over HTTP: sent with a commit or an ack, read by app and topic."""

from typing import Any
from urllib.parse import urlencode

import pytest

from oncegate.engine.limits import Limits
from tests.support.http_app import Http, Reply, open_http, token
from tests.support.http_lanes import NS, ack, driver

EVENTS = '[{"événements":{"0":17}}]'


async def commit(http: Http, version: str = "0", **more: Any) -> Reply:
    name = {"app": "etl", "version": version, "topic": "departures"}
    return await http.post_json(f"{NS}/batches:commit", {"name": name, "nonce": token(), "winners": [], **more})


async def get_offsets(http: Http, **asked: str) -> Reply:
    return await http.get(f"{NS}/batches:offsets?{urlencode({'app': 'etl', 'topic': 'departures', **asked})}")


async def test_source_offsets_of_a_commit_are_returned_unchanged_and_without_it_nothing_is_known() -> None:
    async with open_http() as http:
        await commit(http, source_offsets=EVENTS)
        reply = await get_offsets(http)
        assert reply.json == {"app": "etl", "topic": "departures", "write_id": "", "source_offsets": EVENTS}
        assert "oncegate-ledger" in reply.headers
        (await get_offsets(http, write_id="late")).problem(404, "NOT_FOUND")
        await commit(http, "1")
        assert "newest one brought none" in (await get_offsets(http)).problem(404, "NOT_FOUND")["detail"]


async def test_source_offsets_of_an_ack_are_its_drivers_for_the_topic_that_it_names() -> None:
    async with open_http() as http:
        owner = token()
        epoch = (await driver(http, owner))["epoch"]
        await ack(http, {}, owner, epoch, topic="files:/data/out", source_offsets=EVENTS)
        assert (await get_offsets(http, app="load", topic="files:/data/out")).json["source_offsets"] == EVENTS
        missing = (await ack(http, {}, owner, epoch, source_offsets=EVENTS)).problem(400, "BAD_REQUEST")
        assert "add `topic`; nothing was acked" in missing["detail"]
        (await ack(http, {}, owner, epoch, topic="", source_offsets=EVENTS)).problem(400, "BAD_REQUEST")


@pytest.mark.parametrize("query", ["app=etl", "topic=t", "app=&topic=t", "app=etl&topic=", "app=etl&topic=t&batch=1"])
async def test_a_question_that_names_no_job_is_refused(query: str) -> None:
    async with open_http() as http:
        (await http.get(f"{NS}/batches:offsets?{query}")).problem(400, "BAD_REQUEST")


async def test_texts_that_are_empty_or_too_long_are_refused() -> None:
    async with open_http(Limits(source_offsets_bytes=25)) as http:
        (await commit(http, source_offsets="")).problem(400, "BAD_REQUEST")
        (await commit(http, source_offsets=EVENTS)).problem(413, "TOO_LARGE")
        assert (await commit(http, source_offsets=EVENTS[:-4])).status == 200
        (await get_offsets(http, app="a" * 600)).problem(413, "TOO_LARGE")
