"""Dump of a ledger's contents, item by item. Reads without the lock, and reports damage."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import msgspec

from oncegate.core.entries.codec import EntryError, decode
from oncegate.core.errors import NotFound, OncegateError
from oncegate.ledgers.catalog import Catalog, Wrote
from oncegate.ledgers.disk import Disk
from oncegate.ledgers.log.data_dir import DataDir
from oncegate.ledgers.log.files.frames import AnyChange, Body, Compacted
from oncegate.ledgers.log.files.garbage import held
from oncegate.ledgers.log.files.ledger_list import read_list
from oncegate.ledgers.log.files.outputs import output_path
from oncegate.ledgers.log.files.segments import Frame, Walk
from oncegate.ledgers.log.files.snapshots import read_snapshot
from oncegate.ledgers.log.opening.recovery import LedgerPaths
from oncegate.ledgers.log.opening.scan import Scan
from oncegate.ledgers.witness import read_witness


@dataclass(frozen=True)
class Item:
    """One item of a dump. `kind`: Ledger, State, Segment, Append, an entry's or change's class, End, Witness, DAMAGED.

    `position`: an entry's own position; for other items, the last position before them. `fields`: plain values and
    bytes.
    """

    position: int
    kind: str
    fields: dict[str, Any]


def dump(folder: str, namespace: str = "default", witness: str | None = None) -> Iterator[Item]:
    """Yields the snapshot of compacted entries, every segment, append, entry and change, the end, and the witness.

    Raises NotFound. Damage ends the dump with an item DAMAGED; nothing after it can be trusted.
    """
    data = DataDir(folder, witness, Disk())
    data.ledgers = (read_list(data.disk, data.root) or {}) if data.root.is_dir() else {}
    if namespace not in data.ledgers:
        names = ", ".join(data.ledgers) or "none"
        raise NotFound(f"there is no ledger of namespace {namespace} in {data.shown}; its namespaces: {names}")
    paths = data.paths(namespace)
    yield Item(0, "Ledger", {"ledger": paths.ledger, "namespace": namespace, "folder": str(paths.shard)})
    scan = Scan(data.disk, paths.shard, paths.outputs)
    walk = Walk(data.disk, paths.shard)
    try:
        with held(paths.outputs):
            compacted = _last_compacted(data.disk, paths)
            if compacted:
                yield from _state(data.disk, paths.outputs, compacted)
            yield from _segments(walk, scan, paths.outputs, compacted.position if compacted else 0)
            seen = read_witness(data.disk, paths.witness)
        end = seen.end
        fields = {"ledger": seen.ledger, "segment": end.segment, "offset": end.offset, "file": str(paths.witness)}
        yield Item(end.position, "Witness", fields)
    except OncegateError as error:
        yield Item(walk.end.position, "DAMAGED", {"detail": error.detail})


def _last_compacted(disk: Disk, paths: LedgerPaths) -> Compacted | None:
    """Returns the last compaction, or None if there is none or it cannot be read; the walk then reports why."""
    scan = Scan(disk, paths.shard, paths.outputs)
    with suppress(OncegateError):
        for _ in scan.over(Walk(disk, paths.shard)):
            pass
        return scan.compacted
    return None


def _state(disk: Disk, outputs: Path, compacted: Compacted) -> Iterator[Item]:
    size_bytes = sum(location.length for location in compacted.state)
    files = [output_path(outputs, file).name for file in sorted(compacted.files)]
    yield Item(compacted.position, "State", {"files": files, "size_bytes": size_bytes})
    for raw in read_snapshot(disk, outputs, compacted.state):
        yield _entry(compacted.position, raw)


def _segments(walk: Walk, scan: Scan, outputs: Path, compacted_position: int) -> Iterator[Item]:
    shown = 0
    for frame, body in scan.over(walk):
        header = frame.segment
        if header.segment != shown:
            shown = header.segment
            fields = {"segment": shown, "epoch": header.epoch, "ledger": header.ledger}
            yield Item(header.first_position - 1, "Segment", fields)
        yield from _frame(frame, body, scan.catalog, outputs, compacted_position)
    end = walk.end
    unacknowledged = len(walk.last_data) - end.offset
    fields = {"segment": end.segment, "offset": end.offset, "chain": end.chain, "torn_bytes": unacknowledged}
    yield Item(end.position, "End", fields)


def _frame(frame: Frame, body: Body, catalog: Catalog, outputs: Path, compacted_position: int) -> Iterator[Item]:
    """Yields the items of a frame; omits compacted entries, since the snapshot contains them."""
    header = frame.header
    compacted = bool(header.count) and header.last_position <= compacted_position
    sizes = {"offset": header.offset, "entries": header.count, "size_bytes": header.length, "chain": header.chain}
    yield Item(header.first_position - 1, "Append", sizes | ({"collected": True} if compacted else {}))
    if not compacted:
        for position, raw in enumerate(body.entries, header.first_position):
            yield _entry(position, raw)
    for change in body.changes:
        yield Item(header.last_position, type(change).__name__, _change(change, catalog, outputs))


def _entry(position: int, raw: bytes) -> Item:
    try:
        entry = decode(raw)
    except EntryError:
        return Item(position, "Bytes", {"data": raw})
    shown = {field.name: getattr(entry, field.name) for field in fields(entry)}
    name = asdict(shown.pop("name")) if "name" in shown else {}
    return Item(position, type(entry).__name__, name | shown)


def _change(change: AnyChange, catalog: Catalog, outputs: Path) -> dict[str, Any]:
    shown = msgspec.structs.asdict(change)
    if isinstance(change, Wrote):
        at = shown.pop("location")
        file = output_path(outputs, at.file).name
        shown |= {"file": file, "offset": at.offset, "length": at.length, "sha256": at.sha256}
    if isinstance(change, Compacted):
        del shown["catalog"]
        shown["state"] = [output_path(outputs, file).name for file in sorted(change.files)]
        # Includes the changes made while the catalog was written; they follow in the same frame.
        shown["waiting_ranges"] = catalog.ranges_waiting
        shown["topics"] = [list(topic) for topic in catalog.topics()]
    return shown
