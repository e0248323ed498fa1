"""Creation of a data folder, and acceptance of a data folder that has lost entries."""

import os
from dataclasses import replace

from oncegate.core.errors import BadRequest, KeyMismatch, LedgerDamaged, LedgerDown, LedgerFull, NotFound
from oncegate.ledgers.disk import Disk, empty_folder
from oncegate.ledgers.log.data_dir import DataDir, Refused, ledger_errors
from oncegate.ledgers.log.files.ledger_list import write_list
from oncegate.ledgers.log.opening.recovery import begin_epoch, copy_last_segment, inspect
from oncegate.ledgers.witness import create_witness, read_witness


def init(folder: str, witness: str | None = None) -> None:
    """Creates a data folder with the namespace `default`, and its witness folder (by default beside it).

    Raises BadRequest (the folder is not empty), LedgerDamaged (the witness names ledgers that are gone).
    """
    data = DataDir(folder, witness, Disk())
    if data.root.is_dir() and {path.name for path in data.root.iterdir()} - {"lost+found"}:
        raise BadRequest(f"{data.shown} exists and is not empty: name another, or start the gateway on this one")
    data.take(create=True)
    data.release()


def accept(folder: str, witness: str | None = None, only: str | None = None) -> list[str | Refused]:
    """Accepts the ledgers in the folder, or `only` one, as they are,
    even if their witness recorded a later or different end.

    Returns a line for each accepted ledger, or the reason for a rejection: a ledger with internal damage stays
    unchanged.

    Each ledger gets a new id and records the old one, so ledger positions that clients hold from the lost part are
    rejected as those of another ledger. Lost entries are forgotten permanently: their ids will be granted again.

    On NotFound and LedgerBusy nothing was changed. On LedgerDown and LedgerFull some ledgers may be accepted; repeat.
    """
    data = DataDir(folder, witness, Disk())
    try:
        with ledger_errors(data.shown):
            data.ledgers = data.lock_listed()
            if not data.ledgers:
                raise NotFound(f"there is no list of ledgers in {data.shown}, so there is nothing to accept")
            return [_accepted(data, name) for name in data.chosen(only)]
    finally:
        data.release()


def _accepted(data: DataDir, namespace: str) -> str | Refused:
    """Accepts one ledger and lists its new id immediately; ledgers are accepted independently of each other."""
    try:
        with ledger_errors(f"ledger {namespace} of {data.shown}"):
            new, line = _accept(data, namespace)
    except (LedgerDamaged, KeyMismatch, LedgerDown, LedgerFull) as error:
        return Refused(namespace, error)
    data.ledgers = {**data.ledgers, namespace: new}
    write_list(data.disk, data.witness, data.ledgers)
    write_list(data.disk, data.root, data.ledgers)
    return line


def _accept(data: DataDir, namespace: str) -> tuple[bytes, str]:
    """Returns the ledger's new id and a line about it. On LedgerDamaged and KeyMismatch nothing was changed."""
    paths = data.whole_paths(namespace)
    found = inspect(data.disk, paths, accepting=True)
    try:
        saw = f"its witness saw position {read_witness(data.disk, paths.witness).end.position}"
    except LedgerDamaged:
        saw = "it has no readable witness"
    new = replace(paths, ledger=os.urandom(16))
    # Sorted runs may contain ids of the lost history, which the ledger no longer has.
    empty_folder(data.disk, new.runs)
    copy_last_segment(data.disk, new, found)
    segment = begin_epoch(data.disk, new, found)
    segment.close()
    create_witness(data.disk, new.witness, new.ledger, segment.header.epoch, segment.end)
    old = found.header.ledger.hex()
    end = found.walk.end.position
    return new.ledger, f"{namespace}: accepted at position {end}, {saw}; ledger {old} goes on as {new.ledger.hex()}"
