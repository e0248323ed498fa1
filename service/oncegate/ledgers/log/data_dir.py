"""The data folder: its single owner, its namespaces, its list of ledgers, and the rollback check (witness) beside it.

    <data>/LEDGERS  OWNER                     <data>.witness/LEDGERS
    <data>/<namespace>/key                    <data>.witness/<namespace>.witness
    <data>/DELETED/                           <data>.witness/DELETED/
    <data>/<namespace>/0/00000001.seg  outputs/  aside/  runs/

Creation goes in this order: the whole ledger, its witness, the witness's list, the folder's list. The folder therefore
never lists a ledger that its witness does not. A ledger that only the witness lists was deleted or lost.
"""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from oncegate.core.errors import BadRequest, LedgerDamaged, LedgerDown, LedgerFull, NotFound, OncegateError
from oncegate.ledgers.disk import FULL, TEMPORARY, Disk, make_folders
from oncegate.ledgers.log.deleted import is_deleted, set_aside, set_witness_aside
from oncegate.ledgers.log.files.ledger_list import LIST_NAME, read_list, write_list
from oncegate.ledgers.log.files.segments import NoRoom
from oncegate.ledgers.log.locks import OWNER_NAME, FolderLock
from oncegate.ledgers.log.opening.create import UNFINISHED, make_ledger
from oncegate.ledgers.log.opening.recovery import SHARD_NAME, LedgerPaths
from oncegate.ledgers.log.reserve import RESERVE_NAME
from oncegate.ledgers.witness import ACCEPT, WITNESS_SUFFIX, witness_path

DEFAULT = "default"
BACKUP_NAME = "BACKUP"  # a backup's list; it replaces a data folder's LEDGERS
# Names that a folder may contain and still count as empty.
_NOTHING = frozenset({"lost+found", OWNER_NAME, LIST_NAME + TEMPORARY})


@contextmanager
def ledger_errors(shown: str) -> Iterator[None]:
    """Converts system errors, naming the folder: a full disk raises LedgerFull, any other error LedgerDown."""
    try:
        yield
    except (NoRoom, OSError) as error:
        reason = _reason(error, shown)
        if isinstance(error, NoRoom) or error.errno in FULL:
            raise LedgerFull(f"the disk of {shown} is full ({reason}); make room and try again") from error
        raise LedgerDown(f"{shown} cannot be used ({reason}); nothing is answered from it") from error


def _reason(error: NoRoom | OSError, shown: str) -> str:
    """Returns the system's error text and the path that it concerns; omits the path if it is that of the folder."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    path = str(error.filename or "")
    return error.strerror if not path or Path(path).name == Path(shown).name else f"{error.strerror}: {path}"


@dataclass(frozen=True)
class Refused:
    """A ledger that a command skipped, and the reason."""

    namespace: str
    error: OncegateError


def _missing(*folders: Path) -> list[Path]:
    """Returns the missing ones of the given folders and their parents, deepest first."""
    found = {path for folder in folders for path in (folder, *folder.parents) if not path.exists()}
    return sorted(found, key=lambda path: len(path.parts), reverse=True)


class DataDir:
    """The data folder and its witness folder. `take` locks both. All methods block."""

    def __init__(self, folder: str, witness: str | None, disk: Disk) -> None:
        """`folder` as the user wrote it. Raises BadRequest if the witness folder is inside the data folder."""
        self.shown = f"data folder {folder}"
        self.root = Path(folder).absolute()
        self.witness = Path(witness).absolute() if witness else self.root.with_name(self.root.name + ".witness")
        self.disk = disk
        self.ledgers: dict[str, bytes] = {}
        self.locks: list[FolderLock] = []
        # Folders that `take` creates, deepest first.
        self._made: list[Path] = []
        if self.witness.is_relative_to(self.root):
            raise BadRequest(f"the witness {self.witness} lies in the {self.shown}: what takes one would take both")

    def take(self, create: bool) -> bool:
        """Locks both folders, compares their lists and creates a new data folder; returns True if it is new.

        Raises NotFound when nothing exists and `create` is false. On NotFound, LedgerBusy and LedgerDamaged nothing was
        changed. After any other error everything that was newly created is removed.
        """
        self._made = _missing(self.root, self.witness)
        with ledger_errors(self.shown), ExitStack() as on_error:
            on_error.callback(self.release)
            if not self.root.is_dir():
                self._judge({}, self._witnessed(), create)
                on_error.callback(self._remove_made)
                make_folders(self.disk, self.root)
            self._lock(self.root, self.shown)
            if self.witness.is_dir():
                self._lock(self.witness, f"witness {self.witness}")
            listed, witnessed = self._listed(), self._witnessed()
            new = self._judge(listed, witnessed, create)
            self.locks[0].sign()
            if new:
                on_error.callback(self.take_back)
                self._begin()
            else:
                self._go_on(listed, witnessed)
            on_error.pop_all()
        return new

    def _go_on(self, listed: dict[str, bytes], witnessed: dict[str, bytes]) -> None:
        """Finishes a creation or deletion that a crash interrupted."""
        for name in witnessed.keys() - self.ledgers.keys():
            set_witness_aside(self.disk, self.witness, name, witnessed[name])
        if self.ledgers != listed:
            write_list(self.disk, self.root, self.ledgers)
        if self.ledgers != witnessed:
            write_list(self.disk, self.witness, self.ledgers)

    def look(self) -> None:
        """Loads the list of ledgers without locking, if the folder's and the witness's lists agree;
        creates nothing. Raises NotFound, LedgerDamaged.
        """
        with ledger_errors(self.shown):
            self._judge(self._listed() if self.root.is_dir() else {}, self._witnessed(), create=False)

    def lock_listed(self) -> dict[str, bytes]:
        """Locks both folders without consulting the witness's list; returns the folder's own list minus deleted
        ledgers.
        """
        if not self.root.is_dir():
            return {}
        self._lock(self.root, self.shown)
        make_folders(self.disk, self.witness)
        self._lock(self.witness, f"witness {self.witness}")
        listed = self._listed()
        for name in listed.keys() - (kept := self._kept(listed)).keys():
            set_witness_aside(self.disk, self.witness, name, listed[name])
        return kept

    def _kept(self, ledgers: dict[str, bytes]) -> dict[str, bytes]:
        """Returns `ledgers` without those that were deleted."""
        return {name: ledger for name, ledger in ledgers.items() if not is_deleted(self.root, name, ledger)}

    def _begin(self) -> None:
        """Writes empty lists first, so that anything a crash leaves behind later is known to be unfinished."""
        make_folders(self.disk, self.witness)
        if len(self.locks) == 1:
            self._lock(self.witness, f"witness {self.witness}")
        write_list(self.disk, self.witness, {})
        write_list(self.disk, self.root, {})
        self.create(DEFAULT)

    def take_back(self) -> None:
        """Removes everything that `take` has just created; only for a new data folder, still locked, with no ledger
        opened.
        """
        shutil.rmtree(self.root / DEFAULT, ignore_errors=True)
        shutil.rmtree(self.root / f"{UNFINISHED}{DEFAULT}", ignore_errors=True)
        ours = [self.root / name for name in (RESERVE_NAME, LIST_NAME, OWNER_NAME)]
        if len(self.locks) > 1:
            ours += [self.witness / LIST_NAME, witness_path(self.witness, DEFAULT), self.witness / OWNER_NAME]
        for path in ours:
            for one in (path, path.with_name(path.name + TEMPORARY)):
                with suppress(OSError):
                    one.unlink()
        self._remove_made()

    def _remove_made(self) -> None:
        """Removes the folders that `take` created if they are empty; a different process may already use them."""
        for folder in self._made:
            with suppress(OSError):
                folder.rmdir()

    def release(self) -> None:
        """Releases both locks; no effect when none is held."""
        while self.locks:
            self.locks.pop().close()

    def _lock(self, path: Path, shown: str) -> None:
        self.locks.append(FolderLock(path, shown))

    def _listed(self) -> dict[str, bytes]:
        """Returns the data folder's own list of ledgers; empty if the folder counts as empty.
        Raises BadRequest, LedgerDamaged.
        """
        found = read_list(self.disk, self.root)
        if found is None and (self.root / BACKUP_NAME).exists():
            raise BadRequest(
                f"{self.shown} is a backup: `oncegate restore --from {self.root} --data NEW` makes a data folder of it"
            )
        if found is None and {path.name for path in self.root.iterdir()} - _NOTHING:
            raise LedgerDamaged(
                f"{self.shown} is not empty and has no list of ledgers ({LIST_NAME}): put the list back from a copy, "
                "or name an empty folder"
            )
        return found or {}

    def _witnessed(self) -> dict[str, bytes]:
        """Returns the witness folder's list of ledgers; empty if there is no witness. Raises LedgerDamaged."""
        found = read_list(self.disk, self.witness) if self.witness.is_dir() else None
        if found is None and self.witness.is_dir() and any(self.witness.glob("*" + WITNESS_SUFFIX)):
            raise LedgerDamaged(f"the witness {self.witness} has lost its list of ledgers; put it back from a copy")
        return found or {}

    def _judge(self, listed: dict[str, bytes], witnessed: dict[str, bytes], create: bool) -> bool:
        """Returns True if neither list names a ledger; otherwise uses the witness's list if any of its ledgers
        exists.

        A listed ledger without its folder is rejected later by `whole_paths`, when it is opened.
        """
        if not listed and not witnessed:
            self._require_outside()
            if not create:
                raise NotFound(
                    f"there is no ledger in {self.shown}, and its witness {self.witness} knows of none; "
                    "`oncegate init` makes one"
                )
            return True
        if not witnessed:
            raise LedgerDamaged(
                f"the witness of {self.shown} is gone: there is none at {self.witness}, and without it nobody can tell "
                f"whether the end of a ledger is there; name its place, or {ACCEPT}"
            )
        for name, ledger in sorted((witnessed | listed).items()):
            if witnessed.get(name) != ledger:
                raise LedgerDamaged(
                    f"{self.shown} lists ledger {ledger.hex()} as {name}, and its witness {self.witness} does not: "
                    "they do not belong together; name the right witness"
                )
        self.ledgers = self._kept(witnessed)
        if self.ledgers and not any(self._is_there(name) for name in self.ledgers):
            raise self._gone(min(self.ledgers), "or remove the witness too to begin again, forgetting all")
        return False

    def _is_there(self, namespace: str) -> bool:
        return (self.root / namespace / SHARD_NAME).is_dir()

    def _gone(self, namespace: str, or_else: str) -> LedgerDamaged:
        ledger = self.ledgers[namespace].hex()
        return LedgerDamaged(
            f"ledger {namespace} ({ledger}) is gone from {self.shown}, its witness {self.witness} knows it; "
            f"put the folder back from a copy, {or_else}"
        )

    def _require_outside(self) -> None:
        """Raises BadRequest if a new folder would be inside another data or witness folder: each belongs to one
        gateway.
        """
        for folder in (*self.root.parents, *self.witness.parents):
            if (folder / LIST_NAME).is_file():
                raise BadRequest(f"{self.shown} would lie in {folder}, which has ledgers of its own; name another")

    def chosen(self, only: str | None) -> list[str]:
        """Returns the namespaces that a command covers, sorted: all listed namespaces, or `only`. Raises NotFound: not
        listed.
        """
        if only is None:
            return sorted(self.ledgers)
        if only not in self.ledgers:
            names = ", ".join(sorted(self.ledgers)) or "none"
            raise NotFound(f"there is no ledger of namespace {only} in {self.shown}; its namespaces: {names}")
        return [only]

    def create(self, namespace: str, key: bytes | None = None) -> None:
        """Creates an empty ledger with this key, or with a new key; no effect if the ledger exists."""
        if namespace in self.ledgers:
            return
        with ledger_errors(self.shown):
            self.require()
            ledgers = self.ledgers | {namespace: make_ledger(self.disk, self.root, self.witness, namespace, key)}
            write_list(self.disk, self.witness, ledgers)
            write_list(self.disk, self.root, ledgers)
        self.ledgers = ledgers

    def delete(self, namespace: str) -> None:
        """Moves an unopened ledger to DELETED; completes an earlier call that was interrupted.

        On NotFound, LedgerBusy and LedgerFull nothing was changed. Effect unknown on LedgerDown: repeat the call.
        """
        ledger = self.paths(namespace).ledger
        others = {name: listed for name, listed in self.ledgers.items() if name != namespace}
        with ledger_errors(self.shown):
            self.require()
            set_aside(self.disk, self.root, self.witness, namespace, ledger)
        try:
            set_witness_aside(self.disk, self.witness, namespace, ledger)
            write_list(self.disk, self.root, others)
            write_list(self.disk, self.witness, others)
        except OSError as error:
            raise LedgerDown(
                f"ledger {namespace} was moved aside, and the lists of {self.shown} name it still ({error}); repeat it"
            ) from error
        self.ledgers = others

    def was_deleted(self, namespace: str) -> bool:
        """Returns whether a ledger was deleted after the lists were last read."""
        return is_deleted(self.root, namespace, self.ledgers[namespace])

    def require(self) -> None:
        """Raises LedgerFenced unless both paths still name the folders that were locked."""
        for lock in self.locks:
            lock.require()

    def whole_paths(self, namespace: str) -> LedgerPaths:
        """Returns the paths of a ledger whose folder must exist. Raises NotFound;
        LedgerDamaged if the folder is gone.
        """
        paths = self.paths(namespace)
        if not self._is_there(namespace):
            ask = f"DELETE /v1/namespaces/{namespace}?confirm={namespace}"
            raise self._gone(namespace, f"or give its ids up: {ask}")
        return paths

    def paths(self, namespace: str) -> LedgerPaths:
        """Returns the paths of a listed ledger, whose files need not exist. Raises NotFound."""
        if namespace not in self.ledgers:
            raise NotFound(f"namespace {namespace} does not exist; PUT /v1/namespaces/{namespace} creates it")
        path = witness_path(self.witness, namespace)
        return LedgerPaths(namespace, self.root / namespace, path, self.ledgers[namespace])
