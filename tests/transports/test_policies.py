"""The settings of a namespace over every transport alike: one program, real sockets."""

import time
import uuid
from collections.abc import AsyncIterator

import pyarrow as pa
import pytest

from oncegate.core.errors import LedgerDown
from oncegate.ledgers.memory import MemoryLedger, MemoryLedgers
from oncegate.transports.decode.identifiers import claim_bytes
from tests.support.claim_doors import DOORS, ClaimAnswer, explained, put
from tests.support.doors import NS, GrpcDoor, HttpDoor, Refused
from tests.support.grpc_app import Both, both
from tests.support.http_app import JSON, PACKED, request

TOKEN, OTHER = bytes(16), bytes(range(16))
HOUR_MS = 3_600_000
ROWS = pa.record_batch({"id": ["x"], "n": [1]})


@pytest.fixture
async def doors() -> AsyncIterator[Both]:
    async with both(lease_ms_min=1) as found:
        yield found


async def left(doors: Both, *ids: str) -> bytes:
    """Claims ids of 16 characters with a lease that is over when this returns."""
    claimed = await doors.claim(*(one.encode() for one in ids), token=TOKEN, lease_ms=1)
    while (await explained(doors, ids[0]))["state"] == "CLAIMED_LIVE":
        pass
    name: bytes = claimed.claim
    return name


@pytest.mark.parametrize(
    ("setting", "told"), [("hold", "BUSY"), ("fail", "IN_DOUBT"), ("takeover", "GRANTED+TAKEOVER")]
)
async def test_every_transport_answers_expired_ids_by_the_namespaces_setting(
    doors: Both, setting: str, told: str
) -> None:
    assert (await put(doors, {"lease_expiry": setting}))["lease_expiry"] == setting
    ids = dict(zip(DOORS, (letter * 16 for letter in "abcdef"), strict=True))
    await left(doors, *ids.values())
    for call, (name, ask) in enumerate(DOORS.items()):
        assert await ask(doors, [ids[name]], OTHER, call) == ClaimAnswer((told,), setting == "takeover"), name


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
    assert await DOORS["json"](doors, ["a" * 16], OTHER, 0) == ClaimAnswer(("DUPLICATE",), claim=False)


def uuid7(ago_ms: int, number: int) -> uuid.UUID:
    made_ms = time.time_ns() // 1_000_000 - ago_ms
    return uuid.UUID(bytes=made_ms.to_bytes(6, "big") + b"\x70\x00\x80" + number.to_bytes(7, "big"))


async def test_every_transport_answers_stale_for_an_id_older_than_the_retention_of_ids(doors: Both) -> None:
    settings = await put(doors, {"horizon_ms": HOUR_MS, "id_time": "uuid7"})
    assert (settings["horizon_ms"], settings["id_time"]) == (HOUR_MS, "uuid7")
    for call, (name, ask) in enumerate(DOORS.items()):
        made = [uuid7(ago_ms, call) for ago_ms in (HOUR_MS, 0)]
        ids = [str(one) if name in ("json", "arrow") else one.bytes for one in made]
        assert await ask(doors, ids, OTHER, call) == ClaimAnswer(("STALE", "GRANTED"), claim=True), name
    counted = (await put(doors, {}))["counters"]
    assert (counted["past_horizon"], counted["granted"], counted["stale"]) == (6, 6, 0)


async def test_rows_of_ids_that_are_past_are_not_written(doors: Both) -> None:
    await put(doors, {"horizon_ms": HOUR_MS, "id_time": "uuid7"})
    for call, way in enumerate((HttpDoor(doors), GrpcDoor(doors))):
        ids = [str(uuid7(HOUR_MS, call)), str(uuid7(0, call))]
        rows = pa.record_batch({"id": ids, "n": [1, 2]})
        asked = {"topic": "t", "token": OTHER, "call": call, "rows": rows, "id_col": ["id"]}
        answer = await way.ask("produce", asked)
        assert (answer["rows"], [one["verdict"] for one in answer["verdicts"]]) == (1, ["STALE", "GRANTED"])


async def test_ids_without_their_time_are_refused_at_every_door(doors: Both) -> None:
    await put(doors, {"horizon_ms": HOUR_MS, "id_time": "uuid7"})
    for way in (HttpDoor(doors), GrpcDoor(doors)):
        refused = await way.ask("claim", {"token": OTHER, "call": 0, "packed": b"no uuid of any k"})
        assert isinstance(refused, Refused)
        assert (refused.code, refused.action, refused.effect) == ("BAD_REQUEST", "fix", "none")


async def test_every_transport_grants_all_in_shadow_mode_with_the_would_be_verdict(doors: Both) -> None:
    known, held = "k" * 16, "h" * 16
    done = await doors.claim(known.encode(), token=TOKEN)
    await GrpcDoor(doors).ask("complete", {"claim": done.claim})
    await doors.claim(held.encode(), token=TOKEN, call=1)
    assert (await put(doors, {"shadow": True}))["shadow"] is True
    for call, (name, ask) in enumerate(DOORS.items()):
        new = f"{call:016d}"
        answer = await ask(doors, [known, held, new, new], OTHER, call)
        shadow = () if name == "packed" else ("DUPLICATE", "BUSY", "GRANTED", "SAME")
        assert answer == ClaimAnswer(("GRANTED",) * 4, claim=True, shadow=shadow), name
    counted = (await put(doors, {}))["counters"]
    assert (counted["duplicates"], counted["busy"], counted["same"]) == (6, 6, 6), "decided and counted as ever"
    assert counted["shadowed_ids"] == 18
    assert (await put(doors, {"shadow": False}))["shadow"] is False
    assert await DOORS["json"](doors, [known], OTHER, 99) == ClaimAnswer(("DUPLICATE",), claim=False)


async def test_an_answer_that_holds_nothing_names_a_claim_that_can_be_settled(doors: Both) -> None:
    """A client that gets GRANTED completes its ids, and need not know that nothing was held."""
    done = await doors.claim(b"k" * 16, token=TOKEN)
    for way in (HttpDoor(doors), GrpcDoor(doors)):
        await way.ask("complete", {"claim": done.claim})
    await put(doors, {"shadow": True})
    for call, way in enumerate((HttpDoor(doors), GrpcDoor(doors))):
        answer = await way.ask("claim", {"token": OTHER, "call": call, "packed": b"k" * 16})
        claim = claim_bytes(answer["claim"])
        assert claim == bytes(16)
        told = [await way.ask(verb, {"claim": claim}) for verb in ("renew", "complete", "release")]
        assert [one["state"] for one in told] == ["OPEN", "DONE", "RELEASED"]
    await put(doors, {"shadow": False})
    assert (await GrpcDoor(doors).ask("complete", {"claim": bytes(16)}))["state"] == "DONE", "settled also afterwards"


async def test_rows_are_all_written_in_shadow_mode_and_known_as_ever(doors: Both) -> None:
    rows = pa.record_batch({"id": ["x", "y", "x"], "n": [1, 2, 3]})
    for call, way in enumerate((HttpDoor(doors), GrpcDoor(doors))):
        await put(doors, {"shadow": False})
        topic = f"t{call}"
        asked = {"topic": topic, "rows": rows, "id_col": ["id"]}
        await way.ask("produce", {**asked, "token": TOKEN, "call": 10 + call})
        await put(doors, {"shadow": True})
        answer = await way.ask("produce", {**asked, "token": OTHER, "call": 10 + call})
        assert answer["rows"] == 3
        assert [one["verdict"] for one in answer["verdicts"]] == ["GRANTED"] * 3
    read = await doors.http.send(request("GET", f"{NS}/topics/t0/partitions/0/records", Accept=JSON))
    assert [row["n"] for row in read.json["records"]] == [1, 2, 1, 2, 3]


async def test_who_asks_packed_without_shadow_reads_what_a_client_of_before_reads(doors: Both) -> None:
    await put(doors, {"shadow": True})
    told = await DOORS["packed"](doors, ["a" * 16, "a" * 16], OTHER, 0)
    assert told == ClaimAnswer(("GRANTED", "GRANTED"), claim=True)
    refused = await doors.http.send(
        request(
            "POST",
            f"{NS}/ids:claim?shadow=1",
            b"a" * 16,
            Content_Type=PACKED,
            Oncegate_Token=OTHER.hex(),
            Oncegate_Call="1",
        )
    )
    assert refused.json["code"] == "BAD_REQUEST"


async def go_down(doors: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails the ledger and prevents it from being opened again."""

    def refused(*_: object) -> None:
        raise OSError(5, "Input/output error")

    async def lost(*_: object) -> None:
        raise LedgerDown("its server is away; whether this was written is unknown")

    monkeypatch.setattr(MemoryLedgers, "open", refused)
    monkeypatch.setattr(MemoryLedger, "append", lost)
    refusal = await HttpDoor(doors).ask("claim", {"token": TOKEN, "call": 9, "packed": b"u" * 16})
    assert isinstance(refusal, Refused)
    assert refusal.code == "LEDGER_DOWN"


async def test_every_door_grants_all_unchecked_while_the_ledger_is_down_and_all_else_is_refused(
    doors: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, new = "k" * 16, "n" * 16
    done = await doors.claim(known.encode(), token=TOKEN)
    await GrpcDoor(doors).ask("complete", {"claim": done.claim})
    assert (await put(doors, {"on_ledger_down": "pass_marked"}))["on_ledger_down"] == "pass_marked"
    await go_down(doors, monkeypatch)
    for call, (name, ask) in enumerate(DOORS.items()):
        answer = await ask(doors, [known, new, new], OTHER, call)
        named = name not in ("packed", "packed with shadow")  # in these zeros mean that there is none
        assert answer == ClaimAnswer(("GRANTED+UNCHECKED", "GRANTED+UNCHECKED", "SAME"), claim=named), name
    for way in (HttpDoor(doors), GrpcDoor(doors)):
        settled = await way.ask("complete", {"claim": bytes(16)})
        assert (settled["state"], settled["settled"]) == ("DONE", 0)
        for call, asked in {
            "complete": {"claim": done.claim},
            "produce": {"topic": "t", "token": OTHER, "call": 0, "rows": ROWS, "id_col": ["id"]},
        }.items():
            refused = await way.ask(call, asked)
            assert isinstance(refused, Refused), call
            assert (refused.code, refused.action, refused.effect) == ("RECOVERING", "retry", "none"), call
    taken = await doors.http.send(
        request("POST", f"{NS}/ids:take", b'{"owner": "job", "ids": ["a"]}', Content_Type=JSON)
    )
    assert taken.json["code"] == "RECOVERING"
    metrics = (await doors.http.send(request("GET", "/metrics"))).body.decode()
    assert 'oncegate_unchecked_ids_total{namespace="default"} 12' in metrics, "also while it is down"


async def test_every_transport_grants_all_unchecked_in_shadow_mode_with_the_would_be_verdict(
    doors: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(doors, {"on_ledger_down": "pass_marked", "shadow": True})
    await go_down(doors, monkeypatch)
    for call, (name, ask) in enumerate(DOORS.items()):
        answer = await ask(doors, ["n" * 16, "n" * 16], OTHER, call)
        named = name not in ("packed", "packed with shadow")
        shadow = () if name == "packed" else ("GRANTED", "SAME")
        assert answer == ClaimAnswer(("GRANTED+UNCHECKED",) * 2, claim=named, shadow=shadow), name


async def test_at_every_door_claims_are_refused_while_the_ledger_is_down_unless_it_is_set_otherwise(
    doors: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    await go_down(doors, monkeypatch)
    for way in (HttpDoor(doors), GrpcDoor(doors)):
        refused = await way.ask("claim", {"token": OTHER, "call": 0, "packed": b"a" * 16})
        assert isinstance(refused, Refused)
        assert (refused.code, refused.action, refused.effect) == ("RECOVERING", "retry", "none")
