"""Lines of rows that had waited on clients' disks: few for many entries, bounded, and undone exactly."""

from typing import Any

import pytest

from oncegate.core.entries.kinds import Audited, Produced
from oncegate.index import spilled_rows
from oncegate.index.audit_trail import AuditTrail
from oncegate.index.shard import ShardIndex
from oncegate.index.spilled_rows import LINE_MS, SpilledRows

AT_MS = 1_795_219_200_000


def written(wall_ms: int = AT_MS, waited_ms: int = 1_000, who: str = "ada", **more: Any) -> Produced:
    """Returns an entry whose rows had waited for `waited_ms`."""
    spilled = {"spilled_ms": wall_ms - waited_ms, "spilled_by": who}
    request = {"topic": "t", "partition": 0, "first_offset": 0, "rows": 2, "size_bytes": 9, **spilled, **more}
    return Produced(
        **request, claim=bytes(16), token=bytes(16), call=1, digest=bytes(16), wall_ms=wall_ms, fresh=b"", taken=b""
    )


def lines(spilled: SpilledRows) -> list[tuple[str, str, int, int]]:
    return [(line.who, line.topic, line.rows, line.position) for line in spilled.newest_first()]


def test_a_folder_of_many_entries_is_one_line_of_an_hour() -> None:
    spilled = SpilledRows()
    for number in range(5_000):
        spilled.apply(number, written(AT_MS + number, waited_ms=100 * number))
    (line,) = spilled.newest_first()
    assert (line.rows, spilled.rows, line.position, line.wall_ms) == (10_000, 10_000, 4_999, AT_MS + 4_999)
    assert (line.from_ms, line.until_ms) == (AT_MS + 4_999 - 499_900, AT_MS)
    spilled.apply(5_000, written(AT_MS + LINE_MS - 1))
    spilled.apply(5_001, written(AT_MS + LINE_MS))
    assert lines(spilled) == [("ada", "t", 2, 5_001), ("ada", "t", 10_002, 5_000)]


def test_each_caller_and_topic_has_a_line_and_the_one_that_grows_is_the_newest() -> None:
    spilled = SpilledRows()
    for number, more in enumerate([{}, {"who": "bob"}, {"topic": "u"}, {}, {"who": "bob", "partition": 1}]):
        spilled.apply(number, written(**more))
    assert lines(spilled) == [("bob", "t", 4, 4), ("ada", "t", 4, 3), ("ada", "u", 2, 2)]


@pytest.mark.parametrize("entry", [written(spilled_ms=0), written(rows=0)])
def test_rows_that_had_not_waited_have_no_line(entry: Produced) -> None:
    spilled = SpilledRows()
    assert spilled.apply(1, entry) is None
    assert (lines(spilled), spilled.rows) == ([], 0)


def test_the_oldest_lines_go_when_there_are_too_many_and_no_action_of_a_person_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spilled_rows, "LINES_MAX", 3)
    spilled = SpilledRows()
    trail = AuditTrail(spilled)
    trail.apply(1, Audited("drain", "", 0, "eve", "to upgrade", AT_MS))
    for number in range(2, 8):
        spilled.apply(number, written(AT_MS + number * LINE_MS))
    told = [(one.position, one.who) for one in trail.before(None, 100)]
    assert told == [(7, "ada"), (6, "ada"), (5, "ada"), (1, "eve")]
    assert [one.position for one in trail.before(6, 2)] == [5, 1]
    assert spilled.rows == 12, "the sum keeps what the lines forget"


def test_undone_changes_restore_the_former_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spilled_rows, "LINES_MAX", 2)
    spilled = SpilledRows()
    for number, who in enumerate("ab"):
        spilled.apply(number, written(who=who))
    before = spilled.snapshot()
    undos = [spilled.apply(9 + number, written(who=who)) for number, who in enumerate("acab")]
    for undo in reversed(undos):
        assert undo is not None
        undo()
    assert spilled.snapshot() == before


def test_a_snapshot_has_all_lines_and_the_next_entry_continues_them() -> None:
    index, loaded = ShardIndex(), ShardIndex()
    for number, who in enumerate("aba"):
        index.spilled_rows.apply(number + 1, written(AT_MS + number, who=who))
    for position, piece in enumerate(index.snapshot(), 1):
        loaded.replayed(position, piece)
    for one in (index, loaded):
        one.spilled_rows.apply(4, written(AT_MS + 9, who="b"))
    assert loaded.audit_trail.before(None, 9) == index.audit_trail.before(None, 9)
    assert lines(loaded.spilled_rows) == [("b", "t", 4, 4), ("a", "t", 4, 3)]
    assert loaded.spilled_rows.rows == 8
