"""Every state that a power failure can leave after every operation: the ledger opens with the content before or after.

Enumerated: each prefix of the recorded operations × pending names × the unsynced writes whole, absent or torn.
"""

import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from oncegate.ledgers.log import open_log
from oncegate.ports import DropRanges
from tests.support.crash_disk import Crashes, Op, RecordingDisk, digest, materialize
from tests.support.ledger_tools import (
    SEED,
    Append,
    QuietDisk,
    Seen,
    look,
    look_quickly,
    produce,
    publish,
    range_of,
    see,
)

FULL_BLOCK = 4_096 - 60 - 8  # an entry whose frame just fills one block: every sector of it matters
ENTRIES_ONLY: list[Append] = [([bytes([n]) * FULL_BLOCK], []) for n in (1, 2)]
LARGE: list[Append] = [([b"small"], []), ([bytes([7]) * 9_000], [])]
OUTPUTS: list[Append] = [
    produce(0, size_bytes=1_500),
    ([b"staged"], [range_of(10, stream="a"), range_of(11, stream="b"), range_of(12, stream="a")]),
    ([b"committed"], [publish(1, 10, 12), DropRanges((range_of(11).range_id,))]),
    produce(3),
]


async def record(root: Path, appends: Sequence[Append]) -> tuple[list[Op], list[Seen]]:
    """Returns the operations of creating, filling, closing and reopening a ledger, and the content after each
    append."""
    root.mkdir()
    disk, data = RecordingDisk(root), str(root / "data")
    async with open_log(data, create=True, disk=disk) as ledgers, ledgers.open("default") as opened:
        seen = [await see(opened.ledger)]
        for entries, outputs in appends:
            await opened.ledger.append(entries, outputs)
            disk.note("acknowledged")
            seen.append(await see(opened.ledger))
    async with open_log(data, disk=disk) as ledgers, ledgers.open("default"):
        return disk.ops, seen


@pytest.mark.slow
@pytest.mark.parametrize("appends", [ENTRIES_ONLY, LARGE, OUTPUTS], ids=["full blocks", "large", "outputs"])
async def test_every_crash_state_opens_to_before_or_after(fast_folder, appends) -> None:
    ops, seen = await record(fast_folder / "origin", appends)
    crashes, rng = Crashes(fast_folder / "origin"), random.Random(SEED)
    acknowledged, found, hits = 0, {}, {"before": 0, "after": 0}
    for op in ops:
        crashes.step(op)
        acknowledged += op.kind == "note"
        allowed = seen[acknowledged : acknowledged + 2]
        for state in crashes.states(rng):
            key = digest(state)
            if key not in found:
                here = fast_folder / "crashed"
                materialize(state, fast_folder / "origin", here)
                found[key] = look_quickly(here / "data", create=acknowledged == 0)
                shutil.rmtree(here)
                hits["after" if found[key] in allowed[1:] else "before"] += 1
            assert found[key] in allowed, f"seed {SEED}, after {op.kind} {op.path}: {found[key]}"
    print(len(found), "different states of", len(ops), "operations", hits)
    assert hits["before"] > 50, "the enumeration hits both sides of each append"
    assert hits["after"] >= len(appends)


async def test_a_ledger_recovered_from_a_torn_append_continues(fast_folder) -> None:
    """A torn append is permanently gone: neither the next append nor its output file is mixed up with it."""
    ops, _ = await record(fast_folder / "origin", OUTPUTS)
    crashes, rng, states, acknowledged = Crashes(fast_folder / "origin"), random.Random(SEED), {}, 0
    for op in ops:
        crashes.step(op)
        acknowledged += op.kind == "note"
        if acknowledged == 3:
            states |= {digest(state): state for state in crashes.states(rng)}
    assert len(states) > 20
    for number, state in enumerate(states.values()):
        here = fast_folder / f"crashed {number}"
        materialize(state, fast_folder / "origin", here)
        before = await look(here / "data")
        assert isinstance(before, Seen)
        async with open_log(str(here / "data"), disk=QuietDisk()) as ledgers, ledgers.open("default") as opened:
            high = sum(chunk.rows for chunk in before.chunks)
            await opened.ledger.append([b"after"], [range_of(99), publish(high, 99)])
            now = await see(opened.ledger)
        assert now.entries == (*before.entries, b"after")
        assert now.chunks[:-1] == before.chunks
        assert await look(here / "data") == now
        shutil.rmtree(here)
