"""The requests of the load and its parsing of answers, without servers."""

import json

import numpy as np
import pyarrow as pa
import pytest

from bench.load import bodies, resp
from bench.load.kinds import KINDS
from bench.load.mixed import ExpiryBuckets, Mixed

JOB = {"port": 0, "ids": 20, "clients": 2, "seconds": 0.001, "stream": 7, "live": 50, "sha": "0" * 40}


def test_an_id_does_not_depend_on_its_maker_and_every_id_differs() -> None:
    ids = bodies.numbered(3, 0, 10_000)
    assert (ids[500:600] == bodies.numbered(3, 500, 100)).all()
    assert len(np.unique(np.concatenate([ids, bodies.numbered(4, 0, 10_000)]), axis=0)) == 20_000


def test_every_tenth_id_of_a_run_is_a_known_one_and_all_others_are_new() -> None:
    ids, live = bodies.mixed(9, 1_000, 50), bodies.numbered(bodies.LIVE_STREAM, 0, 50)
    held = (ids[:, None] == live[None]).all(axis=2).any(axis=1)
    assert (held == bodies.is_known(0, 1_000)).all()
    assert held.sum() == 100


def test_texts_are_uuids_of_the_same_bytes() -> None:
    import uuid

    ids = bodies.numbered(1, 0, 3)
    texts = [bytes(row).decode() for row in bodies.text_of(ids)]
    assert texts == [str(uuid.UUID(bytes=row.tobytes())) for row in ids]


def test_each_door_gets_the_same_ids() -> None:
    text = bodies.text_of(bodies.numbered(1, 0, 3))
    with pa.ipc.open_stream(bodies.arrow_stream(text)) as reader:
        by_arrow = reader.read_all()["id"].to_pylist()
    by_json = json.loads(bodies.json_body("00" * 16, text))["ids"]
    assert by_arrow == by_json == [bytes(row).decode() for row in text]


@pytest.mark.parametrize("kind", ["packed", "arrow", "json"])
def test_a_prepared_request_has_its_length_and_a_token_of_its_own(kind: str) -> None:
    requests = KINDS[kind](JOB).requests
    heads, contents = zip(*(request.split(b"\r\n\r\n", 1) for request in requests), strict=True)
    for head, content in zip(heads, contents, strict=True):
        assert f"content-length: {len(content)}".encode() in head
    assert len(set(zip(heads, contents, strict=True))) == len(requests)


def test_pipelined_sets_are_what_redis_reads() -> None:
    commands = resp.set_commands(np.frombuffer(b"abcd", np.uint8).reshape(2, 2))
    wanted = [resp.command(b"SET", key, b"1", b"NX", b"EX", str(resp.EXPIRES_S).encode()) for key in (b"ab", b"cd")]
    assert [row.tobytes() for row in commands] == wanted
    assert resp.set_new(b"+OK\r\n$-1\r\n").tolist() == [True, False]


def test_a_script_s_answer_is_a_digit_an_id() -> None:
    answer = b"$3\r\n101\r\n"
    assert len(answer) == resp.script_answer_bytes(3)
    assert resp.script_new(answer).tolist() == [True, False, True]


def test_an_error_of_redis_is_no_answer() -> None:
    with pytest.raises(RuntimeError, match="NOSCRIPT"):
        resp.script_new(b"-NOSCRIPT no such script\r\n")


def test_the_mixed_load_is_all_new_until_something_is_settled_then_nine_in_ten() -> None:
    load = Mixed(1_000, seed=1)
    first = load.request(settled=0, old_below=0)
    assert first.new.all()
    second = load.request(settled=1_000, old_below=250)
    assert second.new.sum() == 900
    assert load.made == 1_900
    known = bodies.numbered(1, 0, 1_000)
    assert (second.ids[~second.new][:, None] == known[None]).all(axis=2).any(axis=1).all()
    old = second.ids[980:]
    assert (old[:, None] == known[None, :250]).all(axis=2).any(axis=1).all()


def test_ids_are_settled_up_to_the_first_that_is_not() -> None:
    settled = ExpiryBuckets()
    settled.done(1_000, 2_000)
    assert settled.below == 0
    settled.done(0, 1_000)
    assert settled.below == 2_000
