"""The writer named by a request, over each transport and in each form: read alike, recorded, and refused before any
effect."""

import json
from typing import Any

import grpc
import pyarrow as pa
import pytest

from oncegate.core.causes import Cause
from oncegate.transports.grpc import gateway_pb2 as pb
from tests.support.grpc_app import Both, both, refusal_of
from tests.support.http_app import ARROW, JSON, PACKED, open_http, stream

NS = "/v1/namespaces/default"
CLAIM, PRODUCE = f"{NS}/ids:claim", f"{NS}/topics/t/records:produce"
WRITER = "Oncegate-Writer"
FIRST = {"job": "q", "run": "r", "batch": "7", "stage": 4, "task": 2, "attempt": 0, "serial": 10}
ROWS = stream(pa.record_batch({"id": ["a" * 16]}))
AGAIN = FIRST | {"attempt": 1, "serial": 11}


def named(writer: dict[str, Any]) -> dict[str, str]:
    return {WRITER: json.dumps(writer)}


async def causes(http: Any) -> dict[str, int]:
    counters = (await http.get(NS)).json["counters"]
    names = {cause.name.lower(): int(counters[f"duplicates_{cause.name.lower()}"]) for cause in Cause}
    return {name: count for name, count in names.items() if count}


async def json_claim(http: Any, token: int, headers: dict[str, str]) -> Any:
    return await http.post_json(CLAIM, {"token": f"{token:032x}", "call": 0, "ids": ["a" * 16]}, headers)


async def packed_claim(http: Any, token: int, headers: dict[str, str]) -> Any:
    of = {"Oncegate-Token": f"{token:032x}", "Oncegate-Call": "0"}
    return await http.call("POST", CLAIM, b"a" * 16, {"Content-Type": PACKED, **of, **headers})


async def arrow_claim(http: Any, token: int, headers: dict[str, str]) -> Any:
    of = {"Oncegate-Token": f"{token:032x}", "Oncegate-Call": "0"}
    return await http.call("POST", CLAIM, ROWS, {"Content-Type": ARROW, **of, **headers})


async def json_produce(http: Any, token: int, headers: dict[str, str]) -> Any:
    request = {"token": f"{token:032x}", "call": 0, "id_col": ["id"], "records": [{"id": "a" * 16}]}
    return await http.post_json(PRODUCE, request, headers)


async def arrow_produce(http: Any, token: int, headers: dict[str, str]) -> Any:
    of = {"Oncegate-Token": f"{token:032x}", "Oncegate-Call": "0"}
    path = f"{PRODUCE}?id_col=id"
    return await http.call("POST", path, ROWS, {"Content-Type": ARROW, **of, **headers})


async def json_take(http: Any, token: int, headers: dict[str, str]) -> Any:
    return await http.post_json(f"{NS}/ids:take", {"owner": f"o{token}", "ids": ["a"]}, headers)


FORMS = {
    form.__name__: form for form in (json_claim, packed_claim, arrow_claim, json_produce, arrow_produce, json_take)
}


async def complete(http: Any, claim: str | None) -> None:
    if claim is not None:
        assert (await http.call("POST", f"{NS}/claims/{claim}:complete")).status == 200


@pytest.mark.parametrize("form", FORMS)
async def test_each_form_of_a_request_names_its_writer(form: str) -> None:
    async with open_http() as http:
        reply = await FORMS[form](http, 1, named(FIRST) | {"Accept": JSON})
        assert reply.status == 200, reply.body
        await complete(http, reply.json.get("claim"))
        again = await FORMS[form](http, 2, named(AGAIN) | {"Accept": JSON})
        assert again.json["verdicts"][0]["verdict"] == "DUPLICATE"
        assert await causes(http) == {"task_retry": 1}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "cannot be read"),
        ("curl", "cannot be read"),
        ("[]", "cannot be read"),
        ("{}", "job"),
        ('{"job":""}', "job of Oncegate-Writer: the name is empty"),
        ('{"job":null}', "job"),
        ('{"job":7}', "job"),
        ('{"job":"j","Run":"r"}', "Run"),
        ('{"job":"j","batch":7}', "batch"),
        ('{"job":"j","batch":""}', "batch of Oncegate-Writer: the name is empty"),
        ('{"job":"j","job":"k"}', "twice"),
        ('{"job":"j","stage":-1}', "stage"),
        ('{"job":"j","task":2147483648}', "task"),
        ('{"job":"j","attempt":1.5}', "attempt"),
        ('{"job":"j","serial":"1"}', "serial"),
        ('{"job":"j","speculation":1}', "speculation"),
        ('{"job":"\u00e9"}', "ASCII"),
    ],
)
async def test_a_writer_that_cannot_be_read_is_refused_by_name_before_any_effect(text: str, told: str) -> None:
    async with open_http() as http:
        for form in FORMS.values():
            problem = (await form(http, 1, {WRITER: text})).problem(400, "BAD_REQUEST")
            assert told in problem["detail"], problem
        assert (await http.get("/metrics")).body.count(b'oncegate_ids{namespace="default"} 0.0') == 1
        assert (await json_claim(http, 1, {})).json["verdicts"][0]["verdict"] == "GRANTED"


@pytest.mark.parametrize("member", ["job", "run", "batch"])
async def test_a_name_of_512_bytes_is_taken_and_of_one_more_refused(member: str) -> None:
    async with open_http() as http:
        assert (await json_claim(http, 1, named({"job": "j"} | {member: "x" * 512}))).status == 200
        (await json_claim(http, 1, named({"job": "j"} | {member: "x" * 513}))).problem(413, "TOO_LARGE")


@pytest.mark.parametrize("member", ["stage", "stage_attempt", "task", "attempt", "serial"])
async def test_the_largest_number_of_a_stage_or_task_is_taken(member: str) -> None:
    async with open_http() as http:
        assert (await json_claim(http, 1, named({"job": "j", member: 2**31 - 1}))).status == 200
        (await json_claim(http, 2, named({"job": "j", member: 2**31}))).problem(400, "BAD_REQUEST")


@pytest.mark.parametrize("verb", ["renew", "complete", "release"])
async def test_calls_that_write_nothing_new_do_not_take_it(verb: str) -> None:
    async with open_http() as http:
        claim = (await http.claim("a"))["claim"]
        path = f"{NS}/claims/{claim}:{verb}"
        problem = (await http.call("POST", path, headers=named(FIRST))).problem(400, "BAD_REQUEST")
        assert "Oncegate-Writer is not taken here" in problem["detail"]
        assert (await http.call("POST", path)).status == 200, "nothing was changed"


async def grpc_claim(doors: Both, token: int, metadata: tuple[tuple[str, str], ...]) -> Any:
    message = pb.ClaimRequest(namespace="default", token=token.to_bytes(16), call=0, packed=b"a" * 16)
    return await doors.call("Claim", message, metadata=metadata)


async def test_metadata_name_the_writer_as_the_header_does() -> None:
    async with both() as doors:
        claimed = await grpc_claim(doors, 1, ((WRITER.lower(), json.dumps(FIRST)),))
        await doors.call("Complete", pb.CompleteRequest(namespace="default", claim=claimed.claim))
        await grpc_claim(doors, 2, ((WRITER.lower(), json.dumps(AGAIN)),))
        found = await doors.call(
            "Claim", pb.ClaimRequest(namespace="default", token=bytes(16), call=0, packed=b"a" * 16)
        )
        assert found.verdicts[0] & 7 == 2
        assert doors.http.program.gateway is not None
        counters = doors.http.program.gateway.namespace("default").home.counters()
        assert (counters["duplicates_task_retry"], counters["duplicates_unknown"]) == (1, 1)


@pytest.mark.parametrize(
    "metadata",
    [
        ((WRITER.lower(), "{}"),),
        ((WRITER.lower(), json.dumps(FIRST)), (WRITER.lower(), json.dumps(FIRST))),
    ],
)
async def test_metadata_that_name_no_writer_or_two_are_refused(metadata: tuple[tuple[str, str], ...]) -> None:
    async with both() as doors:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await grpc_claim(doors, 1, metadata)
        assert refusal_of(refused.value).info.reason == "BAD_REQUEST"
        assert (await grpc_claim(doors, 1, ())).claim, "nothing was granted before"


async def test_the_metrics_name_the_program_and_its_version() -> None:
    async with open_http() as http:
        await json_produce(http, 1, {"User-Agent": "oncegate-spark/1.0.0"})
        await json_produce(http, 2, {"User-Agent": "oncegate-spark/1.0.0"})
        await json_produce(http, 3, {"User-Agent": "something/2"})
        text = (await http.get("/metrics")).body.decode()
    of = 'client="oncegate-spark",version="1.0.0"'
    assert f"oncegate_client_ids_total{{{of}}} 2.0" in text
    assert f'oncegate_client_duplicates_total{{cause="unknown",{of}}} 1.0' in text
    assert 'oncegate_client_ids_total{client="other",version="other"} 1.0' in text
