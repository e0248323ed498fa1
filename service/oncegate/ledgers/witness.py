"""The rollback check (witness): a small file, stored apart from the ledger, that records how far the ledger reached.

    slot    "OGW1" | serial u64 | ledger id 16 | epoch u64 | segment u32 | end offset u64 | position u64 | chain 16
            | check 16
    file    a slot at byte 0 and one at byte 4,096, written alternately; the newer intact one is valid

The file is overwritten in place after each frame's sync and before its replies. It is synced every second and at close,
so it may lag behind the ledger but never lead. A ledger that ends before its witness has lost acknowledged entries. A
torn slot leaves the other one, which lags by one append.
"""

import errno
import hashlib
import os
import struct
import threading
from dataclasses import dataclass
from pathlib import Path

from oncegate.core.errors import LedgerDamaged
from oncegate.ledgers.disk import BLOCK_BYTES, Disk, replace_file

_SLOT = struct.Struct("<4sQ16sQIQQ16s16s")
_MAGIC = b"OGW1"
WITNESS_SUFFIX = ".witness"
ACCEPT = "accept what is there with `oncegate ledger accept`"


@dataclass(frozen=True, slots=True)
class End:
    """The end of a ledger: after an intact frame, or after the header of an empty segment.

    For a ledger without segments, `segment` is 0 and `offset` is the serial of its last frame.
    """

    segment: int
    offset: int
    position: int
    chain: bytes


@dataclass(frozen=True, slots=True)
class WitnessRecord:
    """A slot of the witness: how far one ledger reached. `serial` grows with each write."""

    serial: int
    ledger: bytes
    epoch: int
    end: End

    def encode(self) -> bytes:
        """Encodes the slot, with its checksum."""
        end = self.end
        numbers = (end.segment, end.offset, end.position, end.chain)
        raw = _SLOT.pack(_MAGIC, self.serial, self.ledger, self.epoch, *numbers, bytes(16))[:-16]
        return raw + hashlib.sha256(raw).digest()[:16]

    @classmethod
    def decode(cls, raw: bytes) -> "WitnessRecord | None":
        """Decodes a slot; returns None if its checksum is wrong."""
        if len(raw) < _SLOT.size or hashlib.sha256(raw[: _SLOT.size - 16]).digest()[:16] != raw[_SLOT.size - 16 :]:
            return None
        magic, serial, ledger, epoch, *numbers, _ = _SLOT.unpack(raw)
        return cls(serial, ledger, epoch, End(*numbers)) if magic == _MAGIC else None


def witness_path(folder: Path, namespace: str) -> Path:
    return folder / (namespace + WITNESS_SUFFIX)


def read_witness(disk: Disk, path: Path, accept: str = ACCEPT) -> WitnessRecord:
    """Reads a witness and returns its newer intact slot. Raises LedgerDamaged if there is none;
    its message advises `accept`.
    """
    if not path.exists():
        raise LedgerDamaged(
            f"the witness {path} is missing, and without it nobody can tell whether the end of the ledger is there; "
            f"put it back from a copy, or {accept}"
        )
    data = disk.read(path)
    slots = [WitnessRecord.decode(data[offset : offset + _SLOT.size]) for offset in (0, BLOCK_BYTES)]
    seen = [slot for slot in slots if slot is not None]
    if not seen:
        raise LedgerDamaged(f"the witness {path} cannot be read; put it back from a copy, or {accept}")
    return max(seen, key=lambda slot: slot.serial)


def create_witness(disk: Disk, path: Path, ledger: bytes, epoch: int, end: End, *, serial: int = 0) -> None:
    """Writes a witness with `end` in both slots, durably; replaces an existing one."""
    slot = WitnessRecord(serial, ledger, epoch, end).encode().ljust(BLOCK_BYTES, b"\0")
    replace_file(disk, path, [slot, slot])


class WitnessWriter:
    """The writer of one witness. `see` and `sync` may run in two threads; unusable after an OSError."""

    def __init__(self, disk: Disk, path: Path, ledger: bytes, epoch: int, serial: int) -> None:
        self._disk = disk
        self._path = path
        self._fd = disk.open(path)
        self._ledger = ledger
        self._epoch = epoch
        self._serial = serial
        self._dirty = False
        self._failed: OSError | None = None
        # Serializes syncs: of two concurrent fsyncs only one reports an error, and the other would falsely succeed.
        self._syncing = threading.Lock()

    def see(self, end: End) -> None:
        """Records that the frame ending at `end` is durable. One small write, no sync."""
        if self._failed is not None:
            raise self._failed
        self._serial += 1
        slot = WitnessRecord(self._serial, self._ledger, self._epoch, end).encode()
        try:
            self._disk.write(self._fd, [slot], self._serial % 2 * BLOCK_BYTES)
        except OSError as error:
            raise self._fail(error) from error
        self._dirty = True

    def sync(self) -> None:
        """Makes earlier calls of `see` durable; no effect if there were none."""
        with self._syncing:
            if self._failed is None and self._dirty:
                self._dirty = False
                try:
                    self._disk.sync(self._fd)
                except OSError as error:
                    raise self._fail(error) from error

    def pin(self, end: End) -> None:
        """Writes `end` to both slots durably: after a power failure the witness is not older than `end`."""
        for _ in range(2):
            self.see(end)
            self.sync()
            if self._failed is not None:
                raise self._failed

    def _fail(self, error: OSError) -> OSError:
        """Returns the error with the witness's path; later calls raise it too."""
        code = error.errno or errno.EIO
        self._failed = OSError(code, os.strerror(code), str(self._path))
        return self._failed

    def close(self) -> None:
        """Closes the file."""
        self._disk.close(self._fd)
