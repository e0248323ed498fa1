"""Quotas of a real gateway over HTTP and gRPC: refused alike, with a retry delay, in one namespace only."""

import json
from typing import Any

import grpc
import pytest

from tests.support.doors import GrpcDoor, HttpDoor, Refused, message_of
from tests.support.grpc_app import both as opened
from tests.support.grpc_app import refusal_of
from tests.support.http_app import JSON, request

TOKEN, OTHER = b"1" * 16, b"2" * 16
MANY = b"".join(n.to_bytes(16, "big") for n in range(1_000))


@pytest.mark.parametrize("door", [HttpDoor, GrpcDoor])
@pytest.mark.parametrize(
    ("limit", "asked"),
    [
        ({"ids_per_second": 1}, {"packed": MANY}),
        ({"bytes_per_second": 1}, {"packed": MANY}),
        ({"open_claims": 1}, {"packed": b"a" * 16}),
    ],
)
async def test_a_request_over_a_quota_is_refused_before_any_effect_with_a_retry_delay(
    door: Any, limit: dict[str, int], asked: dict[str, Any]
) -> None:
    async with opened(**limit) as doors:
        asking = door(doors)
        first = await asking.ask("claim", {"token": TOKEN, "call": 0, **asked})
        position = doors.http.position
        refused = await asking.ask("claim", {"token": OTHER, "call": 0, "packed": b"z" * 16 + MANY})
        assert isinstance(refused, Refused)
        assert (refused.code, refused.action, refused.effect) == ("QUOTA", "retry", "none")
        assert refused.retry_after_ms is not None
        assert refused.retry_after_ms > 1_000
        assert doors.http.position == position
        settled = await asking.ask("complete", {"claim": bytes_of(first)})
        assert not isinstance(settled, Refused)
        page = await doors.http.send(request("GET", "/metrics"))
        name = next(iter(limit)).removesuffix("_per_second")
        line = f'oncegate_quota_refusals_total{{namespace="default",quota="{name}"}} 1.0'
        assert line in page.body.decode()


def bytes_of(answer: dict[str, Any]) -> bytes:
    from oncegate.transports.decode.identifiers import claim_bytes

    return claim_bytes(answer["claim"])


async def test_one_namespaces_requests_consume_no_others_quota() -> None:
    async with opened(ids_per_second=1) as doors:
        await doors.http.program.gateway.create("theirs")
        for name, status in (("default", 200), ("default", 429), ("theirs", 200), ("theirs", 429)):
            body = json.dumps({"token": "ab" * 16, "call": 0, "ids": ["a", "b", "c", "d", "e", "f"] * 10}).encode()
            path = f"/v1/namespaces/{name}/ids:claim"
            reply = await doors.http.send(request("POST", path, body, Content_Type=JSON))
            assert reply.status == status
        assert reply.problem(429, "QUOTA")["retry_after_ms"] > 50_000
        assert int(reply.headers["retry-after"]) > 50
        try:
            await doors.call("Claim", message_of("claim", {"token": TOKEN, "call": 0, "packed": MANY}))
        except grpc.aio.AioRpcError as error:
            message = refusal_of(error)
            assert message.code == grpc.StatusCode.RESOURCE_EXHAUSTED
            assert message.retry is not None
            assert message.retry.retry_delay.ToMilliseconds() > 50_000
        else:
            raise AssertionError("both doors are of one namespace")
