"""Keeps how far a run has come in a folder, so that the same command goes on there after an interruption."""

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
    """Holds what is done; saved after each step that is not to be done again.

    key: of the ids' fingerprints, 32 bytes. token: of the repair's produces. stage: what comes next. runs: how
    many there are of each. input_rows, output_rows: read so far. next_offsets, ends: by partition. low: their first.
    without_id: rows of the output that have none. repair_row: the row that is next, repair_call its request's number.
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
        """Tells whether a step is done that an interrupted run need not do again."""
        return self.stage != "input" or self.input_runs > 0


@contextmanager
def opened(folder: Path, identity: dict[str, Any]) -> Iterator[tuple[RunState, bool]]:
    """Locks the folder, made where it is not there; gives its state, and whether it goes on with an earlier run.

    A run that ends before it has done a step leaves nothing: what it was asked was wrong, or nobody answered.

    Raises BadRequest: another process uses it, it is of another question, or it is no such folder.
    """
    path = folder / _FILE
    if not folder.parent.is_dir():
        raise BadRequest(f"--state {folder}: there is no folder {folder.parent}")
    if folder.exists() and not (folder / _LOCK).exists() and any(folder.iterdir()):
        raise BadRequest(f"--state {folder} holds something else; name a new folder")
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
        raise BadRequest(f"{path} cannot be read ({error}); remove {folder} to begin anew") from error
    if state.identity != identity:
        other = sorted(name for name, value in identity.items() if state.identity.get(name) != value)
        raise BadRequest(
            f"--state {folder} is of another question ({', '.join(other)} differ): remove it to begin anew, or name "
            "another folder"
        )
    return state


def save(folder: Path, state: RunState) -> None:
    """Saves the state: what is there afterwards is the whole old one or the whole new one."""
    fresh = folder / f"{_FILE}.new"
    with fresh.open("wb") as file:
        file.write(msgspec.json.encode(state))
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(folder / _FILE)


def remove(folder: Path) -> None:
    """Removes the folder of a run that is over."""
    rmtree(folder, ignore_errors=True)
