"""Numbers of 64 bits come as texts on request, by the document's formats, and nothing else changes."""

from typing import Any

import pyarrow as pa
import pytest

from tests.support.http_app import ARROW, CLAIM, JSON, PACKED, Http, Reply, open_http, stream, token

NS = "/v1/namespaces/default"
TEXTS = "application/json; int64=string"
ASKED = {"Accept": "application/json;int64=string"}
LARGE = 2**64 - 2
TOPIC, LANE, LOAD = f"{NS}/topics/orders", f"{NS}/producers/p", f"{NS}/drivers/load"


class Walk:
    """Checks each answer against the schema of its operation."""

    def __init__(self, document: Any) -> None:
        self.document, self.texts = document, set[str]()

    def check(self, schema: Any, value: Any, name: str = "") -> None:
        if "$ref" in schema:
            schema = self.document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        if "anyOf" in schema:
            found = [one for one in schema["anyOf"] if one != {"type": "null"}]
            return None if value is None else self.check(found[0], value, name)
        if schema.get("format") in ("int64", "uint64"):
            assert isinstance(value, str), f"{name} is {value!r}"
            assert value.isdecimal()
            self.texts.add(name)
        elif schema.get("type") == "integer":
            assert isinstance(value, int), f"{name} is {value!r}"
        elif isinstance(value, list):
            for item in value:
                self.check(schema["items"], item, name)
        elif isinstance(value, dict):
            others = schema.get("additionalProperties", {})
            for member, item in value.items():
                known = schema.get("properties", {}).get(member, others)
                self.check(known if isinstance(known, dict) else {}, item, member)
        return None

    def reply(self, reply: Reply, operation_id: str) -> Any:
        assert (reply.status, reply.headers["content-type"]) in ((200, TEXTS), (201, TEXTS)), reply.body
        operations = (one for item in self.document["paths"].values() for one in item.values())
        [operation] = [one for one in operations if one["operationId"] == operation_id]
        content = operation["responses"][str(reply.status)]["content"]["application/json"]
        self.check(content["schema"], reply.json)
        return reply.json


async def of_topics(http: Http, walk: Walk) -> None:
    walk.reply(await http.call("PUT", TOPIC, b"{}", {"Content-Type": JSON, **ASKED}), "createTopic")
    message = {"token": token(), "call": 0, "records": [{"id": "a"}], "id_col": ["id"]}
    for _ in range(2):
        walk.reply(await http.post_json(f"{TOPIC}/records:produce", message, ASKED), "produceRecords")
    walk.reply(await http.get(TOPIC, **ASKED), "getTopic")
    rows = walk.reply(await http.get(f"{TOPIC}/partitions/0/records", **ASKED), "fetchRecords")
    assert rows == {"records": [{"id": "a"}], "first_offset": "0", "next_offset": "1", "high_offset": "1"}
    request = {"token": token(), "call": 0, "ids": ["a"], "id_set": "orders"}
    known = walk.reply(await http.post_json(f"{CLAIM}?locate=true", request, ASKED), "claimIds")
    assert known["verdicts"][0]["place"] == {"topic": "orders", "partition": 0, "offset": "0"}
    walk.reply(await http.get(f"{NS}/ids:explain?id=a&id_set=orders", **ASKED), "explainId")


async def of_producers(http: Http, walk: Walk) -> None:
    driver = token()
    walk.reply(await http.post_json(f"{LOAD}:register", {"token": driver}, ASKED), "registerDriver")
    writer = {"token": token(), "driver": "load"}
    walk.reply(await http.post_json(f"{LANE}:register", writer, ASKED), "registerProducer")
    call = {"token": writer["token"], "epoch": 1, "call": 0}
    walk.reply(await http.post_json(f"{LANE}:claim", {**call, "sequences": [5, LARGE]}, ASKED), "claimSequences")
    known = walk.reply(await http.get(LANE, **ASKED), "explainProducer")
    assert known["open"] == [["5", "5"], [str(LARGE), str(LARGE)]]
    upto = {"token": driver, "epoch": 1, "upto": [{"producer": "p", "sequence": 5}]}
    walk.reply(await http.post_json(f"{LOAD}:ack", upto, ASKED), "ackProducers")
    walk.reply(await http.post_json(f"{LANE}:complete", call, ASKED), "completeSequences")
    walk.reply(await http.post_json(f"{LOAD}:ack", upto, ASKED), "ackProducers")
    standing = walk.reply(await http.get(LANE, **ASKED), "explainProducer")
    assert (standing["watermark"], standing["done"]) == ("5", [[str(LARGE), str(LARGE)]])
    close = {"token": writer["token"], "epoch": 1}
    walk.reply(await http.post_json(f"{LANE}:close", close, ASKED), "closeProducer")


async def test_every_number_of_64_bits_is_a_text_where_it_is_asked_for_so() -> None:
    async with open_http() as http:
        walk = Walk((await http.get("/openapi.json")).json)
        await of_topics(http, walk)
        await of_producers(http, walk)
        walk.reply(await http.get(NS, **ASKED), "getNamespace")
        walk.reply(await http.get("/v1/limits", **ASKED), "getLimits")
    places = {"offset", "first_offset", "next_offset", "high_offset", "low_offsets", "high_offsets", "position"}
    lanes = {"epoch", "watermark", "claimed_to", "resume_after", "open", "done", "not_done"}
    assert places | lanes | {"rows", "wall_ms", "retention_ms", "horizon_ms", "granted"} <= walk.texts


async def test_values_of_64_bit_columns_are_texts_too_wherever_they_are_and_other_values_are_not() -> None:
    struct = pa.struct([("n", pa.uint64()), ("m", pa.int32())])
    columns = {
        "n": pa.array([2**63 - 1, None], pa.int64()),
        "u": pa.array([2**64 - 1, 0], pa.uint64()),
        "i": pa.array([1, -1], pa.int32()),
        "f": pa.array([0.5, None]),
        "many": pa.array([[1, None], None], pa.list_(pa.int64())),
        "two": pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2)),
        "in": pa.array([{"n": 7, "m": 8}, None], struct),
        "by": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
    }
    table = pa.table(columns)
    async with open_http() as http:
        assert (await http.post_raw(f"{TOPIC}/records:produce", ARROW, stream(*table.to_batches()))).status == 200
        fetched = f"{TOPIC}/partitions/0/records"
        plain, texts = (await http.get(fetched, Accept=JSON)).json, (await http.get(fetched, **ASKED)).json
    first = {"n": str(2**63 - 1), "u": str(2**64 - 1), "i": 1, "f": 0.5, "many": ["1", None], "two": ["1", "2"]}
    first |= {"in": {"n": "7", "m": 8}, "by": [["a", "1"]]}
    second = {"n": None, "u": "0", "i": -1, "f": None, "many": None, "two": ["3", "4"], "in": None, "by": None}
    assert texts == {"records": [first, second], "first_offset": "0", "next_offset": "2"} | {"high_offset": "2"}
    assert (plain["records"][0]["u"], plain["records"][0]["in"], plain["next_offset"]) == (
        2**64 - 1,
        {"n": 7, "m": 8},
        2,
    )


async def test_a_claim_of_many_ids_is_the_same_in_both_forms() -> None:
    async with open_http() as http:
        message = {"token": token(), "call": 0, "ids": [str(number) for number in range(200)]}
        plain, texts = (await http.post_json(CLAIM, message)).json, await http.post_json(CLAIM, message, ASKED)
        assert (texts.headers["content-type"], texts.json) == (TEXTS, plain)


@pytest.mark.parametrize("wish", ["int64=number", "int64=foo", "int64", "int32=string", "int64=string; a=b"])
async def test_a_parameter_of_accept_that_is_not_known_is_refused(wish: str) -> None:
    async with open_http() as http:
        problem = (await http.get(NS, Accept=f"{JSON}; {wish}")).problem(406, "NOT_ACCEPTABLE")
        assert TEXTS in problem["detail"]


@pytest.mark.parametrize(
    ("wish", "given"),
    [
        (f'{JSON}; INT64="string"; charset=utf-8', TEXTS),
        (f"{TEXTS}, */*", TEXTS),
        (f"{TEXTS}; q=0.5, {JSON}", JSON),
        (f"{TEXTS}, {PACKED}; q=0.9", TEXTS),
        (f"{JSON}; charset=utf-8", JSON),
    ],
)
async def test_texts_are_given_where_they_are_liked_best(wish: str, given: str) -> None:
    async with open_http() as http:
        assert (await http.get(NS, Accept=wish)).headers["content-type"] == given
