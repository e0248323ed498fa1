"""Checks an embedded ledger's folders: permissions, free space, owner, and whether data and `witness` belong
together.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil

from oncegate.cli.doctor.findings import DoctorFinding, ok, warning, wrong
from oncegate.clock import SystemClock
from oncegate.engine.limits import MIB
from oncegate.ledgers.disk import Disk
from oncegate.ledgers.log.files.keys import KEY_NAME
from oncegate.ledgers.log.files.ledger_list import read_list
from oncegate.ledgers.log.locks import OWNER_NAME
from oncegate.ledgers.log.opening.recovery import SHARD_NAME
from oncegate.ledgers.witness import witness_path
from oncegate.settings import Settings

_NETWORK = ("nfs", "cifs", "smb", "fuse.sshfs", "9p")


def folders_of(settings: Settings, location: str) -> tuple[Path, Path]:
    """Returns the data folder and the witness folder that `serve` would use."""
    data = Path(location).absolute()
    witness = settings.process.witness
    return data, Path(witness).absolute() if witness else data.with_name(data.name + ".witness")


def folders(settings: Settings, location: str, answers: bool) -> Iterator[DoctorFinding]:
    """Checks the data folder and the witness folder. `answers`: a gateway answers, so the folder is expected to have an
    owner.
    """
    data, witness = folders_of(settings, location)
    there = data.is_dir(), witness.is_dir()
    if there[0] != there[1] and any(data.glob("*")) | any(witness.glob("*")):
        missing = witness if there[0] else data
        yield wrong(
            "data",
            f"{missing} is not there, and the other of the pair is",
            "a start is refused: one alone may be an older copy",
            "bring both back together, or oncegate ledger accept",
        )
    for folder in (data, witness):
        yield from _rights(folder)
    yield from _room(settings, data)
    yield from _age(data)
    if there[0]:
        yield from _owner(data, answers)
    if all(there) and data.stat().st_dev == witness.stat().st_dev:
        yield warning(
            "data",
            "data and witness are on one disk",
            "a disk that is set back takes both, and then clients alone notice",
            "name another disk by --witness",
        )


def ledgers(settings: Settings, location: str, only: str | None) -> Iterator[DoctorFinding]:
    """Checks folder, key and witness of every listed namespace, or of one; reads no entry."""
    data, witness = folders_of(settings, location)
    listed = (read_list(Disk(), data) or {}) if data.is_dir() else {}
    if only is not None and only not in listed:
        yield wrong("ledgers", f"{data} lists no namespace {only}", "nothing is served by that name", "name another")
        return
    names = sorted(listed) if only is None else [only]
    damaged = [finding for name in names for finding in _ledger(data, witness, name)]
    yield from damaged
    if names and not damaged:
        yield ok("ledgers", f"folder, key and witness of {len(names)} namespaces are there")


def _ledger(data: Path, witness: Path, name: str) -> Iterator[DoctorFinding]:
    copy = f"put it back from a copy; oncegate verify --namespace {name} reads all of it"
    why = f"namespace {name} is refused, the others are served"
    shard = data / name / SHARD_NAME
    for path in (shard, data / name / KEY_NAME, witness_path(witness, name)):
        if not path.exists():
            yield wrong("ledgers", f"namespace {name}: {path} is missing", why, copy)
        elif not os.access(path, os.R_OK | os.W_OK | (os.X_OK if path.is_dir() else 0)):
            what = f"namespace {name}: user {os.getuid()} may not read and write {path}"
            yield wrong("ledgers", what, why, f"chown -R {os.getuid()} {path}")


def _rights(folder: Path) -> Iterator[DoctorFinding]:
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if not os.access(existing, os.R_OK | os.W_OK | os.X_OK):
        user = os.getuid()
        yield wrong(
            "data",
            f"user {user} may not read and write {existing}",
            "the ledger is there",
            f"chown -R {user} {existing}, or run as its owner (user {existing.stat().st_uid})",
        )
    elif folder.exists() and folder.stat().st_mode & 0o002:
        yield wrong(
            "data",
            f"every user of the machine may write {folder}",
            "any change to its files damages a ledger",
            f"chmod o-w {folder}",
        )
    else:
        yield ok("data", f"{folder} can be written" if folder.exists() else f"{folder} can be made")
    kind = _file_system(existing)
    if kind.startswith(_NETWORK):
        yield warning(
            "data",
            f"{existing} is on a file system over the network ({kind})",
            "whether a sync is one, and a lock, is up to its server",
            "take a local disk",
        )


def _file_system(path: Path) -> str:
    partitions = [part for part in psutil.disk_partitions(all=True) if path.is_relative_to(part.mountpoint)]
    return str(max(partitions, key=lambda part: len(part.mountpoint)).fstype) if partitions else ""


def _room(settings: Settings, data: Path) -> Iterator[DoctorFinding]:
    existing = next(path for path in (data, *data.parents) if path.exists())
    usage, limits = shutil.disk_usage(existing), settings.limits
    room = f"{usage.free // MIB} MiB of {usage.total // MIB} are free at {existing}"
    if usage.free < 2 * limits.disk_reserve_bytes:
        yield wrong(
            "disk", room, "the ledger is full, or nearly: new work is answered 507", "make room, or move the data"
        )
    elif usage.free < limits.disk_floor_bytes(usage.total):
        kept = f"stages are refused below {limits.disk_floor_bytes(usage.total) // MIB} MiB"
        yield warning(
            "disk", room, f"{kept} (disk_free_fraction, disk_free_bytes)", "make room before the ledger is full"
        )
    else:
        yield ok("disk", room)


def _age(data: Path) -> Iterator[DoctorFinding]:
    """Warns of files with a time in the future: the clock was set back, or the folder was copied from a different
    machine.
    """
    newest = max((path.stat().st_mtime for path in data.glob("*/*/*") if path.is_file()), default=0.0)
    behind_s = newest - SystemClock().wall_ms() / 1000
    if behind_s > 60:
        yield warning(
            "clock",
            f"files of {data} were written {behind_s:.0f} s from now",
            "the ledger's clock never goes back: ids stay known for longer than the horizon by as much",
            "set the clock right",
        )


def _owner(data: Path, answers: bool) -> Iterator[DoctorFinding]:
    try:
        pid, since_s = map(int, (data / OWNER_NAME).read_text().split())
        process = psutil.Process(pid)
        is_alive = abs(process.create_time() - since_s) <= 1
    except (OSError, ValueError, psutil.Error):
        is_alive = False
    if is_alive and not answers:
        yield warning(
            "data",
            f"{data} is owned by process {pid}, and no gateway answers where the settings say",
            "it may be starting, or listen elsewhere; a second gateway on this folder is refused",
            "name its address by --url, or stop it",
        )
