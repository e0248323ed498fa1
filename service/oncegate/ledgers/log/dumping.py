"""`oncegate ledger dump`: what stands in a ledger, a line each. Reads only, without the lock, and says what is bad."""

from collections.abc import Iterator
from pathlib import Path

from oncegate.core.entries import EntryError, decode
from oncegate.core.errors import NotFound, OncegateError
from oncegate.ledgers.catalog import Dropped, Published, Trimmed, Wrote
from oncegate.ledgers.log.body import Change
from oncegate.ledgers.log.disk import Disk
from oncegate.ledgers.log.folder import DataFolder
from oncegate.ledgers.log.lists import read_list
from oncegate.ledgers.log.outputs import output_path
from oncegate.ledgers.log.recovery import frame_body
from oncegate.ledgers.log.segments import Frame, Walk
from oncegate.ledgers.log.witness import read_witness

_SHORT = 32  # characters of a value that are shown


def dump(folder: str, namespace: str = "default", witness: str | None = None) -> Iterator[str]:
    """Lines about every segment, append, entry and output change, then the witness. NotFound."""
    data = DataFolder(folder, witness, Disk())
    data.ledgers = read_list(data.disk, data.root) or {} if data.root.is_dir() else {}
    if namespace not in data.ledgers:
        raise NotFound(f"there is no ledger {namespace} in {data.shown}; it lists: {', '.join(data.ledgers) or 'none'}")
    place = data.place(namespace)
    yield f"ledger {place.ledger.hex()} of namespace {namespace} in {place.shard}"
    try:
        yield from _segments(data.disk, place.shard, place.outputs)
        seen = read_witness(data.disk, place.witness)
        end = seen.end
        yield f"witness {place.witness}: position {end.position}, segment {end.segment}, byte {end.offset}"
    except OncegateError as error:
        yield f"DAMAGED: {error.detail}"


def _segments(disk: Disk, shard: Path, outputs: Path) -> Iterator[str]:
    walk = Walk(disk, shard)
    shown = 0
    for frame in walk:
        if frame.segment.segment != shown:
            shown = frame.segment.segment
            yield f"segment {shown}: epoch {frame.segment.epoch}, from position {frame.segment.first_position}"
        yield from _frame(frame, outputs)
    end = walk.end
    behind = len(walk.last_data) - end.offset
    torn = f"; {behind} bytes behind it were never acknowledged" if behind else ""
    yield f"end: position {end.position}, segment {end.segment}, byte {end.offset}, chain {end.chain.hex()}{torn}"


def _frame(frame: Frame, outputs: Path) -> Iterator[str]:
    header = frame.header
    yield f"  append at byte {header.offset}: {header.count} entries, {header.length} bytes, chain {header.chain.hex()}"
    body = frame_body(frame)
    for position, entry in enumerate(body.entries, header.first_position):
        yield f"    {position}  {_entry(entry)}"
    for change in body.changes:
        yield f"    {_change(change, outputs)}"


def _entry(raw: bytes) -> str:
    try:
        entry = decode(raw)
    except EntryError:
        return f"{len(raw)} bytes: {raw[: _SHORT // 2].hex()}"
    values = (f"{name}={_value(getattr(entry, name))}" for name in entry.__slots__)
    return f"{type(entry).__name__} {' '.join(values)}"


def _value(value: object) -> str:
    match value:
        case bytes():
            return value.hex() if len(value) <= _SHORT // 2 else f"<{len(value)} bytes>"
        case tuple():
            return f"<{len(value)} of them>"
        case _:
            return str(value)


def _change(change: Change, outputs: Path) -> str:
    match change:
        case Wrote():
            file = output_path(outputs, change.place.file).name
            where = f"{file} [{change.place.offset}, {change.place.end})"
            return f"wrote {change.range_id.hex()}: {change.rows} rows in {where}"
        case Published():
            ranges = len(change.range_ids)
            return f"published {ranges} ranges as {change.topic}/{change.partition} from offset {change.first_offset}"
        case Dropped():
            return f"dropped {len(change.range_ids)} ranges"
        case Trimmed():
            return f"trimmed {change.topic}/{change.partition} below offset {change.before_offset}"
