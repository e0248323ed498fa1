"""The content of a body is counted before it is decoded; reads are bounded by bytes in both forms."""

import json
from typing import Any

import pyarrow as pa
import pytest

from oncegate.engine.limits import Limits
from tests.support.http_app import ARROW, CLAIM, JSON, PACKED, Http, Reply, open_http, stream, token

NS = "/v1/namespaces/default"
T = f"{NS}/topics/t"


async def produce(http: Http, records: Any) -> Reply:
    return await http.post_json(f"{T}/records:produce", {"token": token(), "call": 0, "records": records})


TOO_MUCH = {
    "one record of too many columns": [{f"c{n}": 1 for n in range(11)}],
    "records of columns of their own": [{f"c{n}": 1} for n in range(11)],
    "too many members in an object": [{"a": {f"c{n}": 1 for n in range(10)}}],
    "objects with members of their own": [{"a": {f"c{n}": 1}} for n in range(10)],
    "objects in lists": [{"a": [{f"c{n}": 1} for n in range(10)]}],
    "columns times rows": [{"a": 1, "b": 2}] + [{}] * 49,
    "columns times rows of lists": [{"a": [{"b": 1, "c": 1}] + [{}] * 49}],
}


@pytest.mark.parametrize("records", TOO_MUCH.values(), ids=TOO_MUCH.keys())
async def test_records_that_would_be_too_many_columns_or_cells_are_too_large(records: Any) -> None:
    async with open_http(Limits(columns_per_request=10, json_cells=98)) as http:
        before = http.position
        found = (await produce(http, records)).problem(413, "TOO_LARGE")
        assert "10 columns" in found["detail"]
        assert "98 cells" in found["detail"]
        assert http.position == before


async def test_records_at_the_limits_are_taken() -> None:
    async with open_http(Limits(columns_per_request=10, json_cells=100)) as http:
        assert (await produce(http, [{f"c{n}": n for n in range(10)}] * 10)).status == 200


async def test_records_of_a_wide_topic_count_the_columns_that_they_leave_out() -> None:
    async with open_http(Limits(json_cells=100)) as http:
        assert (await produce(http, [{f"c{n}": n for n in range(20)}])).status == 200
        (await produce(http, [{}] * 6)).problem(413, "TOO_LARGE")
        assert (await produce(http, [{}] * 5)).status == 200


async def test_arrow_has_as_many_columns_at_most_with_those_inside_of_others() -> None:
    inside = pa.record_batch([pa.array([{f"c{n}": n for n in range(11)}])], names=["a"])
    beside = pa.record_batch({f"c{n}": [n] for n in range(11)})
    async with open_http(Limits(columns_per_request=10)) as http:
        for rows in (inside, beside):
            (await http.post_raw(f"{T}/records:produce", ARROW, stream(rows))).problem(413, "TOO_LARGE")


async def test_a_stream_of_more_batches_than_anybody_writes_is_too_large() -> None:
    one = pa.record_batch({"id": ["a"]})
    async with open_http() as http:
        body = stream(*[one] * 5_000)
        for path in (CLAIM, f"{T}/records:produce"):
            assert "batches" in (await http.post_raw(path, ARROW, body)).problem(413, "TOO_LARGE")["detail"]


async def test_a_json_body_has_a_limit_of_its_own_and_others_have_theirs() -> None:
    async with open_http(Limits(json_bytes=1_000)) as http:
        large = json.dumps({"token": token(), "call": 0, "ids": ["a"]}).encode().ljust(1_001)
        (await http.call("POST", CLAIM, large, {"Content-Type": JSON})).problem(413, "TOO_LARGE")
        assert (await http.call("POST", CLAIM, large[:1_000], {"Content-Type": JSON})).status == 200
        assert (await http.post_raw(CLAIM, PACKED, bytes(range(160)) * 10)).status == 200


async def test_json_of_too_many_values_is_refused_before_it_is_read() -> None:
    async with open_http(Limits(json_tokens=100)) as http:
        body = b'{"token":' + b"[]," * 60  # not even JSON
        (await http.call("POST", CLAIM, body, {"Content-Type": JSON})).problem(413, "TOO_LARGE")
        assert (await http.claim(*(f"{n},[]{{}}::" for n in range(90))))["verdicts"][89] == {"verdict": "GRANTED"}


@pytest.mark.parametrize("media", [ARROW, JSON])
async def test_a_read_has_as_many_bytes_as_it_may_and_continues_where_it_ended(media: str) -> None:
    rows = [{"name" * 10: "x" * 90, "n": n} for n in range(100)]
    async with open_http(Limits(body_bytes=40_000)) as http:
        await produce(http, rows)
        small = Limits(body_bytes=2_000)
        object.__setattr__(http.gateway, "limits", small)
        offset, found = 0, []
        while offset < 100:
            reply = await http.get(f"{T}/partitions/0/records?offset={offset}", Accept=media)
            assert len(reply.body) < 3_000
            read = reply.json["records"] if media == JSON else pa.ipc.open_stream(reply.body).read_all().to_pylist()
            assert read
            offset += len(read)
            assert reply.headers["oncegate-next-offset"] == str(offset)
            found += read
        assert found == rows


async def test_a_row_above_the_bound_of_a_read_comes_alone() -> None:
    async with open_http(Limits(body_bytes=40_000)) as http:
        await produce(http, [{"a": "x" * 5_000}, {"a": "y" * 5_000}])
        object.__setattr__(http.gateway, "limits", Limits(body_bytes=2_000))
        for media in (ARROW, JSON):
            reply = await http.get(f"{T}/partitions/0/records", Accept=media)
            assert reply.headers["oncegate-next-offset"] == "1"


async def test_rows_that_were_written_one_by_one_are_read_as_one_batch() -> None:
    async with open_http() as http:
        for n in range(5):
            await produce(http, [{"n": n}])
        reply = await http.get(f"{T}/partitions/0/records")
        assert [batch.num_rows for batch in pa.ipc.open_stream(reply.body)] == [5]
