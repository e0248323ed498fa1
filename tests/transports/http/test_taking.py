"""A route accepts the parameters, headers and members in the document for this body, and refuses all others."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa
import pytest

from oncegate.transports.http.openapi.document import BODIES
from tests.support.http_app import ARROW, CLAIM, JSON, PACKED, Http, Reply, asgi, open_http, stream, token
from tests.support.http_requests import ROWS

ROOT = Path(__file__).parents[3]
PATHS = json.loads((ROOT / "service/oncegate/transports/http/openapi/openapi.json").read_text())["paths"]
NS = "/v1/namespaces/default"
PRODUCE = f"{NS}/topics/t/records:produce"
# Every header of ours, on any route.
HEADERS = {
    item["name"]
    for operations in PATHS.values()
    for operation in operations.values()
    for item in operation.get("parameters", ())
    if item["in"] == "header"
}
COLUMN = pa.record_batch({"id": ["a"]})


def ways() -> list[Any]:
    """Returns each route with each kind of body that it reads; "" for none."""
    return [
        pytest.param(method.upper(), path, operation, media, id=f"{operation['operationId']}-{media}")
        for path, operations in PATHS.items()
        for method, operation in operations.items()
        for media in kinds(operation.get("requestBody", {}))
    ]


def kinds(body: Any) -> list[str]:
    return [*body.get("content", {}), *([] if body.get("required") else [""])]


def filled(path: str, operation: Any) -> str:
    for item in operation.get("parameters", ()):
        if item["in"] == "path":
            path = path.replace("{" + item["name"] + "}", item["example"])
            path = path.replace("{" + item["name"] + ":path}", item["example"])
    return path


def taken(operation: Any, where: str, media: str) -> set[str]:
    found = [item for item in operation.get("parameters", ()) if item["in"] == where]
    return {item["name"] for item in found if media in item.get(BODIES, (media,))}


async def send(http: Http, way: Any, query: str = "", *fields: tuple[str, str]) -> Reply:
    method, path, operation, media = way
    given = [("Content-Type", media)] if media else []
    return await asgi(http.app, method, filled(path, operation) + query, b"", [*given, *fields])


@pytest.mark.parametrize(("method", "path", "operation", "media"), ways())
async def test_a_route_refuses_by_name_what_it_does_not_take(
    method: str, path: str, operation: Any, media: str
) -> None:
    way, names = (method, path, operation, media), taken(operation, "header", media)
    async with open_http() as http:
        for name in {*HEADERS, "Oncegate-Id-Cols", "Idempotency-Key"} - names:
            found = (await send(http, way, "", (name, "1"))).problem(400, "BAD_REQUEST")
            assert name in found["detail"], found
        for name in {"id_col", "key_col", "offset", "idCol", "app", "id"} - taken(operation, "query", media):
            found = (await send(http, way, f"?{name}=1")).problem(400, "BAD_REQUEST")
            assert name in found["detail"], found


@pytest.mark.parametrize(("method", "path", "operation", "media"), ways())
async def test_accepted_fields_are_accepted_once(method: str, path: str, operation: Any, media: str) -> None:
    way = (method, path, operation, media)
    async with open_http() as http:
        for name in taken(operation, "header", media):
            fields = [(name, "1"), (name.lower(), "1")]
            found = (await send(http, way, "", *fields)).problem(400, "BAD_REQUEST")
            assert (name in found["detail"], "twice" in found["detail"]) == (True, True), found
        for name in taken(operation, "query", media) - {"id"}:
            found = (await send(http, way, f"?{name}=1&{name}=1")).problem(400, "BAD_REQUEST")
            assert (name in found["detail"], "twice" in found["detail"]) == (True, True), found


async def test_ids_named_beside_a_json_body_are_refused_before_anything_is_written() -> None:
    body = {"token": token(), "call": 0, "records": [{"order_id": "a"}]}
    async with open_http() as http:
        before = http.position
        found = (await http.post_json(f"{PRODUCE}?id_col=order_id", body)).problem(400, "BAD_REQUEST")
        assert "id_col" in found["detail"]
        assert http.position == before


@pytest.mark.parametrize("media", ["text/plain", JSON])
async def test_unknown_fields_are_refused_beside_a_type_without_a_body(media: str) -> None:
    async with open_http() as http:
        claim = (await http.claim("a"))["claim"]
        path, headers = f"{NS}/claims/{claim}:complete", {"Content-Type": media}
        found = (await http.call("POST", path, headers={**headers, "Oncegate-Token": "1"})).problem(400, "BAD_REQUEST")
        assert "Oncegate-Token" in found["detail"]
        found = (await http.call("POST", f"{path}?locate=true", headers=headers)).problem(400, "BAD_REQUEST")
        assert "locate" in found["detail"]
        assert (await http.call("POST", path, headers=headers)).json["state"] == "DONE"


async def test_a_header_of_packed_bodies_is_refused_beside_arrow_and_the_other_way_round() -> None:
    async with open_http() as http:
        for media, body, name in ((ARROW, ROWS, "Oncegate-Payloads"), (PACKED, bytes(16), "Oncegate-Digest-Cols")):
            found = (await http.post_raw(CLAIM, media, body, {name: "1"})).problem(400, "BAD_REQUEST")
            assert name in found["detail"]


@pytest.mark.parametrize(
    "number", ["1_0", "+1", " 1", "1e1", "0x1", "1.5", "-0", "-1", "null", "", "\u0661", "1.", "18446744073709551616"]
)
async def test_what_json_schema_calls_no_integer_is_no_number(number: str) -> None:
    async with open_http() as http:
        path = f"{NS}/topics/t/partitions/0/records?max_rows={quote(number)}"
        (await http.get(path)).problem(400, "BAD_REQUEST")
        path = f"{PRODUCE}?producer=p&sequence_col=id&epoch={quote(number)}"
        (await http.post_raw(path, ARROW, ROWS)).problem(400, "BAD_REQUEST")
        if number.isascii():
            (await http.post_raw(CLAIM, PACKED, bytes(16), {"Oncegate-Lease-Ms": number})).problem(400, "BAD_REQUEST")


@pytest.mark.parametrize("number", ["5000", "5000.0", "5000.000"])
async def test_an_integer_with_zeros_after_its_point_is_one(number: str) -> None:
    async with open_http() as http:
        answers = [
            await http.post_raw(CLAIM, PACKED, bytes(16), {"Oncegate-Lease-Ms": number}),
            await claimed(http, '{"token":"%s","call":0.0,"ids":["a"],"lease_ms":%s}' % (token(), number)),  # noqa: UP031
        ]
        assert [answer.status for answer in answers] == [200] * 2, answers
        assert answers[1].json["lease_ms"] == 5_000


@pytest.mark.parametrize("number", ["5000.5", "9007199254740993.0", "1e400", '"5000"', "true", "-5000.0"])
async def test_other_numbers_are_refused_in_json_too(number: str) -> None:
    async with open_http() as http:
        raw = f'{{"token":"{token()}","call":0,"ids":["a"],"lease_ms":{number}}}'
        (await claimed(http, raw)).problem(400, "BAD_REQUEST")


async def test_a_number_of_a_record_stays_what_it_is() -> None:
    async with open_http() as http:
        raw = f'{{"token":"{token()}","call":0.0,"records":[{{"x":1.0}}]}}'
        assert (await http.call("POST", PRODUCE, raw.encode(), {"Content-Type": JSON})).status == 200
        assert (await http.get(f"{NS}/topics/t")).json["schema"] == "x double"


DOUBLED = {
    "a member": '"call":0,"ids":["a"],"ids":["b"]',
    "an escaped member": r'"call":0,"ids":["a"],"\u0069ds":["b"]',
    "the first again": '"call":0,"ids":["a"],"token":"%s"' % ("0" * 32),
}
DOUBLED_RECORDS = {
    "a column": '{"a":1,"a":2}',
    "a column behind others": '{"a":1,"b":{"a":[{"a":1}]},"c":"\\"a\\":","a":2}',
    "a column inside": '{"b":[{"a":1},{"a":1,"x":[[{}]],"a":2}]}',
    "an escaped column": r'{"\ud83d\ude00":1,"😀":2}',
    "a slash": r'{"\/":1,"/":2}',
    "many columns": "{" + ",".join(f'"c{n}":{n}' for n in range(400)) + ',"c7":1}',
}
GOOD_RECORDS = {
    "the same column in two records": '{"a":1},{"a":2}',
    "the same column at two levels": '{"a":{"a":{"a":1}}}',
    "colons and quotes in text": r'{"a":"\"a\":1,\\","b":"{\"b\":"}',
    "names that begin alike": '{"a":1,"aa":1,"":1}',
}


async def claimed(http: Http, raw: str) -> Reply:
    return await http.call("POST", CLAIM, raw.encode(), {"Content-Type": JSON})


async def produced(http: Http, records: str) -> Reply:
    raw = f'{{"token":"{token()}","call":0,"records":[{records}]}}'
    return await http.call("POST", PRODUCE, raw.encode(), {"Content-Type": JSON})


@pytest.mark.parametrize("members", DOUBLED.values(), ids=DOUBLED.keys())
async def test_a_member_that_is_there_twice_is_refused_by_name(members: str) -> None:
    async with open_http() as http:
        before = http.position
        found = (await claimed(http, f'{{"token":"{token()}",{members}}}')).problem(400, "BAD_REQUEST")
        assert "twice" in found["detail"]
        assert http.position == before


@pytest.mark.parametrize("records", DOUBLED_RECORDS.values(), ids=DOUBLED_RECORDS.keys())
async def test_a_column_that_a_record_names_twice_is_refused(records: str) -> None:
    async with open_http() as http:
        before = http.position
        assert "twice" in (await produced(http, records)).problem(400, "BAD_REQUEST")["detail"]
        assert http.position == before


@pytest.mark.parametrize("records", GOOD_RECORDS.values(), ids=GOOD_RECORDS.keys())
async def test_the_same_name_in_two_places_is_no_member_twice(records: str) -> None:
    async with open_http() as http:
        assert (await produced(http, records)).status == 200


async def test_a_path_or_a_query_that_is_no_utf8_is_refused_and_merges_no_names() -> None:
    async with open_http() as http:
        for name in ("%ff", "caf%E9", "a%zz"):
            (await raw_path(http, "POST", f"{NS}/producers/{name}:register")).problem(400, "BAD_REQUEST")
        for query in ("app=caf%E9", "app=caf%E8", "app=%zz", "app", "&&", "a=1&=2"):
            answer = await http.post_raw(f"{NS}/batches:stage?{query}", ARROW, ROWS)
            answer.problem(400, "BAD_REQUEST")


async def raw_path(http: Http, method: str, path: str) -> Reply:
    """Calls the application as a server does: the path is decoded, the raw path is not."""
    given = [("Content-Type", JSON)]
    return await asgi(http.app, method, unquote(path), b"", given, raw_path=path)


@pytest.mark.parametrize("name", ["caf%E9", "caf%E8", "%ff", "%", "%4", "caf\u00e9"])
async def test_a_header_that_is_no_percent_encoded_utf8_is_refused(name: str) -> None:
    async with open_http() as http:
        before = http.position
        answers = [
            await http.post_raw(f"{NS}/ids:take", PACKED, bytes(16), {"Oncegate-Owner": name}),
            await http.post_raw(CLAIM, PACKED, bytes(16), {"Oncegate-Driver": name, "Oncegate-Batch": "1"}),
            await http.post_raw(CLAIM, ARROW, stream(COLUMN), {"Oncegate-Digest-Cols": name}),
        ]
        for answer in answers:
            answer.problem(400, "BAD_REQUEST")
        assert http.position == before


@pytest.mark.parametrize("header", ["", ",", " , "])
async def test_a_header_of_marks_that_has_none_is_refused(header: str) -> None:
    async with open_http() as http:
        found = (await http.get(f"{NS}/topics", Oncegate_Ledger=header)).problem(400, "BAD_REQUEST")
        assert "no mark" in found["detail"]
