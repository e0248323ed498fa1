"""Implements the rollback check: records what the server acknowledged, in this process and in the `--witness` folder.

If the server was set back or emptied, or failed over to a lagging replica, its ledger ends before the recorded end. The
file is written after each append and before its answer, and synced every second: it may lag behind, but never lead.
"""

import asyncio
import os
from pathlib import Path

from oncegate.core.errors import LedgerDamaged, LedgerDown
from oncegate.ledgers.disk import Disk, locked_folder, make_folders
from oncegate.ledgers.fold import Fold
from oncegate.ledgers.frames import End
from oncegate.ledgers.witness import WITNESS_SUFFIX, WitnessWriter, create_witness, read_witness
from oncegate.ledgers.witness import End as Reached


class Witness:
    """Rollback check of one ledger, across its openings in this process. `path`: its file, if it has one."""

    def __init__(self, disk: Disk, path: Path | None, ledger: bytes) -> None:
        self._disk = disk
        self._path = path
        self._ledger = ledger
        self._writer: WitnessWriter | None = None
        self.seen: End | None = None

    async def begin(self) -> None:
        """Reads the rollback check's file, if there is one.

        Raises LedgerDamaged: it belongs to another ledger or is unreadable; LedgerDown.
        """
        if self._path is not None and self._writer is None:
            try:
                await asyncio.to_thread(self._read, self._path)
            except OSError as error:
                raise LedgerDown(f"the witness {self._path} cannot be read: {error}") from error

    def _read(self, path: Path) -> None:
        if not path.exists():
            return
        accept = f"remove {path} to accept what is there"
        found = read_witness(self._disk, path, accept)
        if found.ledger != self._ledger:
            raise LedgerDamaged(
                f"the witness {path} saw ledger {found.ledger.hex()}, and the server holds {self._ledger.hex()}; "
                f"nothing was changed, put back what the server held, or {accept}"
            )
        end = End(found.end.offset, found.end.position, found.end.chain)
        if self.seen is None or end.serial > self.seen.serial:
            self.seen = end

    def follow(self, fold: Fold, end: End) -> None:
        """Records the end of a ledger that another gateway owns, as read into `fold`.

        Ignored if the ledger does not continue from the end recorded before: a changed history is reported when the
        ledger is opened.
        """
        seen = self.seen
        if seen is None or (end.serial > seen.serial and fold.chain_before(seen.serial + 1) in (None, seen.chain)):
            self.seen = end

    async def own(self, fence: int, end: End) -> None:
        """Creates the rollback check's file for the owner with this fence, whose ledger ends at `end`.
        Raises LedgerDown.
        """
        self.seen = end
        await self._to_disk(self._own, fence, end)

    def _own(self, fence: int, end: End) -> None:
        if self._path is None:
            return
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        with locked_folder(self._path.parent):
            if self._has_followed(self._path, fence):
                return
            create_witness(self._disk, self._path, self._ledger, fence, _reached(end))
            self._writer = WitnessWriter(self._disk, self._path, self._ledger, fence, 0)

    def _has_followed(self, path: Path, fence: int) -> bool:
        """Returns whether a later owner on this machine has replaced the rollback check's file."""
        if not path.exists():
            return False
        found = read_witness(self._disk, path)
        return found.ledger == self._ledger and found.epoch > fence

    async def see(self, end: End) -> None:
        """Records that the frame that ends at `end` was acknowledged. Raises LedgerDown: the file cannot be written."""
        self.seen = end
        await self._to_disk(self._see, end)

    def _see(self, end: End) -> None:
        if self._writer is not None:
            self._writer.see(_reached(end))

    async def sync(self) -> None:
        await self._to_disk(self._sync)

    def _sync(self) -> None:
        if self._writer is not None:
            self._writer.sync()

    async def close(self) -> None:
        """Syncs and closes the rollback check's file; `seen` is kept in memory."""
        await self._to_disk(self._close)

    def _close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                writer.sync()
            finally:
                writer.close()

    async def _to_disk(self, work: "object", *arguments: object) -> None:
        if self._path is None:
            return
        try:
            await asyncio.to_thread(work, *arguments)  # type: ignore[arg-type]
        except OSError as error:
            raise LedgerDown(f"the witness {self._path} cannot be written ({error}); open the ledger anew") from error


class Witnesses:
    """Rollback checks of all ledgers. `folder`: of their files; None: they are kept in memory only."""

    def __init__(self, folder: Path | None, disk: Disk | None = None) -> None:
        self._folder = folder
        self._disk = disk or Disk()
        self._known: dict[str, Witness] = {}

    def of(self, name: str, ledger: bytes) -> Witness:
        """Returns the rollback check of a ledger. `name`: PREFIX/NAMESPACE/NUMBER."""
        if name not in self._known:
            self._known[name] = Witness(self._disk, self._path(name), ledger)
        return self._known[name]

    def _path(self, name: str) -> Path | None:
        return None if self._folder is None else self._folder / (name.replace("/", ".") + WITNESS_SUFFIX)

    def make_folder(self) -> None:
        """Creates the folder durably if it is missing. Raises OSError."""
        if self._folder is not None:
            make_folders(self._disk, self._folder)

    def of_prefix(self, prefix: str) -> list[Path]:
        """Returns the rollback check files of all ledgers of a prefix, sorted. Raises OSError."""
        if self._folder is None or not self._folder.exists():
            return []
        return sorted(self._folder / name for name in os.listdir(self._folder) if _is_of(name, prefix))

    def forget(self, name: str) -> None:
        """Removes a deleted ledger's rollback check. Raises OSError: its file may still exist."""
        self._known.pop(name, None)
        if (path := self._path(name)) is not None:
            path.unlink(missing_ok=True)


def _is_of(file: str, prefix: str) -> bool:
    return file.startswith(f"{prefix}.") and file.endswith(WITNESS_SUFFIX)


def _reached(end: End) -> Reached:
    return Reached(0, end.serial, end.position, end.chain)
