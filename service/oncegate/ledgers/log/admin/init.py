"""What a person does with a data folder: make one, or go on knowingly with one that lost something."""

import os
from dataclasses import replace

from oncegate.core.errors import BadRequest, KeyMismatch, LedgerDamaged, LedgerDown, LedgerFull, NotFound
from oncegate.ledgers.disk import Disk, empty_folder
from oncegate.ledgers.log.data_dir import DataDir, Refused, ledger_errors
from oncegate.ledgers.log.files.ledger_list import write_list
from oncegate.ledgers.log.opening.recovery import begin_epoch, copy_last_segment, inspect
from oncegate.ledgers.witness import create_witness, read_witness


def init(folder: str, witness: str | None = None) -> None:
    """Make a data folder with the namespace `default`, and its witness (beside it, when None).

    BadRequest: the folder exists and is not empty. LedgerDamaged: the witness knows ledgers that are gone.
    """
    data = DataDir(folder, witness, Disk())
    if data.root.is_dir() and {path.name for path in data.root.iterdir()} - {"lost+found"}:
        raise BadRequest(f"{data.shown} exists and is not empty: name another, or start the gateway on this one")
    data.take(create=True)
    data.release()


def accept(folder: str, witness: str | None = None, only: str | None = None) -> list[str | Refused]:
    """Goes on with the ledgers as they are in the folder, or with `only` one, whatever their witness says.

    Returns a line about each, or why it is not accepted: one that is damaged in itself stays as it is.

    Each gets a new id, which records the old one: marks that clients hold of what was lost are then refused as
    those of another ledger. What the folder lost is forgotten for good: its ids will be granted again.

    NotFound, LedgerBusy: nothing was changed. LedgerDown, LedgerFull: some may be accepted, repeat it.
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
    """Accepts one ledger, and lists its new id at once, that of others as it was: each is judged by its own witness."""
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
    """Returns the ledger's new id, and a line about it. LedgerDamaged, KeyMismatch: nothing was changed."""
    paths = data.whole_paths(namespace)
    found = inspect(data.disk, paths, accepting=True)
    try:
        saw = f"its witness saw position {read_witness(data.disk, paths.witness).end.position}"
    except LedgerDamaged:
        saw = "it has no readable witness"
    new = replace(paths, ledger=os.urandom(16))
    # Runs of a history that did not take place say what no ledger does.
    empty_folder(data.disk, new.runs)
    copy_last_segment(data.disk, new, found)
    segment = begin_epoch(data.disk, new, found)
    segment.close()
    create_witness(data.disk, new.witness, new.ledger, segment.header.epoch, segment.end)
    old = found.header.ledger.hex()
    end = found.walk.end.position
    return new.ledger, f"{namespace}: accepted at position {end}, {saw}; ledger {old} goes on as {new.ledger.hex()}"
