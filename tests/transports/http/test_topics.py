"""Topics over HTTP: created and configured, written as Arrow and JSON, read back by offset and column."""

import asyncio
import base64
import json
from typing import Any

import pyarrow as pa
import pytest

from oncegate.engine.limits import Limits
from tests.support.http_app import ARROW, JSON, Http, Reply, open_http, stream, token
from tests.support.memory_gateway import run_ready_tasks

NS = "/v1/namespaces/default"
T = f"{NS}/topics/t"
ROWS = pa.record_batch({"id": pa.array([1, 2, 3]), "who": ["ann", "bob", None]})


async def put(http: Http, path: str, message: dict[str, Any]) -> Reply:
    return await http.call("PUT", path, json.dumps(message).encode(), {"Content-Type": JSON})


def schema_text(**fields: Any) -> str:
    return base64.b64encode(pa.schema(fields).serialize().to_pybytes()).decode()


async def produce(http: Http, records: list[dict[str, Any]], path: str = T, **more: Any) -> Reply:
    return await http.post_json(f"{path}/records:produce", {"token": token(), "call": 0, "records": records, **more})


async def read(http: Http, partition: int = 0, query: str = "", path: str = T) -> list[dict[str, Any]]:
    reply = await http.get(f"{path}/partitions/{partition}/records{query}", Accept=JSON)
    assert reply.status == 200, reply.body
    return reply.json["records"]


async def test_a_topic_is_made_once_and_its_retention_can_be_changed() -> None:
    async with open_http() as http:
        made = await put(http, T, {"partitions": 3, "retention_ms": 60_000})
        assert made.status == 201
        assert (made.json["partitions"], made.json["schema"], made.json["schema_ipc"]) == (3, "", None)
        assert (made.json["low_offsets"], made.json["high_offsets"]) == ([0, 0, 0], [0, 0, 0])
        again = await put(http, T, {"retention_bytes": 5})
        assert again.status == 200
        assert (again.json["retention_ms"], again.json["retention_bytes"]) == (60_000, 5)
        position = http.position
        assert (await put(http, T, {})).status == 200
        assert http.position == position, "nothing changes, nothing is written"


async def test_options_of_an_existing_topic_cannot_be_changed() -> None:
    async with open_http() as http:
        await put(http, T, {"partitions": 2, "schema_ipc": schema_text(id=pa.int64())})
        found = (await put(http, T, {"partitions": 3})).problem(409, "PARTITIONS")
        assert ("has 2 partitions" in found["detail"], found["partitions"]) == (True, 2)
        assert (await put(http, T, {"partitions": 2})).status == 200
        (await put(http, T, {"schema_ipc": schema_text(id=pa.string())})).problem(409, "SCHEMA")


async def test_columns_are_added_only_on_request() -> None:
    async with open_http() as http:
        await produce(http, [{"id": 1}])
        wider = {"schema_ipc": schema_text(who=pa.string(), id=pa.int64())}
        (await put(http, T, wider)).problem(409, "SCHEMA")
        await produce(http, [{"id": 2, "who": "bob"}])
        found = await put(http, T, {**wider, "merge_schema": True})
        assert (found.status, found.json["schema"]) == (200, "id int64, who string")
        await produce(http, [{"id": 2, "who": "bob"}])
        assert await read(http) == [{"id": 1, "who": None}, {"id": 2, "who": "bob"}]
        assert await read(http, query="?columns=who") == [{"who": None}, {"who": "bob"}]
        refused = (await put(http, T, {"merge_schema": True})).problem(400, "BAD_REQUEST")
        assert "schema_ipc" in refused["detail"]


@pytest.mark.parametrize("message", [{"partitions": 0}, {"partition": 1}, {"retention_ms": -1}, {"schema_ipc": "x"}])
async def test_a_topic_that_cannot_be_is_refused_before_it_is_made(message: dict[str, Any]) -> None:
    async with open_http() as http:
        (await put(http, T, message)).problem(400, "BAD_REQUEST")
        assert (await http.get(f"{NS}/topics")).json == {"topics": [], "next": None}


async def test_more_partitions_than_the_limit_are_refused() -> None:
    async with open_http(Limits(partitions=4)) as http:
        (await put(http, T, {"partitions": 5})).problem(413, "TOO_LARGE")


async def test_rows_of_a_schema_given_beforehand_are_read_from_json_by_it() -> None:
    kinds = schema_text(id=pa.int32(), at=pa.timestamp("ms", "UTC"), cents=pa.decimal128(9, 2), raw=pa.binary())
    async with open_http() as http:
        await put(http, T, {"schema_ipc": kinds})
        row = {"id": 7, "at": "2026-11-20T10:00:00Z", "cents": "12.50", "raw": "AAE="}
        assert (await produce(http, [row, {"id": 8}])).json["rows"] == 2
        rows_read = await read(http)
        assert (rows_read[0]["id"], rows_read[0]["cents"], rows_read[0]["raw"]) == (7, "12.50", "AAE=")
        assert rows_read[0]["at"].startswith("2026-11-20T10:00:00")
        assert rows_read[1] == {"id": 8, "at": None, "cents": None, "raw": None}


@pytest.mark.parametrize(
    ("record", "wanted"),
    [
        ({"id": "x"}, "column 'id'"),
        ({"id": 1, "typo": 2}, "no column typo"),
        ({"id": 2**40}, "column 'id'"),
        ({"id": 1, "raw": "!"}, "base64"),
    ],
)
async def test_json_rows_that_do_not_fit_the_schema_are_refused_whole(record: dict[str, Any], wanted: str) -> None:
    async with open_http() as http:
        await put(http, T, {"schema_ipc": schema_text(id=pa.int32(), raw=pa.binary())})
        found = (await produce(http, [{"id": 1}, record])).problem(409, "SCHEMA")
        assert wanted in found["detail"]
        assert await read(http) == []


async def test_json_rows_make_a_topic_by_what_they_look_like() -> None:
    async with open_http() as http:
        await produce(http, [{"a": 1, "b": "x", "c": True}, {"a": 2, "d": 0.5}])
        assert (await http.get(T)).json["schema"] == "a int64, b string, c bool, d double"
        found = (await produce(http, [{"a": None}], path=f"{NS}/topics/u")).problem(400, "BAD_REQUEST")
        assert "make the topic with a schema first" in found["detail"]
        (await produce(http, [{"a": 1}, {"a": "x"}], path=f"{NS}/topics/u")).problem(400, "BAD_REQUEST")


async def test_the_same_rows_as_json_and_as_arrow_are_the_same_ids() -> None:
    async with open_http() as http:
        rows = pa.record_batch({"n": [1, 2], "who": ["a", "b"]})
        await http.post_raw(f"{T}/records:produce?id_col=n,who&id_set=", ARROW, stream(rows))
        reply = await produce(http, [{"n": 2, "who": "b"}, {"n": 3, "who": "b"}], id_col=["n", "who"], id_set="")
        assert [verdict["verdict"] for verdict in reply.json["verdicts"]] == ["DUPLICATE", "GRANTED"]
        claimed = await http.claim(["2", "b"], ["4", "d"])
        assert [verdict["verdict"] for verdict in claimed["verdicts"]] == ["DUPLICATE", "GRANTED"]


async def test_rows_without_an_id_are_refused_with_their_column_and_places() -> None:
    async with open_http() as http:
        reply = await http.post_raw(f"{T}/records:produce?id_col=who", ARROW, stream(ROWS))
        found = reply.problem(422, "NULL_ID")
        assert (found["column"], found["count"], found["places"]) == ("who", 1, [2])
        assert (await http.get(f"{NS}/topics")).json == {"topics": [], "next": None}


@pytest.mark.parametrize("query", ["id_col=nobody", "key_col=nobody", "idcol=id", "id_col=id&id_col=who"])
async def test_columns_that_are_not_there_and_misspelt_parameters_are_refused(query: str) -> None:
    async with open_http() as http:
        reply = await http.post_raw(f"{T}/records:produce?{query}", ARROW, stream(ROWS))
        reply.problem(400, "BAD_REQUEST")
        assert (await http.get(f"{NS}/topics")).json == {"topics": [], "next": None}


@pytest.mark.parametrize(
    "query", ["id_col=", "id_col=,", "id_col=id,", "id_col=,id", "key_col=", "id_col=id&digest_col="]
)
async def test_a_list_of_columns_that_names_none_is_refused_since_rows_without_ids_are_written_twice(
    query: str,
) -> None:
    async with open_http() as http:
        (await http.post_raw(f"{T}/records:produce?{query}", ARROW, stream(ROWS))).problem(400, "BAD_REQUEST")
        member = query.rpartition("&")[2].partition("=")[0]
        (await produce(http, [{"id": "a"}], **{"id_col": ["id"], member: []})).problem(400, "BAD_REQUEST")
        (await produce(http, [{"id": "a"}], **{member: [""]})).problem(400, "BAD_REQUEST")
        assert (await http.get(f"{NS}/topics")).json == {"topics": [], "next": None}
        await produce(http, [{"id": "a"}], id_col=["id"])
        for columns in ("", ",", "id,"):
            (await http.get(f"{T}/partitions/0/records?columns={columns}")).problem(400, "BAD_REQUEST")


async def test_rows_of_one_key_come_to_one_partition_in_every_encoding_and_every_write_mode() -> None:
    async with open_http() as http:
        await put(http, T, {"partitions": 4})
        table = pa.record_batch({"k": [f"key {n % 7}" for n in range(70)], "n": list(range(70))})
        await http.post_raw(f"{T}/records:produce?key_col=k", ARROW, stream(table))
        await produce(http, [{"k": f"key {n}", "n": 100 + n} for n in range(7)], key_col=["k"])
        where: dict[str, set[int]] = {}
        total = 0
        for partition in range(4):
            for row in await read(http, partition):
                where.setdefault(row["k"], set()).add(partition)
                total += 1
        assert total == 77
        assert all(len(partitions) == 1 for partitions in where.values())
        assert len(set.union(*where.values())) > 1


async def test_columns_are_read_in_the_order_asked_for_and_no_others() -> None:
    async with open_http() as http:
        await http.post_raw(f"{T}/records:produce", ARROW, stream(ROWS))
        reply = await http.get(f"{T}/partitions/0/records?columns=who,id&offset=1")
        assert pa.ipc.open_stream(reply.body).read_all().to_pydict() == {"who": ["bob", None], "id": [2, 3]}
        assert await read(http, query="?columns=id&max_rows=1") == [{"id": 1}]
        (await http.get(f"{T}/partitions/0/records?columns=nobody")).problem(400, "BAD_REQUEST")


async def test_a_topic_without_rows_is_read_as_no_rows() -> None:
    async with open_http() as http:
        await put(http, T, {})
        assert await read(http) == []
        reply = await http.get(f"{T}/partitions/0/records")
        assert (reply.status, reply.headers["oncegate-high-offset"]) == (200, "0")
        (await http.get(f"{T}/partitions/1/records")).problem(404, "NOT_FOUND")


async def test_readers_go_on_while_writers_write_and_see_every_row_once() -> None:
    async with open_http() as http:
        await produce(http, [{"n": -1}])

        async def write() -> None:
            for n in range(30):
                await produce(http, [{"n": 2 * n}, {"n": 2 * n + 1}])

        writing = asyncio.create_task(write())
        seen: list[int] = []
        while not writing.done() or len(seen) < 61:
            seen += [row["n"] for row in await read(http, query=f"?offset={len(seen)}&max_rows=7")]
            await run_ready_tasks(3)
        await writing
        assert seen == list(range(-1, 60))


async def test_a_trimmed_offset_is_gone_with_where_to_read_on() -> None:
    async with open_http() as http:
        await put(http, T, {"retention_bytes": 1})
        for n in range(3):
            await produce(http, [{"n": n}])
        http.gateway.namespace("default").home.scheduler.step()
        await http.gateway.namespace("default").home.group_commit.all_durable()
        found = (await http.get(f"{T}/partitions/0/records?offset=1")).problem(410, "OFFSET_TRIMMED")
        assert found["low_offset"] == 2
        assert await read(http, query="?offset=2") == [{"n": 2}]
        assert (await http.get(T)).json["low_offsets"] == [2]


async def test_a_namespace_keeps_its_settings() -> None:
    async with open_http() as http:
        made = await put(http, "/v1/namespaces/mail", {"horizon_ms": 86_400_000, "auto_create_topics": False})
        assert (made.status, made.json["horizon_ms"], made.json["auto_create_topics"]) == (201, 86_400_000, False)
        again = await http.call("PUT", "/v1/namespaces/mail")
        assert (again.status, again.json["horizon_ms"]) == (200, 86_400_000)
        assert (await put(http, "/v1/namespaces/mail", {"auto_create_topics": True})).json["horizon_ms"] == 86_400_000
        (await put(http, "/v1/namespaces/mail", {"horizon_ms": 1})).problem(400, "BAD_REQUEST")
        (await put(http, "/v1/namespaces/mail", {"horizon": 1})).problem(400, "BAD_REQUEST")
        refused = (await put(http, "/v1/namespaces/mail", {"record_headers": True})).problem(400, "BAD_REQUEST")
        assert "record_headers are headers of Kafka records" in refused["detail"]
        assert (await put(http, "/v1/namespaces/mail", {"record_headers": False})).json["record_headers"] is False
        assert (await http.get("/v1/namespaces/mail")).json["horizon_ms"] == 86_400_000


async def test_a_namespace_that_makes_no_topics_refuses_their_first_write() -> None:
    async with open_http() as http:
        await put(http, "/v1/namespaces/default", {"auto_create_topics": False})
        found = (await produce(http, [{"n": 1}])).problem(404, "NOT_FOUND")
        assert "PUT /v1/namespaces/default/topics/t" in found["detail"]
        await put(http, T, {})
        assert (await produce(http, [{"n": 1}])).status == 200


async def test_a_done_id_has_its_offset_and_how_long_it_is_known() -> None:
    async with open_http() as http:
        await put(http, "/v1/namespaces/default", {"horizon_ms": 86_400_000})
        await produce(http, [{"id": "a"}, {"id": "b"}], id_col=["id"])
        found = (await http.get(f"{NS}/ids:explain?id=b&id_set=t")).json
        assert (found["state"], found["topic"], found["partition"], found["first_offset"]) == ("DONE", "t", 0, 0)
        assert found["kept_until_ms"] == found["wall_ms"] + 86_400_000


async def test_a_taken_id_is_reported_as_taken() -> None:
    async with open_http() as http:
        reply = await http.post_json(f"{NS}/ids:take", {"owner": "daily-2026-11-20", "ids": ["a"]})
        assert reply.json == {"verdicts": [{"verdict": "GRANTED"}], "id_set": "dedup"}
        found = (await http.get(f"{NS}/ids:explain?id=a&id_set=dedup")).json
        assert (found["state"], len(found["owner"]), "claim" in found) == ("TAKEN", 32, False)
        long = {"owner": "x" * 600, "ids": ["a"]}
        (await http.post_json(f"{NS}/ids:take", long)).problem(413, "TOO_LARGE")


@pytest.mark.parametrize("query", ["id_col=id,who,id", "key_col=id,id", "id_col=" + ",".join(map(str, range(17)))])
async def test_a_column_is_named_once_and_few_are_a_key(query: str) -> None:
    async with open_http() as http:
        (await http.post_raw(f"{T}/records:produce?{query}", ARROW, stream(ROWS))).problem(400, "BAD_REQUEST")
        assert (await http.get(f"{NS}/topics")).json == {"topics": [], "next": None}


@pytest.mark.parametrize("deep", [40, 63, 400, 900])
async def test_records_nested_deeper_than_anybody_reads_are_refused_at_once(deep: int) -> None:
    async with open_http() as http:
        nested = b"[" * deep + b"1" + b"]" * deep
        body = b'{"token":"%s","call":0,"records":[{"a":' % token().encode() + nested + b"}]}"
        reply = await http.call("POST", f"{T}/records:produce", body, {"Content-Type": JSON})
        assert "nested more than 32 deep" in reply.problem(400, "BAD_REQUEST")["detail"]


@pytest.mark.parametrize(
    "kind", [pa.map_(pa.string(), pa.int64()), pa.list_(pa.map_(pa.string(), pa.int64()))], ids=str
)
async def test_maps_are_taken_as_arrow_only(kind: Any) -> None:
    """pyarrow would crash the process at a map's null entry."""
    async with open_http() as http:
        await put(http, T, {"schema_ipc": schema_text(c=kind)})
        found = (await produce(http, [{"c": [[["k", 1]]]}])).problem(409, "SCHEMA")
        assert "as Arrow" in found["detail"]
        assert (await produce(http, [{"c": None}])).json["rows"] == 1


async def test_a_time_that_json_cannot_express_is_read_as_arrow() -> None:
    async with open_http() as http:
        rows = pa.record_batch({"c": pa.array([2**62], pa.timestamp("s"))})
        await http.post_raw(f"{T}/records:produce", ARROW, stream(rows))
        (await http.get(f"{T}/partitions/0/records", Accept=JSON)).problem(406, "NOT_ACCEPTABLE")
        assert (await http.get(f"{T}/partitions/0/records", Accept=ARROW)).status == 200


@pytest.mark.parametrize("zone", ["Nope/Zone", "+99:99"])
async def test_an_unknown_time_zone_is_refused_before_it_is_stored(zone: str) -> None:
    async with open_http() as http:
        found = (await put(http, T, {"schema_ipc": schema_text(c=pa.timestamp("us", zone))})).problem(
            400, "BAD_REQUEST"
        )
        assert "unknown time zone" in found["detail"]
