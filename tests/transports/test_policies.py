"""What an operator sets a namespace to, at every door alike: one program, real sockets."""

from collections.abc import AsyncIterator

import pyarrow as pa
import pytest

from tests.support.claim_doors import DOORS, Told, explained, put
from tests.support.doors import GrpcDoor, HttpDoor, Refused
from tests.support.grpc_app import Both, both

TOKEN, OTHER = bytes(16), bytes(range(16))
ROWS = pa.record_batch({"id": ["x"], "n": [1]})


@pytest.fixture
async def doors() -> AsyncIterator[Both]:
    async with both(lease_ms_min=1) as found:
        yield found


async def left(doors: Both, *ids: str) -> bytes:
    """Claims ids, each 16 characters, under a lease that is over when this returns."""
    claimed = await doors.claim(*(one.encode() for one in ids), token=TOKEN, lease_ms=1)
    while (await explained(doors, ids[0]))["state"] == "CLAIMED_LIVE":
        pass
    name: bytes = claimed.claim
    return name


@pytest.mark.parametrize(
    ("setting", "told"), [("hold", "BUSY"), ("fail", "IN_DOUBT"), ("takeover", "GRANTED+TAKEOVER")]
)
async def test_every_door_tells_what_ran_out_as_the_namespace_is_set(doors: Both, setting: str, told: str) -> None:
    assert (await put(doors, {"lease_expiry": setting}))["lease_expiry"] == setting
    ids = dict(zip(DOORS, (letter * 16 for letter in "abcde"), strict=True))
    await left(doors, *ids.values())
    for call, (name, ask) in enumerate(DOORS.items()):
        assert await ask(doors, [ids[name]], OTHER, call) == Told((told,), setting == "takeover"), name


async def test_rows_of_what_is_in_doubt_are_not_written(doors: Both) -> None:
    await put(doors, {"lease_expiry": "fail"})
    await doors.claim(b"x" * 16, token=TOKEN, call=7, lease_ms=1, id_set="t")
    rows = pa.record_batch({"id": ["x" * 16], "n": [1]})
    await left(doors, "a" * 16)
    for way in (HttpDoor(doors), GrpcDoor(doors)):
        asked = {"topic": "t", "token": OTHER, "call": 0, "rows": rows, "id_col": ["id"]}
        answer = await way.ask("produce", asked)
        assert not isinstance(answer, Refused)
        assert (answer.get("rows", 0), answer["verdicts"]) == (0, [{"verdict": "IN_DOUBT"}])


async def test_another_word_is_refused_and_nothing_is_changed(doors: Both) -> None:
    await put(doors, {"lease_expiry": "hold"})
    refused = await put(doors, {"lease_expiry": "reclaim"}, 400)
    assert (refused["code"], refused["action"]) == ("BAD_REQUEST", "fix")
    assert (await put(doors, {}))["lease_expiry"] == "hold"


async def test_a_claim_whose_lease_ran_out_is_completed_late_and_known(doors: Both) -> None:
    await put(doors, {"lease_expiry": "hold"})
    claim = await left(doors, "a" * 16)
    done = await GrpcDoor(doors).ask("complete", {"claim": claim})
    assert (done["state"], done["settled"]) == ("DONE", 1)
    assert await DOORS["json"](doors, ["a" * 16], OTHER, 0) == Told(("DUPLICATE",), claim=False)
