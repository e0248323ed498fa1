"""Content types in and out: unsupported ones are refused with the supported ones, before any effect."""

import pyarrow as pa
import pytest

from tests.support.http_app import ARROW, CLAIM, JSON, PACKED, asgi, open_http, stream, token

BODY = b'{"token":"6f1c2a9e4b7d4e5f8a0b1c2d3e4f5a6b","call":0,"ids":["a"]}'


@pytest.mark.parametrize("media", ["text/plain", "", "application/x-www-form-urlencoded", "application/jsonx"])
async def test_a_body_of_another_type_is_refused_with_the_types_that_are_read(media: str) -> None:
    async with open_http() as http:
        before = http.position
        found = (await http.call("POST", CLAIM, BODY, {"Content-Type": media})).problem(415, "UNSUPPORTED_MEDIA")
        assert found["accepted"] == [JSON, PACKED, ARROW]
        assert http.position == before


@pytest.mark.parametrize("media", ["application/json", "Application/JSON; charset=utf-8"])
async def test_parameters_and_case_of_a_content_type_do_not_matter(media: str) -> None:
    async with open_http() as http:
        assert (await http.call("POST", CLAIM, BODY, {"Content-Type": media})).status == 200


async def test_a_compressed_body_is_refused() -> None:
    async with open_http() as http:
        headers = {"Content-Type": JSON, "Content-Encoding": "gzip"}
        assert "gzip" in (await http.call("POST", CLAIM, BODY, headers)).problem(415, "UNSUPPORTED_MEDIA")["detail"]


@pytest.mark.parametrize("wish", ["text/html", "application/*;q=0", "image/*", f"{JSON};q=x", f"{PACKED}; q=0"])
async def test_an_answer_that_cannot_be_given_is_refused_before_any_effect(wish: str) -> None:
    async with open_http() as http:
        before = http.position
        reply = await http.call("POST", CLAIM, BODY, {"Content-Type": JSON, "Accept": wish})
        assert reply.problem(406, "NOT_ACCEPTABLE")["available"] == [JSON, PACKED, ARROW]
        assert http.position == before


@pytest.mark.parametrize("wish", ["*/*", "application/*", "text/html, application/json;q=0.1", "APPLICATION/JSON"])
async def test_an_answer_that_suits_is_given(wish: str) -> None:
    async with open_http() as http:
        reply = await http.call("POST", CLAIM, BODY, {"Content-Type": JSON, "Accept": wish})
        assert (reply.status, reply.headers["content-type"]) == (200, JSON)


@pytest.mark.parametrize("given", [JSON, PACKED, ARROW])
async def test_verdicts_come_in_the_form_of_the_ids_unless_another_is_requested(given: str) -> None:
    bodies = {JSON: BODY, PACKED: bytes(16), ARROW: stream(pa.record_batch({"id": ["a"]}))}
    async with open_http() as http:
        reply = await http.post_raw(CLAIM, given, bodies[given])
        assert (reply.status, reply.headers["content-type"]) == (200, given)


async def test_rows_without_ids_have_no_verdicts_to_give_in_another_form() -> None:
    async with open_http() as http:
        before, rows = http.position, stream(pa.record_batch({"id": ["a"]}))
        path = "/v1/namespaces/default/topics/t/records:produce"
        reply = await http.post_raw(path, ARROW, rows, {"Accept": PACKED})
        assert reply.problem(406, "NOT_ACCEPTABLE")["available"] == [JSON]
        assert http.position == before
        assert (await http.post_raw(f"{path}?id_col=id", ARROW, rows, {"Accept": PACKED})).status == 200


@pytest.mark.parametrize(
    ("wish", "given"),
    [
        ("*/*", ARROW),
        (JSON, JSON),
        (f"{ARROW};q=0.5, {JSON}", JSON),
        (f"{JSON};q=0, */*", ARROW),
        (f"{JSON};q=0.2, */*;q=0.1", JSON),
    ],
)
async def test_where_two_answers_can_be_given_the_best_liked_is(wish: str, given: str) -> None:
    async with open_http() as http:
        rows = stream(pa.record_batch({"id": ["a"]}))
        await http.post_raw("/v1/namespaces/default/topics/t/records:produce", ARROW, rows)
        reply = await http.get("/v1/namespaces/default/topics/t/partitions/0/records", Accept=wish)
        assert reply.headers["content-type"] == given


@pytest.mark.parametrize("charset", ["latin-1", '"UTF-16"', "us-ascii"])
async def test_a_body_in_another_charset_than_utf8_is_refused(charset: str) -> None:
    async with open_http() as http:
        before = http.position
        headers = {"Content-Type": f"{JSON}; charset={charset}"}
        (await http.post_json(CLAIM, {"token": token(), "call": 0, "ids": ["a"]}, headers)).problem(
            415, "UNSUPPORTED_MEDIA"
        )
        assert http.position == before


async def test_two_wishes_for_an_answer_are_one_header_or_refused() -> None:
    async with open_http() as http:
        asked = [("Accept", "text/html"), ("Accept", JSON)]
        problem = (await asgi(http.app, "GET", "/v1/namespaces/default", b"", asked)).problem(400, "BAD_REQUEST")
        assert "Accept is there twice" in problem["detail"]
        assert (await http.get("/v1/namespaces/default", Accept=f"text/html, {JSON}")).status == 200


async def test_a_body_that_a_read_is_sent_is_refused_and_not_passed_over() -> None:
    async with open_http() as http:
        for path in ("/v1/namespaces/default", "/version", "/v1/namespaces/default/topics"):
            problem = (await http.call("GET", path, b"{}")).problem(400, "BAD_REQUEST")
            assert "takes no body" in problem["detail"]
            assert (await http.call("GET", path, b"")).status == 200
            (await http.get(path, Transfer_Encoding="chunked")).problem(411, "LENGTH_REQUIRED")
