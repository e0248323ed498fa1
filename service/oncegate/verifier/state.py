"""Saves the progress of a run in a folder, so that the same command resumes after an interruption."""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import Any

import msgspec

from oncegate.core.errors import BadRequest

_FILE = "state.json"
_LOCK = "lock"


class RunState(msgspec.Struct):
    """The progress of a run, saved after each step that need not be repeated.

    key: of the ids' hashes, 32 bytes.
    token: of the repair's produces.
    stage: the next step.
    input_runs, output_runs: number of runs.
    input_rows, output_rows: rows read so far.
    next_offsets, ends, low: next, end and first offset by partition.
    without_id: output rows without an id.
    repair_row: the next row. repair_call: the number of its request.
    repaired: written, refused and held rows.
    """

    identity: dict[str, Any]
    key: bytes
    token: str
    stage: str = "input"
    mark: str = ""
    input_runs: int = 0
    input_rows: int = 0
    output_runs: int = 0
    output_rows: int = 0
    next_offsets: list[int] = []
    low: list[int] = []
    ends: list[int] = []
    without_id: int = 0
    repair_row: int = 0
    repair_call: int = 0
    repaired: dict[str, int] = {}

    @property
    def has_begun(self) -> bool:
        """Returns whether the saved state contains a completed step, which a resumed run skips."""
        return self.stage != "input" or self.input_runs > 0


@contextmanager
def opened(folder: Path, identity: dict[str, Any]) -> Iterator[tuple[RunState, bool]]:
    """Locks the folder, creating it if necessary. Yields its state, and whether it continues an earlier run.

    A run that ends before its first saved step leaves no folder: its arguments were wrong, or a server did not answer.

    Raises BadRequest if another process uses the folder, it belongs to another comparison, or it has other content.
    """
    path = folder / _FILE
    if not folder.parent.is_dir():
        raise BadRequest(f"--state {folder}: the folder {folder.parent} does not exist")
    if folder.exists() and not (folder / _LOCK).exists() and any(folder.iterdir()):
        raise BadRequest(f"--state {folder} has other content; name a new folder")
    folder.mkdir(exist_ok=True)
    with (folder / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadRequest(f"another process uses --state {folder}: wait for it, or name another folder") from None
        is_known = path.exists()
        fresh = RunState(identity, secrets.token_bytes(32), secrets.token_hex(16))
        state = _read(path, folder, identity) if is_known else fresh
        try:
            if not is_known:
                save(folder, state)
            yield state, is_known
        finally:
            if not state.has_begun:
                remove(folder)


def _read(path: Path, folder: Path, identity: dict[str, Any]) -> RunState:
    try:
        state = msgspec.json.decode(path.read_bytes(), type=RunState)
    except msgspec.MsgspecError as error:
        raise BadRequest(f"{path} cannot be read ({error}); remove {folder} to start over") from error
    if state.identity != identity:
        other = sorted(name for name, value in identity.items() if state.identity.get(name) != value)
        raise BadRequest(
            f"--state {folder} belongs to another comparison ({', '.join(other)} differ): remove it to start over, "
            "or name another folder"
        )
    return state


def save(folder: Path, state: RunState) -> None:
    """Saves the state atomically: after a crash, the file has the old or the new state."""
    fresh = folder / f"{_FILE}.new"
    with fresh.open("wb") as file:
        file.write(msgspec.json.encode(state))
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(folder / _FILE)


def remove(folder: Path) -> None:
    """Removes the folder of a finished run."""
    rmtree(folder, ignore_errors=True)
