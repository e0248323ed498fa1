"""The witness of a ledger on Redis after a power failure of the gateway's machine: synced data is there."""

import random
from pathlib import Path

from oncegate.ledgers.disk import Disk
from oncegate.ledgers.frames import End
from oncegate.ledgers.redis.witnesses import Witnesses
from tests.support.crash_disk import Crashes, RecordingDisk, digest
from tests.support.recorded_files import left

LEDGER, NAME = bytes(range(16)), "prefix/default/1"


def end(serial: int) -> End:
    return End(serial, serial, bytes(16))


async def test_a_witness_that_was_synced_is_there_with_the_folder_that_was_made_for_it(tmp_path: Path) -> None:
    (root := tmp_path / "root").mkdir()
    disk, where = RecordingDisk(root), Path("new") / "witness"
    witnesses = Witnesses(root / where, disk)
    witnesses.make_folder()
    witness = witnesses.of(NAME, LEDGER)
    await witness.begin()
    await witness.own(1, end(1))
    disk.note("1")
    for serial in (2, 3):
        await witness.see(end(serial))
        await witness.sync()
        disk.note(str(serial))
    await witness.see(end(4))
    await witness.close()
    disk.note("4")
    crashes, rng, synced, seen = Crashes(root), random.Random(0), 0, set[bytes]()
    for op in disk.ops:
        crashes.step(op)
        synced = int(op.path.name) if op.kind == "note" else synced
        for state in crashes.states(rng):
            if (key := digest(state) + bytes([synced])) in seen:
                continue
            seen.add(key)
            with left(state, root, tmp_path / "left") as there:
                found = Witnesses(there / where, Disk()).of(NAME, LEDGER)
                await found.begin()
            assert synced <= (found.seen.serial if found.seen else 0) <= 4
    assert len(seen) > 20


async def test_a_witness_that_is_closed_has_seen_what_it_was_given_last(tmp_path: Path) -> None:
    witness = Witnesses(tmp_path).of(NAME, LEDGER)
    await witness.own(1, end(1))
    await witness.see(end(2))
    await witness.close()
    found = Witnesses(tmp_path).of(NAME, LEDGER)
    await found.begin()
    assert found.seen == end(2)
