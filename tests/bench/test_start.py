"""The ledgers that starts are measured over: entries alone, and a saved index in their place."""

from pathlib import Path

from bench.cases.start import BATCH, compact, fill


async def test_a_ledger_is_filled_and_then_compacted_for_the_starts(tmp_path: Path) -> None:
    def segments() -> set[Path]:
        return set(tmp_path.glob("data/default/0/*.seg"))

    await fill(tmp_path, 4 * BATCH)
    entries = segments()
    await compact(tmp_path)
    assert entries
    assert not entries & segments(), "segments of entries stay where the snapshot was refused"
