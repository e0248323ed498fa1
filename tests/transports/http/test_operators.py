"""Actions of operators over HTTP: each records the name of its credential, and a drained gateway begins nothing."""

from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2

from oncegate.engine.limits import Limits
from oncegate.transports.access import keys
from oncegate.transports.access.rights import CALLS, Role
from oncegate.transports.grpc import gateway_pb2 as pb
from oncegate.transports.incoming import NEW_WORK
from tests.support.grpc_app import both, refusal_of
from tests.support.http_app import JSON, Http, Reply, Served, open_http, request, served, token

NS = "/v1/namespaces/default"
WHY = "its rows were lost, ticket 4711"
SAID = {"who": "ada", "why": WHY}


async def done(http: Http, *ids: object) -> None:
    claimed = await http.claim(*ids)
    await http.call("POST", f"{NS}/claims/{claimed['claim']}:complete")


async def actions(http: Http, query: str = "") -> Any:
    return (await http.get(f"{NS}/audit{query}")).json


async def test_ids_are_forgotten_by_name_and_the_trail_has_name_and_reason() -> None:
    async with open_http() as http:
        await done(http, "a", "c")
        reply = await http.post_json(f"{NS}/ids:forget", {"ids": ["a", "c", "b"], **SAID})
        assert (reply.status, reply.json) == (200, {"forgotten": 2})
        assert [one["verdict"] for one in (await http.claim("a", "c"))["verdicts"]] == ["GRANTED"] * 2
        (told,) = (await actions(http))["actions"]
        assert {name: told[name] for name in ("action", "changed", "who", "why", "subject")} == {
            "action": "forget", "changed": 2, "who": "ada", "why": WHY, "subject": "ids of set ''",
        }  # fmt: skip
        assert "audited" in http.log.getvalue()


async def test_a_refused_action_leaves_no_trace_and_changes_nothing() -> None:
    async with open_http() as http:
        await done(http, "a")
        claimed = await http.claim("b")
        position = http.position
        asked: list[tuple[str, object, int, str]] = [
            ("ids:forget", {"ids": ["a", "b"], **SAID}, 409, "LEASE_LIVE"),
            ("ids:forget", {"ids": ["a"], "who": "ada"}, 400, "BAD_REQUEST"),
            ("ids:forget", {"ids": ["a"], "why": WHY}, 400, "BAD_REQUEST"),
            ("ids:forget", {"ids": ["a"], **SAID, "force": True}, 400, "BAD_REQUEST"),
            ("ids:forget", {"ids": ["a", ""], **SAID}, 422, "NULL_ID"),
            ("audit", {"action": "forget", "subject": "ids", **SAID}, 400, "BAD_REQUEST"),
            ("audit", {"action": "replay", "subject": "", **SAID}, 400, "BAD_REQUEST"),
            ("audit", {"action": "replay", "subject": "topic orders", "who": "ada"}, 400, "BAD_REQUEST"),
            ("producers/p:fence", SAID, 404, "UNKNOWN_PRODUCER"),
            (f"claims/{claimed['claim']}:resolve", {"outcome": "not_done", **SAID}, 409, "LEASE_LIVE"),
        ]
        for path, message, status, code in asked:
            (await http.post_json(f"{NS}/{path}", message)).problem(status, code)
        assert (http.position, await actions(http)) == (position, {"actions": [], "next": None})


async def test_an_operators_action_through_other_calls_is_recorded_before() -> None:
    async with open_http() as http:
        begun = {"action": "replay", "subject": "topic orders, from orders.csv"}
        assert (await http.post_json(f"{NS}/audit", {**begun, **SAID})).json == {"who": "ada"}
        (told,) = (await actions(http))["actions"]
        assert {**begun, **SAID, "changed": 0}.items() <= told.items()
        await drain(http, True)
        (await http.post_json(f"{NS}/audit", {**begun, **SAID})).problem(503, "STOPPING")


async def test_a_claim_of_a_dead_holder_is_released_and_a_fenced_one_gets_the_error() -> None:
    async with open_http() as http:
        claimed = await http.claim("a")
        gone = {"outcome": "not_done", "holder_gone": True, **SAID}
        wrong = {**gone, "outcome": "done", "verb": "release"}
        (await http.post_json(f"{NS}/claims/{claimed['claim']}:resolve", wrong)).problem(400, "BAD_REQUEST")
        assert (await http.post_json(f"{NS}/claims/{claimed['claim']}:resolve", gone)).json["resolved"] == 1
        (told,) = (await actions(http))["actions"]
        assert (told["action"], told["changed"]) == ("resolve not-done", 1)
        mine = {"token": token(), "driver": "load"}
        await http.post_json(f"{NS}/producers/events/3:register", mine)
        fenced = await http.post_json(f"{NS}/producers/events/3:fence", SAID)
        assert fenced.json == {"producer": "events/3", "epoch": 2}
        claim = {"token": mine["token"], "epoch": 1, "call": 0, "sequences": [1]}
        (await http.post_json(f"{NS}/producers/events/3:claim", claim)).problem(409, "FENCED")
        first = await actions(http, "?limit=1")
        assert [one["subject"] for one in first["actions"]] == ["producer events/3"]
        second = await actions(http, f"?limit=1&before={first['next']}")
        assert [one["subject"] for one in second["actions"]] == [f"claim {claimed['claim']}"]
        assert second["next"] is None


def admin(folder: Path) -> tuple[Path, str]:
    made, text = keys.made("operator", [Role.ADMIN], ["*"], 0)
    keys.write(folder / "keys.json", [made])
    return folder / "keys.json", text


async def test_the_name_in_the_trail_is_the_credentials_and_the_callers_text_is_beside_it(tmp_path: Path) -> None:
    path, text = admin(tmp_path)
    async with served(keys=path) as http:

        async def ask(method: str, path: str, body: bytes = b"") -> Reply:
            return await http.send(request(method, path, body, Content_Type=JSON, Authorization=f"Bearer {text}"))

        for body in (b'{"draining":true,"why":"a"}', b'{"draining":false,"why":"b","who":"ada"}'):
            assert (await ask("POST", "/v1/gateway:drain", body)).status == 200
        told = (await ask("GET", f"{NS}/audit")).json["actions"]
        assert [(one["action"], one["who"]) for one in told] == [
            ("drain --undo", "operator (ada)"),
            ("drain", "operator"),
        ]


async def test_who_shows_no_key_learns_that_it_is_drained_and_not_by_whom_or_why(tmp_path: Path) -> None:
    path, text = admin(tmp_path)
    async with served(keys=path) as http:
        said = b'{"draining":true,"why":"the merger"}'
        asked = request("POST", "/v1/gateway:drain", said, Content_Type=JSON, Authorization=f"Bearer {text}")
        assert (await http.send(asked)).status == 200
        told = (await http.send(request("GET", "/healthz/ready"))).problem(503, "STOPPING")
        assert (told["namespaces"], "`oncegate drain --undo`" in told["detail"]) == ({}, True)
        assert "merger" not in told["detail"]


async def drain(http: Served | Http, draining: bool) -> Any:
    message = {"draining": draining, **SAID}
    if isinstance(http, Http):
        return await http.post_json("/v1/gateway:drain", message)
    body = str(message).replace("'", '"').replace("True", "true").replace("False", "false").encode()
    return await http.send(request("POST", "/v1/gateway:drain", body, Content_Type=JSON))


async def test_a_drained_gateway_finishes_what_is_open_begins_nothing_and_is_not_ready() -> None:
    async with open_http() as http:
        claimed = await http.claim("a")
        reply = await drain(http, True)
        assert reply.json == {"draining": True, **SAID, "open": {"default": {"open_claims": 1}}}
        told = (await http.get("/healthz/ready")).problem(503, "STOPPING")
        assert told["namespaces"] == {"default": "SERVING"}
        assert f"drained by {SAID['who']}: {WHY}; `oncegate drain --undo`" in told["detail"]
        assert (await http.get("/healthz/startup")).status == 200
        assert (await http.get("/healthz/live")).status == 200
        asked = {"token": token(), "call": 0, "ids": ["b"]}
        refused = (await http.post_json(f"{NS}/ids:claim", asked)).problem(503, "STOPPING")
        assert (refused["action"], refused["effect"]) == ("retry", "none")
        (await http.call("PUT", "/v1/namespaces/mail")).problem(503, "STOPPING")
        assert (await http.call("POST", f"{NS}/claims/{claimed['claim']}:complete")).status == 200
        assert (await http.get(f"{NS}/ids:explain?id=a")).json["state"] == "DONE"
        assert (await http.get("/v1/gateway")).json["open"] == {}
        assert (await drain(http, False)).json == {"draining": False, "who": "", "why": "", "open": {}}
        assert (await http.post_json(f"{NS}/ids:claim", asked)).status == 200
        assert (await http.get("/healthz/ready")).status == 200


async def test_a_drained_gateway_refuses_new_work_over_grpc_and_on_hot_routes_too() -> None:
    async with both() as doors:
        assert (await drain(doors.http, True)).status == 200
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await doors.claim(b"a" * 16)
        assert refusal_of(raised.value).members[0] == "STOPPING"
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await doors.call("Release", pb.ReleaseRequest(namespace="default", claim=b"x" * 16))
        assert refusal_of(raised.value).members[0] == "UNKNOWN_CLAIM"
        probe = doors.channel.unary_unary(
            "/grpc.health.v1.Health/Check", None, health_pb2.HealthCheckResponse.FromString
        )
        assert (await probe(b"", timeout=20)).status == health_pb2.HealthCheckResponse.NOT_SERVING
        body = b'{"token":"' + token().encode() + b'","call":0,"ids":["a"]}'
        hot = await doors.http.send(request("POST", f"{NS}/ids:claim", body, Content_Type=JSON))
        hot.problem(503, "STOPPING")


async def test_producers_are_listed_by_their_last_activity_with_the_lag_of_acks() -> None:
    async with open_http() as http:
        empty = (await http.get(f"{NS}/producers")).json
        assert empty == {"producers": [], "total": 0}
        for name, last in (("old", 3), ("new", 7)):
            mine = {"token": token(), "driver": "load"}
            await http.post_json(f"{NS}/producers/{name}:register", mine)
            claim = {"token": mine["token"], "epoch": 1, "call": 0, "first": 0, "last": last}
            await http.post_json(f"{NS}/producers/{name}:claim", claim)
        found = (await http.get(f"{NS}/producers?limit=1")).json
        assert found["total"] == 2
        (first,) = found["producers"]
        assert 0 < first.pop("lease_left_ms") <= 30_000
        assert first == {
            "producer": "new", "driver": "load", "epoch": 1, "claimed_to": 7, "watermark": None, "unacked": 8,
        }  # fmt: skip
        (await http.get(f"{NS}/producers?limit=0")).problem(400, "BAD_REQUEST")


async def test_claims_in_doubt_are_those_whose_lease_is_over_and_that_hold_something() -> None:
    async with open_http(Limits(lease_ms_min=1)) as http:
        await http.claim("live")
        asked = {"token": token(), "call": 3, "ids": ["a", "b"], "lease_ms": 1}
        left = (await http.post_json(f"{NS}/ids:claim", asked)).json["claim"]
        lost = {"token": token(), "call": 0, "ids": ["c"], "lease_ms": 1}
        await http.post_json(f"{NS}/ids:claim", lost)
        found: Any = {"total": 0}
        while found["total"] < 2:  # the millisecond of their lease
            found = (await http.get(f"{NS}/claims")).json
        while (await http.claim("c"))["verdicts"][0]["verdict"] != "GRANTED":
            continue
        found = (await http.get(f"{NS}/claims?limit=1")).json
        assert found["total"] == 1
        (one,) = found["claims"]
        assert {name: one[name] for name in ("claim", "token", "call", "ids")} == {
            "claim": left, "token": asked["token"], "call": 3, "ids": 2,
        }  # fmt: skip


async def test_the_console_is_a_public_page_that_may_call_only_its_gateway(tmp_path: Path) -> None:
    path, _ = admin(tmp_path)
    async with served(keys=path) as http:
        reply = await http.send(request("GET", "/console", Accept="text/html"))
        assert (reply.status, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "connect-src 'self'" in policy
        assert "unsafe" not in policy
        assert b"http://" not in reply.body.replace(b"http://www.w3.org/2000/svg", b"")
        assert b"https://" not in reply.body
        (await http.send(request("GET", "/console?x=1"))).problem(400, "BAD_REQUEST")


def test_what_begins_something_is_among_the_calls_and_what_ends_it_is_not() -> None:
    assert CALLS.keys() > NEW_WORK
    ends = ("complete", "release", "renew", "commit", "abort", "resolve", "close", "ack", "get", "explain", "fetch")
    assert {call for call in CALLS if call.startswith(ends)} & NEW_WORK == set()
