"""Verdicts in both encodings, and identifiers as text: everything derives from core's tables."""

import msgspec
import numpy as np
import pytest

from oncegate.core.claims import ClaimState
from oncegate.core.errors import BadRequest
from oncegate.core.verdicts import BY_BYTE, Flag
from oncegate.engine.requests import ClaimResult, SettleResult
from oncegate.ports import Mark
from oncegate.transports.decode import identifiers
from oncegate.transports.http import answers, messages
from tests.support.packed import read_claim_packed

CLAIM = bytes(range(16))


def answer(*verdicts: tuple[int, int], claim: bytes | None = CLAIM) -> ClaimResult:
    given = np.array(verdicts, np.uint32).reshape(-1, 2)
    return ClaimResult(claim, 30_000, given[:, 0].astype(np.uint8), given[:, 1].copy())


@pytest.mark.parametrize("byte", BY_BYTE)
def test_every_verdict_of_the_table_goes_through_json_with_its_members_only(byte: int) -> None:
    row = BY_BYTE[byte]
    sent = msgspec.json.decode(answers.encode(answers.claim_message(answer((byte, 7)), "")))["verdicts"][0]
    expected: dict[str, object] = {"verdict": row.verdict.name}
    if row.number is not None:
        expected[row.number] = 7
    if Flag.TAKEOVER in row.flags:
        expected["takeover"] = True
    if Flag.OWN in row.flags:
        expected["own"] = True
    if Flag.UNCHECKED in row.flags:
        expected["unchecked"] = True
    assert sent == expected
    msgspec.convert(sent, messages.VerdictMessage)


@pytest.mark.parametrize("byte", BY_BYTE)
def test_every_verdict_of_the_table_goes_through_packed_and_carries_a_number_only_where_it_has_one(byte: int) -> None:
    body = answers.claim_packed(answer((1, 0), (byte, 7)))
    assert body[:16] == CLAIM
    assert body[16:24] == (30_000).to_bytes(4, "little") + (2).to_bytes(4, "little")
    assert body[24:26] == bytes([1, byte])
    numbered = BY_BYTE[byte].number is not None
    assert body[26:] == ((1).to_bytes(4, "little") + (7).to_bytes(4, "little") if numbered else b"")
    back = read_claim_packed(body)
    assert back.verdicts.tolist() == [1, byte]
    assert back.numbers.tolist() == [0, 7 if numbered else 0]


def test_a_number_of_zero_is_sent() -> None:
    sent = msgspec.json.decode(answers.encode(answers.claim_message(answer((3, 0)), "")))["verdicts"]
    assert sent == [{"verdict": "SAME", "of_index": 0}]


def test_no_claim_is_null_in_json_and_zeros_when_packed() -> None:
    nothing = answer((2, 0), claim=None)
    assert msgspec.json.decode(answers.encode(answers.claim_message(nothing, "")))["claim"] is None
    assert answers.claim_packed(nothing)[:16] == bytes(16)
    assert read_claim_packed(answers.claim_packed(nothing)).claim is None


def test_an_answer_without_ids_is_whole_in_both_forms() -> None:
    assert msgspec.json.decode(answers.encode(answers.claim_message(answer(claim=None), "")))["verdicts"] == []
    assert len(answers.claim_packed(answer(claim=None))) == 24


def test_a_settled_claim_has_its_state_by_name() -> None:
    sent = msgspec.json.decode(answers.settle_json(SettleResult(CLAIM, ClaimState.DONE, 3, 1, 0)))
    expected = {"claim": identifiers.claim_text(CLAIM), "state": "DONE", "settled": 3, "taken_over": 1, "lease_ms": 0}
    assert sent == expected


@pytest.mark.parametrize("claim", [bytes(16), b"\xff" * 16, CLAIM])
def test_a_claim_id_survives_its_text(claim: bytes) -> None:
    text = identifiers.claim_text(claim)
    assert len(text) == 26
    assert text == text.lower()
    assert identifiers.claim_bytes(text) == identifiers.claim_bytes(text.upper()) == claim


def test_a_claim_id_is_written_as_ulid_writes_its_128_bits() -> None:
    assert identifiers.claim_text((0x01563E3AB5D3D6764C61EFB99302BD5B).to_bytes(16)) == "01arz3ndektsv4rrffq69g5fav"


@pytest.mark.parametrize("text", ["", "8" + "0" * 25, "0" * 25, "0" * 27, "u" * 26, "é" * 26])
def test_an_invalid_claim_id_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="a claim id has 26 characters"):
        identifiers.claim_bytes(text)


@pytest.mark.parametrize("text", ["", "6f1c", "zz" * 16, "6f1c2a9e-4b7d-4e5f-8a0b-1c2d3e4f5a6", "6f" * 17])
def test_an_invalid_token_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="32 hex digits"):
        identifiers.hex_bytes(text, 16, "token")


def test_a_token_may_be_written_as_a_uuid() -> None:
    assert identifiers.hex_bytes("6f1c2a9e-4b7d-4e5f-8a0b-1c2d3e4f5a6b", 16, "token").hex().startswith("6f1c2a9e4b7d")


def test_marks_survive_their_text_and_come_in_lists() -> None:
    marks = [Mark(CLAIM, 7, b"12345678"), Mark(bytes(16), 2**63, bytes(8))]
    assert identifiers.marks(", ".join(map(identifiers.mark_text, marks))) == marks


@pytest.mark.parametrize("text", ["", "x", "00:1:00", f"{'0' * 32}:-1:{'0' * 16}", f"{'0' * 32}:1"])
def test_an_invalid_ledger_position_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="Oncegate-Ledger"):
        identifiers.marks(text)


def test_other_digests_beside_sha_256_are_ignored() -> None:
    text = "unixsum=:AAAA:, sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:"
    assert identifiers.sha256_of(text).hex().startswith("e3b0c442")


@pytest.mark.parametrize("text", ["", "sha-512=:AAAA:", "sha-256=47DEQpj8HBSa", "sha-256=:short:"])
def test_a_digest_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="Content-Digest"):
        identifiers.sha256_of(text)


@pytest.mark.parametrize("with_number", [False, True])
def test_many_verdicts_are_the_same_json_as_each_alone(with_number: bool) -> None:
    bytes_of = [byte for byte, row in BY_BYTE.items() if with_number or row.number is None]
    many = [(bytes_of[n * n % len(bytes_of)], n) for n in range(1_000)]
    alone = [msgspec.json.decode(answers.encode(answers.claim_message(answer(one), "")))["verdicts"][0] for one in many]
    assert msgspec.json.decode(answers.encode(answers.claim_message(answer(*many), "")))["verdicts"] == alone
