"""Rows as JSON over HTTP: each value is read back unchanged, or its request is refused with the value's position."""

import base64
import json
from typing import Any

import pyarrow as pa
import pytest

from tests.support.http_app import ARROW, JSON, Http, Reply, open_http, stream, token

T = "/v1/namespaces/default/topics/t"


async def produce(http: Http, records: list[dict[str, Any]], **more: Any) -> Reply:
    return await http.post_json(f"{T}/records:produce", {"token": token(), "call": 0, "records": records, **more})


async def made(http: Http, **fields: Any) -> None:
    text = base64.b64encode(pa.schema([*fields.items()]).serialize().to_pybytes()).decode()
    reply = await http.call("PUT", T, json.dumps({"schema_ipc": text}).encode(), {"Content-Type": JSON})
    assert reply.status == 201, reply.body


async def read(http: Http) -> Any:
    return (await http.get(f"{T}/partitions/0/records", Accept=JSON)).json["records"]


@pytest.mark.parametrize("amount", [10.5, -0.9, "10", True, 2**63])
async def test_a_number_is_never_cut_to_the_column_s_type(amount: Any) -> None:
    async with open_http() as http:
        await produce(http, [{"id": "a", "amount": 10}], id_col=["id"])
        position = http.position
        rows = [{"id": "b", "amount": 11}, {"id": "c", "amount": amount}]
        found = (await produce(http, rows, id_col=["id"])).problem(409, "SCHEMA")
        assert f"row 1: column 'amount' cannot be {json.dumps(amount)}, for its type is int64" in found["detail"]
        assert found["effect"] == "none"
        assert (await read(http), http.position) == ([{"id": "a", "amount": 10}], position)
        again = (await produce(http, rows[:1], id_col=["id"])).json["verdicts"]
        assert [one["verdict"] for one in again] == ["GRANTED"], "nothing was claimed"


async def test_a_member_that_the_topic_has_no_place_for_is_refused_at_every_depth() -> None:
    async with open_http() as http:
        await produce(http, [{"o": {"k": 1, "l": [{"m": 1}]}}])
        for row, path in [
            ({"x": 1}, "no column x"),
            ({"o": {"k": 1, "n": 2}}, "column 'o.n' cannot be 2"),
            ({"o": {"l": [{"m": 1}, {"m": 1, "n": None}]}}, "column 'o.l[1].n' cannot be null"),
        ]:
            found = (await produce(http, [{}, row])).problem(409, "SCHEMA")
            assert found["detail"].startswith("row 1: ")
            assert path in found["detail"]
        assert len(await read(http)) == 1


async def test_ids_that_are_no_whole_numbers_are_no_duplicates_of_those_that_are() -> None:
    async with open_http() as http:
        await produce(http, [{"n": 17}], id_col=["n"])
        for number in (17.5, 18.9, 16.999):
            (await produce(http, [{"n": number}], id_col=["n"])).problem(409, "SCHEMA")
        rows = [{"n": 17.0}, {"n": 18}]
        verdicts = (await produce(http, rows, id_col=["n"])).json["verdicts"]
        assert [one["verdict"] for one in verdicts] == ["DUPLICATE", "GRANTED"]
        assert await read(http) == [{"n": 17}, {"n": 18}]


async def test_payloads_that_differ_by_a_fraction_are_never_the_same() -> None:
    async with open_http() as http:
        named = {"id_col": ["id"], "digest_col": ["cents"]}
        await produce(http, [{"id": "a", "cents": 10}], **named)
        (await produce(http, [{"id": "a", "cents": 10.5}], **named)).problem(409, "SCHEMA")
        verdicts = (await produce(http, [{"id": "a", "cents": 11}], **named)).json["verdicts"]
        assert [one["verdict"] for one in verdicts] == ["CONFLICT"]


async def test_ids_and_payloads_of_a_first_request_are_not_mixed_either() -> None:
    async with open_http() as http:
        for rows in ([{"n": 17}, {"n": 17.5}], [{"n": 17}, {"n": "17"}], [{"n": 0.5}, {"n": 2**53 + 1}]):
            assert (await produce(http, rows, id_col=["n"])).json["effect"] == "none"
        assert (await http.get("/v1/namespaces/default/topics")).json["topics"] == []


@pytest.mark.parametrize("text", ["9007199254740993.0", "0.123456789012345678", "1e-400"])
async def test_digits_that_a_double_loses_are_refused_before_they_are_lost(text: str) -> None:
    async with open_http() as http:
        await made(http, x=pa.float64())
        body = b'{"token":"%s","call":0.0,"records":[{"x":1.5},{"x":%s}]}' % (token().encode(), text.encode())
        reply = await http.call("POST", f"{T}/records:produce", body, {"Content-Type": JSON})
        assert "row 1: column 'x'" in reply.problem(409, "SCHEMA")["detail"]
        assert await read(http) == []


async def test_what_json_reads_of_any_writer_is_what_json_may_write() -> None:
    kinds: dict[str, Any] = {
        "f32": pa.array([0.1, None, float("nan")], pa.float32()),
        "f64": pa.array([float("inf"), None, -0.0], pa.float64()),
        "at": pa.array([1, None, -1], pa.timestamp("ns", "Europe/Berlin")),
        "time": pa.array([5, None, 0], pa.time64("ns")),
        "took": pa.array([1_500, None, -1], pa.duration("ms")),
        "inside": pa.array([[{"raw": b"\x00"}], None, []], pa.list_(pa.struct([("raw", pa.binary(1))]))),
        "price": pa.array([1, None, 0], pa.decimal128(9, 2)),
    }
    async with open_http() as http:
        await http.post_raw(f"{T}/records:produce", ARROW, stream(pa.record_batch(kinds)))
        rows = await read(http)
        assert rows[0] == {
            "f32": 0.1,
            "f64": "Infinity",
            "at": "1970-01-01T00:00:00.000000001Z",
            "time": "00:00:00.000000005",
            "took": "PT1.5S",
            "inside": [{"raw": "AA=="}],
            "price": "1.00",
        }
        assert (rows[2]["f32"], rows[2]["took"]) == ("NaN", "-PT0.001S")
        assert (await produce(http, rows)).json["rows"] == 3
        assert await read(http) == rows + rows
        arrow = await http.get(f"{T}/partitions/0/records", Accept=ARROW)
        table = pa.ipc.open_stream(arrow.body).read_all()
        for name in ("f64", "at", "time", "took", "inside", "price"):
            assert table[name][:3].equals(table[name][3:]), name


async def test_the_row_of_a_refusal_counts_from_the_first_of_the_request() -> None:
    """Columns are built in pieces, wide ones of few rows each."""
    async with open_http() as http:
        wide = pa.struct([(f"c{number}", pa.int8()) for number in range(100)])
        await made(http, c=wide)
        records = [{"c": {"c0": 1}} for _ in range(1_001)]
        for row in (0, 499, 500, 1_000):
            bad = [*records[:row], {"c": {"c99": 0.5}}, *records[row + 1 :]]
            assert (await produce(http, bad)).problem(409, "SCHEMA")["detail"].startswith(f"row {row}: column 'c.c99'")
        assert (await produce(http, records)).json["rows"] == 1_001
