"""Each route once: written data is there, requests are answered, every answer has a ledger position."""

import base64
import hashlib
from typing import Any

import pyarrow as pa
import pytest

from oncegate.engine.limits import Limits
from tests.support.http_app import ARROW, JSON, Http, Reply, open_http, stream, token

NS = "/v1/namespaces/default"
ROWS = pa.record_batch({"id": ["a", "b", "c"], "n": [1, 2, None]})
NAME = {"app": "query", "version": "7", "topic": "departures"}


def digest(body: bytes) -> str:
    return f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"


async def stage(http: Http, as_token: str, chunk: int = 0, rows: Any = ROWS, **headers: str) -> Reply:
    body = stream(rows)
    query = f"app=query&version=7&topic=departures&owner=run:1&chunk={chunk}"
    named = {"Oncegate-Token": as_token, "Content-Digest": digest(body)}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    return await http.post_raw(f"{NS}/batches:stage?{query}", ARROW, body, named)


async def commit(http: Http, winners: list[Any], nonce: str | None = None, **more: Any) -> Reply:
    message = {"name": NAME, "nonce": nonce or token(), "winners": winners, **more}
    return await http.post_json(f"{NS}/batches:commit", message)


def winner(as_token: str, staged: Reply, chunks: int = 1) -> dict[str, Any]:
    return {"token": as_token, "chunks": chunks, "rows": staged.json["rows"], "fingerprint": staged.json["fingerprint"]}


async def test_an_id_is_granted_then_completed_then_a_duplicate() -> None:
    async with open_http() as http:
        first = await http.claim("a", "b", "a")
        assert [verdict["verdict"] for verdict in first["verdicts"]] == ["GRANTED", "GRANTED", "SAME"]
        done = await http.call("POST", f"{NS}/claims/{first['claim']}:complete")
        assert done.json == {"claim": first["claim"], "state": "DONE", "settled": 2, "taken_over": 0, "lease_ms": 0}
        again = await http.claim("a", "c")
        assert [verdict["verdict"] for verdict in again["verdicts"]] == ["DUPLICATE", "GRANTED"]


async def test_a_claim_is_renewed_and_released() -> None:
    async with open_http() as http:
        claimed = (await http.claim("a"))["claim"]
        renewed = await http.call("POST", f"{NS}/claims/{claimed}:renew")
        assert (renewed.json["state"], renewed.json["lease_ms"]) == ("OPEN", 30_000)
        assert (await http.claim("a"))["verdicts"][0]["verdict"] == "BUSY"
        released = await http.call("POST", f"{NS}/claims/{claimed}:release")
        assert (released.json["state"], released.json["settled"]) == ("RELEASED", 1)
        assert (await http.claim("a"))["verdicts"] == [{"verdict": "GRANTED"}]


async def test_an_id_is_explained_at_each_point_of_its_life() -> None:
    async with open_http() as http:
        absent = (await http.get(f"{NS}/ids:explain?id=a")).json
        assert absent == {"state": "ABSENT", "id_set": "", "fingerprint": absent["fingerprint"]}
        assert len(bytes.fromhex(absent["fingerprint"])) == 16
        as_token = token()
        claimed = (await http.claim("a", call=3, as_token=as_token))["claim"]
        held = (await http.get(f"{NS}/ids:explain?id=a")).json
        assert (held["state"], held["claim"], held["token"], held["call"]) == ("CLAIMED_LIVE", claimed, as_token, 3)
        assert 0 < held["lease_left_ms"] <= 30_000
        await http.call("POST", f"{NS}/claims/{claimed}:complete")
        assert (await http.get(f"{NS}/ids:explain?id=a")).json["state"] == "DONE"


async def test_an_id_of_several_columns_is_explained_by_naming_them_in_order() -> None:
    async with open_http() as http:
        await http.claim(["2013", "UA"])
        assert (await http.get(f"{NS}/ids:explain?id=2013&id=UA")).json["state"] == "CLAIMED_LIVE"
        assert (await http.get(f"{NS}/ids:explain?id=UA&id=2013")).json["state"] == "ABSENT"


async def test_rows_are_produced_and_read_back_as_arrow_and_as_json() -> None:
    async with open_http() as http:
        path = f"{NS}/topics/departures"
        for first_offset in (0, 3):
            reply = await http.post_raw(f"{path}/records:produce", ARROW, stream(ROWS))
            assert reply.json == {"rows": 3, "offsets": [{"partition": 0, "first_offset": first_offset, "rows": 3}]}
        reply = await http.get(f"{path}/partitions/0/records?offset=2&max_rows=2")
        assert reply.headers["content-type"] == ARROW
        assert (reply.headers["oncegate-next-offset"], reply.headers["oncegate-high-offset"]) == ("4", "6")
        table = pa.ipc.open_stream(reply.body).read_all()
        assert table.to_pylist() == [{"id": "c", "n": None}, {"id": "a", "n": 1}]
        reply = await http.get(f"{path}/partitions/0/records?offset=5", Accept=JSON)
        expected = {"records": [{"id": "c", "n": None}], "first_offset": 5, "next_offset": 6, "high_offset": 6}
        assert reply.json == expected


async def test_reading_at_the_end_gives_no_rows_and_beyond_it_is_refused() -> None:
    async with open_http() as http:
        await http.post_raw(f"{NS}/topics/t/records:produce", ARROW, stream(ROWS))
        at_end = await http.get(f"{NS}/topics/t/partitions/0/records?offset=3")
        assert pa.ipc.open_stream(at_end.body).read_all().num_rows == 0
        assert at_end.headers["oncegate-next-offset"] == "3"
        beyond = await http.get(f"{NS}/topics/t/partitions/0/records?offset=4")
        assert beyond.problem(416, "OFFSET_BEYOND_END")["high_offset"] == 3


async def test_one_answer_stops_at_the_limit_of_bytes_with_where_to_read_on() -> None:
    async with open_http(Limits(body_bytes=20_000, record_bytes=10_000)) as http:
        for _ in range(5):
            rows = pa.record_batch({"id": ["x" * 9_000]})
            await http.post_raw(f"{NS}/topics/t/records:produce", ARROW, stream(rows))
        offset, reads = 0, 0
        while offset < 5:
            reply = await http.get(f"{NS}/topics/t/partitions/0/records?offset={offset}")
            assert len(reply.body) < 20_000
            offset, reads = int(reply.headers["oncegate-next-offset"]), reads + 1
        assert reads == 3


async def test_a_topic_shows_its_schema_and_ends() -> None:
    async with open_http() as http:
        await http.post_raw(f"{NS}/topics/t/records:produce", ARROW, stream(ROWS))
        expected = {
            "topic": "t",
            "partitions": 1,
            "schema": "id string, n int64",
            "low_offsets": [0],
            "high_offsets": [3],
            "retention_ms": 0,
            "retention_bytes": 0,
        }
        shown = (await http.get(f"{NS}/topics/t")).json
        assert pa.ipc.read_schema(pa.py_buffer(base64.b64decode(shown.pop("schema_ipc")))) == ROWS.schema
        assert shown == expected
        assert (await http.get(f"{NS}/topics")).json == {"topics": ["t"], "next": None}
        (await http.get(f"{NS}/topics/u")).problem(404, "NOT_FOUND")
        (await http.get(f"{NS}/topics/t/partitions/1/records")).problem(404, "NOT_FOUND")


async def test_a_batch_is_staged_committed_once_and_its_replay_is_a_duplicate() -> None:
    async with open_http() as http:
        first, second = token(), token()
        staged = await stage(http, first)
        assert staged.json["outcome"] == "STAGED"
        assert (await http.get(f"{NS}/topics")).json == {"topics": [], "next": None}, "nothing shows before the commit"
        done = await commit(http, [winner(first, staged)], digest="ab" * 32)
        offsets = [{"partition": 0, "first_offset": 0, "rows": 3}]
        counts = {"rows": 3, "suppressed_rows": 0, "takeover_rows": 0}
        assert done.json == {"outcome": "COMMITTED", "offsets": offsets, "first_of_app": True, **counts}
        replay = await stage(http, second)
        assert replay.json["outcome"] == "COMMITTED"
        assert replay.json["fingerprint"] == staged.json["fingerprint"]
        again = await commit(http, [winner(second, replay)], digest="ab" * 32)
        assert (again.json["outcome"], again.json["suppressed_rows"]) == ("DUPLICATE", 3)
        assert (await http.get(f"{NS}/topics/departures")).json["high_offsets"] == [3]


async def test_other_input_under_a_committed_name_is_a_conflict_that_shows_the_existing_input() -> None:
    async with open_http() as http:
        as_token = token()
        staged = await stage(http, as_token)
        await commit(http, [winner(as_token, staged)], digest="ab" * 32)
        found = (await commit(http, [winner(as_token, staged)], digest="cd" * 32)).problem(409, "BATCH_CONFLICT")
        assert (found["action"], found["committed_rows"]) == ("stop", 3)


async def test_a_commit_without_its_stage_asks_to_write_the_batch_again() -> None:
    async with open_http() as http:
        fingerprint = "00" * 16
        unknown = {"token": token(), "chunks": 1, "rows": 3, "fingerprint": fingerprint}
        found = (await commit(http, [unknown])).problem(409, "MISSING_STAGE")
        assert found["action"] == "retry"
        assert "retry_after_ms" not in found


async def test_an_abort_removes_the_stages_of_the_tokens_it_names() -> None:
    async with open_http() as http:
        mine, other = token(), token()
        await stage(http, mine)
        staged = await stage(http, other)
        reply = await http.post_json(f"{NS}/batches:abort", {"name": NAME, "tokens": [mine]})
        assert reply.json == {"outcome": "ABORTED", "removed": 1}
        assert (await commit(http, [winner(other, staged)])).json["outcome"] == "COMMITTED"
        late = await http.post_json(f"{NS}/batches:abort", {"name": NAME, "tokens": [other]})
        assert late.json == {"outcome": "COMMITTED", "removed": 0}


async def test_a_chunk_may_be_repeated_and_not_altered() -> None:
    async with open_http() as http:
        as_token = token()
        first, repeated = await stage(http, as_token), await stage(http, as_token)
        assert first.json == repeated.json
        altered = await stage(http, as_token, rows=ROWS.slice(1))
        altered.problem(422, "CHUNK_ALTERED")


async def test_a_body_that_differs_from_its_digest_is_refused() -> None:
    async with open_http() as http:
        reply = await stage(http, token(), Content_Digest=digest(b"something else"))
        assert "Content-Digest" in reply.problem(400, "BAD_REQUEST")["detail"]


async def test_another_schema_is_refused_with_both_shown() -> None:
    async with open_http() as http:
        path = f"{NS}/topics/t/records:produce"
        await http.post_raw(path, ARROW, stream(ROWS))
        reply = await http.post_raw(path, ARROW, stream(pa.record_batch({"id": [1]})))
        found = reply.problem(409, "SCHEMA")
        assert (found["topic_schema"], found["rows_schema"]) == ("id string, n int64", "id int64")
        assert found["action"] == "fix"


async def test_namespaces_are_made_once_and_are_apart() -> None:
    async with open_http() as http:
        assert (await http.call("PUT", "/v1/namespaces/mail")).status == 201
        assert (await http.call("PUT", "/v1/namespaces/mail")).status == 200
        assert (await http.get("/v1/namespaces")).json == {"namespaces": ["default", "mail"], "next": None}
        await http.claim("a")
        there = await http.post_json("/v1/namespaces/mail/ids:claim", {"token": token(), "call": 0, "ids": ["a"]})
        assert there.json["verdicts"] == [{"verdict": "GRANTED"}]
        assert (await http.get("/v1/namespaces/mail")).json["counters"]["granted"] == 1


@pytest.mark.parametrize("name", ["Mail", "a" * 64, ".hidden", "a b"])
async def test_a_name_that_cannot_be_a_folder_is_refused(name: str) -> None:
    async with open_http() as http:
        (await http.call("PUT", f"/v1/namespaces/{name}")).problem(400, "BAD_REQUEST")


async def test_limits_promises_version_and_health_are_shown() -> None:
    async with open_http() as http:
        assert (await http.get("/v1/limits")).json["ids_per_request"] == 100_000
        told = (await http.get("/v1/capabilities")).json
        assert told["writes"]["staged"]["promise"] == "effectively once"
        assert told["writes"]["claim"]["promise"] == "at least once, duplicates bounded by takeovers"
        assert told["writes"]["plain"]["promise"] == "at least once"
        assert (await http.get("/version")).json["api"] == "v1"
        for probe in ("live", "startup", "ready"):
            assert (await http.get(f"/healthz/{probe}")).status == 200
        assert (await http.get("/healthz/ready")).json == {"status": "ready", "namespaces": {"default": "SERVING"}}
        assert (await http.get("/healthz/ready?namespace=default")).json["namespaces"] == {"default": "SERVING"}
        (await http.get("/healthz/ready?namespace=nowhere")).problem(404, "NOT_FOUND")


async def test_answers_carry_a_mark_that_may_be_brought_back_and_another_ledgers_mark_is_refused() -> None:
    async with open_http() as http:
        first = await http.post_json(f"{NS}/ids:claim", {"token": token(), "call": 0, "ids": ["a"]})
        mark = first.headers["oncegate-ledger"]
        assert (await http.get(f"{NS}", Oncegate_Ledger=mark)).status == 200
        ledger, position, chain = mark.split(":")
        for other in (f"{'0' * 32}:{position}:{chain}", f"{ledger}:{int(position) + 1}:{chain}"):
            before = http.position
            message = {"token": token(), "call": 0, "ids": ["b"]}
            reply = await http.post_json(f"{NS}/ids:claim", message, {"Oncegate-Ledger": f"{mark}, {other}"})
            assert reply.problem(409, "LEDGER_BEHIND")["action"] == "stop"
            assert http.position == before


async def test_each_batch_is_one_line_in_the_log_with_what_was_suppressed() -> None:
    async with open_http() as http:
        as_token = token()
        staged = await stage(http, as_token)
        for digest_text in ("ab", "ab", "cd"):
            await commit(http, [winner(as_token, staged)], digest=digest_text * 32)
        lines = http.log.getvalue().splitlines()
    told = [line for line in lines if " batch " in line]
    assert len(told) == 2
    assert "outcome=COMMITTED" in told[0]
    assert "outcome=DUPLICATE" in told[1]
    assert "suppressed_rows=3" in told[1]
    assert [line for line in lines if "attempt_refused" in line and "code=BATCH_CONFLICT" in line]


async def test_rows_written_without_ids_are_announced_once_for_each_topic() -> None:
    async with open_http() as http:
        for topic in ("t", "t", "u"):
            await http.post_raw(f"{NS}/topics/{topic}/records:produce", ARROW, stream(ROWS))
        told = [line for line in http.log.getvalue().splitlines() if "plain_write" in line]
    assert [line.partition("topic=")[2][0] for line in told] == ["t", "u"]


async def test_a_large_body_is_read_beside_the_loop_and_means_the_same() -> None:
    rows = pa.record_batch({"id": [f"{n:0100}" for n in range(5_000)]})
    async with open_http() as http:
        reply = await http.post_raw(f"{NS}/topics/t/records:produce", ARROW, stream(rows))
        assert reply.json["rows"] == 5_000
        reply = await http.post_raw(f"{NS}/topics/t/records:produce", ARROW, stream(rows)[:-100])
        reply.problem(400, "BAD_REQUEST")


async def test_a_reader_gets_every_row_once_and_in_order_whatever_it_asks_for() -> None:
    async with open_http() as http:
        for start in range(0, 60, 6):
            rows = pa.record_batch({"n": list(range(start, start + 6))})
            await http.post_raw(f"{NS}/topics/t/records:produce", ARROW, stream(rows.slice(0, 2), rows.slice(2)))
        for max_rows in (1, 5, 6, 7, 59, 60, 1_000):
            seen: list[int] = []
            while len(seen) < 60:
                path = f"{NS}/topics/t/partitions/0/records?offset={len(seen)}&max_rows={max_rows}"
                found = (await http.get(path, Accept=JSON)).json
                assert len(found["records"]) <= max_rows
                seen += [record["n"] for record in found["records"]]
                assert found["next_offset"] == len(seen)
            assert seen == list(range(60))


async def test_a_lower_version_of_a_job_is_answered_with_the_higher_one() -> None:
    async with open_http() as http:
        low, high = ({"app": "load", "version": version, "topic": "departures"} for version in ("9", "10"))
        await http.post_json(f"{NS}/batches:commit", {"name": high, "nonce": token(), "winners": []})
        reply = await http.post_json(f"{NS}/batches:commit", {"name": low, "nonce": token(), "winners": []})
        assert (reply.json["outcome"], reply.json["higher_version"]) == ("DUPLICATE", "10")
        assert "version 9 of load" in reply.json["warning"]


async def test_equal_reads_under_another_digest_are_a_replay() -> None:
    async with open_http() as http:
        first, second = token(), token()
        staged = await stage(http, first)
        await commit(http, [winner(first, staged)], digest="ab" * 32, reads_digest="11" * 32)
        brought = [winner(second, await stage(http, second))]
        again = await commit(http, brought, digest="cd" * 32, reads_digest="11" * 32)
        assert again.json["outcome"] == "DUPLICATE"
        (await commit(http, brought, digest="ef" * 32, reads_digest="22" * 32)).problem(409, "BATCH_CONFLICT")
        (await commit(http, brought, digest="ef" * 32, reads_digest="2" * 63)).problem(400, "BAD_REQUEST")
