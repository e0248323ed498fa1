"""What stands in a ledger, an item each. Reads only, without the lock, and says what is bad."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import msgspec

from oncegate.core.entries import EntryError, decode
from oncegate.core.errors import NotFound, OncegateError
from oncegate.ledgers.catalog import Wrote
from oncegate.ledgers.log.body import Change
from oncegate.ledgers.log.disk import Disk
from oncegate.ledgers.log.folder import DataFolder
from oncegate.ledgers.log.lists import read_list
from oncegate.ledgers.log.outputs import output_path
from oncegate.ledgers.log.recovery import frame_body
from oncegate.ledgers.log.segments import Frame, Walk
from oncegate.ledgers.log.witness import read_witness


@dataclass(frozen=True)
class Item:
    """One thing found. `kind`: Ledger, Segment, Append, the class of an entry or a change, End, Witness, DAMAGED.

    `position`: an entry's own; else the last position before the thing. `fields`: plain values and bytes.
    """

    position: int
    kind: str
    fields: dict[str, Any]


def dump(folder: str, namespace: str = "default", witness: str | None = None) -> Iterator[Item]:
    """Every segment, append, entry and change of outputs, verified, then the end and what the witness saw.

    NotFound. Damage is the last item: what comes behind it cannot be trusted.
    """
    data = DataFolder(folder, witness, Disk())
    data.ledgers = (read_list(data.disk, data.root) or {}) if data.root.is_dir() else {}
    if namespace not in data.ledgers:
        names = ", ".join(data.ledgers) or "none"
        raise NotFound(f"there is no ledger of namespace {namespace} in {data.shown}; its namespaces: {names}")
    place = data.place(namespace)
    walk = Walk(data.disk, place.shard)
    yield Item(0, "Ledger", {"ledger": place.ledger, "namespace": namespace, "folder": str(place.shard)})
    try:
        yield from _segments(walk, place.outputs)
        seen = read_witness(data.disk, place.witness)
        end = seen.end
        fields = {"ledger": seen.ledger, "segment": end.segment, "offset": end.offset, "file": str(place.witness)}
        yield Item(end.position, "Witness", fields)
    except OncegateError as error:
        yield Item(walk.end.position, "DAMAGED", {"detail": error.detail})


def _segments(walk: Walk, outputs: Path) -> Iterator[Item]:
    shown = 0
    for frame in walk:
        header = frame.segment
        if header.segment != shown:
            shown = header.segment
            fields = {"segment": shown, "epoch": header.epoch, "ledger": header.ledger}
            yield Item(header.first_position - 1, "Segment", fields)
        yield from _frame(frame, outputs)
    end = walk.end
    unacknowledged = len(walk.last_data) - end.offset
    fields = {"segment": end.segment, "offset": end.offset, "chain": end.chain, "torn_bytes": unacknowledged}
    yield Item(end.position, "End", fields)


def _frame(frame: Frame, outputs: Path) -> Iterator[Item]:
    header = frame.header
    sizes = {"offset": header.offset, "entries": header.count, "size_bytes": header.length, "chain": header.chain}
    yield Item(header.first_position - 1, "Append", sizes)
    body = frame_body(frame)
    for position, raw in enumerate(body.entries, header.first_position):
        yield _entry(position, raw)
    for change in body.changes:
        yield Item(header.last_position, type(change).__name__, _change(change, outputs))


def _entry(position: int, raw: bytes) -> Item:
    try:
        entry = decode(raw)
    except EntryError:
        return Item(position, "Bytes", {"data": raw})
    shown = {field.name: getattr(entry, field.name) for field in fields(entry)}
    name = asdict(shown.pop("name")) if "name" in shown else {}
    return Item(position, type(entry).__name__, name | shown)


def _change(change: Change, outputs: Path) -> dict[str, Any]:
    shown = msgspec.structs.asdict(change)
    if isinstance(change, Wrote):
        place = shown.pop("place")
        file = output_path(outputs, place.file).name
        shown |= {"file": file, "offset": place.offset, "length": place.length, "sha256": place.sha256}
    return shown
