"""The audit of frames detects a gap, a fork, and an id that is granted while another claim holds it."""

from collections.abc import Sequence

import pytest

from oncegate.core.entries.codec import encode
from oncegate.core.entries.kinds import Claimed, Entry, Released
from oncegate.ledgers.chain import FIRST_CHAIN
from oncegate.ledgers.frames import End, Frame, Sent, encode_frame
from oncegate.ledgers.kafka.shard.blobs import Assembly
from tests.matrix.audit import Audit, check_frames, check_sent

LEDGER = bytes(16)
ID = b"i" * 16
BEGINNING = End(0, 0, FIRST_CHAIN)


def claimed(claim: bytes, fresh: bytes = b"", taken: bytes = b"") -> Claimed:
    return Claimed(claim * 16, bytes(16), 0, bytes(16), 1_000, 0, fresh, taken)


def framed(groups: Sequence[Sequence[Entry]], first: End = BEGINNING) -> list[Frame]:
    """Returns a frame for each group, in sequence."""
    frames, end, assembly = list[Frame](), first, Assembly("test")
    for group in groups:
        data, end = encode_frame(LEDGER, end, [encode(entry) for entry in group], [])
        frames += assembly.add(len(frames), data)
    return frames


def wrong(frames: list[Frame]) -> str:
    audit = Audit(frames)
    check_frames(audit)
    return "; ".join(audit.wrong)


def test_a_claim_its_release_and_a_takeover_are_in_order() -> None:
    released = [claimed(b"a", ID)], [Released(b"a" * 16, 0)], [claimed(b"b", ID)]
    assert wrong(framed([*released, [claimed(b"c", taken=ID)]])) == ""


def test_an_id_that_is_granted_while_it_is_held_is_seen() -> None:
    assert "grants id" in wrong(framed([[claimed(b"a", ID)], [claimed(b"b", ID)]]))


def test_a_missing_frame_is_seen() -> None:
    first, _, third = framed([[claimed(b"a")]] * 3)
    assert "follows" in wrong([first, third])


def test_a_frame_of_another_history_is_seen() -> None:
    first, second = framed([[claimed(b"a")]] * 2)
    (other,) = framed([[claimed(b"x")]], End(1, 1, b"another chain..."))
    assert wrong([first, second]) == ""
    assert "follows" in wrong([first, other])


@pytest.mark.parametrize("there", [{"a": 2, "b": 2}, {"a": 1, "b": 1}])
def test_records_of_users_that_no_frame_names_or_that_are_missing_are_seen(there: dict[str, int]) -> None:
    data, _ = encode_frame(LEDGER, BEGINNING, [], [Sent("a", 0, 7, 2), Sent("b", 0, 0, 1)])
    audit = Audit(list(Assembly("test").add(0, data)))
    check_sent(audit, {"a": 2, "b": 1})
    assert audit.wrong == []
    check_sent(audit, there)
    assert len(audit.wrong) == 1
