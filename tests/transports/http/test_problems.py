"""Every error is a problem document: ours, the framework's own, and unexpected ones."""

from typing import Any

import pytest

from oncegate.core.errors import BadRequest, LedgerFenced, OncegateError, Overloaded, Recovering, Stopping
from oncegate.transports.http import problems
from tests.support.http_app import breaking, open_http


@pytest.mark.parametrize("path", ["/", "/v2/namespaces", "/docs", "/v1/namespaces/default/topics/", "/v1/namespaces/"])
async def test_a_path_that_does_not_exist_is_a_404_problem(path: str) -> None:
    async with open_http() as http:
        (await http.get(path)).problem(404, "NOT_FOUND")


async def test_a_wrong_method_is_a_405_problem_that_names_the_right_one() -> None:
    async with open_http() as http:
        reply = await http.get("/v1/namespaces/default/ids:claim")
    assert "POST" in reply.problem(405, "METHOD_NOT_ALLOWED")["detail"]
    assert reply.headers["allow"] == "POST"


async def test_a_path_with_a_route_for_each_method_names_them_all() -> None:
    async with open_http() as http:
        reply = await http.call("PATCH", "/v1/namespaces/default")
    reply.problem(405, "METHOD_NOT_ALLOWED")
    assert reply.headers["allow"] == "DELETE, GET, HEAD, PUT"


@pytest.mark.parametrize("query", ["offset=-1", "offset=x", "max_rows=0", "max_rows=99999999999999999999"])
async def test_a_parameter_that_does_not_fit_is_a_problem_with_its_place(query: str) -> None:
    async with open_http() as http:
        reply = await http.get(f"/v1/namespaces/default/topics/t/partitions/0/records?{query}")
    found = reply.problem(400, "BAD_REQUEST")
    assert found["errors"][0]["pointer"] == f"query/{query.partition('=')[0]}"


async def test_a_bug_is_a_problem_with_an_unknown_effect_and_its_traceback_is_in_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def broken(*_: object) -> Any:
        raise ZeroDivisionError("a bug")

    breaking(monkeypatch, "/version", broken)
    async with open_http() as http:
        reply = await http.get("/version", traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
        found = reply.problem(500, "INTERNAL")
        assert (found["action"], found["effect"]) == ("retry", "unknown")
        assert found["trace_id"] == "4bf92f3577b34da6a3ce929d0e0e4736", "the caller's own"
        assert "a bug" not in found["detail"], "internal errors are not revealed"
        assert "ZeroDivisionError: a bug" in http.log.getvalue()
        assert found["trace_id"] in http.log.getvalue()


async def test_a_trace_id_that_is_none_is_replaced() -> None:
    async with open_http() as http:
        reply = await http.get("/nowhere", traceparent="what")
    assert reply.problem(404, "NOT_FOUND")["trace_id"] != "what"


def test_the_delay_is_given_in_milliseconds_and_in_the_header_that_proxies_know() -> None:
    reply = problems.response(Overloaded("full"), "0" * 32)
    assert reply.headers["Retry-After"] == "1"
    assert problems.document(Overloaded("full"), "0" * 32)["retry_after_ms"] == 200


def test_further_members_never_replace_the_fixed_ones() -> None:
    found = problems.document(BadRequest("no", code="MINE", places=[1]), "0" * 32)
    assert (found["code"], found["places"]) == ("BAD_REQUEST", [1])


async def test_while_the_ledgers_are_opened_every_route_answers_retry_and_only_live_is_green() -> None:
    async with open_http() as http:
        http.app.state.gateway = None
        (await http.get("/v1/namespaces/default")).problem(503, "RECOVERING")
        (await http.get("/healthz/startup")).problem(503, "RECOVERING")
        (await http.get("/healthz/ready")).problem(503, "RECOVERING")
        assert (await http.get("/healthz/live")).status == 200
        assert (await http.get("/version")).status == 200


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/v1/namespaces/default/ids:claim", "POST"),
        ("HEAD", "/v1/namespaces/default/ids:claim", "POST"),
        ("POST", "/v1/namespaces/default/ids:explain", "GET, HEAD"),
        ("GET", "/v1/namespaces/default/claims/x:complete", "POST"),
        ("POST", "/v1/namespaces/default/producers/a/b", "GET, HEAD"),
        ("PUT", "/v1/namespaces/default/drivers/a/b:ack", "POST"),
        ("OPTIONS", "/v1/limits", "GET, HEAD"),
    ],
)
async def test_allow_names_what_a_path_with_a_verb_takes(method: str, path: str, allowed: str) -> None:
    async with open_http() as http:
        reply = await http.call(method, path)
    assert (reply.status, reply.headers["allow"]) == (405, allowed)


@pytest.mark.parametrize("path", ["/healthz/live", "/v1/limits", "/openapi.json", "/v1/namespaces/default/topics"])
async def test_head_is_answered_as_get_is_without_the_body(path: str) -> None:
    async with open_http() as http:
        found, shown = await http.get(path), await http.call("HEAD", path)
    assert (shown.status, shown.headers, shown.body) == (200, found.headers, b"")


async def test_head_of_what_is_not_there_has_the_status_alone() -> None:
    async with open_http() as http:
        reply = await http.call("HEAD", "/v1/namespaces/nowhere")
    assert (reply.status, reply.body) == (404, b"")


@pytest.mark.parametrize("kind", [LedgerFenced, Recovering, Stopping])
def test_a_refusal_that_another_gateway_would_not_give_ends_the_connection(kind: type[OncegateError]) -> None:
    """A caller that kept the connection would send each retry to the same gateway."""
    reply = problems.response(kind("ask another one"), "0")
    assert (reply.status_code, reply.headers["connection"], reply.headers["retry-after"]) == (503, "close", "1")


def test_a_refusal_of_one_request_keeps_the_connection() -> None:
    assert "connection" not in problems.response(Overloaded("too much"), "0").headers
