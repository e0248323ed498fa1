"""The state that replaces collected entries: ranges in an output file of its own, each a msgpack array of entries.

Written beside the writer, before the frame that names it; until then it is a file like any that no frame names.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from oncegate.core.errors import LedgerDamaged
from oncegate.ledgers.log.body import Location
from oncegate.ledgers.log.disk import FULL, TEMPORARY, Disk, padded
from oncegate.ledgers.log.outputs import located, output_path, require_range
from oncegate.ledgers.log.segments import NoRoom

PIECE_BYTES = 8 << 20  # read, verified and held at once; an entry larger than this has a range to itself

_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(list[bytes])


def write_state(disk: Disk, folder: Path, file: tuple[int, int], state: Sequence[bytes]) -> tuple[Location, ...]:
    """Make the entries durable in a new file, none when there are none. NoRoom: no file is left; OSError.

    The file has its name only when it is whole: what a crash cuts short is removed at the next opening, not kept aside.
    """
    if not state:
        return ()
    path = output_path(folder, file)
    temporary = path.with_name(path.name + TEMPORARY)
    with _room(disk, temporary):
        fd = disk.create(temporary)
    try:
        places = tuple(_write(disk, fd, temporary, file, state))
    finally:
        disk.close(fd)
    disk.rename(temporary, path)
    disk.sync_folder(folder)
    return places


@contextmanager
def _room(disk: Disk, path: Path) -> Iterator[None]:
    """A full disk is NoRoom, and no file is left. Not around a sync: after that nobody knows."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        if path.exists():
            disk.unlink(path)
        raise NoRoom(str(error)) from error


def _write(disk: Disk, fd: int, path: Path, file: tuple[int, int], state: Sequence[bytes]) -> Iterator[Location]:
    """Each piece is synced by itself: an append that comes meanwhile waits for one at most."""
    end = 0
    for piece in _pieces(state):
        data = _encode(piece)
        with _room(disk, path):
            disk.write(fd, [data], end)
        disk.sync(fd)
        yield located(file, end, data)
        end += padded(len(data))


def _pieces(state: Sequence[bytes]) -> Iterator[list[bytes]]:
    piece: list[bytes] = []
    size_bytes = 0
    for entry in state:
        if piece and size_bytes + len(entry) > PIECE_BYTES:
            yield piece
            piece, size_bytes = [], 0
        piece.append(entry)
        size_bytes += len(entry)
    yield piece


def read_state(disk: Disk, folder: Path, places: Sequence[Location]) -> Iterator[bytes]:
    """The entries, verified. LedgerDamaged."""
    for place in places:
        try:
            yield from _decoder.decode(require_range(disk, folder, place))
        except ValueError as error:
            raise LedgerDamaged(
                f"{output_path(folder, place.file)}: the state at byte {place.offset} is not of a format that this "
                f"version reads ({error}); open it with the version that wrote it"
            ) from error
