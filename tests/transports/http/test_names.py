"""A name chosen by a caller follows one rule on every route: empty is BAD_REQUEST, too long is TOO_LARGE."""

import base64
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote, urlencode

import pyarrow as pa
import pytest

from oncegate.engine.limits import Limits
from tests.support.http_app import ARROW, PACKED, Http, Reply, open_http, stream, token

NS = "/v1/namespaces/default"
LIMITS = Limits(name_bytes=8)
ROWS = stream(pa.record_batch({"id": ["a"]}))
Call = Callable[[Http, str], Awaitable[Reply]]


def headers(name: str, **more: str) -> dict[str, str]:
    return {"Oncegate-Driver": quote(name), "Oncegate-Batch": "1", **more}


async def claim_json(http: Http, name: str) -> Reply:
    return await http.post_json(f"{NS}/ids:claim", {"token": token(), "call": 0, "ids": ["a"], **batch_of(name)})


async def claim_packed(http: Http, name: str) -> Reply:
    return await http.post_raw(f"{NS}/ids:claim", PACKED, bytes(16), headers(name))


async def claim_arrow(http: Http, name: str) -> Reply:
    return await http.post_raw(f"{NS}/ids:claim", ARROW, ROWS, headers(name))


async def take_owner_json(http: Http, name: str) -> Reply:
    return await http.post_json(f"{NS}/ids:take", {"owner": name, "ids": ["a"]})


async def take_owner_packed(http: Http, name: str) -> Reply:
    return await http.post_raw(f"{NS}/ids:take", PACKED, bytes(16), {"Oncegate-Owner": quote(name)})


async def take_driver_json(http: Http, name: str) -> Reply:
    return await http.post_json(f"{NS}/ids:take", {"owner": "o", "ids": ["a"], **batch_of(name)})


async def take_driver_packed(http: Http, name: str) -> Reply:
    return await http.post_raw(f"{NS}/ids:take", PACKED, bytes(16), headers(name, **{"Oncegate-Owner": "o"}))


async def produce_json(http: Http, name: str) -> Reply:
    body = {"token": token(), "call": 0, "records": [{"id": "a"}], "id_col": ["id"], **batch_of(name)}
    return await http.post_json(f"{NS}/topics/t/records:produce", body)


async def produce_arrow(http: Http, name: str) -> Reply:
    return await http.post_raw(f"{NS}/topics/t/records:produce?id_col=id", ARROW, ROWS, headers(name))


async def register_driver(http: Http, name: str) -> Reply:
    return await http.post_json(f"{NS}/drivers/{name}:register", {"token": token()})


async def register_producer(http: Http, name: str) -> Reply:
    return await http.post_json(f"{NS}/producers/{name}:register", {"token": token(), "driver": "d"})


async def register_with_driver(http: Http, name: str) -> Reply:
    return await http.post_json(f"{NS}/producers/p:register", {"token": token(), "driver": name})


def batch_of(driver: str) -> dict[str, Any]:
    return {"driver": driver, "batch": 1}


def stage(member: str) -> Call:
    async def call(http: Http, name: str) -> Reply:
        request = {"app": "a", "version": "1", "topic": "t", "owner": "o", "chunk": "0", member: name}
        digest = f"sha-256=:{base64.b64encode(hashlib.sha256(ROWS).digest()).decode()}:"
        path = f"{NS}/batches:stage?{urlencode(request)}"
        return await http.post_raw(path, ARROW, ROWS, {"Content-Digest": digest})

    return call


def commit(member: str) -> Call:
    async def call(http: Http, name: str) -> Reply:
        body: dict[str, Any] = {"name": named(member, name), "nonce": token(), "winners": []}
        return await http.post_json(f"{NS}/batches:commit", {**body, "run": name} if member == "run" else body)

    return call


def abort(member: str) -> Call:
    async def call(http: Http, name: str) -> Reply:
        return await http.post_json(f"{NS}/batches:abort", {"name": named(member, name), "tokens": []})

    return call


def named(member: str, name: str) -> dict[str, str]:
    options = {"app": "a", "version": "1", "topic": "t", "write_id": ""}
    return options | ({member: name} if member in options else {})


BY_MEMBER = {
    f"{verb}-{member}": make(member)
    for verb, make, members in (
        ("stage", stage, ("app", "version", "owner")),
        ("commit", commit, ("app", "version", "run")),
        ("abort", abort, ("app", "version")),
    )
    for member in members
}
MAY_BE_EMPTY = {"stage": stage("write_id"), "commit": commit("write_id"), "abort": abort("write_id")}
CALLS: dict[str, Call] = {
    call.__name__: call
    for call in (
        claim_json,
        claim_packed,
        claim_arrow,
        take_owner_json,
        take_owner_packed,
        take_driver_json,
        take_driver_packed,
        produce_json,
        produce_arrow,
        register_driver,
        register_producer,
        register_with_driver,
    )
} | BY_MEMBER


@pytest.mark.parametrize("call", (CALLS | MAY_BE_EMPTY).values(), ids=(CALLS | MAY_BE_EMPTY).keys())
async def test_a_name_of_one_byte_too_many_is_too_large_and_the_longest_passes(call: Call) -> None:
    async with open_http(LIMITS) as http:
        before = http.position
        refused = (await call(http, "ä" * 4 + "x")).problem(413, "TOO_LARGE")
        assert "9 bytes; at most 8" in refused["detail"]
        assert (refused["action"], refused["effect"], http.position) == ("fix", "none", before)
        assert (await call(http, "ä" * 4)).status != 413


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
async def test_an_empty_name_is_a_bad_request(call: Call) -> None:
    async with open_http(LIMITS) as http:
        before = http.position
        reply = await call(http, "")
        if reply.status == 404:  # a path without a name is no route
            assert call in (register_driver, register_producer)
        else:
            reply.problem(400, "BAD_REQUEST")
        assert http.position == before


@pytest.mark.parametrize("call", MAY_BE_EMPTY.values(), ids=MAY_BE_EMPTY.keys())
async def test_a_batch_may_have_no_write_id(call: Call) -> None:
    async with open_http(LIMITS) as http:
        assert (await call(http, "")).status == 200
