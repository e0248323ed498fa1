"""The data folder: one owner, its namespaces, the list of ledgers and the witness beside it.

    <data>/LEDGERS  OWNER                     <data>.witness/LEDGERS
    <data>/<namespace>/key                    <data>.witness/<namespace>.witness
    <data>/DELETED/                           <data>.witness/DELETED/
    <data>/<namespace>/0/00000001.seg  outputs/  aside/  runs/

A ledger is made whole, then its witness, then the witness's list names it, then the folder's own. So the folder
never lists what its witness does not, and what the witness lists and the folder does not hold is gone, or deleted.
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
BACKUP_NAME = "BACKUP"  # the list that a backup has in place of a data folder's
# What may stand in a folder that is as good as empty.
_NOTHING = frozenset({"lost+found", OWNER_NAME, LIST_NAME + TEMPORARY})


@contextmanager
def ledger_errors(shown: str) -> Iterator[None]:
    """Turns the system's errors into ours, with the folder's name: LedgerFull without room, else LedgerDown."""
    try:
        yield
    except (NoRoom, OSError) as error:
        reason = _reason(error, shown)
        if isinstance(error, NoRoom) or error.errno in FULL:
            raise LedgerFull(f"the disk of {shown} is full ({reason}); make room and try again") from error
        raise LedgerDown(f"{shown} cannot be used ({reason}); nothing is answered from it") from error


def _reason(error: NoRoom | OSError, shown: str) -> str:
    """What the system says, and of which path, unless that is the folder itself, which is named already."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    path = str(error.filename or "")
    return error.strerror if not path or Path(path).name == Path(shown).name else f"{error.strerror}: {path}"


@dataclass(frozen=True)
class Refused:
    """Names a ledger that a verb went past, and why."""

    namespace: str
    error: OncegateError


def _missing(*folders: Path) -> list[Path]:
    """These folders and those above them that are not there, the deepest first."""
    found = {path for folder in folders for path in (folder, *folder.parents) if not path.exists()}
    return sorted(found, key=lambda path: len(path.parts), reverse=True)


class DataDir:
    """Both folders, locked. Made by `take`; all methods block."""

    def __init__(self, folder: str, witness: str | None, disk: Disk) -> None:
        """`folder` as the user wrote it. BadRequest: the witness lies inside."""
        self.shown = f"data folder {folder}"
        self.root = Path(folder).absolute()
        self.witness = Path(witness).absolute() if witness else self.root.with_name(self.root.name + ".witness")
        self.disk = disk
        self.ledgers: dict[str, bytes] = {}
        self.locks: list[FolderLock] = []
        # Folders that were not there before `take`, the deepest first.
        self._made: list[Path] = []
        if self.witness.is_relative_to(self.root):
            raise BadRequest(f"the witness {self.witness} lies in the {self.shown}: what takes one would take both")

    def take(self, create: bool) -> bool:
        """Lock, compare the two lists, make what is new; True when it is all new.

        NotFound: nothing is there, and `create` is false. LedgerBusy, LedgerDamaged: nothing was changed. After any
        other error nothing is left of what is new.
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
        """Ends the creation or the deletions that a crash cut short."""
        for name in witnessed.keys() - self.ledgers.keys():
            set_witness_aside(self.disk, self.witness, name, witnessed[name])
        if self.ledgers != listed:
            write_list(self.disk, self.root, self.ledgers)
        if self.ledgers != witnessed:
            write_list(self.disk, self.witness, self.ledgers)

    def look(self) -> None:
        """Take over the two lists without a lock, if they agree; nothing is made. NotFound, LedgerDamaged."""
        with ledger_errors(self.shown):
            self._judge(self._listed() if self.root.is_dir() else {}, self._witnessed(), create=False)

    def lock_listed(self) -> dict[str, bytes]:
        """Lock both folders, whatever the witness says, and return the folder's own list, without what was deleted."""
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
        """Those of a list that were not deleted."""
        return {name: ledger for name, ledger in ledgers.items() if not is_deleted(self.root, name, ledger)}

    def _begin(self) -> None:
        """Empty lists first: what a crash leaves after that is known to be unfinished."""
        make_folders(self.disk, self.witness)
        if len(self.locks) == 1:
            self._lock(self.witness, f"witness {self.witness}")
        write_list(self.disk, self.witness, {})
        write_list(self.disk, self.root, {})
        self.create(DEFAULT)

    def take_back(self) -> None:
        """Removes what `take` has just made, where all is new and no ledger was opened; of folders that are locked."""
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
        """Removes the folders that `take` made, as far as they are empty: somebody else may have come first."""
        for folder in self._made:
            with suppress(OSError):
                folder.rmdir()

    def release(self) -> None:
        """Lets go of both locks; no effect when none is held."""
        while self.locks:
            self.locks.pop().close()

    def _lock(self, path: Path, shown: str) -> None:
        self.locks.append(FolderLock(path, shown))

    def _listed(self) -> dict[str, bytes]:
        """The folder's own list; empty when the folder is as good as empty."""
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
        """The witness's list; empty when there is no witness at all."""
        found = read_list(self.disk, self.witness) if self.witness.is_dir() else None
        if found is None and self.witness.is_dir() and any(self.witness.glob("*" + WITNESS_SUFFIX)):
            raise LedgerDamaged(f"the witness {self.witness} has lost its list of ledgers; put it back from a copy")
        return found or {}

    def _judge(self, listed: dict[str, bytes], witnessed: dict[str, bytes], create: bool) -> bool:
        """True when neither list names a ledger; else take over what the witness names, where any of it is here.

        A listed ledger without its folder is refused by its name, when it is opened (`whole_paths`).
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
        """BadRequest where a new folder would lie in another data folder, or in a witness: each is of one gateway."""
        for folder in (*self.root.parents, *self.witness.parents):
            if (folder / LIST_NAME).is_file():
                raise BadRequest(f"{self.shown} would lie in {folder}, which has ledgers of its own; name another")

    def chosen(self, only: str | None) -> list[str]:
        """Returns the namespaces that a verb is for, sorted: all that are listed, or `only`. NotFound: it is not."""
        if only is None:
            return sorted(self.ledgers)
        if only not in self.ledgers:
            names = ", ".join(sorted(self.ledgers)) or "none"
            raise NotFound(f"there is no ledger of namespace {only} in {self.shown}; its namespaces: {names}")
        return [only]

    def create(self, namespace: str, key: bytes | None = None) -> None:
        """Make an empty ledger, with this key or a new one; no effect when it exists."""
        if namespace in self.ledgers:
            return
        with ledger_errors(self.shown):
            self.require()
            ledgers = self.ledgers | {namespace: make_ledger(self.disk, self.root, self.witness, namespace, key)}
            write_list(self.disk, self.witness, ledgers)
            write_list(self.disk, self.root, ledgers)
        self.ledgers = ledgers

    def delete(self, namespace: str) -> None:
        """Move a ledger aside that nobody has open; what an earlier call has left undone is done.

        NotFound, LedgerBusy, LedgerFull: nothing was changed. LedgerDown: unknown, repeat it.
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
        """Tells whether a ledger that was there at the last look has been deleted since."""
        return is_deleted(self.root, namespace, self.ledgers[namespace])

    def require(self) -> None:
        """LedgerFenced unless both folders are still those that were locked."""
        for lock in self.locks:
            lock.require()

    def whole_paths(self, namespace: str) -> LedgerPaths:
        """Returns the paths of a ledger whose folder is there. Raises NotFound; LedgerDamaged: the folder is gone."""
        paths = self.paths(namespace)
        if not self._is_there(namespace):
            ask = f"DELETE /v1/namespaces/{namespace}?confirm={namespace}"
            raise self._gone(namespace, f"or give its ids up: {ask}")
        return paths

    def paths(self, namespace: str) -> LedgerPaths:
        """Returns the paths of a ledger. Raises NotFound."""
        if namespace not in self.ledgers:
            raise NotFound(f"namespace {namespace} does not exist; PUT /v1/namespaces/{namespace} creates it")
        path = witness_path(self.witness, namespace)
        return LedgerPaths(namespace, self.root / namespace, path, self.ledgers[namespace])
