"""Rows that had waited on a client's disk, over every transport: counted, and listed under their key's name."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest

from oncegate.transports.access import keys
from oncegate.transports.access.rights import Role
from oncegate.transports.grpc import gateway_pb2 as pb
from tests.support.doors import NS
from tests.support.grpc_app import Both, both, refusal_of
from tests.support.http_app import ARROW, JSON, Reply, request, stream

AT_MS = 1_795_219_200_000
TOKENS = {"json": bytes(16), "arrow": b"a" * 16, "grpc": b"g" * 16}


@dataclass(frozen=True)
class Doors:
    """HTTP and gRPC of a gateway, with the keys of a writer and of an operator."""

    both: Both
    writer: str
    operator: str

    async def http(self, key: str, method: str, path: str, body: bytes = b"", **headers: str) -> Reply:
        return await self.both.http.send(request(method, path, body, Authorization=f"Bearer {key}", **headers))

    async def produce(self, door: str, *ids: str, id_col: bool = True, **spilled: int) -> str:
        """Sends rows by a transport. Returns the number written, or the code of the refusal."""
        rows, token, named = pa.record_batch({"id": list(ids)}), TOKENS[door], ["id"] if id_col else []
        if door == "grpc":
            asked = {"namespace": "default", "topic": "t", "token": token, "arrow": stream(rows), "id_col": named}
            try:
                credential = (("authorization", f"Bearer {self.writer}"),)
                message = pb.ProduceRequest(**asked, **spilled)
                return str((await self.both.call("Produce", message, metadata=credential)).rows)
            except grpc.aio.AioRpcError as error:
                return refusal_of(error).members[0]
        path = f"{NS}/topics/t/records:produce"
        if door == "json":
            said = {"token": token.hex(), "call": 0, "records": rows.to_pylist(), **spilled}
            body = json.dumps(said | ({"id_col": named} if named else {})).encode()
            return _told(await self.http(self.writer, "POST", path, body, Content_Type=JSON))
        given = [*(f"{name}={value}" for name, value in spilled.items()), *(["id_col=id"] if id_col else [])]
        headers = {"Content_Type": ARROW, "Accept": JSON, "Oncegate_Token": token.hex(), "Oncegate_Call": "0"}
        return _told(await self.http(self.writer, "POST", f"{path}?{'&'.join(given)}", stream(rows), **headers))

    async def trail(self) -> list[tuple[str, str, int]]:
        told = (await self.http(self.operator, "GET", f"{NS}/audit")).json["actions"]
        return [(one["action"], one["who"], one["changed"]) for one in told]

    async def counted(self) -> Any:
        return (await self.http(self.operator, "GET", NS)).json["counters"]["spilled_rows"]


def _told(reply: Reply) -> str:
    return str(reply.json["rows"] if reply.status == 200 else reply.json["code"])


@pytest.fixture
async def doors(tmp_path: Path) -> AsyncIterator[Doors]:
    (writer, write), (operator, admin) = (
        keys.made("loader", [Role.WRITE], ["default"], 0),
        keys.made("ops", [Role.ADMIN], ["*"], 0),
    )
    keys.write(tmp_path / "keys.json", [writer, operator])
    async with both(keys=tmp_path / "keys.json") as found:
        yield Doors(found, write, admin)


async def test_every_transport_counts_them_and_shows_operators_whose_they_are(doors: Doors) -> None:
    for number, door in enumerate(TOKENS):
        new, known = f"of {door}", "known to all"
        assert await doors.produce(door, new, known, spilled_ms=AT_MS) == ("1" if number else "2")
        assert await doors.produce(door, new, known, spilled_ms=AT_MS) == "0", "a repeat writes none, and counts none"
        assert await doors.counted() == 2 + number
    assert await doors.trail() == [("write spilled rows", "loader", 4)]


async def test_rows_that_come_at_once_are_not_reported(doors: Doors) -> None:
    for door in TOKENS:
        assert await doors.produce(door, f"of {door}") == "1"
    assert (await doors.counted(), await doors.trail()) == (0, [])


async def test_every_door_refuses_it_of_rows_without_ids_which_a_repeat_would_count_again(doors: Doors) -> None:
    for door in TOKENS:
        assert await doors.produce(door, "a", id_col=False, spilled_ms=AT_MS) == "BAD_REQUEST"
        assert await doors.produce(door, "a", spilled_ms=2**63) == "BAD_REQUEST"
    assert (await doors.counted(), await doors.trail()) == (0, [])


async def test_who_may_write_may_write_nothing_else_into_the_trail_nor_read_it(doors: Doors) -> None:
    note = json.dumps({"action": "replay", "subject": "t", "who": "eve", "why": "none"}).encode()
    for method, body in (("POST", note), ("GET", b"")):
        sent = {"Content_Type": JSON} if body else {}
        assert (await doors.http(doors.writer, method, f"{NS}/audit", body, **sent)).status == 403
    assert await doors.trail() == []
