"""The witness: the next sync writes everything seen before it, even during another sync."""

from collections.abc import Callable
from pathlib import Path

from oncegate.ledgers.disk import Disk
from oncegate.ledgers.witness import End, WitnessWriter, create_witness, read_witness

LEDGER = b"L" * 16


def end(position: int) -> End:
    return End(1, 4096 * position, position, bytes([position]) * 16)


class Meanwhile(Disk):
    """Calls `then` when a sync of the witness begins, once; counts the syncs."""

    def __init__(self) -> None:
        self.then: Callable[[], None] | None = None
        self.synced = 0

    def sync(self, fd: int) -> None:
        then, self.then = self.then, None
        if then is not None:
            then()
        self.synced += 1


def test_positions_seen_during_a_sync_are_synced_by_the_next(tmp_path: Path) -> None:
    """A thread syncs each second while appends are seen in another: the power may fail a second later."""
    disk, path = Meanwhile(), tmp_path / "default.witness"
    create_witness(disk, path, LEDGER, 1, end(0))
    writer, before = WitnessWriter(disk, path, LEDGER, 1, 0), disk.synced
    writer.see(end(1))
    disk.then = lambda: writer.see(end(2))
    for synced in (1, 2, 2):  # the third has nothing left to do
        writer.sync()
        assert disk.synced - before == synced
    assert read_witness(disk, path).end == end(2)
    writer.close()
